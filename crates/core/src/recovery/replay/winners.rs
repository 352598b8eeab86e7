//! Replay of operations over an image, or of those of a backup: the winners are redone, and no
//! change is undone.
//!
//! An image never has uncommitted changes. So history is not repeated: the changes of a transaction
//! are buffered until its END, which has the stamp. If that is above the image's, they are applied
//! then; changes that were rolled back, or that belong to a transaction that had not ended, are
//! never applied. Stamps rise with every version of a key, so the version with the highest one is
//! the last. The same holds without an image, if a backup ends at a stamp: as if it had an image of
//! empty tables.
//!
//! The log may begin in the middle of transactions: it is kept from the first LSN of the oldest one
//! that had not ended when the image's stamp was to be chosen, so earlier ones have ended, and the
//! image has their outcome.
//!
//! Paper: pwal §5.6, with an image in the place of the pages

use namiki_log::{GenerationInfo, LogRecord};
use namiki_platform::Stamp;

use super::apply::Tables;
use super::aries::operations_outcome;
use super::replay_context::{Outcome, Replay};
use crate::error::OpenError;
use crate::table::raw_table::{Loaded, TableId};
use crate::wal_format::aries_operation::Operation;
use crate::wal_format::restore_point::RestorePoint;
use crate::wal_format::transaction_table::{Followed, TransactionTable};

/// A change that is applied once its transaction has committed.
struct Change {
    table: TableId,
    key: Box<[u8]>,
    after: Option<Box<[u8]>>,
}

/// Transactions while the log is followed.
struct Winners<'a, 't> {
    tables: &'a Tables<'t>,
    info: &'a GenerationInfo,
    image_stamp: Stamp,
    table: TransactionTable<Change>,
    in_image: u64,
    /// Transactions that have committed beyond the last stamp that counts.
    beyond: u64,
}

impl Replay<'_, '_> {
    /// Replays those transactions of a generation of operations that the image does not have.
    pub(in crate::recovery) fn winners(&self, info: &GenerationInfo) -> Result<Outcome, OpenError> {
        let mut winners = Winners {
            tables: self.tables,
            info,
            image_stamp: self.image_stamp,
            table: TransactionTable::of_log_from(info.complete_from),
            in_image: 0,
            beyond: 0,
        };
        let end = self.merge_operations(info, |record| winners.follow(record))?;
        let outcome = operations_outcome(info, end, winners.in_image);
        Ok(Outcome {
            undone: winners.table.len() as u64,
            dropped: outcome.dropped + winners.beyond,
            ..outcome
        })
    }
}

impl Winners<'_, '_> {
    /// Follows one logged operation. Returns whether a transaction was replayed.
    fn follow(&mut self, log_record: &LogRecord<'_>) -> Result<bool, OpenError> {
        if RestorePoint::decode(log_record.payload).is_some() {
            return Ok(false);
        }
        let (generation, lsn, stamp) = (self.info.generation, log_record.lsn, log_record.stamp);
        let broken = |why: String| OpenError::BrokenTransaction {
            generation,
            lsn,
            why,
        };
        let decoded = Operation::decode(log_record.payload);
        let operation = decoded.map_err(|error| broken(error.to_string()))?;
        let kept = || match operation {
            Operation::Update {
                table, key, after, ..
            } => Change {
                table,
                key: key.into(),
                after: after.map(Into::into),
            },
            _ => unreachable!("it is asked for of updates alone"),
        };
        let is_in_image = stamp <= self.image_stamp;
        let followed = self.table.follow(lsn, &operation, kept).map_err(broken)?;
        if matches!(&followed, Followed::Committed(changes) if changes.is_empty()) {
            // A logged transaction that only read.
            return Ok(false);
        }
        if matches!(operation, Operation::End { .. }) && self.info.is_beyond(stamp) {
            self.beyond += 1;
            return Ok(false);
        }
        match followed {
            Followed::Committed(_) if is_in_image => {
                self.in_image += 1;
                Ok(false)
            }
            Followed::Committed(changes) => {
                self.redo(stamp, &changes).map_err(broken)?;
                Ok(true)
            }
            Followed::BegunBefore => match operation {
                Operation::End { xid } if !is_in_image => Err(broken(format!(
                    "its transaction, {xid}, began in a part of the log that was recycled, and the image does not have \
                     it"
                ))),
                Operation::End { .. } => {
                    self.in_image += 1;
                    Ok(false)
                }
                _ => Ok(false),
            },
            Followed::Begun | Followed::Changed | Followed::Undone(_) | Followed::RolledBack => {
                Ok(false)
            }
        }
    }

    /// Applies the changes of a transaction: the last of each key, because a version of the same
    /// stamp is not replaced.
    fn redo(&self, stamp: Stamp, changes: &[Change]) -> Result<(), String> {
        for Change { table, key, after } in changes.iter().rev() {
            let version = Loaded {
                key,
                value: after.as_deref(),
                stamp,
            };
            let loaded = self.tables.load(*table, &[version]);
            loaded.map_err(|(_, why)| why)?;
        }
        Ok(())
    }
}
