//! Numbers of sequences, reserved in durable blocks: a number is never given twice, also after a crash.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use namiki::Database;
use parking_lot::Mutex;

use super::{Catalogue, SequenceRow};
use crate::error::{SqlError, SqlResult};
use crate::sqlstate;
use crate::storage::Reader;

/// Numbers that are reserved at once.
const BLOCK: i64 = 64;

/// The reserved numbers of all sequences.
#[derive(Debug)]
pub(crate) struct Sequences {
    db: Database,
    catalogue: Arc<Catalogue>,
    reserved: Mutex<HashMap<u32, Reserved>>,
    given: Mutex<HashMap<i64, Given>>,
    next_session: AtomicI64,
}

/// What a session was given last.
#[derive(Debug, Default)]
struct Given {
    /// By sequence.
    numbers: HashMap<u32, i64>,
    /// Of all of them.
    last: Option<i64>,
    last_of: u32,
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
        self.next_session.fetch_add(1, Ordering::Relaxed)
    }

    /// A session has ended.
    pub(crate) fn end_session(&self, session: i64) {
        self.given.lock().remove(&session);
    }

    /// A session was given a number.
    pub(crate) fn note_given(&self, session: i64, id: u32, number: i64) {
        let mut given = self.given.lock();
        let of_session = given.entry(session).or_default();
        of_session.numbers.insert(id, number);
        (of_session.last, of_session.last_of) = (Some(number), id);
    }

    /// A session has set the last number of a sequence.
    pub(crate) fn note_set(&self, session: i64, id: u32, number: i64) {
        let mut given = self.given.lock();
        let of_session = given.entry(session).or_default();
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
        match reserved.get_mut(&id) {
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
        let body = |tx: &mut namiki::Transaction| self.reserve(tx, id, numbers);
        let block = self.db.transact_in_task_with(body).await?;
        self.keep(id, block);
        Ok(())
    }

    /// [`refill`](Self::refill) in the transaction that has made the sequence. If it is rolled back, also to a savepoint, the
    /// numbers have to be [forgotten](Self::forget).
    ///
    /// # Errors
    /// As [`refill`](Self::refill).
    pub(crate) fn refill_within(
        &self,
        tx: &mut namiki::Transaction,
        id: u32,
        again: u32,
    ) -> SqlResult<()> {
        let block = self.reserve(tx, id, BLOCK << again.min(24))?;
        self.keep(id, block);
        Ok(())
    }

    /// [`refill`](Self::refill) for a thread that may block.
    ///
    /// # Errors
    /// As [`refill`](Self::refill).
    pub(crate) fn refill_blocking(&self, id: u32) -> SqlResult<()> {
        let block = self.db.transact_with(|tx| self.reserve(tx, id, BLOCK))?;
        self.keep(id, block);
        Ok(())
    }

    /// Another thread may have reserved a block concurrently: the rest of that one is given up.
    fn keep(&self, id: u32, block: Reserved) {
        self.reserved.lock().insert(id, block);
    }

    fn reserve(&self, tx: &mut namiki::Transaction, id: u32, numbers: i64) -> SqlResult<Reserved> {
        let found = self.catalogue.sequence(&mut Reader::Transaction(tx), id)?;
        let row = found.ok_or_else(|| {
            SqlError::new(sqlstate::UNDEFINED_TABLE, "the sequence does not exist")
        })?;
        let next = self.catalogue.sequence_state(tx, id)?.unwrap_or(row.start);
        let (block, after) = block_of(&row, next, numbers)?;
        self.catalogue.put_sequence_state(tx, id, after)?;
        Ok(block)
    }

    /// The sequence goes on with this number, or behind it if it counts as given.
    ///
    /// # Errors
    /// 22003 if it is beyond the sequence's bounds.
    pub(crate) fn set_blocking(&self, id: u32, next: i64, is_given: bool) -> SqlResult<()> {
        self.db.transact_with(|tx| {
            let found = self.catalogue.sequence(&mut Reader::Transaction(tx), id)?;
            let row = found.ok_or_else(|| {
                SqlError::new(sqlstate::UNDEFINED_TABLE, "the sequence does not exist")
            })?;
            if !(row.least..=row.greatest).contains(&next) {
                return Err(SqlError::new(
                    sqlstate::NUMERIC_VALUE_OUT_OF_RANGE,
                    format!(
                        "setval: value {next} is out of bounds for sequence \"{}\"",
                        row.name
                    ),
                ));
            }
            let state = if is_given {
                next.saturating_add(row.increment)
            } else {
                next
            };
            self.catalogue.put_sequence_state(tx, id, state)
        })?;
        self.reserved.lock().remove(&id);
        Ok(())
    }

    /// Forgets what is reserved of a sequence that was dropped, or never made.
    pub(crate) fn forget(&self, id: u32) {
        self.reserved.lock().remove(&id);
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
