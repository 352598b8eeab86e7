//! Pipelines under construction: their steps so far, and the slot of each column.

use std::collections::BTreeMap;

use namiki_data::columns::ColumnType;

use super::eval::Eval;
use super::steps::{Driver, Pipeline, Sink, Step};
use crate::bind::{ColumnId, ColumnInfo, Scalar};
use crate::row::Slot;

/// See the module.
pub(super) struct PipelineBuilder {
    /// Unique among the builders.
    pub(super) number: usize,
    pub(super) driver: Option<Driver>,
    pub(super) steps: Vec<Step>,
    slots: BTreeMap<ColumnId, Slot>,
    pub(super) words: usize,
    /// The rows come in the order of a sort, and no step so far changes that.
    pub(super) in_order: bool,
}

impl PipelineBuilder {
    pub(super) fn new(number: usize) -> Self {
        Self {
            number,
            driver: None,
            steps: Vec::new(),
            slots: BTreeMap::new(),
            words: 0,
            in_order: false,
        }
    }

    /// A new slot, behind all others.
    pub(super) fn new_slot(&mut self, column_type: ColumnType, nullable: bool) -> Slot {
        let slot = Slot::new(self.words, column_type, nullable);
        self.words += slot.words();
        slot
    }

    /// A slot for a column, unless it has one.
    pub(super) fn add(&mut self, id: ColumnId, info: ColumnInfo) -> Slot {
        if let Some(slot) = self.slots.get(&id) {
            return *slot;
        }
        let slot = self.new_slot(info.column_type, info.nullable);
        self.slots.insert(id, slot);
        slot
    }

    /// Sets the slot of a column.
    pub(super) fn place(&mut self, id: ColumnId, slot: Slot) {
        self.slots.insert(id, slot);
    }

    pub(super) fn has(&self, id: ColumnId) -> bool {
        self.slots.contains_key(&id)
    }

    /// The slot of a column.
    pub(super) fn slot(&self, id: ColumnId) -> Slot {
        *self
            .slots
            .get(&id)
            .expect("a column that is used was loaded by the operator that has it")
    }

    pub(super) fn has_limit(&self) -> bool {
        self.steps.iter().any(|step| matches!(step, Step::Limit(_)))
    }

    pub(super) fn eval(&self, scalar: &Scalar) -> Eval {
        Eval::of(scalar, &|id| self.slot(id))
    }

    /// The slots of these values: a column's own, or one that a step calculates.
    pub(super) fn slots_of(&mut self, scalars: &[(&Scalar, ColumnType, bool)]) -> Vec<Slot> {
        let mut computed = Vec::new();
        let mut slots = Vec::with_capacity(scalars.len());
        for (scalar, column_type, nullable) in scalars {
            slots.push(match scalar {
                Scalar::Column(id) => self.slot(*id),
                scalar => {
                    let eval = self.eval(scalar);
                    let slot = self.new_slot(*column_type, *nullable);
                    computed.push((eval, slot));
                    slot
                }
            });
        }
        if !computed.is_empty() {
            self.steps.push(Step::Compute(computed));
        }
        slots
    }

    pub(super) fn finish(self, sink: Sink) -> Pipeline {
        let limit = self
            .steps
            .iter()
            .position(|step| matches!(step, Step::Limit(_)));
        let behind_limit = &self.steps[limit.unwrap_or(self.steps.len())..];
        debug_assert!(
            !behind_limit.iter().any(Step::is_expansion),
            "rows that passed a limit would be lost"
        );
        Pipeline {
            driver: self
                .driver
                .expect("the operator that began the pipeline has set it"),
            steps: self.steps,
            sink,
            words: self.words,
            in_order: self.in_order,
        }
    }
}
