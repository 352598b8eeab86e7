//! Rules of a replica that the simulation of a cluster breaks, to see that its checks detect it.
//!
//! Without the feature `simulation` there are no faults, and each of these functions is the rule itself.

#[cfg(feature = "simulation")]
use std::{collections::BTreeMap, sync::OnceLock};

#[cfg(feature = "simulation")]
use parking_lot::Mutex;

use crate::catalogue::manifest::Manifest;
use crate::storage::record::RecordRef;
use crate::table::raw_table::TableId;

/// A rule of a replica that is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg(feature = "simulation")]
pub enum ReplicaFault {
    /// A group does not compare the incarnation of a record that it has locked (`replica/mod.rs`, RG4).
    RecordReused,
    /// A table takes the number of one of its name that was dropped (RG3).
    NumberReused,
}

/// The fault of a replica, if it has one.
#[derive(Default)]
pub(super) struct FaultInjection {
    #[cfg(feature = "simulation")]
    fault: OnceLock<ReplicaFault>,
    /// Numbers of tables that were dropped.
    #[cfg(feature = "simulation")]
    dropped: Mutex<BTreeMap<String, TableId>>,
}

#[cfg(feature = "simulation")]
impl super::Replica {
    /// Breaks a rule from now on.
    pub fn plant(&self, fault: ReplicaFault) {
        self.faults.fault.get_or_init(|| fault);
    }
}

impl FaultInjection {
    #[cfg(feature = "simulation")]
    fn has(&self, fault: ReplicaFault) -> bool {
        self.fault.get() == Some(&fault)
    }

    /// The record of a key, in the incarnation that it had when the key was looked up.
    #[inline(always)]
    pub(super) fn record_found(&self, record: RecordRef) -> RecordRef {
        #[cfg(feature = "simulation")]
        if self.has(ReplicaFault::RecordReused) {
            return record.as_it_is();
        }
        record
    }

    /// A number for a new table: no table has had it.
    pub(super) fn new_number(&self, manifest: &mut Manifest, _name: &str) -> TableId {
        #[cfg(feature = "simulation")]
        if self.has(ReplicaFault::NumberReused)
            && let Some(id) = self.dropped.lock().remove(_name)
        {
            manifest.dropped -= 1;
            return id;
        }
        manifest.next_table()
    }

    /// A table was dropped.
    pub(super) fn note_dropped(&self, _name: &str, _id: TableId) {
        #[cfg(feature = "simulation")]
        self.dropped.lock().insert(_name.to_owned(), _id);
    }
}
