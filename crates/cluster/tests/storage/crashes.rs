//! Crashes at every event of scripted and of random runs, and crashes of the openings that follow.
//!
//! A random run's seed is in every message; `NAMIKI_STORAGE_SEED` runs that one alone.

use bytes::Bytes;
use namiki_cluster::storage::{LogPosition, NodeStore, RaftRecord};
use namiki_cluster::{EntryBody, LogEntry, PayloadRef};
use namiki_platform::disk::SimDisk;
use namiki_platform::disk::sim::Loss;
use namiki_platform::seeded_random::Random;

use crate::common::*;
use crate::model::{Found, History, Life, Payloads};

/// No buffer may fill up and flush by itself: the model would not know which data is durable.
const BUFFERED_BYTES_MAX: usize = 3000;

/// A node together with its model.
struct Node {
    sim: SimDisk,
    store: Option<NodeStore>,
    history: History,
    /// Events of the creation.
    created: usize,
    /// Buffered by stream.
    buffered: [usize; WORKERS as usize + 1],
    snapshot: LogPosition,
}

impl Node {
    fn new() -> Self {
        let sim = SimDisk::new();
        create(&sim);
        let created = sim.events();
        let (store, _) = open(&sim);
        let mut history = History::default();
        history
            .lives
            .push(Life::new(created, Vec::new(), Payloads::new()));
        Self {
            sim,
            store: Some(store),
            history,
            created,
            buffered: Default::default(),
            snapshot: LogPosition::default(),
        }
    }

    fn store(&self) -> &NodeStore {
        self.store.as_ref().unwrap()
    }

    fn raft(&mut self, records: &[RaftRecord]) {
        for record in records {
            if let RaftRecord::Entry(LogEntry {
                body: EntryBody::Group(payload),
                ..
            }) = record
            {
                self.history.names.insert(payload.name, *payload);
            }
        }
        let event = self.sim.events();
        self.store().append_raft(records).unwrap();
        self.history.life().call(event, records);
        self.buffered[0] += 100 * records.len();
        if self.buffered[0] > BUFFERED_BYTES_MAX {
            self.flush_raft();
        }
    }

    fn entries(&mut self, entries: &[LogEntry]) {
        let records: Vec<_> = entries.iter().cloned().map(RaftRecord::Entry).collect();
        self.raft(&records);
    }

    fn payload(&mut self, payload: PayloadRef) {
        self.history.names.insert(payload.name, payload);
        let worker = payload.name.worker;
        let stream = usize::from(worker) + 1;
        if self.buffered[stream] + payload.length as usize > BUFFERED_BYTES_MAX {
            self.flush_payloads(worker);
        }
        let event = self.sim.events();
        append_payload(self.store(), &payload).unwrap();
        self.history.life().payload(event, payload);
        self.buffered[stream] += 100 + payload.length as usize;
    }

    fn flush_raft(&mut self) {
        self.store().flush_raft().unwrap();
        let event = self.sim.events();
        self.history.life().flushed_raft(event);
        self.buffered[0] = 0;
    }

    fn flush_payloads(&mut self, worker: u16) {
        self.store().flush_payloads(worker).unwrap();
        let event = self.sim.events();
        self.history.life().flushed_payloads(event, worker);
        self.buffered[usize::from(worker) + 1] = 0;
    }

    fn flush(&mut self) {
        self.flush_raft();
        for worker in 0..WORKERS {
            self.flush_payloads(worker);
        }
    }

    /// Truncates the log through an entry: everything appended is flushed, so it is persisted.
    fn truncate(&mut self, index: u64) {
        self.flush();
        let (found, _, _) = self.history.life().flushed();
        let term = found.entries[index as usize - 1].term;
        self.snapshot = LogPosition { index, term };
        truncate(&self.sim, self.store(), (index, term));
    }

    /// The process ends, in order or not, and another one opens the node.
    fn restart(&mut self, closes: bool) {
        if closes {
            self.store().close().unwrap();
            let event = self.sim.events();
            self.history.life().flushed_raft(event);
            for worker in 0..WORKERS {
                self.history.life().flushed_payloads(event, worker);
            }
        }
        self.store = None;
        let (life, expected) = (self.history.life()).next(self.sim.events(), self.snapshot);
        let (store, recovered) = open(&self.sim);
        assert_eq!(Found::from(&recovered), expected);
        self.store = Some(store);
        self.history.lives.push(life);
        self.buffered = Default::default();
    }

    /// Crashes the node after each of its events, and then its openings.
    fn crash_everywhere(&self, run: &str, random_losses: u64) {
        for at in self.created..=self.sim.events() {
            for loss in losses(&self.sim, at, random_losses) {
                let before = self.sim.describe(at.saturating_sub(1));
                let context = format!("{run}, event {at} ({before}), {loss:?}");
                let image = self.sim.crash_image(at, loss);
                let (store, recovered) = open(&image);
                self.history.check(at, &store, &recovered, &context);
                drop(store);
                let found = Found::from(&recovered);
                let opened = image.events();
                let again = Found::from(&open(&image).1);
                assert_eq!(again, found, "{context}: opened again");
                if matches!(loss, Loss::All | Loss::Seeded(0)) {
                    for second in 0..=opened {
                        for second_loss in [Loss::None, Loss::All, Loss::Seeded(at as u64)] {
                            let image = image.crash_image(second, second_loss);
                            let again = Found::from(&open(&image).1);
                            assert_eq!(
                                again, found,
                                "{context}, and event {second} of the opening, {second_loss:?}"
                            );
                        }
                    }
                }
            }
        }
    }
}

/// Possible losses of a crash: with few sectors and names, one by one.
fn losses(sim: &SimDisk, at: usize, random: u64) -> Vec<Loss> {
    let sectors = sim.pending_sectors(at);
    let mut losses = vec![Loss::None, Loss::All];
    if sectors > 1 {
        let ends = [0, 1, sectors - 1];
        losses.extend(ends.map(Loss::Only));
        losses.extend(ends.map(Loss::OnlyKept));
    }
    losses.extend((1..sim.pending_names(at)).map(Loss::NamesAfter));
    if sectors + sim.pending_names(at) > 0 {
        losses.extend((0..random).map(Loss::Seeded));
    }
    losses
}

/// Payloads and entries in both orders, two entries overwritten by one, a payload of a dead leader
/// that never arrives, one that arrives after its entry was cut off, and restarts in between.
#[test]
fn nothing_durable_is_lost_by_a_crash_anywhere() {
    let mut node = Node::new();
    node.raft(&[RaftRecord::Vote { term: 1, vote: 2 }]);
    node.flush_raft();
    // Payloads first.
    let first = [payload(1, 0, 1), payload(1, 1, 1)];
    for payload in first {
        node.payload(payload);
    }
    node.flush_payloads(0);
    node.entries(&[empty(1, 1), group(2, 1, first[0])]);
    node.entries(&[group(3, 1, first[1])]);
    node.flush_payloads(1);
    node.flush_raft();
    // Entries first, and a commit that the node learns of before it has the entry.
    let second = [payload(1, 0, 2), payload(1, 1, 2)];
    node.raft(&[RaftRecord::Commit { index: 5 }]);
    node.entries(&[group(4, 1, second[0]), group(5, 1, second[1])]);
    node.flush_raft();
    node.payload(second[1]);
    node.flush_payloads(1);
    node.payload(second[0]);
    node.flush_payloads(0);
    node.raft(&[RaftRecord::Persisted { index: 5 }]);
    node.flush_raft();
    // The payload of 7 does not come from the dead leader.
    let third = [payload(1, 0, 3), payload(1, 1, 3), payload(1, 0, 4)];
    node.entries(&[
        group(6, 1, third[0]),
        group(7, 1, third[1]),
        group(8, 1, third[2]),
    ]);
    node.payload(third[0]);
    node.payload(third[2]);
    node.flush();
    node.restart(false);
    // It was cut off. Its payload comes late.
    node.payload(third[1]);
    node.flush_payloads(1);
    node.restart(false);
    node.raft(&[RaftRecord::Vote { term: 2, vote: 0 }]);
    node.entries(&[group(7, 1, third[1]), group(8, 1, third[2]), empty(9, 1)]);
    node.flush();
    node.raft(&[RaftRecord::Persisted { index: 9 }]);
    node.raft(&[RaftRecord::Commit { index: 6 }]);
    node.flush_raft();
    // The new leader overwrites three entries that were persisted with one, and its payload does not come in time.
    let fourth = payload(2, 1, 1);
    node.entries(&[group(7, 2, fourth)]);
    node.flush_raft();
    node.restart(true);
    node.entries(&[empty(7, 3)]);
    node.flush_raft();
    node.payload(fourth);
    node.flush();
    node.raft(&[RaftRecord::Truncate { from: 6 }]);
    node.flush_raft();
    node.restart(true);
    node.entries(&[empty(6, 4)]);
    node.flush();
    node.crash_everywhere("the script", 4);
}

/// Truncations in the middle of the log, at its end, and again in another life; entries above the
/// snapshot are overwritten, and payloads come before and after.
#[test]
fn truncations_lose_nothing_by_a_crash_anywhere() {
    let mut node = Node::new();
    let (mut index, mut numbers) = (0, [0; WORKERS as usize]);
    let mut groups = |node: &mut Node, term: u64, count: usize| {
        for _ in 0..count {
            index += 1;
            let worker = (index % u64::from(WORKERS)) as u16;
            numbers[usize::from(worker)] += 1;
            let payload = payload(term, worker, numbers[usize::from(worker)]);
            node.payload(payload);
            node.entries(&[group(index, term, payload)]);
        }
    };
    node.raft(&[RaftRecord::Vote { term: 1, vote: 2 }]);
    groups(&mut node, 1, 12);
    node.truncate(7);
    groups(&mut node, 1, 20);
    node.truncate(32);
    node.restart(false);
    groups(&mut node, 1, 10);
    node.flush();
    node.raft(&[RaftRecord::Persisted { index: 42 }]);
    node.truncate(33);
    // Overwrites the entries above the snapshot.
    node.raft(&[RaftRecord::Vote { term: 2, vote: 0 }]);
    node.entries(&[empty(34, 2), empty(35, 2)]);
    node.truncate(34);
    node.restart(true);
    node.entries(&[empty(36, 2)]);
    node.truncate(36);
    node.crash_everywhere("the truncations", 3);
}

/// A step of a random run.
fn step(node: &mut Node, random: &mut Random, term: &mut u64, numbers: &mut [u64]) {
    match random.below(104) {
        0..8 => {
            *term += 1;
            numbers.fill(0);
            let vote = random.below(4);
            node.raft(&[RaftRecord::Vote { term: *term, vote }]);
        }
        8..45 => {
            let last = node.history.life().last_index();
            let mut index = last + 1;
            if random.chance(0.25) {
                index -= random.below((last - node.snapshot.index).min(4) + 1);
            }
            let mut late = Vec::new();
            let entries: Vec<_> = (index.max(1)..)
                .take(1 + random.index(3))
                .map(|index| {
                    let body = match random.below(10) {
                        0 => EntryBody::Empty,
                        1 => EntryBody::Control(Bytes::from(vec![index as u8; random.index(40)])),
                        _ => {
                            let worker = random.below(WORKERS.into()) as u16;
                            numbers[usize::from(worker)] += 1;
                            let number = numbers[usize::from(worker)];
                            let payload = payload(*term, worker, number);
                            match random.below(5) {
                                0 | 1 => node.payload(payload),
                                2 | 3 => late.push(payload),
                                _ => {}
                            }
                            EntryBody::Group(payload)
                        }
                    };
                    LogEntry {
                        index,
                        term: *term,
                        body,
                    }
                })
                .collect();
            node.entries(&entries);
            random.shuffle(&mut late);
            for payload in late {
                node.payload(payload);
            }
        }
        45..55 => {
            let (_, there) = node.history.life().appended();
            let missing = node.history.names.values();
            let missing: Vec<_> = missing
                .filter(|payload| !there.contains_key(&payload.name))
                .copied()
                .collect();
            if !missing.is_empty() {
                node.payload(missing[random.index(missing.len())]);
            }
        }
        55..68 => node.flush_raft(),
        68..82 => node.flush_payloads(random.below(WORKERS.into()) as u16),
        82..87 => {
            let index = random.below(node.history.life().last_index() + 3);
            node.raft(&[RaftRecord::Commit { index }]);
        }
        87..92 => {
            let (found, _, is_all) = node.history.life().flushed();
            if is_all {
                let index = found.entries.len() as u64;
                node.raft(&[RaftRecord::Persisted { index }]);
            }
        }
        92..94 => {
            let first = node.snapshot.index + 1;
            let from = first + random.below(node.history.life().last_index() + 2 - first);
            node.raft(&[RaftRecord::Truncate { from }]);
        }
        94..98 => node.restart(false),
        98..100 => node.restart(true),
        _ => {
            node.flush();
            let last = node.history.life().flushed().0.entries.len() as u64;
            let above = last.saturating_sub(node.snapshot.index);
            if above > 0 {
                node.truncate(node.snapshot.index + 1 + random.below(above));
            }
        }
    }
}

fn random_run(seed: u64, steps: u32) -> Node {
    let mut random = Random::seeded(seed);
    let mut node = Node::new();
    let (mut term, mut numbers) = (1, [0; WORKERS as usize]);
    for _ in 0..steps {
        step(&mut node, &mut random, &mut term, &mut numbers);
    }
    node
}

#[test]
fn random_runs_lose_nothing_durable_by_a_crash_anywhere() {
    let chosen = std::env::var("NAMIKI_STORAGE_SEED");
    let seeds = match chosen {
        Ok(seed) => {
            let seed: u64 = seed.parse().unwrap();
            seed..seed + 1
        }
        Err(_) => 0..3,
    };
    for seed in seeds {
        random_run(seed, 80).crash_everywhere(&format!("seed {seed}"), 2);
    }
}

/// Longer runs without crashes.
#[test]
fn random_restarts_find_what_was_flushed() {
    for seed in 100..150 {
        eprintln!("seed {seed}");
        let mut node = random_run(seed, 400);
        node.flush();
        node.restart(false);
        node.restart(true);
    }
}

/// A crash of the creation leaves a node, or nothing that keeps it from being created again.
#[test]
fn a_creation_that_crashed_can_be_repeated() {
    let sim = SimDisk::new();
    create(&sim);
    for at in 0..=sim.events() {
        for loss in losses(&sim, at, 2) {
            let image = sim.crash_image(at, loss);
            if try_open(&image).is_err() {
                create(&image);
            }
            let (_, found) = open(&image);
            assert_eq!(found.identity, IDENTITY);
        }
    }
}
