//! "T1 had ended when T2 started", for all pairs, without drawing all pairs.
//!
//! A million transactions have half a trillion such pairs. One node per moment expresses the same
//! order with three arrows per transaction: from a transaction that ends to the moment, from every
//! moment to the next one, and from the latest moment to a transaction that starts.
//!
//! ```text
//!   T1 ends   T2 ends        T3 starts   T4 ends        T5 starts
//!       \       /               ^            \             ^
//!        v     v                |             v            |
//!       (moment 0) ─────────────┴────────> (moment 1) ─────┘
//! ```

use super::graph::{Kind, Label};
use super::transactions::Transaction;
use super::violation::Violation;

/// For every transaction the moment at or after its end and the one before its start.
pub(super) struct Moments {
    ended: Vec<Option<u32>>,
    started: Vec<Option<u32>>,
    count: u32,
}

impl Moments {
    /// No order by real time.
    pub(super) fn none() -> Self {
        Self {
            ended: Vec::new(),
            started: Vec::new(),
            count: 0,
        }
    }

    /// Sorts all starts and ends. Two things at the same instant are not ordered.
    ///
    /// # Errors
    /// A transaction that ended before it started.
    pub(super) fn of(transactions: &[Transaction]) -> Result<Self, Violation> {
        let mut events: Vec<(u64, bool, u32)> = Vec::new();
        for (index, transaction) in transactions.iter().enumerate() {
            if let (Some(started), Some(ended)) = (transaction.started, transaction.ended)
                && ended < started
            {
                let id = transaction.id;
                return Err(Violation::EndedBeforeItStarted { id, started, ended });
            }
            events.extend(transaction.started.map(|at| (at, false, index as u32)));
            events.extend(transaction.ended.map(|at| (at, true, index as u32)));
        }
        // `false < true`: at one instant the starts come first and so are not after the ends.
        events.sort_unstable();

        let mut moments = Self {
            ended: vec![None; transactions.len()],
            started: Vec::new(),
            count: 0,
        };
        moments.started = moments.ended.clone();
        let mut previous_is_end = false;
        for (_, is_end, index) in events {
            if is_end {
                if !previous_is_end {
                    moments.count += 1;
                }
                moments.ended[index as usize] = Some(moments.count - 1);
            } else {
                moments.started[index as usize] = moments.count.checked_sub(1);
            }
            previous_is_end = is_end;
        }
        Ok(moments)
    }

    /// Number of nodes that they need.
    pub(super) fn count(&self) -> usize {
        self.count as usize
    }

    /// Draws the arrows; the moments are the nodes from `base` on.
    pub(super) fn draw(&self, base: u32, draw: &mut dyn FnMut(u32, u32, Label)) {
        let label = Label::new(Kind::RealTime, 0);
        for moment in 1..self.count {
            draw(base + moment - 1, base + moment, label);
        }
        for (index, moment) in self.ended.iter().enumerate() {
            if let Some(moment) = moment {
                draw(index as u32, base + moment, label);
            }
        }
        for (index, moment) in self.started.iter().enumerate() {
            if let Some(moment) = moment {
                draw(base + moment, index as u32, label);
            }
        }
    }
}
