//! A commit's record in the log, from its length to its place.
//!
//! One that is too long for a log buffer is encoded, and may be written, before the commit has an epoch and a stamp:
//! that takes long, and what other commits wait for does not wait for it.

use namiki_log::{Appended, Entry, LogError, OversizeEntry, Stream};
use namiki_platform::{Epoch, Lsn, Stamp};

use crate::commit::access_set::AccessSet;
use crate::commit::engine::GroupLocks;
use crate::wal_format::aries_operation::Operation;
use crate::wal_format::commit_changes;
use crate::wal_format::encoding_primitives::RecordFormat;

/// A record that is to be appended.
pub(crate) struct CommitRecord {
    /// Where operations are logged, the changes are in the log already, and this is all there is to say.
    end: Option<Operation<'static>>,
    format: RecordFormat,
    bytes: usize,
    /// Encoded already, if it is too long for a buffer.
    oversize: Option<OversizeEntry>,
    /// Then also: copies of the values, in the order of the writes, to be installed.
    values: Vec<Option<Box<[u8]>>>,
}

impl CommitRecord {
    /// Measures the record, and encodes it if it is long. The writes are sorted.
    ///
    /// # Errors
    /// As [`Stream::prepare_oversize`].
    pub(crate) fn prepare(
        stream: &Stream<GroupLocks>,
        access_set: &AccessSet,
        end: Option<Operation<'static>>,
        format: RecordFormat,
    ) -> Result<Self, LogError> {
        let bytes = match &end {
            None => commit_changes::encoded_bytes(access_set.logged_changes(), format),
            Some(end) => end.encoded_bytes(format),
        };
        let mut record = Self {
            end,
            format,
            bytes,
            oversize: None,
            values: Vec::new(),
        };
        if bytes > stream.buffered_bytes_max() {
            record.oversize = Some(record.prepare_oversize(stream, access_set)?);
            let values = access_set.writes.iter().map(|it| access_set.value(it));
            record.values = values.map(|value| value.map(Box::from)).collect();
        }
        Ok(record)
    }

    #[cold]
    fn prepare_oversize(
        &self,
        stream: &Stream<GroupLocks>,
        access_set: &AccessSet,
    ) -> Result<OversizeEntry, LogError> {
        stream.prepare_oversize(self.bytes, |into| self.encode(access_set, into))
    }

    fn encode(&self, access_set: &AccessSet, into: &mut [u8]) {
        match &self.end {
            None => commit_changes::encode(access_set.logged_changes(), self.format, into),
            Some(end) => end.encode(into),
        }
    }

    /// The values of the writes, one for each, where they are not to be copied under the stream's lock; or nothing.
    pub(crate) fn take_values(&mut self) -> Vec<Option<Box<[u8]>>> {
        std::mem::take(&mut self.values)
    }

    /// Appends it. `access_set` is what it was when the record was measured.
    ///
    /// # Errors
    /// As [`Stream::append`].
    #[inline]
    pub(crate) fn append(
        mut self,
        stream: &Stream<GroupLocks>,
        entry: Entry,
        (stamp, epoch): (Stamp, Epoch),
        access_set: &AccessSet,
        hold: impl FnOnce(&mut GroupLocks),
    ) -> Result<Appended, LogError> {
        if let Some(oversize) = self.oversize.take() {
            return stream.append_oversize(entry, stamp, epoch, oversize, hold);
        }
        let encode = |into: &mut [u8], _: Lsn| self.encode(access_set, into);
        stream.append(entry, stamp, epoch, self.bytes, encode, hold)
    }
}
