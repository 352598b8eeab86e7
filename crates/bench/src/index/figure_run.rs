//! A run as a point of a figure: one index, the paper's keys, every key loaded before the clock
//! starts.
//!
//! Paper: bwtree §5.1, §5.2, table 1

use namiki::index::TreeKind;

use super::drawn_operations::Choice;
use super::index_by_name::Subject;
use super::operation_mix::Mix;
use super::result_row::{Outcome, Results};
use super::run_one::Plan;
use crate::args::{Length, Switch};
use crate::error::BenchError;
use crate::key_encoding::{KeyLayout, KeySpace, Keys};
use crate::latency::clock_ns;

/// The parameters that vary from point to point.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FigureRun {
    pub(crate) tree: TreeKind,
    pub(crate) mix: Mix,
    pub(crate) threads: u16,
    pub(crate) keys: u64,
    pub(crate) key_bytes: usize,
    /// The exponent of Zipf's law by which keys are drawn.
    pub(crate) skew: f64,
    pub(crate) warmup: Length,
    pub(crate) timed: Length,
    /// Number of operations with the clock around each.
    pub(crate) latency_ops: u64,
    pub(crate) seed: u64,
}

impl FigureRun {
    /// Runs and checks.
    pub(crate) fn run(&self) -> Result<Results, BenchError> {
        let choice = Choice {
            keys: Keys {
                count: self.keys,
                bytes: self.key_bytes,
                space: KeySpace::Dense,
                layout: KeyLayout::RandomHead,
            },
            initial: self.keys,
            mix: self.mix,
            skew: self.skew,
            batch: 1,
            scan_length: 1,
            returning: false,
            seed: self.seed,
            threads: usize::from(self.threads),
        };
        let plan = Plan {
            choice: &choice,
            sorted: false,
            warmup: self.warmup,
            timed: self.timed,
            latency_ops: self.latency_ops,
            clock_ns: clock_ns(),
            pin: Switch::On,
        };
        let subject = Subject::Ours(self.tree.into());
        match subject.run(&plan)? {
            Outcome::Measured(results) => Ok(*results),
            Outcome::LeftOut(why) => Err(BenchError::Usage(format!("{subject}: {why}"))),
        }
    }
}
