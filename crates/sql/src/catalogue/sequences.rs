//! Numbers of sequences, reserved in durable blocks: a number is never given twice, also after a crash.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use namiki::Database;
use parking_lot::Mutex;

use super::{Catalogue, SequenceRow};
use crate::error::{SequenceSetting, SqlError, SqlResult};
use crate::sqlstate;
use crate::storage::Reader;

/// Numbers that are reserved at once.
const BLOCK: i64 = 64;

/// Settings that a statement remembers for its next attempt.
const SETTINGS_MAX: usize = 1024;
/// Attempts of a setting within another transaction.
const ATTEMPTS_MAX: usize = 1000;

/// The reserved numbers of all sequences.
#[derive(Debug)]
pub(crate) struct Sequences {
    db: Database,
    catalogue: Arc<Catalogue>,
    reserved: Mutex<ReservedBlocks>,
    given: Mutex<HashMap<i64, Given>>,
    next_session: AtomicI64,
}

/// The reserved numbers.
#[derive(Debug, Default)]
struct ReservedBlocks {
    /// By sequence.
    blocks: HashMap<u32, Reserved>,
    /// How often what was reserved of a sequence was forgotten: a reservation that began before does not count.
    forgets: u64,
}

/// What a session was given last.
#[derive(Debug, Default)]
struct Given {
    /// By sequence.
    numbers: HashMap<u32, i64>,
    /// Of all of them.
    last: Option<i64>,
    last_of: u32,
    /// What calls of `setval` in the running statement have set, in the order of the calls.
    settings: Vec<SequenceSetting>,
    /// The calls of the running attempt.
    calls: usize,
}

/// The rest of a block: the next number, the step, and how many are left.
#[derive(Clone, Copy, Debug)]
struct Reserved {
    next: i64,
    step: i64,
    left: i64,
}

impl Sequences {
    pub(crate) fn new(db: Database, catalogue: Arc<Catalogue>) -> Self {
        Self {
            db,
            catalogue,
            reserved: Mutex::default(),
            given: Mutex::default(),
            next_session: AtomicI64::new(1),
        }
    }

    /// The number of a new session.
    pub(crate) fn begin_session(&self) -> i64 {
        let session = self.next_session.fetch_add(1, Ordering::Relaxed);
        self.given.lock().insert(session, Given::default());
        session
    }

    /// A session has ended.
    pub(crate) fn end_session(&self, session: i64) {
        self.given.lock().remove(&session);
    }

    /// A session was given a number.
    pub(crate) fn note_given(&self, session: i64, id: u32, number: i64) {
        let mut given = self.given.lock();
        // It may have ended before its statement.
        let Some(of_session) = given.get_mut(&session) else {
            return;
        };
        of_session.numbers.insert(id, number);
        (of_session.last, of_session.last_of) = (Some(number), id);
    }

    /// A session has set the last number of a sequence.
    pub(crate) fn note_set(&self, session: i64, id: u32, number: i64) {
        let mut given = self.given.lock();
        // It may have ended before its statement.
        let Some(of_session) = given.get_mut(&session) else {
            return;
        };
        of_session.numbers.insert(id, number);
        if of_session.last_of == id {
            of_session.last = of_session.last.map(|_| number);
        }
    }

    /// The number of a sequence that a session was given last.
    ///
    /// # Errors
    /// 55000 if it was given none.
    pub(crate) fn last_given(&self, session: i64, id: u32) -> SqlResult<i64> {
        let given = self.given.lock();
        let number = given.get(&session).and_then(|it| it.numbers.get(&id));
        number
            .copied()
            .ok_or_else(|| not_given("currval of the sequence"))
    }

    /// The number that a session was given last, of any sequence.
    ///
    /// # Errors
    /// 55000 if it was given none.
    pub(crate) fn last_given_of_any(&self, session: i64) -> SqlResult<i64> {
        let given = self.given.lock();
        let number = given.get(&session).and_then(|it| it.last);
        number.ok_or_else(|| not_given("lastval"))
    }

    /// The next number, if one is reserved.
    ///
    /// # Errors
    /// One that asks for a [`refill`](Self::refill) otherwise.
    pub(crate) fn next(&self, id: u32) -> SqlResult<i64> {
        let mut reserved = self.reserved.lock();
        match reserved.blocks.get_mut(&id) {
            Some(rest) if rest.left > 0 => {
                let number = rest.next;
                rest.left -= 1;
                rest.next = rest.next.wrapping_add(rest.step);
                Ok(number)
            }
            _ => Err(SqlError::refill(id)),
        }
    }

    /// Reserves a block. When it returns, the reservation is durable. `again`: how often the same statement has needed one,
    /// for it begins anew each time; the blocks grow.
    ///
    /// # Errors
    /// 2200H if the sequence has no further number; 42P01 if it is not there.
    pub(crate) async fn refill(&self, id: u32, again: u32) -> SqlResult<()> {
        let numbers = BLOCK << again.min(24);
        loop {
            let forgets = self.forgets();
            let body = |tx: &mut namiki::Transaction| self.reserve(tx, id, numbers);
            let (block, _) = self.db.transact_in_task_with(body).await?;
            if self.keep_unless_forgotten(id, block, forgets) {
                return Ok(());
            }
        }
    }

    /// [`refill`](Self::refill) for a sequence that this transaction has made: no other one knows it, and its rows are
    /// durable together with the reservation. Returns the first number that is not reserved.
    ///
    /// # Errors
    /// As [`refill`](Self::refill).
    pub(crate) fn refill_through(
        &self,
        tx: &mut namiki::Transaction,
        id: u32,
        again: u32,
    ) -> SqlResult<i64> {
        let (block, after) = self.reserve(tx, id, BLOCK << again.min(24))?;
        self.keep(id, block);
        Ok(after)
    }

    /// [`refill`](Self::refill) for a thread that may block.
    ///
    /// # Errors
    /// As [`refill`](Self::refill), but one that asks for a refill if the sequence is not there.
    pub(crate) fn refill_blocking(&self, id: u32) -> SqlResult<()> {
        loop {
            let forgets = self.forgets();
            match self.db.transact_with(|tx| self.reserve(tx, id, BLOCK)) {
                Ok((block, _)) if self.keep_unless_forgotten(id, block, forgets) => return Ok(()),
                Ok(_) => {}
                // A transaction that has made the sequence reserves through itself.
                Err(error) if error.sqlstate() == sqlstate::UNDEFINED_TABLE => {
                    return Err(SqlError::refill(id));
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn forgets(&self) -> u64 {
        self.reserved.lock().forgets
    }

    /// Another thread may have reserved a block concurrently: the rest of that one is given up.
    fn keep(&self, id: u32, block: Reserved) {
        self.reserved.lock().blocks.insert(id, block);
    }

    /// The same, unless something was forgotten since: another session may have set the sequence while the reservation
    /// became durable, so its numbers are not the next ones, or are given again.
    fn keep_unless_forgotten(&self, id: u32, block: Reserved, forgets: u64) -> bool {
        let mut reserved = self.reserved.lock();
        let is_valid = reserved.forgets == forgets;
        if is_valid {
            reserved.blocks.insert(id, block);
        }
        is_valid
    }

    fn sequence(&self, tx: &mut namiki::Transaction, id: u32) -> SqlResult<SequenceRow> {
        let found = self.catalogue.sequence(&mut Reader::Transaction(tx), id)?;
        let absent = || SqlError::new(sqlstate::UNDEFINED_TABLE, "the sequence does not exist");
        found.ok_or_else(absent)
    }

    /// A block, and the first number behind it.
    fn reserve(
        &self,
        tx: &mut namiki::Transaction,
        id: u32,
        numbers: i64,
    ) -> SqlResult<(Reserved, i64)> {
        let row = self.sequence(tx, id)?;
        let next = self.catalogue.sequence_state(tx, id)?.unwrap_or(row.start);
        let (block, after) = block_of(&row, next, numbers)?;
        self.catalogue.put_sequence_state(tx, id, after)?;
        Ok((block, after))
    }

    /// Sets a sequence, on a thread that may block. A setting is no part of a transaction: it stays after a rollback.
    ///
    /// # Errors
    /// 22003 if the number is beyond the sequence's bounds; one that asks for [`set_through`](Self::set_through) if the
    /// sequence is not there.
    pub(crate) fn set_blocking(&self, session: i64, setting: SequenceSetting) -> SqlResult<()> {
        if self.is_set(session, setting) {
            return Ok(());
        }
        let mut written = self.db.transact_with(|tx| self.write_setting(tx, setting));
        if let Err(error) = &written
            && matches!(error.core(), Some(namiki::Error::NestedTransaction))
        {
            written = self.write_apart(setting);
        }
        match written {
            Ok(_) => {
                self.forget(setting.id);
                self.note_setting(session, setting);
                Ok(())
            }
            // The running transaction may have made it.
            Err(error) if error.sqlstate() == sqlstate::UNDEFINED_TABLE => {
                Err(SqlError::set_sequence(setting))
            }
            Err(error) => Err(error),
        }
    }

    /// Writes a setting on the thread of another transaction, in one of its own.
    fn write_apart(&self, setting: SequenceSetting) -> SqlResult<i64> {
        let mut attempts = 0;
        loop {
            let mut tx = self.db.begin()?;
            let after = self.write_setting(&mut tx, setting)?;
            match tx.commit() {
                Ok(_) => return Ok(after),
                Err(error) if error.is_retryable() && attempts < ATTEMPTS_MAX => attempts += 1,
                Err(error) => return Err(error.into()),
            }
            std::thread::yield_now();
        }
    }

    /// [`set_blocking`](Self::set_blocking) for a sequence that this transaction has made. Returns the first number that is not
    /// reserved.
    ///
    /// # Errors
    /// 22003 if the number is beyond the sequence's bounds; 42P01 if the sequence is not there.
    pub(crate) fn set_through(
        &self,
        tx: &mut namiki::Transaction,
        session: i64,
        setting: SequenceSetting,
    ) -> SqlResult<i64> {
        let after = self.write_setting(tx, setting)?;
        self.forget(setting.id);
        self.note_setting(session, setting);
        Ok(after)
    }

    fn write_setting(
        &self,
        tx: &mut namiki::Transaction,
        setting: SequenceSetting,
    ) -> SqlResult<i64> {
        let SequenceSetting {
            id,
            number,
            is_given,
        } = setting;
        let row = self.sequence(tx, id)?;
        if !(row.least..=row.greatest).contains(&number) {
            return Err(SqlError::new(
                sqlstate::NUMERIC_VALUE_OUT_OF_RANGE,
                format!(
                    "setval: value {number} is out of bounds for sequence \"{}\"",
                    row.name
                ),
            ));
        }
        let next = if is_given {
            number.saturating_add(row.increment)
        } else {
            number
        };
        self.catalogue.put_sequence_state(tx, id, next)?;
        Ok(next)
    }

    /// A call of `setval` in the running statement was done.
    fn note_setting(&self, session: i64, setting: SequenceSetting) {
        let mut given = self.given.lock();
        // It may have ended before its statement.
        let Some(of_session) = given.get_mut(&session) else {
            return;
        };
        if of_session.calls < SETTINGS_MAX {
            of_session.settings.truncate(of_session.calls);
            of_session.settings.push(setting);
            of_session.calls += 1;
        }
    }

    /// Whether an earlier attempt of the statement has made this call of `setval`.
    fn is_set(&self, session: i64, setting: SequenceSetting) -> bool {
        let mut given = self.given.lock();
        let Some(of_session) = given.get_mut(&session) else {
            return false;
        };
        let is_set = of_session.settings.get(of_session.calls) == Some(&setting);
        of_session.calls += usize::from(is_set);
        is_set
    }

    /// An attempt of the running statement begins.
    pub(crate) fn begin_attempt(&self, session: i64) {
        if let Some(of_session) = self.given.lock().get_mut(&session) {
            of_session.calls = 0;
        }
    }

    /// A statement begins.
    pub(crate) fn forget_settings(&self, session: i64) {
        if let Some(of_session) = self.given.lock().get_mut(&session) {
            of_session.settings.clear();
            of_session.calls = 0;
        }
    }

    /// Forgets what is reserved of a sequence that was dropped, or never made.
    pub(crate) fn forget(&self, id: u32) {
        let mut reserved = self.reserved.lock();
        reserved.blocks.remove(&id);
        reserved.forgets += 1;
    }
}

fn not_given(what: &str) -> SqlError {
    SqlError::new(
        sqlstate::OBJECT_NOT_IN_STATE,
        format!("{what} is not yet defined in this session"),
    )
}

/// A block of at most `numbers` numbers from `next` on, and the first number behind it.
fn block_of(row: &SequenceRow, next: i64, numbers: i64) -> SqlResult<(Reserved, i64)> {
    // The outermost numbers are never given: they say that no number is left.
    let (least, greatest) = (row.least.max(i64::MIN + 1), row.greatest.min(i64::MAX - 1));
    let within = |number: i64| (least..=greatest).contains(&number);
    let step = row.increment;
    let mut next = next;
    if !within(next) {
        if !row.cycle {
            let (bound, number) = if step > 0 {
                ("maximum", row.greatest)
            } else {
                ("minimum", row.least)
            };
            return Err(SqlError::new(
                "2200H",
                format!(
                    "nextval: reached {bound} value of sequence \"{}\" ({number})",
                    row.name
                ),
            ));
        }
        next = if step > 0 { least } else { greatest };
    }
    let bound = if step > 0 { greatest } else { least };
    // Widened: the distance of the bounds can exceed an i64.
    let room = (i128::from(bound) - i128::from(next)) / i128::from(step) + 1;
    let left = room.min(numbers.into()) as i64;
    let after = i128::from(next) + i128::from(step) * i128::from(left);
    // Behind the last number of all there is none: the state stays beyond the bound.
    let after = i64::try_from(after).unwrap_or(if step > 0 { i64::MAX } else { i64::MIN });
    Ok((Reserved { next, step, left }, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(increment: i64, least: i64, greatest: i64) -> SequenceRow {
        SequenceRow {
            id: 1,
            schema: "public".to_owned(),
            name: "s".to_owned(),
            start: if increment > 0 { least } else { greatest },
            increment,
            least,
            greatest,
            cycle: false,
            owner: None,
        }
    }

    #[test]
    fn blocks_end_at_the_bounds() {
        let (block, after) = block_of(&row(3, 1, 10), 1, BLOCK).unwrap();
        assert_eq!((block.next, block.left, after), (1, 4, 13));
        assert!(block_of(&row(3, 1, 10), 13, BLOCK).is_err());
        let (block, after) = block_of(&row(-1, -3, -1), -1, BLOCK).unwrap();
        assert_eq!((block.next, block.left, after), (-1, 3, -4));
        let (block, after) = block_of(&row(1, 1, i64::MAX), i64::MAX - 1, BLOCK).unwrap();
        assert_eq!((block.left, after), (1, i64::MAX));
        assert!(block_of(&row(1, 1, i64::MAX), after, BLOCK).is_err());
    }
}
