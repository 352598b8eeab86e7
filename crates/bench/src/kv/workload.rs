//! The workloads, on one table of numbered records.

use clap::ValueEnum;

use crate::txn::workload::Workload;

/// Records of one scan.
pub(crate) const SCAN_RECORDS: usize = 100;

/// The operations of each transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum KvWorkload {
    /// One blind update of a random record.
    U1,
    /// 10 blind updates of random records.
    U10,
    /// 10 reads of random records.
    R10,
    /// 5 random records, each read and then updated.
    U5r5,
    /// A scan of 100 records from a random key on.
    Scan100,
}

impl KvWorkload {
    /// The flag's name for it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::U1 => "u1",
            Self::U10 => "u10",
            Self::R10 => "r10",
            Self::U5r5 => "u5r5",
            Self::Scan100 => "scan100",
        }
    }

    /// The workload by which its keys are drawn and its writes checked. A scan writes nothing, and
    /// begins at one key.
    pub(crate) fn drawn(self) -> Workload {
        match self {
            Self::U1 => Workload::Update(1),
            Self::U10 => Workload::Update(10),
            Self::R10 => Workload::Read(10),
            Self::U5r5 => Workload::ReadUpdate(5),
            Self::Scan100 => Workload::Read(1),
        }
    }

    /// The records that each transaction writes.
    pub(crate) fn writes_each(self) -> u64 {
        match self {
            Self::U1 => 1,
            Self::U10 => 10,
            Self::U5r5 => 5,
            Self::R10 | Self::Scan100 => 0,
        }
    }

    /// Whether it writes.
    pub(crate) fn writes(self) -> bool {
        self.writes_each() > 0
    }

    /// Whether it only writes.
    pub(crate) fn is_blind(self) -> bool {
        matches!(self, Self::U1 | Self::U10)
    }
}
