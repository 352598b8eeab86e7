//! Held appends: the rule "payload before entry".
//!
//! A node hands raft-rs the longest prefix of an append for which it has the payloads, and holds the rest. "Has" means: received, and
//! matching the entry's digest; not: durable. The held rest is an append of its own, which follows
//! the entry before it. It is handed over as its payloads arrive. So a log never contains an entry
//! that this node could not make durable by itself.
//!
//! An append that begins below the commit index has nothing for Raft, which only answers it. It is not held: its payloads may be
//! truncated on all nodes.
//!
//! Held appends are bounded. An append without room is dropped: its leader sends it again after the
//! next heartbeat.

use std::collections::VecDeque;

use raft::eraftpb::Message;

use super::entry_codec::from_raft;
use crate::entry::{EntryBody, PayloadName, PayloadRef};

/// Largest number of held entries.
const HELD_ENTRIES_MAX: usize = 100_000;
/// Largest memory of held entries.
const HELD_BYTES_MAX: usize = 64 << 20;

/// Appends, in the order in which they arrived.
#[derive(Default)]
pub(super) struct HeldAppends {
    appends: VecDeque<Held>,
    entries: usize,
    /// Their memory.
    bytes: usize,
    /// The payload that the first of them waits for.
    awaited: Option<PayloadName>,
}

struct Held {
    append: Message,
    /// Ticks for which it has been held.
    ticks: u32,
}

/// The view of a node's payloads that held appends need.
pub(super) trait Payloads {
    /// Whether the payload is here and matches its reference.
    fn has(&self, payload: &PayloadRef) -> bool;
}

impl HeldAppends {
    /// Takes an append of a node that knows the log through `committed` to be committed. Returns the part that may be handed to
    /// Raft now.
    pub(super) fn take(
        &mut self,
        append: Message,
        committed: u64,
        payloads: &impl Payloads,
    ) -> Option<Message> {
        if append.index < committed {
            return Some(append);
        }
        // An append that follows held ones is held, too: Raft would refuse it, and its leader would
        // probe.
        let follows = |held: &Held| {
            (held.append.term, held.append.from) == (append.term, append.from)
                && append.index > held.append.index
        };
        if self.appends.front().is_some_and(follows) {
            self.hold(append, 0);
            return None;
        }
        let (ready, rest) = split(append, payloads);
        if let Some(rest) = rest {
            self.hold(rest, 0);
        }
        ready
    }

    fn hold(&mut self, append: Message, ticks: u32) {
        // A duplicate: one of them is enough.
        let key = |it: &Message| (it.term, it.from, it.index, it.entries.len(), it.commit);
        let is_new = self
            .appends
            .iter()
            .all(|it| key(&it.append) != key(&append));
        // An append without entries needs room, too: it carries the commit index.
        let (counted, bytes) = (append.entries.len() + 1, bytes_of(&append));
        let has_room =
            self.entries + counted <= HELD_ENTRIES_MAX && self.bytes + bytes <= HELD_BYTES_MAX;
        if is_new && has_room {
            self.entries += counted;
            self.bytes += bytes;
            self.appends.push_back(Held { append, ticks });
            self.note_awaited();
        }
    }

    fn note_awaited(&mut self) {
        let first = self.appends.front();
        let payload = first.and_then(|held| first_payload(&held.append));
        self.awaited = payload.map(|payload| payload.name);
    }

    /// Whether held appends wait for this payload.
    pub(super) fn awaits(&self, name: PayloadName) -> bool {
        self.awaited == Some(name)
    }

    /// Takes the appends that may be handed to Raft now that payloads have arrived, or that entries through `committed` are known
    /// to be committed, in the order of their arrival.
    pub(super) fn release(&mut self, committed: u64, payloads: &impl Payloads) -> Vec<Message> {
        let mut ready = Vec::new();
        while let Some(Held { append, ticks }) = self.appends.pop_front() {
            self.entries -= append.entries.len() + 1;
            self.bytes -= bytes_of(&append);
            if append.index < committed {
                continue;
            }
            let (first, rest) = split(append, payloads);
            ready.extend(first);
            if let Some(append) = rest {
                self.entries += append.entries.len() + 1;
                self.bytes += bytes_of(&append);
                self.appends.push_front(Held { append, ticks });
                break;
            }
        }
        self.note_awaited();
        ready
    }

    /// Forgets the appends of leaders of earlier terms.
    pub(super) fn forget_before(&mut self, term: u64) {
        self.appends.retain(|held| held.append.term >= term);
        let entries = self
            .appends
            .iter()
            .map(|held| held.append.entries.len() + 1);
        self.entries = entries.sum();
        self.bytes = self.appends.iter().map(|held| bytes_of(&held.append)).sum();
        self.note_awaited();
    }

    /// Time has passed.
    pub(super) fn tick(&mut self) {
        for held in &mut self.appends {
            held.ticks = held.ticks.saturating_add(1);
        }
    }

    /// The missing payloads of appends that have been held for `ticks` ticks; those of younger
    /// appends are probably on their way. At most `max` of them.
    pub(super) fn missing(
        &self,
        max: usize,
        ticks: u32,
        payloads: &impl Payloads,
    ) -> Vec<PayloadRef> {
        let old = self.appends.iter().filter(|held| held.ticks >= ticks);
        let entries = old.flat_map(|held| held.append.entries.iter());
        let mut missing: Vec<PayloadRef> = Vec::new();
        for payload in entries.filter_map(payload_of) {
            if missing.len() == max {
                break;
            }
            if !payloads.has(&payload) && missing.iter().all(|it| it.name != payload.name) {
                missing.push(payload);
            }
        }
        missing
    }

    /// The index of the first entry that waits for its payload.
    pub(super) fn awaited_entry(&self) -> Option<u64> {
        let first = &self.appends.front()?.append;
        Some(first.entries.first()?.index)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.appends.is_empty()
    }
}

/// Memory of an append.
fn bytes_of(append: &Message) -> usize {
    let entries = append.entries.iter();
    let data = entries.map(|it| size_of_val(it) + it.data.len() + it.context.len());
    size_of_val(append) + data.sum::<usize>()
}

fn payload_of(entry: &raft::eraftpb::Entry) -> Option<PayloadRef> {
    match from_raft(entry)?.body {
        EntryBody::Group(payload) => Some(payload),
        _ => None,
    }
}

fn first_payload(append: &Message) -> Option<PayloadRef> {
    payload_of(append.entries.first()?)
}

/// The part of an append that has its payloads, and the rest.
fn split(mut append: Message, payloads: &impl Payloads) -> (Option<Message>, Option<Message>) {
    let lacks = |entry: &raft::eraftpb::Entry| {
        payload_of(entry).is_some_and(|payload| !payloads.has(&payload))
    };
    let Some(at) = append.entries.iter().position(lacks) else {
        return (Some(append), None);
    };
    if at == 0 {
        return (None, Some(append));
    }
    let mut rest = append.clone();
    rest.entries = append.entries.iter().skip(at).cloned().collect();
    let before = &append.entries[at - 1];
    (rest.index, rest.log_term) = (before.index, before.term);
    append.entries.truncate(at);
    (Some(append), Some(rest))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use raft::eraftpb::MessageType;

    use super::super::entry_codec::to_raft;
    use super::*;

    #[derive(Default)]
    struct Here(HashSet<PayloadName>);

    impl Payloads for Here {
        fn has(&self, payload: &PayloadRef) -> bool {
            self.0.contains(&payload.name)
        }
    }

    fn name(number: u64) -> PayloadName {
        PayloadName {
            term: 1,
            worker: 0,
            number,
        }
    }

    fn append(indexes: std::ops::RangeInclusive<u64>) -> Message {
        let mut message = Message::default();
        message.set_msg_type(MessageType::MsgAppend);
        (message.index, message.log_term, message.term) = (indexes.start() - 1, 1, 1);
        let group = |index| {
            let body = EntryBody::Group(PayloadRef::of(name(index), b"changes"));
            to_raft(index, 1, &body)
        };
        message.entries = indexes.map(group).collect::<Vec<_>>().into();
        message
    }

    #[test]
    fn the_prefix_with_payloads_goes_on_and_the_rest_follows() {
        let (mut held, mut here) = (HeldAppends::default(), Here::default());
        here.0.insert(name(1));
        here.0.insert(name(3));
        let ready = held
            .take(append(1..=4), 0, &here)
            .expect("entry 1 has its payload");
        assert_eq!((ready.index, ready.entries.len()), (0, 1));
        assert!(held.awaits(name(2)));
        assert_eq!(held.missing(9, 0, &here).len(), 2);

        here.0.insert(name(2));
        let ready = held.release(0, &here);
        assert_eq!(ready.len(), 1);
        assert_eq!(
            (ready[0].index, ready[0].log_term, ready[0].entries.len()),
            (1, 1, 2)
        );
        assert!(held.awaits(name(4)));

        here.0.insert(name(4));
        assert_eq!(held.release(0, &here).len(), 1);
        assert!(held.is_empty());
    }

    /// The payloads of committed entries may be truncated, here and elsewhere.
    #[test]
    fn an_append_below_the_commit_index_is_not_held() {
        let (mut held, here) = (HeldAppends::default(), Here::default());
        let late = held.take(append(1..=4), 1, &here);
        assert!(late.is_some_and(|it| it.entries.len() == 4));
        assert_eq!(held.take(append(3..=4), 2, &here), None);
        assert_eq!(held.take(append(5..=5), 2, &here), None);
        // The entries have come with an image, or in another append.
        assert_eq!(held.release(4, &here), []);
        assert!(held.awaits(name(5)));
        assert_eq!(held.awaited_entry(), Some(5));
    }

    #[test]
    fn an_append_that_comes_twice_is_held_once() {
        let (mut held, here) = (HeldAppends::default(), Here::default());
        assert_eq!(held.take(append(1..=2), 0, &here), None);
        assert_eq!(held.take(append(1..=2), 0, &here), None);
        assert_eq!(held.entries, 3);
    }

    #[test]
    fn an_append_waits_behind_those_that_are_held() {
        let (mut held, mut here) = (HeldAppends::default(), Here::default());
        here.0.insert(name(2));
        assert_eq!(held.take(append(1..=1), 0, &here), None);
        assert_eq!(held.take(append(2..=2), 0, &here), None);
        here.0.insert(name(1));
        assert!(held.awaits(name(1)));
        let ready = held.release(0, &here);
        let indexes: Vec<_> = ready.iter().map(|it| it.entries[0].index).collect();
        assert_eq!(indexes, [1, 2]);
        assert!(held.is_empty() && held.entries == 0);
    }

    #[test]
    fn payloads_are_missed_after_some_ticks() {
        let (mut held, here) = (HeldAppends::default(), Here::default());
        assert_eq!(held.take(append(1..=2), 0, &here), None);
        held.tick();
        assert_eq!(held.missing(9, 2, &here), []);
        held.tick();
        assert_eq!(held.missing(9, 2, &here).len(), 2);
    }

    #[test]
    fn what_older_leaders_sent_is_forgotten() {
        let (mut held, here) = (HeldAppends::default(), Here::default());
        assert_eq!(held.take(append(1..=2), 0, &here), None);
        held.forget_before(1);
        assert!(!held.is_empty());
        held.forget_before(2);
        assert!(held.is_empty() && held.entries == 0 && !held.awaits(name(1)));
        assert_eq!(held.bytes, 0);
    }
}
