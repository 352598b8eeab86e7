//! The log that a leader keeps for nodes that copy an image of it: what is above the image, until they follow.
//!
//! ```text
//!   offer ──▶ asks for parts ──▶ starts with the image ──▶ gets entries ──▶ follows
//!             └──────────── the log above the image is kept ───────────┘
//! ```
//! Without that, a log smaller than what is written during a copy would be truncated above the image, and the node would copy
//! another one, again and again, for as long as the load goes on. If space for the log gets low meanwhile, the leader accepts
//! commands slowly, and in the end hardly any (`flow_control.rs`). So each node has a time for which it may slow the cluster.
//!
//! A new leader knows nothing of a copy that an earlier one serves: the node may have to copy another image then.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::network::NodeId;
use crate::raft::LAG_MAX;

/// Time for which commands may be slowed for a node.
const SLOWED_MAX: Duration = Duration::from_secs(60);
/// Time for which an offer keeps the log.
const OFFER_TIME: Duration = Duration::from_secs(10);
/// Time without progress after which the log is released. It is long: a node first verifies the files of an earlier copy.
const PROGRESS_TIME: Duration = Duration::from_secs(600);
/// Time without a sign of life for which commands are slowed for a node. It is longer than the start with an image.
const SILENT_TIME: Duration = Duration::from_secs(5);
/// Time without a request after which a copy has ended.
const COPIED_TIME: Duration = Duration::from_secs(1);

/// The nodes that copy images of this one, while it leads.
#[derive(Debug)]
pub(crate) struct KeptLog {
    /// Time from one tick to the next.
    tick: Duration,
    /// The entry through which the log is truncated, or soon will be.
    truncated: u64,
    /// Whether the leader accepts commands slowly for lack of its own log's space.
    is_slowed: bool,
    nodes: BTreeMap<NodeId, Copier>,
}

/// A node that was offered an image.
#[derive(Clone, Copy, Debug)]
struct Copier {
    /// The last entry of the image.
    through: u64,
    /// The image of which it has asked for parts last.
    copied: Option<u128>,
    /// Whether that is this one.
    is_copying: bool,
    /// The last entry that the node is known to have.
    matched: u64,
    /// Ticks since it asked for a part; at first, since the offer.
    unasked: u32,
    /// Ticks since it asked for a part or got an entry; at first, since the offer.
    without_progress: u32,
    /// Ticks without a sign of life.
    silent: u32,
    /// Ticks in which commands were slowed for it.
    slowed: u32,
    /// Nothing is kept for it until it follows.
    is_given_up: bool,
}

/// The leader's state at a tick.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeaderState<'a> {
    /// The last entries of the members, as far as it knows.
    pub(crate) matched: &'a [(NodeId, u64)],
    pub(crate) committed: u64,
    /// It accepts commands slowly for lack of its own log's space.
    pub(crate) is_slowed: bool,
    /// The entries that are not truncated take too much memory.
    pub(crate) has_too_many_entries: bool,
}

/// Why the log is not kept for a node any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeptEnd {
    /// The node follows.
    Follows,
    /// Commands were slowed for too long. Nothing is kept for it until it follows.
    Slowed,
    /// The leader has too many entries. Nothing is kept for it until it follows.
    TooManyEntries,
}

impl KeptLog {
    /// `truncated`: the entry through which the log is truncated.
    pub(crate) fn new(tick: Duration, truncated: u64) -> Self {
        Self {
            tick,
            truncated,
            is_slowed: false,
            nodes: BTreeMap::new(),
        }
    }

    /// A node that needs entries is to be offered an image through this entry. Returns false if the log above that is truncated.
    pub(crate) fn note_offer(&mut self, node: NodeId, through: u64) -> bool {
        if through < self.truncated {
            return false;
        }
        let copier = self.nodes.entry(node).or_insert(Copier {
            through,
            copied: None,
            is_copying: false,
            matched: 0,
            unasked: 0,
            without_progress: 0,
            silent: 0,
            slowed: 0,
            is_given_up: false,
        });
        // A node that copies goes on with what it has.
        if !copier.is_copying {
            copier.through = through;
        } else if copier.needed() < self.truncated {
            (copier.through, copier.is_copying, copier.without_progress) = (through, false, 0);
        }
        true
    }

    /// A node asks for a part of an image. Returns whether it has copied another one before, and does not follow yet.
    pub(crate) fn note_fetch(&mut self, node: NodeId, image: u128, through: u64) -> bool {
        // One that was not offered an image needs no entries.
        let Some(copier) = self.nodes.get_mut(&node) else {
            return false;
        };
        let before = copier.copied.replace(image);
        (copier.through, copier.is_copying) = (through, true);
        (copier.unasked, copier.without_progress) = (0, 0);
        before.is_some_and(|before| before != image)
    }

    /// The log is about to be truncated through the last of these entries, in ascending order, above which no node needs it.
    /// Returns which.
    pub(crate) fn truncate(
        &mut self,
        entries: impl DoubleEndedIterator<Item = u64>,
    ) -> Option<u64> {
        let kept = self.through().unwrap_or(u64::MAX);
        let index = entries.rev().find(|index| *index <= kept)?;
        self.truncated = self.truncated.max(index);
        Some(index)
    }

    /// The nodes for which the log is kept.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = NodeId> {
        self.kept().map(|(node, _)| node)
    }

    /// The log above this entry is kept.
    pub(crate) fn through(&self) -> Option<u64> {
        self.kept().map(|(_, needed)| needed).min()
    }

    fn kept(&self) -> impl Iterator<Item = (NodeId, u64)> {
        let keeps = |it: &Copier| {
            let time = match (it.is_copying, self.is_slowed) {
                (true, _) => PROGRESS_TIME,
                (false, true) => Duration::ZERO,
                (false, false) => OFFER_TIME,
            };
            let is_heard = !self.is_slowed || it.silent < self.ticks(SILENT_TIME);
            let is_needed = it.needed() >= self.truncated && !it.is_given_up;
            is_needed && is_heard && it.without_progress < self.ticks(time)
        };
        let kept = self.nodes.iter().filter(move |(_, it)| keeps(it));
        kept.map(|(node, it)| (*node, it.needed()))
    }

    /// Time has passed on a leader. Returns for which nodes the log is not kept any more. `is_heard`: whether a node has told the
    /// leader its log's space lately.
    pub(crate) fn tick(
        &mut self,
        leader: LeaderState<'_>,
        is_heard: impl Fn(NodeId) -> bool,
    ) -> Vec<(NodeId, KeptEnd)> {
        self.is_slowed = leader.is_slowed;
        let mut ended = Vec::new();
        let oldest = self.through();
        let (copied, slowed_max) = (self.ticks(COPIED_TIME), self.ticks(SLOWED_MAX));
        let truncated = self.truncated;
        self.nodes.retain(|node, copier| {
            let mut members = leader.matched.iter();
            let Some((_, matched)) = members.find(|(it, _)| it == node) else {
                // It was removed.
                return false;
            };
            copier.pass(*matched, is_heard(*node));
            let has_image = copier.matched >= copier.through && copier.unasked > copied;
            if has_image && leader.committed <= copier.matched + LAG_MAX {
                if copier.copied.is_some() {
                    ended.push((*node, KeptEnd::Follows));
                }
                return false;
            }
            // The others do not keep the log longer than the oldest.
            let keeps = copier.needed() >= truncated && Some(copier.needed()) <= oldest;
            if !keeps || copier.is_given_up {
                return true;
            }
            copier.slowed += u32::from(leader.is_slowed);
            let end = if leader.has_too_many_entries {
                KeptEnd::TooManyEntries
            } else if copier.slowed > slowed_max {
                KeptEnd::Slowed
            } else {
                return true;
            };
            copier.is_given_up = true;
            ended.push((*node, end));
            true
        });
        ended
    }

    /// The node does not lead: others get entries from the leader.
    pub(crate) fn clear(&mut self) {
        self.nodes.clear();
    }

    fn ticks(&self, time: Duration) -> u32 {
        u32::try_from(time.as_nanos() / self.tick.as_nanos().max(1)).unwrap_or(u32::MAX)
    }
}

impl Copier {
    /// The entry above which it needs the log.
    fn needed(&self) -> u64 {
        self.through.max(self.matched)
    }

    fn pass(&mut self, matched: u64, is_heard: bool) {
        self.unasked += 1;
        self.without_progress += 1;
        self.silent = if is_heard { 0 } else { self.silent + 1 };
        if matched > self.matched {
            self.without_progress = 0;
        }
        self.matched = matched;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OTHERS: u64 = 100_000;

    /// Ticks of a second.
    fn kept_log(truncated: u64) -> KeptLog {
        KeptLog::new(Duration::from_secs(1), truncated)
    }

    fn node(number: u64) -> NodeId {
        NodeId::first(number)
    }

    /// A second passes. Nodes 2 and 3 are members.
    fn pass_one(
        it: &mut KeptLog,
        matched: u64,
        committed: u64,
        is_slowed: bool,
    ) -> Vec<(NodeId, KeptEnd)> {
        let leader = LeaderState {
            matched: &[(node(1), committed), (node(2), matched), (node(3), 20)],
            committed,
            is_slowed,
            has_too_many_entries: false,
        };
        it.tick(leader, |_| true)
    }

    /// Seconds until something ends for node 2.
    fn seconds_until_end(
        it: &mut KeptLog,
        is_slowed: bool,
        mut at: impl FnMut(&mut KeptLog, u64) -> (u64, u64),
    ) -> (u64, KeptEnd) {
        for second in 1..10_000 {
            let (matched, committed) = at(it, second);
            if let [(of, end)] = pass_one(it, matched, committed, is_slowed)[..] {
                assert_eq!(of, node(2));
                return (second, end);
            }
        }
        panic!("nothing ended");
    }

    fn pass(it: &mut KeptLog, seconds: u64, is_slowed: bool) {
        for _ in 0..seconds {
            assert_eq!(pass_one(it, 20, OTHERS, is_slowed), []);
        }
    }

    #[test]
    fn the_log_above_the_oldest_image_is_kept() {
        let mut it = kept_log(90);
        assert_eq!(it.through(), None);
        assert!(!it.note_offer(node(2), 80), "the log above it is truncated");
        assert!(it.note_offer(node(2), 100) && it.note_offer(node(3), 200));
        assert_eq!(it.through(), Some(100));
        assert!(!it.note_fetch(node(2), 1, 100));
        // Offered again while it copies: the node goes on with what it has.
        assert!(it.note_offer(node(2), 300));
        assert_eq!(it.through(), Some(100));
        assert_eq!(it.truncate([95, 100, 300].into_iter()), Some(100));
        assert!(!it.note_fetch(node(2), 1, 100));
        assert!(it.note_fetch(node(2), 4, 400), "another one");
        assert_eq!((it.through(), it.nodes().count()), (Some(200), 2));
        assert_eq!(it.truncate([150, 300].into_iter()), Some(150));
        assert_eq!(it.truncate([300].into_iter()), None);
        it.clear();
        assert_eq!(it.through(), None);
        // One that has not been offered an image has its own log.
        assert!(!it.note_fetch(node(2), 6, 600));
        assert_eq!(it.through(), None);
        assert_eq!(it.truncate([300, 450].into_iter()), Some(450));
        assert!(!it.note_offer(node(2), 449) && it.note_offer(node(2), 450));
    }

    #[test]
    fn only_another_image_is_another_copy() {
        let mut it = kept_log(0);
        it.note_offer(node(2), 100);
        assert!(!it.note_fetch(node(2), 1, 100));
        let end = seconds_until_end(&mut it, true, |_, _| (20, OTHERS));
        assert_eq!(end.1, KeptEnd::Slowed);
        assert_eq!(it.truncate([200].into_iter()), Some(200));
        for _ in 0..3 {
            it.note_offer(node(2), 300);
            assert!(!it.note_fetch(node(2), 1, 100), "it goes on");
        }
        assert!(it.note_fetch(node(2), 2, 300));
        assert!(!it.note_fetch(node(2), 2, 300));
    }

    #[test]
    fn it_is_kept_until_the_node_follows() {
        let mut it = kept_log(10_000);
        it.note_offer(node(2), 10_000);
        // 100 seconds of copying, 20 of a start, and then it gets entries twice as fast as they are committed.
        let (seconds, end) = seconds_until_end(&mut it, false, |it, second| {
            let committed = 10_000 + 1000 * second;
            let matched = match second {
                ..=100 => {
                    it.note_fetch(node(2), 1, 10_000);
                    20
                }
                101..=120 => 0,
                _ => 10_000 + 2000 * (second - 120),
            };
            let kept = if second <= 121 {
                10_000
            } else {
                10_000 + 2000 * (second - 121)
            };
            assert_eq!(it.through(), Some(kept), "second {second}");
            (matched, committed)
        });
        // It has all at 240.
        assert_eq!((seconds, end), (239, KeptEnd::Follows));
        assert_eq!(it.through(), None);
    }

    #[test]
    fn a_copying_node_with_all_entries_follows_afterwards() {
        let mut it = kept_log(0);
        it.note_offer(node(2), 100);
        let end = seconds_until_end(&mut it, false, |it, second| {
            if second <= 40 {
                it.note_fetch(node(2), 1, 100);
            }
            (1000 + second, 1000 + second)
        });
        assert_eq!(end, (41, KeptEnd::Follows));
    }

    #[test]
    fn an_offer_keeps_it_for_a_short_time() {
        let mut it = kept_log(0);
        it.note_offer(node(2), 100);
        pass(&mut it, 5, false);
        assert_eq!(it.through(), Some(100));
        // It slows nothing.
        pass(&mut it, 1, true);
        assert_eq!(it.through(), None);
        pass(&mut it, 1, false);
        assert_eq!(it.through(), Some(100));
        // Offers of which the node makes no use do not begin the time again.
        for _ in 0..5 {
            it.note_offer(node(2), 200);
            pass(&mut it, 1, false);
        }
        assert_eq!(it.through(), None);
    }

    #[test]
    fn a_node_without_progress_keeps_nothing_in_the_end() {
        let mut it = kept_log(0);
        it.note_offer(node(2), 100);
        it.note_fetch(node(2), 1, 100);
        // It has entries: that is progress.
        pass(&mut it, PROGRESS_TIME.as_secs(), false);
        assert_eq!(it.through(), Some(100));
        pass(&mut it, 1, false);
        assert_eq!(it.through(), None);
        it.note_fetch(node(2), 1, 100);
        assert_eq!(it.through(), Some(100), "it goes on");
    }

    #[test]
    fn a_silent_node_slows_nothing() {
        let mut it = kept_log(0);
        it.note_offer(node(2), 100);
        it.note_fetch(node(2), 1, 100);
        let pass_silent = |it: &mut KeptLog, is_slowed| {
            let leader = LeaderState {
                matched: &[(node(2), 20)],
                committed: OTHERS,
                is_slowed,
                has_too_many_entries: false,
            };
            assert_eq!(it.tick(leader, |_| false), []);
            it.through()
        };
        let kept = (0..100).take_while(|_| pass_silent(&mut it, true).is_some());
        assert_eq!(kept.count() as u64, SILENT_TIME.as_secs() - 1);
        assert_eq!(pass_silent(&mut it, false), Some(100));
        pass(&mut it, 50, true);
        assert_eq!(it.through(), Some(100), "its time has not passed meanwhile");
    }

    #[test]
    fn a_node_may_slow_commands_for_a_time() {
        let mut it = kept_log(0);
        it.note_offer(node(2), 100);
        it.note_fetch(node(2), 1, 100);
        it.note_offer(node(3), 500);
        it.note_fetch(node(3), 3, 500);
        // What was not slowed does not count.
        pass(&mut it, 100, false);
        let end = seconds_until_end(&mut it, true, |it, second| {
            it.note_fetch(node(2), u128::from(1 + second / 20), 100 + second);
            (20, OTHERS)
        });
        assert_eq!(end, (SLOWED_MAX.as_secs() + 1, KeptEnd::Slowed));
        // Nothing is kept for it until it follows. The other one has slowed nothing before.
        it.note_fetch(node(2), 9, 900);
        pass(&mut it, SLOWED_MAX.as_secs(), true);
        assert_eq!(it.through(), Some(500));
        let end = pass_one(&mut it, 20, OTHERS, true);
        assert_eq!(end, [(node(3), KeptEnd::Slowed)]);
        assert_eq!(it.truncate([950].into_iter()), Some(950));
        it.note_offer(node(2), 1000);
        pass(&mut it, 1000, true);
        assert_eq!(it.through(), None);
        let end = seconds_until_end(&mut it, true, |_, second| (1000 + second, 1000));
        assert_eq!(end, (1, KeptEnd::Follows));
        pass(&mut it, 1, false);
        it.note_offer(node(2), 1100);
        assert_eq!(it.through(), Some(1100));
    }

    #[test]
    fn too_many_entries_end_it() {
        let mut it = kept_log(0);
        it.note_offer(node(2), 100);
        it.note_fetch(node(2), 1, 100);
        let leader = LeaderState {
            matched: &[(node(2), 20)],
            committed: OTHERS,
            is_slowed: false,
            has_too_many_entries: true,
        };
        let ended = it.tick(leader, |_| true);
        assert_eq!(ended, [(node(2), KeptEnd::TooManyEntries)]);
        assert_eq!(it.through(), None);
    }

    #[test]
    fn a_removed_node_keeps_nothing() {
        let mut it = kept_log(0);
        it.note_offer(node(2), 100);
        it.note_fetch(node(2), 1, 100);
        it.note_offer(node(4), 50);
        it.note_fetch(node(4), 2, 50);
        assert_eq!(it.through(), Some(50));
        pass(&mut it, 1, false);
        assert_eq!(it.through(), Some(100));
    }
}
