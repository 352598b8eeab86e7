//! How many rows the tables have, about: joins read the smaller one first.
//!
//! Changes do not keep the numbers up to date. A table is counted on a thread of its own when a plan wants to know, and again
//! when the number is old. How old it may become depends on how long counting takes, so that it costs little of the machine.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use namiki::{Database, ScanRange};
use parking_lot::Mutex;

use crate::pools::Pools;
use crate::storage::{OpenTable, ReadHandle, Reader};

/// Rows that are counted at once, before the plan is made.
const ROWS_AT_ONCE: usize = 2048;
/// A number is used for so long, and for so many times the time that counting has taken.
const YOUNG: Duration = Duration::from_secs(1);
const YOUNG_TIMES: u32 = 50;
/// Counting ends then: the table has at least so many rows.
const LONGEST: Duration = Duration::from_secs(2);
/// Most tables with a number.
const TABLES_MAX: usize = 10_000;

/// The numbers of rows of the core tables, by their numbers.
pub(crate) struct RowCounts {
    db: Database,
    pools: Arc<Pools>,
    known: Arc<Mutex<HashMap<u64, Known>>>,
}

/// What is known of a table.
#[derive(Clone, Copy, Debug)]
struct Known {
    rows: usize,
    counted: Instant,
    took: Duration,
    /// Whether it is counted now.
    is_counting: bool,
}

impl Known {
    fn new(rows: usize, begun: Instant) -> Self {
        Self {
            rows,
            counted: Instant::now(),
            took: begun.elapsed(),
            is_counting: false,
        }
    }

    fn is_usable(&self) -> bool {
        self.is_counting || self.counted.elapsed() < YOUNG.max(self.took * YOUNG_TIMES)
    }
}

impl RowCounts {
    pub(crate) fn new(db: Database, pools: Arc<Pools>) -> Self {
        Self {
            db,
            pools,
            known: Arc::default(),
        }
    }

    /// About how many rows a table has; `None` if that is not known yet. It is no read of the transaction that asks.
    pub(crate) fn rows(&self, table: &Arc<OpenTable>, handle: &ReadHandle) -> Option<usize> {
        let known = self.known.lock().get(&table.number).copied();
        if let Some(known) = known
            && known.is_usable()
        {
            return Some(known.rows);
        }
        let Some(known) = known else {
            let ReadHandle::View(view) = handle else {
                return None;
            };
            let begun = Instant::now();
            let goes_on = |rows| rows < ROWS_AT_ONCE;
            let (rows, is_all) = count(&mut Reader::View(view), table, goes_on)?;
            self.keep(table.number, Known::new(rows, begun));
            if !is_all {
                self.count_later(table);
            }
            return Some(rows);
        };
        self.count_later(table);
        Some(known.rows)
    }

    fn keep(&self, number: u64, new: Known) {
        let mut known = self.known.lock();
        if known.len() >= TABLES_MAX {
            // Most of them were dropped.
            known.clear();
        }
        known.insert(number, new);
    }

    /// Counts on another thread, unless the second pool is full.
    fn count_later(&self, table: &Arc<OpenTable>) {
        let (number, known) = (table.number, Arc::clone(&self.known));
        if let Some(known) = known.lock().get_mut(&number) {
            known.is_counting = true;
        }
        let (db, table, for_task) = (self.db.clone(), Arc::clone(table), Arc::clone(&known));
        let is_begun = self.pools.beside_statements(move || {
            let begun = Instant::now();
            let goes_on = |rows: usize| !rows.is_multiple_of(4096) || begun.elapsed() < LONGEST;
            let view = db.view().ok();
            let counted = view.and_then(|view| count(&mut Reader::View(&view), &table, goes_on));
            let mut known = for_task.lock();
            match counted {
                Some((rows, _)) => drop(known.insert(number, Known::new(rows, begun))),
                // Such as a table that was dropped.
                None => drop(known.remove(&number)),
            }
        });
        if !is_begun && let Some(known) = known.lock().get_mut(&number) {
            known.is_counting = false;
        }
    }
}

impl std::fmt::Debug for RowCounts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RowCounts").finish_non_exhaustive()
    }
}

/// The number of rows, and whether these are all; `None` if the table cannot be read.
fn count(
    reader: &mut Reader<'_>,
    table: &OpenTable,
    goes_on: impl Fn(usize) -> bool,
) -> Option<(usize, bool)> {
    let mut rows = 0;
    let stopped = reader.scan(&table.table, ScanRange::all(), |_, _| {
        rows += 1;
        if goes_on(rows) {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    });
    let is_all = stopped.ok()?.is_none();
    Some((rows, is_all))
}
