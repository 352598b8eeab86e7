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
/// Time without progress for which the log is kept. It is long, because a node first verifies what an earlier copy has left.
const PROGRESS_TIME: Duration = Duration::from_secs(600);
/// Time without a request after which a copy has ended.
const COPIED_TIME: Duration = Duration::from_secs(1);

/// The nodes that copy images of this one, while it leads.
#[derive(Debug)]
pub(crate) struct KeptLog {
    /// Time from one tick to the next.
    tick: Duration,
    /// Whether the leader accepts commands slowly for lack of its own log's space.
    is_slowed: bool,
    nodes: BTreeMap<NodeId, Copier>,
}

/// A node that was offered an image.
#[derive(Clone, Copy, Debug)]
struct Copier {
    image: u128,
    /// The last entry of the image.
    through: u64,
    /// The last entry that the node is known to have.
    matched: u64,
    /// Whether it has asked for parts.
    is_copying: bool,
    /// Ticks since it asked for a part; at first, since the offer.
    unasked: u32,
    /// Ticks since it asked for a part or got an entry.
    without_progress: u32,
    /// Ticks in which commands were slowed for it.
    slowed: u32,
    /// It has slowed them for too long, and was reported.
    is_given_up: bool,
}

/// The leader's state at a tick.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeaderState<'a> {
    /// The last entries of the members, as far as it knows.
    pub(crate) matched: &'a [(NodeId, u64)],
    pub(crate) committed: u64,
    /// It accepts commands slowly for lack of its own log's space, or its entries take too much memory.
    pub(crate) is_slowed: bool,
}

/// Why the log is not kept for a node any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeptEnd {
    /// The node follows.
    Follows,
    /// Commands were slowed for too long. Nothing is kept for it until it follows.
    GivenUp,
}

impl KeptLog {
    pub(crate) fn new(tick: Duration) -> Self {
        Self {
            tick,
            is_slowed: false,
            nodes: BTreeMap::new(),
        }
    }

    /// A node that needs entries was offered an image. `truncated`: the entry through which the log is truncated.
    pub(crate) fn note_offer(&mut self, node: NodeId, image: u128, through: u64, truncated: u64) {
        let copier = self.nodes.entry(node).or_insert(Copier {
            image,
            through,
            matched: 0,
            is_copying: false,
            unasked: 0,
            without_progress: 0,
            slowed: 0,
            is_given_up: false,
        });
        // A node that copies goes on with what it has.
        if !copier.is_copying || copier.needed() < truncated {
            (copier.image, copier.through) = (image, through);
        }
    }

    /// A node asks for a part of an image. Returns whether it has copied another one before, and does not follow yet.
    pub(crate) fn note_fetch(&mut self, node: NodeId, image: u128, through: u64) -> bool {
        // One that was not offered an image needs no entries.
        let Some(copier) = self.nodes.get_mut(&node) else {
            return false;
        };
        let is_another = copier.is_copying && copier.image != image;
        (copier.image, copier.through, copier.is_copying) = (image, through, true);
        (copier.unasked, copier.without_progress) = (0, 0);
        is_another
    }

    /// The nodes for which the log is kept.
    pub(crate) fn nodes(&self, truncated: u64) -> impl Iterator<Item = NodeId> {
        self.kept(truncated).map(|(node, _)| node)
    }

    /// The log above this entry is kept.
    pub(crate) fn through(&self, truncated: u64) -> Option<u64> {
        self.kept(truncated).map(|(_, needed)| needed).min()
    }

    fn kept(&self, truncated: u64) -> impl Iterator<Item = (NodeId, u64)> {
        let keeps = move |it: &Copier| {
            let time = if it.is_copying {
                self.ticks(PROGRESS_TIME)
            } else if self.is_slowed {
                0
            } else {
                self.ticks(OFFER_TIME)
            };
            it.needed() >= truncated && it.without_progress < time && !it.is_given_up
        };
        let kept = self.nodes.iter().filter(move |(_, it)| keeps(it));
        kept.map(|(node, it)| (*node, it.needed()))
    }

    /// Time has passed on a leader. Returns for which nodes the log is not kept any more.
    pub(crate) fn tick(&mut self, leader: LeaderState<'_>) -> Vec<(NodeId, KeptEnd)> {
        self.is_slowed = leader.is_slowed;
        let mut ended = Vec::new();
        let (copied, slowed_max) = (self.ticks(COPIED_TIME), self.ticks(SLOWED_MAX));
        self.nodes.retain(|node, copier| {
            let mut members = leader.matched.iter();
            let Some((_, matched)) = members.find(|(it, _)| it == node) else {
                // It was removed.
                return false;
            };
            copier.pass(*matched, leader.is_slowed);
            let has_image = copier.matched >= copier.through && copier.unasked > copied;
            if has_image && leader.committed <= copier.matched + LAG_MAX {
                if copier.is_copying {
                    ended.push((*node, KeptEnd::Follows));
                }
                return false;
            }
            if copier.slowed > slowed_max && !copier.is_given_up {
                copier.is_given_up = true;
                ended.push((*node, KeptEnd::GivenUp));
            }
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

    fn pass(&mut self, matched: u64, is_slowed: bool) {
        self.unasked += 1;
        self.without_progress += 1;
        if matched > self.matched {
            self.without_progress = 0;
        }
        self.matched = matched;
        if is_slowed && self.is_copying {
            self.slowed += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ticks of a second.
    fn kept_log() -> KeptLog {
        KeptLog::new(Duration::from_secs(1))
    }

    fn node(number: u64) -> NodeId {
        NodeId::first(number)
    }

    /// Seconds until something ends.
    fn seconds_until_end(
        it: &mut KeptLog,
        is_slowed: bool,
        mut at: impl FnMut(&mut KeptLog, u64) -> (u64, u64),
    ) -> (u64, KeptEnd) {
        for second in 1..10_000 {
            let (matched, committed) = at(it, second);
            let ended = it.tick(LeaderState {
                matched: &[(node(1), committed), (node(2), matched)],
                committed,
                is_slowed,
            });
            if let [(of, end)] = ended[..] {
                assert_eq!(of, node(2));
                return (second, end);
            }
        }
        panic!("nothing ended");
    }

    fn pass(it: &mut KeptLog, seconds: u64, is_slowed: bool) {
        for _ in 0..seconds {
            let ended = it.tick(LeaderState {
                matched: &[(node(1), 100_000), (node(2), 20), (node(3), 20)],
                committed: 100_000,
                is_slowed,
            });
            assert_eq!(ended, []);
        }
    }

    #[test]
    fn the_log_above_the_oldest_image_is_kept() {
        let mut it = kept_log();
        assert_eq!(it.through(0), None);
        it.note_offer(node(2), 1, 100, 90);
        it.note_offer(node(3), 2, 200, 90);
        assert_eq!(it.through(90), Some(100));
        assert!(!it.note_fetch(node(2), 1, 100));
        // Offered again while it copies: the node goes on with what it has.
        it.note_offer(node(2), 3, 300, 90);
        assert_eq!(it.through(90), Some(100));
        assert!(!it.note_fetch(node(2), 1, 100));
        assert!(it.note_fetch(node(2), 4, 400), "another one");
        assert_eq!(it.through(90), Some(200));
        assert_eq!(it.nodes(90).count(), 2);
        // What is truncated cannot be kept.
        assert_eq!(it.through(250), Some(400));
        assert_eq!(it.nodes(250).collect::<Vec<_>>(), [node(2)]);
        it.note_offer(node(2), 5, 500, 450);
        assert_eq!(it.through(450), Some(500));
        it.clear();
        assert_eq!(it.through(0), None);
        // One that has not been offered an image has its own log.
        assert!(!it.note_fetch(node(2), 6, 600));
        assert_eq!(it.through(0), None);
    }

    #[test]
    fn it_is_kept_until_the_node_follows() {
        let mut it = kept_log();
        it.note_offer(node(2), 1, 10_000, 10_000);
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
            assert_eq!(it.through(0), Some(kept), "second {second}");
            (matched, committed)
        });
        assert_eq!(end, KeptEnd::Follows);
        // It has all at 240.
        assert_eq!(seconds, 239);
        assert_eq!(it.through(0), None);
    }

    #[test]
    fn a_copying_node_with_all_entries_follows_afterwards() {
        let mut it = kept_log();
        it.note_offer(node(2), 1, 100, 0);
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
        let mut it = kept_log();
        it.note_offer(node(2), 1, 100, 0);
        pass(&mut it, 5, false);
        assert_eq!(it.through(0), Some(100));
        pass(&mut it, 1, true);
        assert_eq!(it.through(0), None);
        pass(&mut it, 1, false);
        assert_eq!(it.through(0), Some(100));
        // Offers of which the node makes no use do not begin the time again.
        for _ in 0..5 {
            it.note_offer(node(2), 2, 200, 0);
            pass(&mut it, 1, false);
        }
        assert_eq!(it.through(0), None);
    }

    #[test]
    fn a_node_without_progress_keeps_nothing_in_the_end() {
        let mut it = kept_log();
        it.note_offer(node(2), 1, 100, 0);
        it.note_fetch(node(2), 1, 100);
        // It has entries: that is progress.
        pass(&mut it, PROGRESS_TIME.as_secs(), false);
        assert_eq!(it.through(0), Some(100));
        pass(&mut it, 1, false);
        assert_eq!(it.through(0), None);
        it.note_fetch(node(2), 1, 100);
        assert_eq!(it.through(0), Some(100), "it goes on");
    }

    #[test]
    fn a_node_may_slow_commands_for_a_time() {
        let mut it = kept_log();
        it.note_offer(node(2), 1, 100, 0);
        it.note_fetch(node(2), 1, 100);
        // What was not slowed does not count.
        pass(&mut it, 100, false);
        let end = seconds_until_end(&mut it, true, |it, second| {
            it.note_fetch(node(2), u128::from(1 + second / 20), 100 + second);
            (20, 100_000)
        });
        assert_eq!(end, (SLOWED_MAX.as_secs() + 1, KeptEnd::GivenUp));
        it.note_fetch(node(2), 9, 900);
        it.note_offer(node(2), 10, 1000, 950);
        pass(&mut it, 1000, true);
        assert_eq!(it.through(0), None);
        let end = seconds_until_end(&mut it, true, |_, second| (1000 + second, 1000));
        assert_eq!(end, (1, KeptEnd::Follows));
        pass(&mut it, 1, false);
        it.note_offer(node(2), 11, 1100, 0);
        assert_eq!(it.through(0), Some(1100));
    }

    #[test]
    fn a_removed_node_keeps_nothing() {
        let mut it = kept_log();
        it.note_offer(node(2), 1, 100, 0);
        it.note_fetch(node(2), 1, 100);
        it.note_offer(node(4), 2, 50, 0);
        it.note_fetch(node(4), 2, 50);
        assert_eq!(it.through(0), Some(50));
        pass(&mut it, 1, false);
        assert_eq!(it.through(0), Some(100));
    }
}
