//! Reads that a node answers in any role, also as a follower.
//!
//! | read | the entry that must be applied |
//! |---|---|
//! | strong | the commit index that the leader tells, after it has confirmed that it still leads (Raft's ReadIndex) |
//! | at least | the entry in the request: the last one that the client has seen |
//!
//! The applier answers a read between two entries, as soon as its entry is applied. While a node that starts brings its tables into
//! memory, it answers from its image, at the image's entry S: reads of at least an entry ≤ S. A read that waits for too long is given
//! up: the client asks another node.
//!
//! Raft drops a request for the commit index without an answer: if no leader is known, if it has not
//! committed an entry of its own term, or if a message is lost. So the request is repeated until it
//! is answered. All requests of one confirmation were collected before the first of them was sent,
//! so any answer is good for them.
//!
//! # Invariants
//! - N1. A confirmation is requested for reads that have arrived before, never for later ones.
//! - N2. Ids of confirmations differ from those of the leader's queue, of other nodes, and of earlier
//!   starts of this node (`raft/reads.rs`): a late answer confirms nothing else.
//! - N3. A read sees the state after one entry, which is committed: S or a later one. After a restart that may be an earlier entry
//!   than the node has shown before. A node that began without an image has no state before it has applied what it knew to be
//!   committed, and one that has lost its tables has none. A read of a table that the state lacks waits for the same entry, since
//!   the table may have been created behind S.
//!
//! Ongaro, Consensus: Bridging Theory and Practice, §6.4

use std::collections::{BTreeMap, HashMap};

use crate::network::ConnectionId;
use crate::raft::ReadId;
use crate::read_queue::{ReadQueue, ReadRequest, WaitingReads};
use crate::refusal::Refusal;

/// Ticks after which a confirmation is requested again.
const RETRY_TICKS: u64 = 2;

/// The reads of one node.
#[derive(Debug)]
pub(crate) struct NodeReads {
    /// Strong reads that wait for the entry that they must see.
    strong: ReadQueue,
    /// Reads by the entry that they must see, and the order of their arrival.
    waiting: BTreeMap<(u64, u64), ReadRequest>,
    arrived: u64,
    sizes: HashMap<ConnectionId, WaitingReads>,
    /// Of all.
    total: WaitingReads,
    now: u64,
    /// Ticks after which a read is given up.
    wait_ticks: u64,
    /// The entry that every read must see (N3).
    floor: u64,
    /// The last entry that the node knew to be committed when it started.
    recovered: u64,
    /// The tables are not in memory yet: reads that can be answered may wait, too.
    is_loading: bool,
}

/// The work after a tick.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct AfterTick {
    /// Reads that are given up.
    pub(crate) refusals: Vec<(ConnectionId, Refusal)>,
    /// The confirmation to request, again or for the first time.
    pub(crate) confirm: Option<ReadId>,
    /// Whether the applier has reads to answer.
    pub(crate) is_ready: bool,
}

impl NodeReads {
    /// `floor`: the first entry that the node can show. `recovered`: the last one that it knows to be committed when it starts.
    pub(crate) fn new(wait_ticks: u64, floor: u64, recovered: u64) -> Self {
        Self {
            strong: ReadQueue::behind(ReadId::FIRST_OF_NODE),
            waiting: BTreeMap::new(),
            arrived: 0,
            sizes: HashMap::new(),
            total: WaitingReads::default(),
            now: 0,
            wait_ticks: wait_ticks.max(2),
            floor,
            recovered,
            is_loading: false,
        }
    }

    /// Whether the tables are not in memory yet.
    pub(crate) fn set_loading(&mut self, is_loading: bool) {
        self.is_loading = is_loading;
    }

    /// Adds a read if its connection may have it, within limits on all; else returns false. The
    /// caller continues with [`strong`](Self::strong) or [`at_least`](Self::at_least).
    fn admit(&mut self, request: &mut ReadRequest, max: WaitingReads) -> bool {
        let size = WaitingReads::of(request);
        let own = self.sizes.get(&request.connection).copied();
        if !own.unwrap_or_default().may_grow(size, self.total, max) {
            return false;
        }
        self.total.add(size);
        self.sizes.entry(request.connection).or_default().add(size);
        request.until = self.now + self.wait_ticks;
        true
    }

    /// Adds a strong read. Returns the confirmation to request from Raft, if one is needed.
    ///
    /// # Errors
    /// [`Refusal::Busy`].
    pub(crate) fn strong(
        &mut self,
        mut request: ReadRequest,
        max: WaitingReads,
    ) -> Result<Option<ReadId>, Refusal> {
        if !self.admit(&mut request, max) {
            let request = request.request;
            return Err(Refusal::Busy { request });
        }
        Ok(self.strong.add(request))
    }

    /// Adds a read of at least this entry. Returns whether it can be answered by a node that has
    /// applied the log through `applied`.
    ///
    /// # Errors
    /// [`Refusal::Busy`].
    pub(crate) fn at_least(
        &mut self,
        mut request: ReadRequest,
        lsn: u64,
        applied: u64,
        max: WaitingReads,
    ) -> Result<bool, Refusal> {
        if !self.admit(&mut request, max) {
            let request = request.request;
            return Err(Refusal::Busy { request });
        }
        Ok(self.wait(request, lsn) <= applied)
    }

    /// Has a read wait for an entry. Returns the one that it waits for.
    fn wait(&mut self, request: ReadRequest, lsn: u64) -> u64 {
        let lsn = lsn.max(self.floor);
        self.arrived += 1;
        self.waiting.insert((lsn, self.arrived), request);
        lsn
    }

    /// Whether a node that has applied the log through `applied` still lacks entries that it knew to be committed when it started.
    pub(crate) fn is_recovering(&self, applied: u64) -> bool {
        applied < self.recovered
    }

    /// Has a read that was taken wait until the node is not recovering.
    pub(crate) fn wait_for_log(&mut self, read: ReadRequest) {
        let size = WaitingReads::of(&read);
        self.total.add(size);
        self.sizes.entry(read.connection).or_default().add(size);
        self.wait(read, self.recovered);
    }

    /// The leader has told the entry that the reads of a confirmation must see. Returns the next
    /// confirmation to request.
    pub(crate) fn confirmed(&mut self, id: ReadId, index: u64) -> Option<ReadId> {
        let (requests, next) = self.strong.confirmed(id);
        for request in requests {
            self.wait(request, index);
        }
        next
    }

    /// Takes the reads that can be answered by a node that has applied the log through `applied`, up
    /// to a number of keys. Also returns whether there are more.
    pub(crate) fn take_ready(&mut self, applied: u64, keys_max: usize) -> (Vec<ReadRequest>, bool) {
        let (mut ready, mut keys) = (Vec::new(), 0);
        while let Some(first) = self.waiting.first_entry()
            && first.key().0 <= applied
        {
            if keys >= keys_max {
                return (ready, true);
            }
            let request = first.remove();
            self.leave(&request);
            keys += request.wanted.keys();
            ready.push(request);
        }
        (ready, false)
    }

    fn leave(&mut self, request: &ReadRequest) {
        let size = WaitingReads::of(request);
        self.total.remove(size);
        if let Some(own) = self.sizes.get_mut(&request.connection) {
            own.remove(size);
            if *own == WaitingReads::default() {
                self.sizes.remove(&request.connection);
            }
        }
    }

    /// Time has passed on a node that has applied the log through `applied`.
    pub(crate) fn tick(&mut self, applied: u64) -> AfterTick {
        self.now += 1;
        if self.total == WaitingReads::default() && self.strong.confirming().is_none() {
            return AfterTick::default();
        }
        let now = self.now;
        let mut refusals = Vec::new();
        for read in self.strong.take_late(now) {
            self.leave(&read);
            // No leader has confirmed.
            let refusal = Refusal::NotLeader {
                request: read.request,
                leader: None,
            };
            refusals.push((read.connection, refusal));
        }
        // The others are about to be answered.
        let first = if self.is_loading { 0 } else { applied + 1 };
        let unanswered = self.waiting.range((first, 0)..);
        let late = unanswered.filter(|(_, read)| read.until <= now);
        let late: Vec<_> = late.map(|(key, _)| *key).collect();
        for key in late {
            if let Some(read) = self.waiting.remove(&key) {
                self.leave(&read);
                let (request, wanted) = (read.request, key.0);
                let refusal = if wanted <= applied {
                    Refusal::Busy { request }
                } else {
                    Refusal::Behind {
                        request,
                        applied,
                        wanted,
                    }
                };
                refusals.push((read.connection, refusal));
            }
        }
        let confirming = self.strong.confirming();
        let first = self.waiting.first_key_value();
        AfterTick {
            refusals,
            confirm: confirming.filter(|_| now.is_multiple_of(RETRY_TICKS)),
            is_ready: first.is_some_and(|((lsn, _), _)| *lsn <= applied),
        }
    }

    /// A client is gone: its reads are not executed.
    pub(crate) fn forget(&mut self, connection: ConnectionId) {
        let Some(size) = self.sizes.remove(&connection) else {
            return;
        };
        self.total.remove(size);
        self.strong.forget(connection);
        self.waiting.retain(|_, it| it.connection != connection);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read_queue::{BATCH_KEYS, Wanted};

    const MAX: WaitingReads = WaitingReads {
        requests: 100,
        keys: 1_000_000,
        bytes: 1 << 30,
    };

    fn read(connection: u64, request: u64) -> ReadRequest {
        ReadRequest {
            connection: ConnectionId(connection),
            request,
            wanted: Wanted::Tables,
            bytes: 0,
            until: 0,
        }
    }

    fn numbers(requests: &[ReadRequest]) -> Vec<u64> {
        requests.iter().map(|it| it.request).collect()
    }

    #[test]
    fn a_strong_read_waits_for_the_leaders_index() {
        let mut reads = NodeReads::new(10, 0, 0);
        let first = reads.strong(read(1, 1), MAX).expect("there is room");
        let first = first.expect("none is under way");
        assert!(first.is_of_node());
        // It arrives during the confirmation, which is not for it.
        assert_eq!(reads.strong(read(1, 2), MAX), Ok(None));
        // Raft has dropped the request.
        let retried: Vec<_> = (0..4).filter_map(|_| reads.tick(0).confirm).collect();
        assert_eq!(retried, [first, first]);
        let second = reads.confirmed(first, 20).expect("more reads wait");
        assert_ne!(first, second);
        assert!(reads.take_ready(19, BATCH_KEYS).0.is_empty());
        assert_eq!(reads.confirmed(first, 10), None, "the leader answers again");
        assert_eq!(numbers(&reads.take_ready(20, BATCH_KEYS).0), [1]);
        assert_eq!(reads.confirmed(second, 20), None);
        assert_eq!(numbers(&reads.take_ready(20, BATCH_KEYS).0), [2]);
        assert_eq!(reads.total, WaitingReads::default());
        assert!(reads.sizes.is_empty());
    }

    #[test]
    fn reads_are_answered_when_their_entries_are_applied() {
        let mut reads = NodeReads::new(10, 5, 0);
        assert_eq!(reads.at_least(read(1, 1), 0, 4, MAX), Ok(false), "N3");
        assert_eq!(reads.at_least(read(1, 2), 9, 4, MAX), Ok(false));
        assert_eq!(reads.at_least(read(1, 3), 7, 8, MAX), Ok(true));
        assert!(!reads.tick(4).is_ready && reads.tick(5).is_ready);
        assert_eq!(numbers(&reads.take_ready(5, BATCH_KEYS).0), [1]);
        assert_eq!(numbers(&reads.take_ready(9, BATCH_KEYS).0), [3, 2]);
    }

    #[test]
    fn reads_are_given_up_after_some_time() {
        let mut reads = NodeReads::new(3, 0, 0);
        let confirm = reads.strong(read(1, 1), MAX).expect("there is room");
        assert_eq!(reads.at_least(read(2, 2), 9, 4, MAX), Ok(false));
        let mut refusals = Vec::new();
        for _ in 0..3 {
            refusals.extend(reads.tick(4).refusals);
        }
        let not_leader = Refusal::NotLeader {
            request: 1,
            leader: None,
        };
        let behind = Refusal::Behind {
            request: 2,
            applied: 4,
            wanted: 9,
        };
        assert_eq!(
            refusals,
            [(ConnectionId(1), not_leader), (ConnectionId(2), behind)]
        );
        assert_eq!(reads.total, WaitingReads::default());
        // The confirmation is still asked for; then it is over.
        assert_eq!(reads.tick(4).confirm, confirm);
        assert_eq!(reads.confirmed(confirm.expect("it is under way"), 4), None);
        assert_eq!(reads.tick(4), AfterTick::default());
    }

    #[test]
    fn reads_are_given_up_while_tables_are_loaded() {
        let mut reads = NodeReads::new(3, 0, 0);
        let refusals_of = |reads: &mut NodeReads| {
            let refusals = (0..3).flat_map(|_| reads.tick(4).refusals);
            let refusals = refusals.map(|(_, refusal)| refusal);
            refusals.collect::<Vec<_>>()
        };
        // Without that, the applier is about to answer it.
        assert_eq!(reads.at_least(read(1, 1), 4, 4, MAX), Ok(true));
        assert_eq!(refusals_of(&mut reads), []);
        reads.set_loading(true);
        assert_eq!(reads.at_least(read(1, 2), 9, 4, MAX), Ok(false));
        let behind = Refusal::Behind {
            request: 2,
            applied: 4,
            wanted: 9,
        };
        assert_eq!(
            refusals_of(&mut reads),
            [Refusal::Busy { request: 1 }, behind]
        );
        assert_eq!(reads.total, WaitingReads::default());
    }

    #[test]
    fn clients_share_the_waiting_reads() {
        let mut reads = NodeReads::new(3, 0, 0);
        let mut fill = |connection| {
            let mut filled = 0;
            while reads.at_least(read(connection, filled), 9, 4, MAX).is_ok() {
                filled += 1;
            }
            filled
        };
        assert_eq!([fill(1), fill(2)], [50, 25]);
        reads.forget(ConnectionId(1));
        reads.forget(ConnectionId(2));
        assert!(reads.waiting.is_empty() && reads.sizes.is_empty());
        assert_eq!(reads.total, WaitingReads::default());
    }
}
