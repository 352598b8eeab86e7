//! Pipelines and what they are made of.

use std::sync::Arc;

use super::eval::Eval;
use crate::bind::{KeyBounds, KeyLists};
use crate::plan::AggregateFunction;
use crate::row::Slot;
use crate::source::Source;

/// A compiled plan.
pub(crate) struct Program {
    /// The pipelines in the order in which they run.
    pub(crate) pipelines: Vec<Pipeline>,
    /// The tables and indexes that are read.
    pub(crate) sources: Vec<SourceEntry>,
    /// The columns of the answer: their names, and where they lie in a row of the last pipeline.
    pub(crate) output: Vec<(String, Slot)>,
    /// The places that count each operator's rows, from the root on, each before its inputs.
    pub(crate) places: Vec<Place>,
}

/// A place in a pipeline: before a step, or before the sink.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) pipeline: usize,
    pub(crate) step: usize,
}

/// A table or an index that a plan reads.
pub(crate) struct SourceEntry {
    /// The table, and the index if it is one, for messages.
    pub(crate) name: String,
    pub(crate) source: Arc<dyn Source>,
}

/// See the module.
pub(crate) struct Pipeline {
    pub(crate) driver: Driver,
    pub(crate) steps: Vec<Step>,
    pub(crate) sink: Sink,
    /// Words of its longest row.
    pub(crate) words: usize,
    /// The rows come from a sort, and their order matters to the answer or to a limit: one thread
    /// runs it.
    pub(crate) in_order: bool,
}

/// The source of a pipeline's rows.
pub(crate) enum Driver {
    /// A range of a table or an index.
    Read(ReadStep),
    /// The result of an earlier pipeline; its columns go to these slots of a row.
    Materialized { pipeline: usize, slots: Vec<Slot> },
    /// Combinations of values that a key is looked up by, which go to these slots of a row.
    Combinations { keys: KeyLists, slots: Vec<Slot> },
}

/// One step of a row through a pipeline.
pub(crate) enum Step {
    /// Joins each row with the rows of a source that it leads to.
    Read(ReadStep),
    /// Joins each row with the rows of a hash table with equal keys.
    Probe(ProbeStep),
    /// Only rows for which this is true pass.
    Filter(Eval),
    /// Columns are calculated.
    Compute(Vec<(Eval, Slot)>),
    /// A limited number of rows passes. No expansion follows in the pipeline: the end of the limit
    /// ends it, with all of its tasks.
    Limit(u64),
}

impl Step {
    /// Whether one row can become several, or a page may be needed.
    pub(crate) fn is_expansion(&self) -> bool {
        matches!(self, Self::Read(_) | Self::Probe(_))
    }
}

/// Reads rows of a source.
pub(crate) struct ReadStep {
    /// Index among the program's sources.
    pub(crate) source: usize,
    pub(crate) reach: Reach,
    /// Words of the row so far.
    pub(crate) words_before: usize,
    /// Columns that the filter needs.
    pub(crate) early_loads: Vec<Load>,
    pub(crate) filter: Option<Eval>,
    /// The others that are used above.
    pub(crate) loads: Vec<Load>,
    /// Whether one of them is in the key.
    pub(crate) loads_key: bool,
    /// Whether one of them is not.
    pub(crate) loads_row: bool,
}

/// The part of a source's rows to read.
pub(crate) enum Reach {
    /// The rows with keys in a range.
    Range(KeyBounds),
    /// The one with a key made of these values of the row so far.
    Key(KeyValues),
    /// The rows with keys that begin with these values of the row so far.
    Prefix(KeyValues),
}

/// Values of a row that make a key, or the beginning of one.
pub(crate) struct KeyValues {
    pub(crate) slots: Vec<Slot>,
    pub(crate) origin: KeyOrigin,
}

/// Origin of a key's values, which decides about missing ones: as in SQL, a look-up by equality
/// does not find them; in the key of a row a missing value is a part like any other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyOrigin {
    /// A join compares them with the key's columns.
    Equality,
    /// An index entry holds the key of its row.
    IndexEntry,
}

/// A column of a source, and where it goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub(crate) column: usize,
    pub(crate) slot: Slot,
}

/// Looks a row up in a hash table.
pub(crate) struct ProbeStep {
    /// The pipeline that has built the table.
    pub(crate) pipeline: usize,
    /// The key of the row so far.
    pub(crate) key: Vec<Slot>,
    /// Columns of the table's rows, by their indexes there, and their slots.
    pub(crate) loads: Vec<(usize, Slot)>,
    pub(crate) words_before: usize,
}

/// The end of a pipeline.
pub(crate) enum Sink {
    /// They are the answer.
    Output,
    Aggregate(Arc<AggregateSink>),
    Sort(Arc<SortSink>),
    Build(Arc<BuildSink>),
    /// Keeps these columns of all rows, in the order in which they arrive.
    Materialize(Arc<[Slot]>),
}

/// Groups.
pub(crate) struct AggregateSink {
    pub(crate) groups: Vec<Slot>,
    pub(crate) calls: Vec<Call>,
}

/// The aggregate calls over each group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub(crate) function: AggregateFunction,
    /// The column of the argument; without one, rows are counted.
    pub(crate) of: Option<Slot>,
    /// The type of the result. The sink decides about its place.
    pub(crate) result: Slot,
}

/// All rows, to be put in order.
pub(crate) struct SortSink {
    /// The columns to keep. They decide between equal rows, from the first on.
    pub(crate) columns: Vec<Slot>,
    /// The sort keys, and whether the greatest comes first.
    pub(crate) by: Vec<(Slot, bool)>,
    /// Limit of the rows that are needed.
    pub(crate) rows_max: Option<u64>,
}

/// The rows of a hash table.
pub(crate) struct BuildSink {
    pub(crate) key: Vec<Slot>,
    pub(crate) columns: Vec<Slot>,
}
