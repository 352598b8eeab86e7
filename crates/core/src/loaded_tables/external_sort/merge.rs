//! The keys of several sorted sources, merged as they are taken.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::batch::Batch;
use super::run_file::{RunFile, RunReader};
use crate::loaded_tables::load_error::LoadError;

/// Keys in ascending order.
pub(crate) struct SortedKeys {
    heads: BinaryHeap<Head>,
    sources: Vec<Source>,
    current: Vec<u8>,
    _runs: Vec<RunFile>,
}

impl SortedKeys {
    /// The keys of a sorted batch and of these runs. The runs are removed with them.
    pub(super) fn of(batch: Batch, runs: Vec<RunFile>) -> Result<Self, LoadError> {
        let mut sources = vec![Source::Memory { batch, next: 0 }];
        for run in &runs {
            sources.push(Source::Run(Box::new(RunReader::open(run)?)));
        }
        let mut sorted = Self {
            heads: BinaryHeap::new(),
            sources,
            current: Vec::new(),
            _runs: runs,
        };
        for source in 0..sorted.sources.len() {
            sorted.refill(source, Vec::new())?;
        }
        Ok(sorted)
    }

    /// The next key; `None` after the last one.
    pub(crate) fn next(&mut self) -> Result<Option<&[u8]>, LoadError> {
        let Some(Head { key, source }) = self.heads.pop() else {
            return Ok(None);
        };
        let spare = std::mem::replace(&mut self.current, key);
        self.refill(source, spare)?;
        Ok(Some(&self.current))
    }

    /// Puts the next key of a source among the heads, into `spare`.
    fn refill(&mut self, source: usize, mut spare: Vec<u8>) -> Result<(), LoadError> {
        spare.clear();
        if self.sources[source].next_into(&mut spare)? {
            self.heads.push(Head { key: spare, source });
        }
        Ok(())
    }
}

/// The next key of a source. The heap is of the largest, so the order is turned round.
#[derive(PartialEq, Eq)]
struct Head {
    key: Vec<u8>,
    source: usize,
}

impl Ord for Head {
    fn cmp(&self, other: &Self) -> Ordering {
        (&other.key, other.source).cmp(&(&self.key, self.source))
    }
}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

enum Source {
    Memory { batch: Batch, next: usize },
    Run(Box<RunReader>),
}

impl Source {
    fn next_into(&mut self, key: &mut Vec<u8>) -> Result<bool, LoadError> {
        match self {
            Self::Memory { batch, next } => {
                let Some(entry) = batch.entries.get(*next) else {
                    return Ok(false);
                };
                *next += 1;
                key.extend_from_slice(batch.key(entry));
                Ok(true)
            }
            Self::Run(run) => run.next_into(key),
        }
    }
}
