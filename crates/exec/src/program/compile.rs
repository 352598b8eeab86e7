//! Compiles a bound plan: the used columns, the steps of each pipeline, the places of columns.

use std::sync::Arc;

use namiki_data::columns::{ColumnPlace, ColumnType};

use super::pipeline_builder::PipelineBuilder;
use super::steps::{
    AggregateSink, BuildSink, Call, Driver, KeyOrigin, KeyValues, Load, Pipeline, Place, ProbeStep,
    Program, Reach, ReadStep, Sink, SortSink, SourceEntry, Step,
};
use crate::bind::{
    Access, AggregateNode, Bound, ColumnId, ColumnInfo, KeyBounds, KeyLists, Keys, Node, Scalar,
    names_of_answer,
};
use crate::row::{RowStore, Slot};
use crate::source::Source;

/// Compiles a plan.
pub(crate) fn compile(bound: &Bound) -> Program {
    let mut compiler = Compiler {
        columns: &bound.columns,
        pipelines: Vec::new(),
        sources: Vec::new(),
        builders: Vec::new(),
        places: Vec::new(),
    };
    let mut needed = Needed::none(bound.columns.len());
    for field in &bound.fields {
        needed.add(field.id);
    }
    let builder = compiler.emit(&bound.root, &needed);
    let slots = bound.fields.iter().map(|field| builder.slot(field.id));
    let output = names_of_answer(&bound.fields)
        .into_iter()
        .zip(slots)
        .collect();
    compiler.finish(builder, Sink::Output);
    let places = compiler.places.iter().map(|(builder, step)| Place {
        pipeline: compiler.builders[*builder],
        step: *step,
    });
    Program {
        places: places.collect(),
        pipelines: compiler.pipelines,
        sources: compiler.sources,
        output,
    }
}

/// The columns that operators above use.
#[derive(Clone)]
struct Needed(Vec<bool>);

impl Needed {
    fn none(columns: usize) -> Self {
        Self(vec![false; columns])
    }

    fn add(&mut self, id: ColumnId) {
        self.0[id] = true;
    }

    fn has(&self, id: ColumnId) -> bool {
        self.0[id]
    }

    fn with<'s>(&self, scalars: impl IntoIterator<Item = &'s Scalar>) -> Self {
        let mut all = self.clone();
        let mut columns = Vec::new();
        for scalar in scalars {
            scalar.columns(&mut columns);
        }
        columns.iter().for_each(|id| all.add(*id));
        all
    }
}

struct Compiler<'b> {
    columns: &'b [ColumnInfo],
    pipelines: Vec<Pipeline>,
    sources: Vec<SourceEntry>,
    /// The pipeline that each builder became.
    builders: Vec<usize>,
    /// For each operator, before its inputs: the builder and the step that its rows reach next.
    places: Vec<(usize, usize)>,
}

impl Compiler<'_> {
    fn emit(&mut self, node: &Node, needed: &Needed) -> PipelineBuilder {
        self.placed(|compiler| compiler.emit_operator(node, needed))
    }

    /// Records where the rows of an operator come to.
    fn placed(&mut self, emit: impl FnOnce(&mut Self) -> PipelineBuilder) -> PipelineBuilder {
        let operator = self.places.len();
        self.places.push((0, 0));
        let builder = emit(self);
        self.places[operator] = (builder.number, builder.steps.len());
        builder
    }

    fn new_builder(&mut self) -> PipelineBuilder {
        self.builders.push(0);
        PipelineBuilder::new(self.builders.len() - 1)
    }

    fn finish(&mut self, builder: PipelineBuilder, sink: Sink) {
        self.builders[builder.number] = self.pipelines.len();
        self.pipelines.push(builder.finish(sink));
    }

    /// Each operator has its own function, because the stack frame of this one exists once for each
    /// level.
    fn emit_operator(&mut self, node: &Node, needed: &Needed) -> PipelineBuilder {
        match node {
            Node::Read {
                access,
                keys: Keys::Range(bounds),
                filter,
            } => self.range(access, bounds, filter.as_ref(), needed),
            Node::Read {
                access,
                keys: Keys::OneOf(keys),
                filter,
            } => self.one_of(access, keys, filter.as_ref(), needed),
            Node::NestedLoop {
                outer,
                access,
                lookup,
                filter,
            } => self.nested_loop(outer, access, lookup, filter.as_ref(), needed),
            Node::HashJoin {
                build,
                probe,
                on,
                filter,
            } => self.hash_join(build, probe, on, filter.as_ref(), needed),
            Node::Filter { input, keep } => self.filter(input, keep, needed),
            Node::Project { input, columns } => self.project(input, columns, needed),
            Node::Aggregate(node) => self.aggregate(node),
            Node::Sort { .. } => self.sort(node, None, needed),
            Node::Limit { input, rows } => match &**input {
                // The sort keeps no more than these.
                sort @ Node::Sort { .. } => {
                    self.placed(|compiler| compiler.sort(sort, Some(*rows), needed))
                }
                input => {
                    let mut builder = self.emit(input, needed);
                    builder.steps.push(Step::Limit(*rows));
                    builder
                }
            },
        }
    }

    #[inline(never)]
    fn range(
        &mut self,
        access: &Access,
        bounds: &KeyBounds,
        filter: Option<&Scalar>,
        needed: &Needed,
    ) -> PipelineBuilder {
        let needed = needed.with(filter);
        let mut parts = conjuncts(filter);
        let mut builder = self.new_builder();
        let reach = Reach::Range(bounds.clone());
        let first = self.read(&mut builder, access, reach, &mut parts, &needed);
        builder.driver = Some(Driver::Read(first));
        self.fetch(&mut builder, access, &mut parts, &needed);
        builder
    }

    #[inline(never)]
    fn one_of(
        &mut self,
        access: &Access,
        keys: &KeyLists,
        filter: Option<&Scalar>,
        needed: &Needed,
    ) -> PipelineBuilder {
        let needed = needed.with(filter);
        let mut builder = self.new_builder();
        let schema = access.path().0.schema();
        let columns = schema.key().iter().take(keys.columns());
        let slots = columns.map(|at| {
            let column_type = schema.columns()[*at].column_type;
            builder.new_slot(column_type, false)
        });
        let slots: Vec<Slot> = slots.collect();
        builder.driver = Some(Driver::Combinations {
            keys: keys.clone(),
            slots: slots.clone(),
        });
        self.look_up(&mut builder, access, slots, filter, &needed);
        builder
    }

    #[inline(never)]
    fn nested_loop(
        &mut self,
        outer: &Node,
        access: &Access,
        lookup: &[Scalar],
        filter: Option<&Scalar>,
        needed: &Needed,
    ) -> PipelineBuilder {
        let needed = needed.with(filter);
        let mut builder = self.emit_to_expand(outer, &needed.with(lookup));
        let (source, _) = access.path();
        let schema = source.schema();
        let typed = lookup.iter().zip(schema.key());
        let typed: Vec<_> = typed
            .map(|(scalar, at)| (scalar, schema.columns()[*at].column_type, true))
            .collect();
        let slots = builder.slots_of(&typed);
        self.look_up(&mut builder, access, slots, filter, &needed);
        builder
    }

    #[inline(never)]
    fn filter(&mut self, input: &Node, keep: &Scalar, needed: &Needed) -> PipelineBuilder {
        let mut builder = self.emit(input, &needed.with([keep]));
        let keep = builder.eval(keep);
        builder.steps.push(Step::Filter(keep));
        builder
    }

    /// The input of an expansion. One with a limit ends its pipeline: rows that have passed the
    /// limit would wait in the expansion when the last one passes and ends all tasks; and the order
    /// that a limit may need would go with the expansion.
    fn emit_to_expand(&mut self, input: &Node, needed: &Needed) -> PipelineBuilder {
        let builder = self.emit(input, needed);
        if !builder.has_limit() {
            return builder;
        }
        let kept = |id: &ColumnId| needed.has(*id) && builder.has(*id);
        let ids: Vec<ColumnId> = (0..self.columns.len()).filter(kept).collect();
        let slots: Vec<Slot> = ids.iter().map(|id| builder.slot(*id)).collect();
        self.finish(builder, Sink::Materialize(slots.as_slice().into()));
        self.driven_by_rows(&ids, Some(&slots))
    }

    /// The steps that look a table up by these values of the first columns of its key or of an
    /// index.
    fn look_up(
        &mut self,
        builder: &mut PipelineBuilder,
        access: &Access,
        slots: Vec<Slot>,
        filter: Option<&Scalar>,
        needed: &Needed,
    ) {
        let schema = access.path().0.schema();
        let key = KeyValues {
            slots,
            origin: KeyOrigin::Equality,
        };
        let reach = if key.slots.len() == schema.key().len() {
            Reach::Key(key)
        } else {
            Reach::Prefix(key)
        };
        let mut parts = conjuncts(filter);
        let step = self.read(builder, access, reach, &mut parts, needed);
        builder.steps.push(Step::Read(step));
        builder.in_order = false;
        self.fetch(builder, access, &mut parts, needed);
    }

    fn source(&mut self, name: String, source: &Arc<dyn Source>) -> usize {
        self.sources.push(SourceEntry {
            name,
            source: Arc::clone(source),
        });
        self.sources.len() - 1
    }

    /// A step that reads a table by its key or by an index. It loads the needed columns, and
    /// applies the parts of the filter that these decide.
    fn read(
        &mut self,
        builder: &mut PipelineBuilder,
        access: &Access,
        reach: Reach,
        parts: &mut Vec<&Scalar>,
        needed: &Needed,
    ) -> ReadStep {
        let (source, columns) = access.path();
        let mut needed = needed.clone();
        let name = match &access.index {
            Some(index) => format!("{}.{}", access.table, index.name),
            None => access.table.clone(),
        };
        if !is_covered(access, &needed) {
            // The row is found by them.
            let key = access.source.schema().key();
            key.iter().for_each(|at| needed.add(access.columns[*at]));
        }
        let number = self.source(name, source);
        self.read_step(builder, number, columns, reach, parts, &needed)
    }

    /// The step that reads the row of an index entry, if that is needed.
    fn fetch(
        &mut self,
        builder: &mut PipelineBuilder,
        access: &Access,
        parts: &mut Vec<&Scalar>,
        needed: &Needed,
    ) {
        if is_covered(access, needed) {
            return;
        }
        let key = access.source.schema().key().iter();
        let slots = key.map(|at| builder.slot(access.columns[*at])).collect();
        let number = self.source(access.table.clone(), &access.source);
        let reach = Reach::Key(KeyValues {
            slots,
            origin: KeyOrigin::IndexEntry,
        });
        let step = self.read_step(builder, number, &access.columns, reach, parts, needed);
        builder.steps.push(Step::Read(step));
    }

    fn read_step(
        &mut self,
        builder: &mut PipelineBuilder,
        source: usize,
        columns: &[ColumnId],
        reach: Reach,
        parts: &mut Vec<&Scalar>,
        needed: &Needed,
    ) -> ReadStep {
        let words_before = builder.words;
        let schema = self.sources[source].source.schema();
        // The parts that can be decided here: all of their columns are here or were before.
        let (mut told, mut of_told) = (Vec::new(), Vec::new());
        parts.retain(|part| {
            let mut ids = Vec::new();
            part.columns(&mut ids);
            let is_known = ids
                .iter()
                .all(|id| builder.has(*id) || columns.contains(id));
            if is_known {
                told.push((*part).clone());
                of_told.extend(ids);
            }
            !is_known
        });
        let mut step = ReadStep {
            source,
            reach,
            words_before,
            early_loads: Vec::new(),
            filter: None,
            loads: Vec::new(),
            loads_key: false,
            loads_row: false,
        };
        for early in [true, false] {
            for (column, id) in columns.iter().enumerate() {
                let wanted = if early {
                    of_told.contains(id)
                } else {
                    needed.has(*id)
                };
                if !wanted || builder.has(*id) {
                    continue;
                }
                let slot = builder.add(*id, self.columns[*id]);
                let loads = if early {
                    &mut step.early_loads
                } else {
                    &mut step.loads
                };
                loads.push(Load { column, slot });
                if matches!(schema.place(column), ColumnPlace::Key(_)) {
                    step.loads_key = true;
                } else {
                    step.loads_row = true;
                }
            }
        }
        if !told.is_empty() {
            step.filter = Some(builder.eval(&Scalar::And(told)));
        }
        step
    }

    #[inline(never)]
    fn hash_join(
        &mut self,
        build: &Node,
        probe: &Node,
        on: &[(Scalar, Scalar)],
        filter: Option<&Scalar>,
        needed: &Needed,
    ) -> PipelineBuilder {
        let needed = &needed.with(filter);
        let types: Vec<ColumnType> = on.iter().map(|pair| self.key_type(pair)).collect();
        // The table of the join is built first.
        let mut below = self.emit(build, &needed.with(on.iter().map(|(left, _)| left)));
        let left: Vec<_> = on
            .iter()
            .zip(&types)
            .map(|((it, _), of)| (it, *of, true))
            .collect();
        let key = below.slots_of(&left);
        let kept = |id: &ColumnId| needed.has(*id) && below.has(*id);
        let kept: Vec<ColumnId> = (0..self.columns.len()).filter(kept).collect();
        let columns = kept.iter().map(|id| below.slot(*id)).collect();
        self.finish(below, Sink::Build(Arc::new(BuildSink { key, columns })));
        let pipeline = self.pipelines.len() - 1;

        let needed_below = needed.with(on.iter().map(|(_, right)| right));
        let mut builder = self.emit_to_expand(probe, &needed_below);
        let right: Vec<_> = on
            .iter()
            .zip(&types)
            .map(|((_, it), of)| (it, *of, true))
            .collect();
        let key = builder.slots_of(&right);
        let words_before = builder.words;
        let loads = kept.iter().enumerate();
        let loads = loads
            .map(|(at, id)| (at, builder.add(*id, self.columns[*id])))
            .collect();
        builder.steps.push(Step::Probe(ProbeStep {
            pipeline,
            key,
            loads,
            words_before,
        }));
        builder.in_order = false;
        if let Some(filter) = filter {
            let keep = builder.eval(filter);
            builder.steps.push(Step::Filter(keep));
        }
        builder
    }

    /// The type of a value that is calculated to be joined on; that of a column is its own.
    fn key_type(&self, (left, right): &(Scalar, Scalar)) -> ColumnType {
        let of = |scalar: &Scalar| scalar_type(scalar, self.columns);
        of(left).or_else(|| of(right)).unwrap_or(ColumnType::I64)
    }

    #[inline(never)]
    fn project(
        &mut self,
        input: &Node,
        columns: &[(ColumnId, Scalar)],
        needed: &Needed,
    ) -> PipelineBuilder {
        let used = columns.iter().filter(|(id, _)| needed.has(*id));
        let used: Vec<&(ColumnId, Scalar)> = used.collect();
        let below = Needed::none(self.columns.len());
        let mut builder = self.emit(input, &below.with(used.iter().map(|(_, scalar)| scalar)));
        let typed: Vec<_> = used
            .iter()
            .map(|(id, scalar)| {
                let info = self.columns[*id];
                (scalar, info.column_type, info.nullable)
            })
            .collect();
        let slots = builder.slots_of(&typed);
        for ((id, _), slot) in used.iter().zip(slots) {
            builder.place(*id, slot);
        }
        builder
    }

    #[inline(never)]
    fn aggregate(&mut self, node: &AggregateNode) -> PipelineBuilder {
        let scalars = node.groups.iter().map(|(_, scalar)| scalar);
        let scalars = scalars.chain(node.calls.iter().filter_map(|(_, _, of)| of.as_ref()));
        let below = Needed::none(self.columns.len()).with(scalars);
        let mut builder = self.emit(&node.input, &below);
        let mut typed = Vec::new();
        for (id, scalar) in &node.groups {
            let info = self.columns[*id];
            typed.push((scalar, info.column_type, info.nullable));
        }
        let of_calls: Vec<(ColumnId, &Scalar)> = node
            .calls
            .iter()
            .filter_map(|(id, _, of)| of.as_ref().map(|of| (*id, of)))
            .collect();
        for (_, scalar) in &of_calls {
            let own = scalar_type(scalar, self.columns).unwrap_or(ColumnType::I64);
            typed.push((*scalar, own, true));
        }
        let slots = builder.slots_of(&typed);
        let (groups, arguments) = slots.split_at(node.groups.len());
        let mut arguments = arguments.iter();
        let ids = node.groups.iter().map(|(id, _)| *id);
        let ids: Vec<ColumnId> = ids.chain(node.calls.iter().map(|(id, ..)| *id)).collect();
        let calls = node.calls.iter().map(|(id, function, of)| {
            let info = self.columns[*id];
            Call {
                function: *function,
                of: of.as_ref().and_then(|_| arguments.next().copied()),
                result: Slot::new(0, info.column_type, info.nullable),
            }
        });
        let sink = AggregateSink {
            groups: groups.to_vec(),
            calls: calls.collect(),
        };
        self.finish(builder, Sink::Aggregate(Arc::new(sink)));
        self.driven_by_rows(&ids, None)
    }

    #[inline(never)]
    fn sort(&mut self, node: &Node, rows_max: Option<u64>, needed: &Needed) -> PipelineBuilder {
        let Node::Sort { input, by, all } = node else {
            return self.emit(node, needed);
        };
        let mut below = needed.with(by.iter().map(|(scalar, _)| scalar));
        all.iter().for_each(|id| below.add(*id));
        let mut builder = self.emit(input, &below);
        let typed: Vec<_> = by
            .iter()
            .map(|(scalar, _)| {
                let own = scalar_type(scalar, self.columns).unwrap_or(ColumnType::I64);
                (scalar, own, true)
            })
            .collect();
        let by_slots = builder.slots_of(&typed);
        let columns: Vec<Slot> = all.iter().map(|id| builder.slot(*id)).collect();
        let sink = SortSink {
            by: by_slots
                .into_iter()
                .zip(by.iter().map(|(_, descending)| *descending))
                .collect(),
            columns: columns.clone(),
            rows_max,
        };
        self.finish(builder, Sink::Sort(Arc::new(sink)));
        let mut builder = self.driven_by_rows(all, Some(&columns));
        builder.in_order = true;
        builder
    }

    /// A pipeline that is driven by the result of the last one: these columns, in this order.
    fn driven_by_rows(&mut self, ids: &[ColumnId], slots: Option<&[Slot]>) -> PipelineBuilder {
        let mut words = 0;
        let mut own = Vec::with_capacity(ids.len());
        for (at, id) in ids.iter().enumerate() {
            let info = self.columns[*id];
            let slot = match slots {
                Some(slots) => slots[at].moved_to(words),
                None => Slot::new(words, info.column_type, info.nullable),
            };
            words += slot.words();
            own.push(slot);
        }
        debug_assert!(RowStore::new(&own).slots() == own);
        let mut builder = self.new_builder();
        builder.driver = Some(Driver::Materialized {
            pipeline: self.pipelines.len() - 1,
            slots: own.clone(),
        });
        builder.words = words;
        for (id, slot) in ids.iter().zip(own) {
            builder.place(*id, slot);
        }
        builder
    }
}

/// The parts of a filter that must all be true.
fn conjuncts(filter: Option<&Scalar>) -> Vec<&Scalar> {
    match filter {
        None => Vec::new(),
        Some(Scalar::And(parts)) => parts.iter().collect(),
        Some(other) => vec![other],
    }
}

/// Whether the index has all columns of its table that are needed.
fn is_covered(access: &Access, needed: &Needed) -> bool {
    match &access.index {
        None => true,
        Some(index) => {
            let mut wanted = access.columns.iter().filter(|id| needed.has(**id));
            wanted.all(|id| index.columns.contains(id))
        }
    }
}

/// The type of a bound expression, which fits; none of `null`.
fn scalar_type(scalar: &Scalar, columns: &[ColumnInfo]) -> Option<ColumnType> {
    match scalar {
        Scalar::Column(id) => Some(columns[*id].column_type),
        Scalar::Literal(value) => value.column_type(),
        Scalar::Cast(_, to) => Some(*to),
        Scalar::Calculate { op, parts, .. } => {
            let types = parts.iter().map(|part| scalar_type(part, columns));
            types.reduce(|a, b| op.result_type(a?, b?)).flatten()
        }
        _ => Some(ColumnType::Bool),
    }
}
