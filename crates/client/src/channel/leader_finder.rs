//! Selection of the next node to try.
//!
//! The node that another one has named as the leader comes first. Otherwise the addresses are tried
//! in turn, first those that the client was given and then those of members that were added since, with a growing, partly random backoff, so that clients that lost a leader at the same
//! time do not reconnect at the same time.
//!
//! Nodes that fell silent are skipped for a while, even if another one names them: until the nodes
//! elect a new leader, they still name the one that was stopped, which accepts connections and does
//! not answer.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::time::{Duration, Instant};

/// The most addresses that are learned.
const LEARNED_MAX: usize = 64;
const PAUSE_FIRST: Duration = Duration::from_millis(5);
const PAUSE_LONGEST: Duration = Duration::from_millis(100);
/// Time for which a silent node is skipped: about the length of an election.
const PASSED_OVER: Duration = Duration::from_millis(500);

/// Addresses, and what is known of the leader.
#[derive(Debug)]
pub(crate) struct LeaderFinder {
    /// Those that the client was given, then those that a node has told.
    addresses: Vec<String>,
    given: usize,
    next: usize,
    hint: Option<String>,
    /// The address that was tried last.
    current: Option<String>,
    /// Addresses that fell silent, and the time until which they are skipped.
    silent: HashMap<String, Instant>,
    pause: Duration,
    random: u64,
}

impl LeaderFinder {
    pub(crate) fn new(addresses: Vec<String>) -> Self {
        let random = RandomState::new().build_hasher().finish() | 1;
        Self {
            given: addresses.len(),
            addresses,
            next: 0,
            hint: None,
            current: None,
            silent: HashMap::new(),
            pause: PAUSE_FIRST,
            random,
        }
    }

    /// Begins with an address at random.
    pub(crate) fn shuffle(&mut self) {
        let offset = self.random % self.addresses.len().max(1) as u64;
        self.addresses.rotate_left(offset as usize);
    }

    /// A node has told where the members are. The addresses that it has told before are forgotten.
    pub(crate) fn learn(&mut self, addresses: Vec<String>) {
        self.addresses.truncate(self.given);
        for address in addresses.into_iter().take(LEARNED_MAX) {
            if !self.addresses.contains(&address) {
                self.addresses.push(address);
            }
        }
    }

    /// The address at which a leader was found last, then the others.
    pub(crate) fn addresses(&self) -> Vec<String> {
        let current = self.current.iter();
        let others = self.addresses.iter();
        let others = others.filter(|it| Some(*it) != self.current.as_ref());
        current.chain(others).cloned().collect()
    }

    /// The address to try now.
    pub(crate) fn next(&mut self, now: Instant) -> String {
        self.silent.retain(|_, until| *until > now);
        let address = self.hint.take().unwrap_or_else(|| self.in_turn());
        self.current = Some(address.clone());
        address
    }

    /// The next address that is not silent; if all are, the next one in turn.
    fn in_turn(&mut self) -> String {
        let count = self.addresses.len();
        let address = |offset: usize| &self.addresses[(self.next + offset) % count];
        let mut offsets = 0..count;
        let offset = offsets.find(|it| !self.silent.contains_key(address(*it)));
        let offset = offset.unwrap_or(0);
        let address = address(offset).clone();
        self.next += offset + 1;
        address
    }

    pub(crate) fn current(&self) -> Option<&str> {
        self.current.as_deref()
    }

    /// A node has named another one as the leader. Returns the pause before that is tried.
    pub(crate) fn redirect(&mut self, leader: Option<String>, now: Instant) -> Duration {
        let is_silent = |leader: &String| self.silent.get(leader).is_some_and(|it| *it > now);
        match leader {
            Some(leader) if self.current.as_ref() != Some(&leader) && !is_silent(&leader) => {
                self.hint = Some(leader);
                // Nodes that are out of date may redirect in a circle.
                self.grow(PAUSE_FIRST)
            }
            _ => self.failed(),
        }
    }

    /// The address is tried again next: the node has not failed.
    pub(crate) fn repeat(&mut self) {
        self.hint = self.current.clone();
    }

    /// The address failed. Returns the pause before the next is tried.
    pub(crate) fn failed(&mut self) -> Duration {
        self.grow(self.pause)
    }

    /// The node at the address is silent. Returns the pause before the next is tried.
    pub(crate) fn fell_silent(&mut self, now: Instant) -> Duration {
        if let Some(address) = self.current.clone() {
            self.silent.insert(address, now + PASSED_OVER);
        }
        self.failed()
    }

    /// The node has acted as a leader.
    pub(crate) fn succeeded(&mut self) {
        if let Some(address) = &self.current {
            self.silent.remove(address);
        }
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

    #[test]
    fn told_members_are_tried_after_the_given_ones() {
        let mut finder = LeaderFinder::new(vec!["a".to_owned()]);
        finder.learn(vec!["b".to_owned(), "a".to_owned()]);
        let now = Instant::now();
        let tried = |finder: &mut LeaderFinder| [0; 3].map(|_| finder.next(now));
        assert_eq!(tried(&mut finder), ["a", "b", "a"]);
        finder.learn(vec!["c".to_owned()]);
        let mut all = tried(&mut finder);
        all.sort();
        assert!(!all.contains(&"b".to_owned()) && all.contains(&"c".to_owned()));
    }

    fn finder() -> LeaderFinder {
        LeaderFinder::new(vec!["a".to_owned(), "b".to_owned(), "c".to_owned()])
    }

    #[test]
    fn addresses_are_tried_in_turn_with_growing_pauses() {
        let (mut finder, now) = (finder(), Instant::now());
        let mut tried = Vec::new();
        let mut longest = Duration::ZERO;
        for _ in 0..30 {
            tried.push(finder.next(now));
            longest = longest.max(finder.failed());
        }
        assert_eq!(tried[..4], ["a", "b", "c", "a"]);
        assert!(longest > PAUSE_LONGEST / 2 && longest <= PAUSE_LONGEST);
    }

    #[test]
    fn a_named_leader_is_tried_first() {
        let (mut finder, now) = (finder(), Instant::now());
        assert_eq!(finder.next(now), "a");
        assert!(finder.redirect(Some("z".to_owned()), now) <= PAUSE_FIRST);
        assert_eq!(finder.next(now), "z");
        finder.failed();
        assert_eq!(finder.next(now), "b");
    }

    #[test]
    fn a_silent_node_is_passed_over_even_if_named() {
        let (mut finder, now) = (finder(), Instant::now());
        assert_eq!(finder.next(now), "a");
        finder.fell_silent(now);
        for _ in 0..5 {
            assert_eq!(finder.next(now), "b");
            finder.redirect(Some("a".to_owned()), now);
            assert_eq!(finder.next(now), "c");
            finder.redirect(Some("a".to_owned()), now);
        }
        // It may be back.
        let later = now + PASSED_OVER;
        finder.redirect(Some("a".to_owned()), later);
        assert_eq!(finder.next(later), "a");
    }

    #[test]
    fn two_silent_nodes_leave_the_third() {
        let (mut finder, now) = (finder(), Instant::now());
        for _ in 0..2 {
            finder.next(now);
            finder.fell_silent(now);
        }
        assert_eq!([finder.next(now), finder.next(now)], ["c", "c"]);
    }

    #[test]
    fn silent_nodes_are_tried_if_there_are_no_others() {
        let (mut finder, now) = (finder(), Instant::now());
        let mut tried = Vec::new();
        for _ in 0..6 {
            tried.push(finder.next(now));
            finder.fell_silent(now);
        }
        tried[3..].sort();
        assert_eq!(tried[3..], ["a", "b", "c"]);
    }

    #[test]
    fn a_node_that_names_itself_is_no_hint() {
        let (mut finder, now) = (finder(), Instant::now());
        finder.next(now);
        finder.redirect(Some("a".to_owned()), now);
        assert_eq!(finder.next(now), "b");
    }
}
