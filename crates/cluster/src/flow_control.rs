//! Flow control: a leader accepts commands by the space of all logs (decision 0087).
//!
//! Each node tells the leader by how much its log may grow. A commit needs a majority, so the space that counts is the smallest of
//! the best majority; and the leader itself has to write, because it answers only what is on its own disk.
//!
//! ```text
//!   900 MiB │ 700 MiB │ none        accepts all: a majority has space, and the third gets an image later
//!   900 MiB │ 90 MiB, low │ none    accepts a part of the 90 MiB at each tick
//!   900 MiB │ none │ none           answers Busy, until an image of the tables makes space
//! ```
//! If the leader's own log is full, and its last image has made no space, the answer is that the log is full: waiting does not help,
//! unless the leader finds another node to hand over to.
//!
//! What is in flight then still has space: a log is without space when its next two files of each stream do not fit
//! (`storage/log_budget.rs`). So entries go on to be committed and applied, and an image of them makes space.
//!
//! A voter that has not told for two election timeouts cannot write, either. One that has not told a new leader yet counts as if it
//! had space.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::log_space::LogSpace;
use crate::membership::Membership;
use crate::network::NodeId;

/// Ticks in which a leader with little space would fill it, if it stayed the same.
const FILL_TICKS: u64 = 128;
/// What a group takes at least: a block for its payload, and one for its entry.
const GROUP_BYTES: i64 = 8192;
/// The allowance of a leader with enough space.
const UNLIMITED: i64 = i64::MAX;

/// How a leader accepts commands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Pace {
    /// As many as come.
    #[default]
    Open,
    /// A part of the space at each tick.
    Slowed,
    /// None: too few voters have space.
    Refused,
}

/// The answer of a leader to commands, by the space for the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gate {
    /// They are accepted.
    Open,
    /// Not now: the client sends them again.
    Busy,
    /// The leader's own log is full, and its last image has made no space: an operator has to help.
    Full,
}

/// The space of the voters, and what follows from it for a leader.
#[derive(Debug)]
pub(crate) struct FlowControl {
    /// Ticks after which a voter that does not tell has no space.
    silence_ticks: u64,
    reports: Mutex<Reports>,
    /// Writers of this node that wait for space.
    waiting_writers: AtomicUsize,
    /// Bytes of commands that are accepted until the next tick.
    allowance: AtomicI64,
}

#[derive(Debug, Default)]
struct Reports {
    ticks: u64,
    /// The tick at which the node was elected.
    elected: u64,
    /// By node, with the tick of the last report.
    spaces: BTreeMap<NodeId, (LogSpace, u64)>,
    pace: Pace,
    /// The tick at which leadership was last offered for lack of space, and the voter.
    offered: Option<(u64, NodeId)>,
}

impl FlowControl {
    pub(crate) fn new(election_ticks: usize) -> Self {
        Self {
            silence_ticks: 2 * election_ticks as u64,
            reports: Mutex::default(),
            waiting_writers: AtomicUsize::new(0),
            allowance: AtomicI64::new(UNLIMITED),
        }
    }

    /// A writer of this node waits for space, or has got some.
    pub(crate) fn note_writer(&self, waits: bool) {
        if waits {
            self.waiting_writers.fetch_add(1, Ordering::Relaxed);
        } else {
            self.waiting_writers.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Whether a writer of this node waits for space: its log or its disk is full.
    pub(crate) fn is_full(&self) -> bool {
        self.waiting_writers.load(Ordering::Relaxed) > 0
    }

    /// Another node has this space.
    pub(crate) fn note(&self, node: NodeId, space: LogSpace) {
        let mut reports = self.reports.lock();
        let ticks = reports.ticks;
        reports.spaces.insert(node, (space, ticks));
    }

    /// This node was elected: what others have told an earlier leader may be old.
    pub(crate) fn begin_office(&self) {
        let mut reports = self.reports.lock();
        reports.spaces.clear();
        reports.elected = reports.ticks;
    }

    /// Time has passed on a node that does not lead.
    pub(crate) fn tick(&self) {
        let mut reports = self.reports.lock();
        reports.ticks += 1;
        reports.pace = Pace::Open;
        self.allowance.store(UNLIMITED, Ordering::Relaxed);
    }

    /// Time has passed on a leader, with the space of its own log. Returns a voter to which leadership is to be offered, if the
    /// leader has no space and `may_stay` is false.
    pub(crate) fn tick_leader(
        &self,
        (leader, own): (NodeId, LogSpace),
        members: &Membership,
        may_stay: bool,
    ) -> Option<NodeId> {
        let mut reports = self.reports.lock();
        reports.ticks += 1;
        (reports.spaces).retain(|node, _| members.nodes().any(|it| it == *node));
        let mut voters: Vec<(LogSpace, NodeId)> = members
            .voters()
            .map(|node| {
                let is_leader = node == leader;
                let told = || reports.of(node, self.silence_ticks);
                (if is_leader { own } else { told() }, node)
            })
            .collect();
        // The most space first.
        voters.sort_by(|one, other| other.cmp(one));
        let majority = &voters[..=voters.len() / 2];
        let least = majority.iter().map(|(space, _)| space.usable_bytes).min();
        let least = least.unwrap_or(0).min(own.usable_bytes);
        let is_low = own.is_low || majority.iter().any(|(space, _)| space.is_low);
        reports.pace = match least {
            0 => Pace::Refused,
            _ if is_low => Pace::Slowed,
            _ => Pace::Open,
        };
        let before = self.allowance.load(Ordering::Relaxed);
        let allowance = match reports.pace {
            Pace::Refused => 0,
            Pace::Open => UNLIMITED,
            Pace::Slowed => {
                let part = i64::try_from(least / FILL_TICKS).unwrap_or(i64::MAX);
                // What was not used is not kept, and what was used beyond it is missing.
                before.min(0).saturating_add(part.max(1))
            }
        };
        self.allowance.store(allowance, Ordering::Relaxed);
        let is_due = |(at, _): (u64, NodeId)| reports.ticks - at >= self.silence_ticks;
        if own.usable_bytes > 0 || may_stay || !reports.offered.is_none_or(is_due) {
            return None;
        }
        // One that has not told cannot be relied on, and the last one may have refused.
        let can_lead = |(space, node): &&(LogSpace, NodeId)| {
            space.usable_bytes > 0 && !space.is_low && reports.spaces.contains_key(node)
        };
        let is_other = |node: NodeId| reports.offered.is_none_or(|(_, last)| last != node);
        let suitable = || voters.iter().filter(can_lead).map(|(_, node)| *node);
        let to = suitable()
            .find(|node| is_other(*node))
            .or_else(|| suitable().next())?;
        reports.offered = Some((reports.ticks, to));
        Some(to)
    }

    /// Whether a leader accepts commands of this size now. `own`: as far as its own log says, which may have got full since the
    /// last tick.
    pub(crate) fn gate(&self, own: Gate, bytes: usize) -> Gate {
        match own {
            Gate::Open if self.accept(bytes) => Gate::Open,
            Gate::Open | Gate::Busy => Gate::Busy,
            Gate::Full => Gate::Full,
        }
    }

    /// Whether the allowance has commands of this size, which are taken from it.
    fn accept(&self, bytes: usize) -> bool {
        match self.allowance.load(Ordering::Relaxed) {
            UNLIMITED => true,
            allowance if allowance <= 0 => false,
            _ => {
                let bytes = i64::try_from(bytes).unwrap_or(i64::MAX).max(GROUP_BYTES);
                self.allowance.fetch_sub(bytes, Ordering::Relaxed);
                true
            }
        }
    }

    /// Whether a node has told its space lately.
    pub(crate) fn has_told(&self, node: NodeId) -> bool {
        let reports = self.reports.lock();
        let told = reports.spaces.get(&node);
        told.is_some_and(|(_, at)| reports.is_recent(*at, self.silence_ticks))
    }

    /// Whether a leader accepts no commands, as too few voters have space.
    pub(crate) fn refuses(&self) -> bool {
        self.reports.lock().pace == Pace::Refused
    }

    /// How a leader accepts commands, and the space that other nodes have told it.
    pub(crate) fn show(&self) -> (Pace, BTreeMap<NodeId, LogSpace>) {
        let reports = self.reports.lock();
        let spaces = reports
            .spaces
            .iter()
            .map(|(node, (space, _))| (*node, *space));
        (reports.pace, spaces.collect())
    }
}

impl Reports {
    /// The space of another voter.
    fn of(&self, node: NodeId, silence_ticks: u64) -> LogSpace {
        let (space, since) = match self.spaces.get(&node) {
            Some((space, at)) => (*space, *at),
            None => (LogSpace::UNKNOWN, self.elected),
        };
        if self.is_recent(since, silence_ticks) {
            space
        } else {
            LogSpace::NONE
        }
    }

    fn is_recent(&self, at: u64, silence_ticks: u64) -> bool {
        self.ticks - at <= silence_ticks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STALL_TICKS: u64 = 20;

    fn node(number: u64) -> NodeId {
        NodeId::first(number)
    }

    fn members(count: u64) -> Membership {
        let voters: Vec<NodeId> = (1..=count).map(node).collect();
        Membership::new(&voters)
    }

    fn space(usable_bytes: u64, is_low: bool) -> LogSpace {
        LogSpace {
            usable_bytes,
            is_low,
        }
    }

    /// The pace of a leader with these spaces; the first is its own.
    fn pace(spaces: &[LogSpace]) -> Pace {
        let it = FlowControl::new(10);
        it.begin_office();
        for (number, space) in (1..).zip(spaces) {
            it.note(node(number), *space);
        }
        it.tick_leader((node(1), spaces[0]), &members(spaces.len() as u64), true);
        it.show().0
    }

    #[test]
    fn the_space_of_a_majority_counts() {
        let (much, low, none) = (space(1 << 30, false), space(1 << 20, true), LogSpace::NONE);
        assert_eq!(pace(&[much, much, none]), Pace::Open);
        assert_eq!(pace(&[much, none, much]), Pace::Open);
        assert_eq!(pace(&[much, low, none]), Pace::Slowed);
        assert_eq!(pace(&[much, none, none]), Pace::Refused);
        assert_eq!(pace(&[much, much, low]), Pace::Open);
        assert_eq!(pace(&[much, much, much, none, none]), Pace::Open);
        assert_eq!(pace(&[much, much, low, none, none]), Pace::Slowed);
        assert_eq!(pace(&[much, much, none, none, none]), Pace::Refused);
        // The leader writes, too.
        assert_eq!(pace(&[none, much, much]), Pace::Refused);
        assert_eq!(pace(&[low, much, much]), Pace::Slowed);
        assert_eq!(pace(&[much]), Pace::Open);
        assert_eq!(pace(&[none]), Pace::Refused);
    }

    #[test]
    fn a_voter_that_does_not_tell_has_no_space() {
        let (it, much) = (FlowControl::new(10), space(1 << 30, false));
        it.begin_office();
        it.note(node(2), LogSpace::NONE);
        let after = |ticks: u64| {
            for _ in 0..ticks {
                it.tick_leader((node(1), much), &members(3), true);
            }
            it.show().0
        };
        // Node 3 has not told yet.
        assert_eq!(after(STALL_TICKS), Pace::Open);
        assert_eq!(after(1), Pace::Refused);
        it.note(node(3), much);
        assert_eq!(after(STALL_TICKS), Pace::Open);
        assert_eq!(after(1), Pace::Refused);
        // A new office begins without knowledge.
        it.begin_office();
        assert_eq!(after(1), Pace::Open);
    }

    #[test]
    fn with_little_space_a_part_of_it_is_accepted() {
        let it = FlowControl::new(10);
        let members = members(1);
        let tick = |bytes, is_low| {
            let to = it.tick_leader((node(1), space(bytes, is_low)), &members, true);
            assert_eq!(to, None);
        };
        assert!(it.accept(usize::MAX), "a node that was just elected");
        let accepted = |bytes: u64| {
            tick(bytes, true);
            (0..1 << 20).take_while(|_| it.accept(10_000)).count()
        };
        let (much, little) = (accepted(128 << 20), accepted(16 << 20));
        assert!((100..110).contains(&much), "{much}");
        assert!(little < much / 4 && little > 0, "{little}");
        // One that is larger than the allowance is accepted, and those after it wait.
        tick(16 << 20, true);
        assert!(it.accept(1 << 20));
        for _ in 0..6 {
            tick(16 << 20, true);
            assert!(!it.accept(1));
        }
        for _ in 0..4 {
            tick(16 << 20, true);
        }
        assert!(it.accept(1));
        tick(0, true);
        assert!(!it.accept(1));
        tick(1 << 30, false);
        assert!(it.accept(usize::MAX) && it.accept(1));
        // A node that does not lead any more.
        tick(0, true);
        it.tick();
        assert!(it.accept(1));
    }

    #[test]
    fn a_full_log_is_told_from_one_that_gets_space() {
        let it = FlowControl::new(10);
        let gates = |bytes, is_low| {
            it.tick_leader((node(1), space(bytes, is_low)), &members(1), true);
            [Gate::Open, Gate::Busy, Gate::Full].map(|own| it.gate(own, 1))
        };
        let all = [Gate::Open, Gate::Busy, Gate::Full];
        assert_eq!(gates(1 << 30, false), all);
        assert_eq!(gates(1 << 20, true), all);
        assert_eq!(gates(0, true), [Gate::Busy, Gate::Busy, Gate::Full]);
        // What is not accepted takes nothing from the allowance.
        assert_eq!(gates(1 << 20, true), all);
    }

    #[test]
    fn a_leader_without_space_hands_over_to_another() {
        let it = FlowControl::new(10);
        let offers = |own: LogSpace, other: LogSpace, may_stay: bool, ticks: u64| {
            let mut offers = Vec::new();
            for tick in 1..=ticks {
                it.note(node(2), LogSpace::NONE);
                it.note(node(3), other);
                let to = it.tick_leader((node(1), own), &members(3), may_stay);
                offers.extend(to.map(|to| (tick, to.number())));
            }
            offers
        };
        let much = space(1 << 30, false);
        let none = Vec::<(u64, u64)>::new();
        assert_eq!(offers(much, much, false, 10), none);
        assert_eq!(
            offers(LogSpace::NONE, much, true, 10),
            none,
            "an image makes space"
        );
        assert_eq!(offers(LogSpace::NONE, space(9, true), false, 10), none);
        let again = STALL_TICKS + 1;
        assert_eq!(
            offers(LogSpace::NONE, much, false, again),
            [(1, 3), (again, 3)]
        );
    }
}
