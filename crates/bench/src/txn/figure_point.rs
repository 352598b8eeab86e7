//! One combination of parameters for another command: a point of a figure.

use std::num::NonZeroU16;

use clap::{Args, FromArgMatches};
use namiki::ProtocolSpec;
use namiki_platform::machine::Machine;

use super::{Combination, TxnArgs, TxnRow, Workload};
use crate::args::{RecordBytes, Sequencer, TimedArgs};
use crate::device_choice::DeviceChoice;
use crate::error::BenchError;
use crate::run_folder::Place;

/// The parameters in which the points of figures differ. All others have `txn`'s defaults.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) workload: Workload,
    pub(crate) spec: ProtocolSpec,
    pub(crate) threads: NonZeroU16,
    /// Records in the table; `None` means `txn`'s default.
    pub(crate) records: Option<u64>,
    pub(crate) record_format: RecordBytes,
    pub(crate) sequencer: Sequencer,
    pub(crate) device: DeviceChoice,
    pub(crate) timed: TimedArgs,
}

/// A combination that is ready to be run any number of times.
#[derive(Debug)]
pub(crate) struct Point {
    args: TxnArgs,
    combination: Combination,
}

impl Point {
    /// Fails where the command would fail with the same parameters.
    pub(crate) fn new(setup: Setup) -> Result<Self, BenchError> {
        let defaults = defaults();
        let args = TxnArgs {
            workload: vec![setup.workload],
            spec: vec![setup.spec],
            threads: vec![setup.threads],
            records: setup.records.unwrap_or(defaults.records),
            record_format: setup.record_format,
            sequencer: setup.sequencer,
            device: setup.device,
            timed: setup.timed,
            ..defaults
        };
        args.check()?;
        let combination = args.combinations()[0];
        Ok(Self { args, combination })
    }

    /// Loads, runs and checks once.
    pub(crate) fn run<'a>(
        &self,
        place: &Place,
        machine: &'a Machine,
        round: u32,
    ) -> Result<TxnRow<'a>, BenchError> {
        self.args.run_at(self.combination, place, machine, round)
    }
}

/// The arguments of a command line with the required ones only.
fn defaults() -> TxnArgs {
    let command = TxnArgs::augment_args(clap::Command::new("txn"));
    let matches = command.try_get_matches_from(["txn", "--workload", "u1"]);
    matches
        .and_then(|matches| TxnArgs::from_arg_matches(&matches))
        .expect("--workload is all that must be named")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_is_one_combination_and_nothing_else_is_changed() {
        let defaults = defaults();
        let setup = Setup {
            workload: Workload::Update(10),
            spec: ProtocolSpec::default(),
            threads: NonZeroU16::new(3).unwrap(),
            records: None,
            record_format: defaults.record_format,
            sequencer: Sequencer::Cas,
            device: defaults.device.clone(),
            timed: defaults.timed.clone(),
        };
        let point = Point::new(setup.clone()).unwrap();
        assert_eq!(point.args.combinations().len(), 1);
        assert_eq!(point.combination.workload, Workload::Update(10));
        assert_eq!(point.combination.threads.get(), 3);
        assert_eq!(point.args.records, defaults.records);
        assert_eq!(point.args.sequencer, Sequencer::Cas);
        assert_eq!(point.args.value_bytes, defaults.value_bytes);
        let none = Point::new(Setup {
            workload: Workload::Payment,
            records: Some(1),
            ..setup
        });
        assert!(matches!(none, Err(BenchError::Usage(_))));
    }
}
