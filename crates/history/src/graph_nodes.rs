//! The meaning of the graph's nodes.

use super::real_time_order::Moments;
use super::transactions::History;

/// Numbering of the graph's nodes: transactions, the initial state, moments.
#[derive(Clone, Copy)]
pub(super) struct Nodes {
    pub(super) initial: u32,
    pub(super) moments: u32,
    pub(super) count: usize,
}

impl Nodes {
    pub(super) fn of(history: &History, moments: &Moments) -> Self {
        let initial = history.transactions.len() as u32;
        Self {
            initial,
            moments: initial + 1,
            count: history.transactions.len() + 1 + moments.count(),
        }
    }

    pub(super) fn is_moment(self, node: u32) -> bool {
        node >= self.moments
    }
}
