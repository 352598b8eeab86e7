//! Room for the log, as a leader sees it on all voters (decision 0087).
//!
//! Each node tells the leader by how much its log may grow. A commit needs a majority, so the room that counts is the smallest of
//! the best majority; and the leader itself has to write, because it answers only what is on its own disk.
//!
//! ```text
//!   900 MiB │ 700 MiB │ none        accepts all: a majority has room, and the third gets an image later
//!   900 MiB │ 90 MiB, low │ none    accepts a part of the 90 MiB at each tick
//!   900 MiB │ none │ none           answers Busy, until an image of the tables makes room
//! ```
//! What is in flight then still has room: a log is without room when its next two files of each stream do not fit
//! (`storage/log_budget.rs`). So entries go on to be committed and applied, and an image of them makes room.
//!
//! A voter that has not told for two election timeouts cannot write, either. One that has not told a new leader yet counts as if it
//! had room.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::log_room::Room;
use crate::membership::Membership;
use crate::network::NodeId;

/// Ticks in which a leader with little room would fill it, if it stayed the same.
const FILL_TICKS: u64 = 128;
/// What a group takes at least: a block for its payload, and one for its entry.
const GROUP_BYTES: i64 = 8192;
/// The allowance of a leader with enough room.
const UNLIMITED: i64 = i64::MAX;

/// How a leader accepts commands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Pace {
    /// As many as come.
    #[default]
    Open,
    /// A part of the room at each tick.
    Slowed,
    /// None: too few voters have room.
    Refused,
}

/// The room of the voters, and what follows from it for a leader.
#[derive(Debug)]
pub(crate) struct Rooms {
    /// Ticks after which a voter that does not tell has no room.
    silence_ticks: u64,
    reports: Mutex<Reports>,
    /// Writers of this node that wait for room.
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
    rooms: BTreeMap<NodeId, (Room, u64)>,
    pace: Pace,
    /// The tick at which leadership was last offered for lack of room, and the voter.
    offered: Option<(u64, NodeId)>,
}

impl Rooms {
    pub(crate) fn new(election_ticks: usize) -> Self {
        Self {
            silence_ticks: 2 * election_ticks as u64,
            reports: Mutex::default(),
            waiting_writers: AtomicUsize::new(0),
            allowance: AtomicI64::new(UNLIMITED),
        }
    }

    /// A writer of this node waits for room, or has got some.
    pub(crate) fn note_writer(&self, waits: bool) {
        if waits {
            self.waiting_writers.fetch_add(1, Ordering::Relaxed);
        } else {
            self.waiting_writers.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Whether a writer of this node waits for room: its log or its disk is full.
    pub(crate) fn is_full(&self) -> bool {
        self.waiting_writers.load(Ordering::Relaxed) > 0
    }

    /// Another node has this room.
    pub(crate) fn note(&self, node: NodeId, room: Room) {
        let mut reports = self.reports.lock();
        let ticks = reports.ticks;
        reports.rooms.insert(node, (room, ticks));
    }

    /// This node was elected: what others have told an earlier leader may be old.
    pub(crate) fn begin_office(&self) {
        let mut reports = self.reports.lock();
        reports.rooms.clear();
        reports.elected = reports.ticks;
    }

    /// Time has passed on a node that does not lead.
    pub(crate) fn tick(&self) {
        let mut reports = self.reports.lock();
        reports.ticks += 1;
        reports.pace = Pace::Open;
        self.allowance.store(UNLIMITED, Ordering::Relaxed);
    }

    /// Time has passed on a leader, with the room of its own log. Returns a voter to which leadership is to be offered, if the
    /// leader has no room and `may_stay` is false.
    pub(crate) fn tick_leader(
        &self,
        (leader, own): (NodeId, Room),
        members: &Membership,
        may_stay: bool,
    ) -> Option<NodeId> {
        let mut reports = self.reports.lock();
        reports.ticks += 1;
        (reports.rooms).retain(|node, _| members.nodes().any(|it| it == *node));
        let mut voters: Vec<(Room, NodeId)> = members
            .voters()
            .map(|node| {
                let is_leader = node == leader;
                let told = || reports.of(node, self.silence_ticks);
                (if is_leader { own } else { told() }, node)
            })
            .collect();
        // The most room first.
        voters.sort_by(|one, other| other.cmp(one));
        let majority = &voters[..=voters.len() / 2];
        let least = majority.iter().map(|(room, _)| room.bytes).min();
        let least = least.unwrap_or(0).min(own.bytes);
        let is_low = own.is_low || majority.iter().any(|(room, _)| room.is_low);
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
        if own.bytes > 0 || may_stay || !reports.offered.is_none_or(is_due) {
            return None;
        }
        // One that has not told cannot be relied on, and the last one may have refused.
        let can_lead = |(room, node): &&(Room, NodeId)| {
            room.bytes > 0 && !room.is_low && reports.rooms.contains_key(node)
        };
        let is_other = |node: NodeId| reports.offered.is_none_or(|(_, last)| last != node);
        let suitable = || voters.iter().filter(can_lead).map(|(_, node)| *node);
        let to = suitable()
            .find(|node| is_other(*node))
            .or_else(|| suitable().next())?;
        reports.offered = Some((reports.ticks, to));
        Some(to)
    }

    /// Whether a leader accepts commands of this size now.
    pub(crate) fn accept(&self, bytes: usize) -> bool {
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

    /// Whether a leader accepts no commands, as too few voters have room.
    pub(crate) fn refuses(&self) -> bool {
        self.reports.lock().pace == Pace::Refused
    }

    /// How a leader accepts commands, and the room that other nodes have told it.
    pub(crate) fn show(&self) -> (Pace, BTreeMap<NodeId, Room>) {
        let reports = self.reports.lock();
        let rooms = reports.rooms.iter().map(|(node, (room, _))| (*node, *room));
        (reports.pace, rooms.collect())
    }
}

impl Reports {
    /// The room of another voter.
    fn of(&self, node: NodeId, silence_ticks: u64) -> Room {
        let (room, since) = match self.rooms.get(&node) {
            Some((room, at)) => (*room, *at),
            None => (Room::UNKNOWN, self.elected),
        };
        if self.ticks - since > silence_ticks {
            Room::NONE
        } else {
            room
        }
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

    fn room(bytes: u64, is_low: bool) -> Room {
        Room { bytes, is_low }
    }

    /// The pace of a leader with these rooms; the first is its own.
    fn pace(rooms: &[Room]) -> Pace {
        let it = Rooms::new(10);
        it.begin_office();
        for (number, room) in (1..).zip(rooms) {
            it.note(node(number), *room);
        }
        it.tick_leader((node(1), rooms[0]), &members(rooms.len() as u64), true);
        it.show().0
    }

    #[test]
    fn the_room_of_a_majority_counts() {
        let (much, low, none) = (room(1 << 30, false), room(1 << 20, true), Room::NONE);
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
    fn a_voter_that_does_not_tell_has_no_room() {
        let (it, much) = (Rooms::new(10), room(1 << 30, false));
        it.begin_office();
        it.note(node(2), Room::NONE);
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
    fn with_little_room_a_part_of_it_is_accepted() {
        let it = Rooms::new(10);
        let members = members(1);
        let tick = |bytes, is_low| {
            let to = it.tick_leader((node(1), room(bytes, is_low)), &members, true);
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
    fn a_leader_without_room_hands_over_to_another() {
        let it = Rooms::new(10);
        let offers = |own: Room, other: Room, may_stay: bool, ticks: u64| {
            let mut offers = Vec::new();
            for tick in 1..=ticks {
                it.note(node(2), Room::NONE);
                it.note(node(3), other);
                let to = it.tick_leader((node(1), own), &members(3), may_stay);
                offers.extend(to.map(|to| (tick, to.number())));
            }
            offers
        };
        let much = room(1 << 30, false);
        let none = Vec::<(u64, u64)>::new();
        assert_eq!(offers(much, much, false, 10), none);
        assert_eq!(
            offers(Room::NONE, much, true, 10),
            none,
            "an image makes room"
        );
        assert_eq!(offers(Room::NONE, room(9, true), false, 10), none);
        let again = STALL_TICKS + 1;
        assert_eq!(offers(Room::NONE, much, false, again), [(1, 3), (again, 3)]);
    }
}
