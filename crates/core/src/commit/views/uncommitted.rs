//! The versions of records that a transaction has changed in place, where operations are logged one
//! by one: views read them until the transaction has committed, and afterwards among the versions
//! that were kept for them.

use namiki_platform::Stamp;

use super::version_map::{KeptVersion, VersionMap};
use crate::storage::record::RecordRef;

/// The last committed versions of records that running transactions have changed in place.
pub(crate) struct Uncommitted(VersionMap);

impl Uncommitted {
    pub(super) fn new() -> Self {
        Self(VersionMap::new())
    }

    /// Puts the version of a record there, which is about to be changed in place by the holder of its lock.
    pub(crate) fn put(&self, record: RecordRef, creation: Stamp, value: Option<&[u8]>) {
        self.0.put(record, KeptVersion::new(creation, value));
    }

    /// The transaction has ended, and the record has a version of its own again.
    pub(crate) fn remove(&self, record: RecordRef) {
        self.0.remove(record);
    }

    pub(super) fn get(&self, record: RecordRef) -> Option<KeptVersion> {
        self.0.get(record)
    }
}
