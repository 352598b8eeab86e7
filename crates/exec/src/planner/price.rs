//! Prices of reads and rows.

use std::ops::{Add, AddAssign};

use serde::{Deserialize, Serialize};

/// Prices of a device and a processor. The defaults are those of a virtual disk on a solid-state
/// drive, with two threads that work while it reads. Ratios matter, not the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prices {
    /// A random read of a page with many in flight, in microseconds.
    pub read_us: f64,
    /// The same with one in flight.
    pub ordered_read_us: f64,
    /// A page of a sequential read, in microseconds.
    pub sequential_page_us: f64,
    /// One operator's work on a row, in microseconds, as far as it does not hide behind reads.
    pub row_us: f64,
}

impl Default for Prices {
    fn default() -> Self {
        Self {
            read_us: 10.0,
            ordered_read_us: 57.0,
            sequential_page_us: 2.4,
            row_us: 0.015,
        }
    }
}

/// Estimated price of a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Price {
    /// Random reads of single pages.
    pub reads: f64,
    /// Pages read in sequence.
    pub sequential_pages: f64,
    /// Rows that operators work on, each operator's counted.
    pub rows: f64,
}

impl Price {
    /// The price in microseconds.
    #[must_use]
    pub fn us(&self, prices: &Prices, is_ordered: bool) -> f64 {
        let read_us = if is_ordered {
            prices.ordered_read_us
        } else {
            prices.read_us
        };
        self.reads * read_us
            + self.sequential_pages * prices.sequential_page_us
            + self.rows * prices.row_us
    }

    /// The price of work on rows.
    pub(super) fn of_rows(rows: f64) -> Self {
        Self {
            rows,
            ..Self::default()
        }
    }
}

impl Add for Price {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            reads: self.reads + other.reads,
            sequential_pages: self.sequential_pages + other.sequential_pages,
            rows: self.rows + other.rows,
        }
    }
}

impl AddAssign for Price {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}
