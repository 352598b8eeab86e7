//! Which node to try next.
//!
//! The node that another one has named as the leader comes first. Otherwise the addresses are tried in turn, with a pause that grows,
//! and is random in part: clients that lost a leader at the same time do not come back at the same time.
//!
//! A node that fell silent is passed over for a while, even if another one names it: until they elect a new leader, the others still name
//! the one that was stopped, which takes connections and says nothing.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::time::Duration;

const PAUSE_FIRST: Duration = Duration::from_millis(5);
const PAUSE_LONGEST: Duration = Duration::from_millis(100);
/// So many tries go to others than a silent node: with their pauses, about as long as an election takes.
const PASSED_OVER: u32 = 12;

/// Addresses, and what is known of the leader.
#[derive(Debug)]
pub(crate) struct LeaderFinder {
    addresses: Vec<String>,
    next: usize,
    hint: Option<String>,
    /// The address that was tried last.
    current: Option<String>,
    /// An address that fell silent, and for how many tries it is passed over.
    silent: Option<(String, u32)>,
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
            silent: None,
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
            let address = self.in_turn();
            match self.passes_over(&address) {
                true => self.in_turn(),
                false => address,
            }
        });
        self.silent = self.silent.take().and_then(|(silent, tries)| {
            let left = tries.checked_sub(1)?;
            Some((silent, left))
        });
        self.current = Some(address.clone());
        address
    }

    fn in_turn(&mut self) -> String {
        let address = self.addresses[self.next % self.addresses.len()].clone();
        self.next += 1;
        address
    }

    fn passes_over(&self, address: &str) -> bool {
        let silent = self.silent.as_ref();
        silent.is_some_and(|(silent, _)| silent == address)
    }

    pub(crate) fn current(&self) -> Option<&str> {
        self.current.as_deref()
    }

    /// A node has said that another one leads. Returns how long to wait before it is tried.
    pub(crate) fn redirect(&mut self, leader: Option<String>) -> Duration {
        match leader {
            Some(leader)
                if self.current.as_ref() != Some(&leader) && !self.passes_over(&leader) =>
            {
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

    /// The node at the address says nothing. Returns how long to wait before the next is tried.
    pub(crate) fn fell_silent(&mut self) -> Duration {
        self.silent = self.current.clone().map(|address| (address, PASSED_OVER));
        self.failed()
    }

    /// The node does what a leader does.
    pub(crate) fn succeeded(&mut self) {
        self.silent = None;
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
    fn a_silent_node_is_passed_over_even_if_named() {
        let mut finder = finder();
        assert_eq!(finder.next(), "a");
        finder.fell_silent();
        for _ in 0..PASSED_OVER / 2 {
            assert_eq!(finder.next(), "b");
            finder.redirect(Some("a".to_owned()));
            assert_eq!(finder.next(), "c");
            finder.redirect(Some("a".to_owned()));
        }
        // It may be back.
        finder.next();
        finder.redirect(Some("a".to_owned()));
        assert_eq!(finder.next(), "a");
    }

    #[test]
    fn an_only_node_is_tried_although_it_fell_silent() {
        let mut finder = LeaderFinder::new(vec!["a".to_owned()]);
        finder.next();
        finder.fell_silent();
        assert_eq!(finder.next(), "a");
    }

    #[test]
    fn a_node_that_names_itself_is_no_hint() {
        let mut finder = finder();
        finder.next();
        finder.redirect(Some("a".to_owned()));
        assert_eq!(finder.next(), "b");
    }
}
