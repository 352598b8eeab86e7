//! Which node to try next.
//!
//! The node that another one has named as the leader comes first. Otherwise the addresses are tried in turn, with a pause that grows,
//! and is random in part: clients that lost a leader at the same time do not come back at the same time.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::time::Duration;

const PAUSE_FIRST: Duration = Duration::from_millis(5);
const PAUSE_LONGEST: Duration = Duration::from_millis(100);

/// Addresses, and what is known of the leader.
#[derive(Debug)]
pub(crate) struct LeaderFinder {
    addresses: Vec<String>,
    next: usize,
    hint: Option<String>,
    /// The address that was tried last.
    current: Option<String>,
    pause: Duration,
    random: u64,
}

impl LeaderFinder {
    pub(crate) fn new(addresses: Vec<String>) -> Self {
        let random = RandomState::new().build_hasher().finish() | 1;
        Self {
            addresses,
            next: 0,
            hint: None,
            current: None,
            pause: PAUSE_FIRST,
            random,
        }
    }

    /// Where a leader was found last, then the other addresses.
    pub(crate) fn addresses(&self) -> Vec<String> {
        let current = self.current.iter();
        let others = self.addresses.iter();
        let others = others.filter(|it| Some(*it) != self.current.as_ref());
        current.chain(others).cloned().collect()
    }

    /// The address to try now.
    pub(crate) fn next(&mut self) -> String {
        let address = self.hint.take().unwrap_or_else(|| {
            let address = self.addresses[self.next % self.addresses.len()].clone();
            self.next += 1;
            address
        });
        self.current = Some(address.clone());
        address
    }

    pub(crate) fn current(&self) -> Option<&str> {
        self.current.as_deref()
    }

    /// A node has said that another one leads. Returns how long to wait before it is tried.
    pub(crate) fn redirect(&mut self, leader: Option<String>) -> Duration {
        match leader {
            Some(leader) if self.current.as_ref() != Some(&leader) => {
                self.hint = Some(leader);
                // A node that is out of date may send us in a circle.
                self.grow(PAUSE_FIRST)
            }
            _ => self.failed(),
        }
    }

    /// The address is of no use now. Returns how long to wait before the next is tried.
    pub(crate) fn failed(&mut self) -> Duration {
        self.grow(self.pause)
    }

    /// The node does what a leader does.
    pub(crate) fn succeeded(&mut self) {
        self.pause = PAUSE_FIRST;
    }

    fn grow(&mut self, pause: Duration) -> Duration {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.pause = (self.pause * 3 / 2).min(PAUSE_LONGEST);
        let part = (self.random % 1024) as f64 / 1024.0;
        pause.mul_f64(0.5 + 0.5 * part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finder() -> LeaderFinder {
        LeaderFinder::new(vec!["a".to_owned(), "b".to_owned(), "c".to_owned()])
    }

    #[test]
    fn addresses_are_tried_in_turn_with_growing_pauses() {
        let mut finder = finder();
        let mut tried = Vec::new();
        let mut longest = Duration::ZERO;
        for _ in 0..30 {
            tried.push(finder.next());
            longest = longest.max(finder.failed());
        }
        assert_eq!(tried[..4], ["a", "b", "c", "a"]);
        assert!(longest > PAUSE_LONGEST / 2 && longest <= PAUSE_LONGEST);
    }

    #[test]
    fn a_named_leader_is_tried_first() {
        let mut finder = finder();
        assert_eq!(finder.next(), "a");
        assert!(finder.redirect(Some("z".to_owned())) <= PAUSE_FIRST);
        assert_eq!(finder.next(), "z");
        finder.failed();
        assert_eq!(finder.next(), "b");
    }

    #[test]
    fn a_node_that_names_itself_is_no_hint() {
        let mut finder = finder();
        finder.next();
        finder.redirect(Some("a".to_owned()));
        assert_eq!(finder.next(), "b");
    }
}
