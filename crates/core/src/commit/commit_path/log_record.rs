//! A commit's log record, from its measurement to its append.
//!
//! One that is too long for a log buffer is encoded, and may be written, before the commit has an
//! epoch and a stamp: that takes long, and must not delay the epochs for which other commits wait.

use namiki_log::{Appended, Entry, Grant, ImageEffect, LogError, OversizeEntry, Stream};
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
    /// If it is too long for a buffer. (Boxed, because the other fields are moved with each
    /// commit.)
    long: Option<Box<LongRecord>>,
}

/// The parts of a record that is too long for a buffer.
struct LongRecord {
    /// It is encoded already.
    oversize: OversizeEntry,
    /// To be installed.
    values: Values,
}

/// Copies of the values of a commit's writes, in their order.
pub(crate) type Values = Vec<Option<Box<[u8]>>>;

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
            long: None,
        };
        if bytes > stream.buffered_bytes_max() {
            record.long = Some(record.prepare_long(stream, access_set)?);
        }
        Ok(record)
    }

    #[cold]
    fn prepare_long(
        &self,
        stream: &Stream<GroupLocks>,
        access_set: &AccessSet,
    ) -> Result<Box<LongRecord>, LogError> {
        let encode = |into: &mut [u8]| self.encode(access_set, into);
        let effect = match self.needs(access_set) {
            Grant::All => ImageEffect::Longer,
            // The lengths of the values that it deletes are certain only once they are locked.
            Grant::Deletions => ImageEffect::Shorter(0),
        };
        let oversize = stream.prepare_oversize(effect, self.bytes, encode)?;
        let values = access_set.writes.iter().map(|it| access_set.value(it));
        let values = values.map(|value| value.map(Box::from)).collect();
        Ok(Box::new(LongRecord { oversize, values }))
    }

    /// Whether a log file that accepts only deletions suffices.
    fn needs(&self, access_set: &AccessSet) -> Grant {
        // An end of operations contains no change for an image.
        let makes_longer = self.end.is_none()
            && (access_set.writes.iter()).any(|write| access_set.value(write).is_some());
        if makes_longer {
            Grant::All
        } else {
            Grant::Deletions
        }
    }

    fn encode(&self, access_set: &AccessSet, into: &mut [u8]) {
        match &self.end {
            None => commit_changes::encode(access_set.logged_changes(), self.format, into),
            Some(end) => end.encode(into),
        }
    }

    /// The values of the writes, one for each, where they are not to be copied under the stream's lock.
    pub(crate) fn take_values(&mut self) -> Option<Values> {
        let long = self.long.as_mut();
        long.map(|long| std::mem::take(&mut long.values))
    }

    /// Appends it. `access_set` is what it was when the record was measured.
    ///
    /// # Errors
    /// As [`Stream::append`].
    #[inline]
    pub(crate) fn append(
        &mut self,
        stream: &Stream<GroupLocks>,
        entry: Entry,
        (stamp, epoch): (Stamp, Epoch),
        access_set: &AccessSet,
        hold: impl FnOnce(&mut GroupLocks),
    ) -> Result<Appended, LogError> {
        if let Some(long) = self.long.take() {
            return stream.append_oversize(entry, stamp, epoch, long.oversize, hold);
        }
        let encode = |into: &mut [u8], _: Lsn| self.encode(access_set, into);
        let needs = self.needs(access_set);
        stream.append_as(needs, entry, stamp, epoch, self.bytes, encode, hold)
    }
}
