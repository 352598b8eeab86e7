//! Truncation of the log behind an image: what goes, what stays, and the size of what remains.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use namiki_cluster::PayloadName;
use namiki_cluster::storage::{
    NodeIdentity, NodeStore, RaftRecord, Snapshot, StoreError, StoreOptions, Truncated,
};
use namiki_log::Prepare;
use namiki_platform::disk::sim::{Fault, Loss, Step};
use namiki_platform::disk::{Disk, SimDisk};

use crate::common::*;

/// A node that writes groups, one worker after the other.
struct Writer {
    sim: SimDisk,
    store: NodeStore,
    term: u64,
    index: u64,
    numbers: [u64; WORKERS as usize],
}

impl Writer {
    fn new() -> Self {
        let (sim, store) = new_node();
        Self {
            sim,
            store,
            term: 1,
            index: 0,
            numbers: [0; WORKERS as usize],
        }
    }

    /// Appends a payload without an entry.
    fn seal(&mut self, worker: u16) -> PayloadName {
        let number = &mut self.numbers[usize::from(worker)];
        *number += 1;
        let payload = payload(self.term, worker, *number);
        append_payload(&self.store, &payload).unwrap();
        payload.name
    }

    fn group(&mut self) -> PayloadName {
        self.group_of((self.index % u64::from(WORKERS)) as u16)
    }

    fn group_of(&mut self, worker: u16) -> PayloadName {
        let name = self.seal(worker);
        self.propose(name);
        name
    }

    fn propose(&mut self, name: PayloadName) {
        self.index += 1;
        let payload = payload(name.term, name.worker, name.number);
        append(&self.store, &[group(self.index, self.term, payload)]);
    }

    fn groups(&mut self, count: u64) {
        for _ in 0..count {
            self.group();
        }
        self.flush();
    }

    fn flush(&self) {
        self.store.flush_raft().unwrap();
        (0..WORKERS).for_each(|worker| self.store.flush_payloads(worker).unwrap());
    }

    fn truncate(&self, index: u64) -> Truncated {
        truncate(&self.sim, &self.store, (index, self.term))
    }

    fn restart(&mut self) {
        let sim = self.sim.clone();
        // Before the directory is opened again.
        self.store.close().unwrap();
        self.store = open(&sim).0;
    }

    fn has(&self, name: PayloadName) -> bool {
        self.store.durable_payload(name).is_some() && self.store.read_payload(name).is_ok()
    }

    /// The names of a stream's files.
    fn files(&self, stream: u16) -> Vec<String> {
        let dir = dir().join(format!("log/{stream:04}"));
        let files = self.sim.list(&dir).unwrap();
        let name = |path: &Path| path.file_name().unwrap().to_string_lossy().into_owned();
        files.iter().map(|file| name(&file.path)).collect()
    }
}

#[test]
fn the_log_above_the_snapshot_stays_and_the_rest_goes() {
    let mut it = Writer::new();
    let names: Vec<_> = (0..200).map(|_| it.group()).collect();
    it.flush();
    let before = it.store.log_bytes();
    let truncated = it.truncate(150);
    assert!(truncated.bytes > before / 2, "{truncated:?} of {before}");
    assert_eq!(
        it.store.log_bytes(),
        before - truncated.bytes + it.new_file()
    );
    for (at, name) in names.iter().enumerate() {
        assert_eq!(it.has(*name), at >= 150, "{at}");
    }
    let gone = it.store.read_payload(names[0]);
    assert!(matches!(gone, Err(StoreError::NoSuchPayload { .. })));
    // In the first file that was written.
    for closes in [true, false] {
        if closes {
            it.store.close().unwrap();
        }
        let (_, found) = open(&it.sim.crash_image(it.sim.events(), Loss::All));
        assert_eq!(found.snapshot, snapshot(150, 1));
        assert_eq!(found.entries.len(), 50);
        assert_eq!(found.entries[0].index, 151);
        assert_eq!((found.commit, found.persisted), (150, 150));
        assert_eq!(found.missing, []);
    }
}

impl Writer {
    /// The length of the last file of stream 0.
    fn new_file(&self) -> u64 {
        let dir = dir().join("log/0000");
        let mut files = self.sim.list(&dir).unwrap();
        files.sort_by(|one, two| one.path.cmp(&two.path));
        files.last().unwrap().len_bytes
    }
}

#[test]
fn a_truncation_may_be_repeated_and_never_goes_back() {
    let mut it = Writer::new();
    it.groups(100);
    it.truncate(60);
    let (bytes, events) = (it.store.log_bytes(), it.sim.events());
    assert_eq!(it.truncate(60), Truncated::default());
    write_image(&it.sim, &snapshot(60, 1));
    assert_eq!(
        it.store.truncate_to(&snapshot(30, 1)).unwrap(),
        Truncated::default()
    );
    assert_eq!(
        it.store.truncate_to(&Snapshot::default()).unwrap(),
        Truncated::default()
    );
    assert_eq!(it.store.log_bytes(), bytes);
    assert!(it.sim.events() < events + 20, "nothing is written");
    it.groups(10);
    it.restart();
    it.truncate(105);
    assert_eq!(open_again(&mut it).entries.len(), 5);
}

fn open_again(it: &mut Writer) -> namiki_cluster::storage::Recovered {
    it.store.close().unwrap();
    let (store, recovered) = open(&it.sim.clone());
    it.store = store;
    recovered
}

/// Rule 10: a leader may still propose it.
#[test]
fn a_sealed_payload_without_an_entry_stays_in_its_term() {
    let mut it = Writer::new();
    it.groups(20);
    let sealed = it.seal(0);
    it.groups(100);
    it.truncate(it.index);
    assert!(it.has(sealed));
    it.groups(100);
    it.truncate(it.index);
    assert!(it.has(sealed));
    assert!(it.files(1).len() > 3, "no file behind it goes");
    it.propose(sealed);
    it.truncate(it.index - 1);
    assert!(it.has(sealed));
    it.truncate(it.index);
    assert!(!it.has(sealed));
    it.groups(10);
    it.truncate(it.index);
    assert!(it.files(1).len() <= 2, "{:?}", it.files(1));

    // The leader is dead, so it is never proposed.
    let orphan = it.seal(0);
    it.flush();
    it.term = 2;
    it.numbers = [0; WORKERS as usize];
    it.groups(1);
    it.truncate(it.index);
    assert!(!it.has(orphan));
}

/// In the middle of a term, entries through the snapshot are not in stream 0 after a restart.
#[test]
fn files_of_an_earlier_life_go_in_the_same_term() {
    let mut it = Writer::new();
    it.groups(60);
    it.truncate(50);
    it.restart();
    it.groups(60);
    let first_life = |it: &Writer| {
        let all = (0..=WORKERS).flat_map(|stream| it.files(stream));
        all.filter(|name| name.starts_with("000001")).count()
    };
    assert!(first_life(&it) > 0);
    it.truncate(110);
    it.groups(60);
    it.truncate(170);
    assert_eq!(first_life(&it), 0);
    assert_eq!(open_again(&mut it).entries.len(), 10);
}

/// A payload of the snapshot in a file with a later one of the same term. After a restart, stream 0
/// does not have its entry: the base record does.
#[test]
fn a_payload_without_its_entry_keeps_no_file() {
    let mut it = Writer::new();
    let first = it.group_of(1);
    for _ in 0..3 {
        for _ in 0..60 {
            it.group_of(0);
        }
        it.flush();
        it.truncate(it.index - 5);
    }
    let second = it.group_of(1);
    it.flush();
    assert!(!it.has(first) && it.has(second));
    it.restart();
    assert!(!it.has(first) && it.has(second));
    for _ in 0..60 {
        it.group_of(0);
    }
    it.flush();
    it.truncate(it.index - 5);
    assert!(!it.has(first) && !it.has(second));
    it.truncate(it.index);
    assert_eq!(it.files(2), [""; 0]);
}

#[test]
fn a_log_under_truncations_stays_bounded() {
    let mut it = Writer::new();
    let mut most = 0;
    for round in 0..60 {
        it.groups(50);
        it.truncate(it.index - 5);
        if round == 10 {
            most = it.store.log_bytes();
        }
        assert!(
            round <= 10 || it.store.log_bytes() <= most + (32 << 10),
            "{round}"
        );
    }
    assert_eq!(open_again(&mut it).entries.len(), 5);
}

/// 200 restarts, each with a few entries.
#[test]
fn restarts_under_a_trickle_do_not_grow() {
    let mut it = Writer::new();
    let mut most = 0;
    for round in 0..200 {
        it.groups(3);
        it.truncate(it.index);
        it.restart();
        if round == 10 {
            most = it.store.log_bytes();
        }
        assert!(round <= 10 || it.store.log_bytes() <= most, "{round}");
    }
    let manifest = it.sim.read(&dir().join("NODE")).unwrap();
    assert!(
        manifest.len() < 8000,
        "{}",
        String::from_utf8_lossy(&manifest)
    );
}

#[test]
fn an_older_or_another_image_is_refused() {
    let mut it = Writer::new();
    it.groups(50);
    it.truncate(40);
    it.store.close().unwrap();
    write_image(&it.sim, &snapshot(39, 1));
    let error = try_open(&it.sim).unwrap_err();
    assert!(matches!(error, StoreError::SnapshotLost { .. }), "{error}");
    assert!(error.to_string().contains("through entry 40"), "{error}");
    write_image(&it.sim, &snapshot(40, 2));
    let error = try_open(&it.sim).unwrap_err();
    assert!(matches!(error, StoreError::OtherSnapshot { .. }), "{error}");
    write_image(&it.sim, &snapshot(45, 1));
    assert_eq!(open(&it.sim).1.entries.len(), 5);
}

/// The image of another node was installed: stream 0 has no entry of its position and term.
#[test]
fn a_log_without_the_entry_of_the_image_ends() {
    for (index, term) in [(45, 3), (80, 1), (80, 3)] {
        let mut it = Writer::new();
        let vote = RaftRecord::Vote { term: 1, vote: 2 };
        it.store.append_raft(&[vote]).unwrap();
        it.groups(50);
        it.truncate(20);
        it.store.close().unwrap();
        write_image(&it.sim, &snapshot(index, term));
        let from = it.sim.events();
        drop(open(&it.sim));
        for at in from..=it.sim.events() {
            let sim = it.sim.crash_image(at, Loss::All);
            let (store, found) = open(&sim);
            assert_eq!(found.snapshot, snapshot(index, term));
            assert_eq!(found.entries, []);
            assert_eq!((found.commit, found.persisted), (index, index));
            let vote = if term > 1 { 0 } else { 2 };
            assert_eq!((found.term, found.vote), (term, vote));
            append(&store, &[empty(index + 1, term)]);
            store.flush_raft().unwrap();
            store.truncate_to(&snapshot(index, term)).unwrap();
            drop(store);
            assert_eq!(open(&sim).1.entries, [empty(index + 1, term)]);
        }
    }
}

/// Every step of a truncation fails once; it is repeated, if need be in another life.
#[test]
fn a_truncation_that_fails_can_be_repeated() {
    let steps = [
        Step::Create,
        Step::Write,
        Step::Rename,
        Step::Remove,
        Step::SyncDir,
    ];
    for step in steps {
        let mut fails = 0;
        for nth in 0..6 {
            let mut it = Writer::new();
            it.groups(100);
            it.truncate(40);
            it.groups(100);
            write_image(&it.sim, &snapshot(170, 1));
            it.sim.inject(Fault::once(step, nth, ErrorKind::Other));
            let result = it.store.truncate_to(&snapshot(170, 1));
            // Without the fault, if it has not come.
            let sim = it.sim.crash_image(it.sim.events(), Loss::None);
            match result {
                Err(StoreError::FailedLog { .. }) => fails += 1,
                Err(_) => {
                    fails += 1;
                    it.store.truncate_to(&snapshot(170, 1)).unwrap();
                }
                Ok(_) => {}
            }
            let (store, found) = open(&sim);
            assert_eq!(found.entries.len(), 30, "{step:?} {nth}");
            assert_eq!((found.snapshot, found.missing), (snapshot(170, 1), vec![]));
            store.truncate_to(&snapshot(170, 1)).unwrap();
        }
        // A file that cannot be removed is no error.
        assert!(fails > 0 || step == Step::Remove, "{step:?}");
    }
}

/// A start with 30 workers, as the program has it.
#[test]
fn a_start_takes_little_room() {
    let sim = SimDisk::new();
    let identity = NodeIdentity {
        workers: 30,
        ..IDENTITY
    };
    NodeStore::create(Arc::new(sim.clone()), dir(), &identity, &[]).unwrap();
    let options = StoreOptions {
        log_file_bytes: 64 << 20,
        buffer_bytes: 2 << 20,
        prepare: Prepare::Inline,
        max_log_bytes: Some(64 << 30),
        ..StoreOptions::default()
    };
    let (store, _) = NodeStore::open(Arc::new(sim), dir(), options).unwrap();
    assert_eq!(store.log_bytes(), 0);
    append(&store, &[empty(1, 1)]);
    for worker in 0..30 {
        append_payload(&store, &payload(1, worker, 1)).unwrap();
    }
    assert_eq!(store.log_bytes(), 31 * ((2 << 20) + 4096));
    assert!(store.has_room());
}

#[test]
fn files_are_shorter_where_the_limit_is_low() {
    let sim = SimDisk::new();
    create(&sim);
    let limit = 600 << 10;
    let options = StoreOptions {
        log_file_bytes: 64 << 20,
        max_log_bytes: Some(limit),
        ..options()
    };
    let (store, _) = NodeStore::open(Arc::new(sim), dir(), options).unwrap();
    let mut number = 0;
    while store.has_room() {
        number += 1;
        append_payload(&store, &payload(1, 0, number)).unwrap();
        store.flush_payloads(0).unwrap();
    }
    // Two files for each stream are a quarter of it.
    assert!(store.log_bytes() > limit / 2, "{}", store.log_bytes());
    assert_eq!(store.usable_bytes(), 0);
}

#[test]
#[should_panic(expected = "ends above the log")]
fn a_snapshot_above_the_log_is_a_mistake() {
    let mut it = Writer::new();
    it.groups(3);
    it.truncate(4);
}

#[cfg(feature = "simulation")]
mod planted {
    use namiki_cluster::{Fault as Rule, FaultInjection};

    use super::*;

    fn open_with(sim: &SimDisk, rule: Rule) -> NodeStore {
        let options = StoreOptions {
            snapshot: image(sim),
            planted: FaultInjection::of(Some(rule)),
            ..options()
        };
        NodeStore::open(Arc::new(sim.clone()), dir(), options)
            .unwrap()
            .0
    }

    #[test]
    fn a_payload_recycled_by_age_is_noticed() {
        let mut it = Writer::new();
        drop(std::mem::replace(&mut it.store, new_node().1));
        it.store = open_with(&it.sim, Rule::RecycleByAge);
        it.groups(20);
        let sealed = it.seal(0);
        it.groups(100);
        it.truncate(it.index);
        assert!(!it.has(sealed));
    }

    /// The truncation comes before the image: a crash in between leaves a log that nothing precedes.
    #[test]
    fn a_truncation_before_its_image_is_noticed() {
        let mut it = Writer::new();
        it.groups(100);
        let from = it.sim.events();
        it.store.truncate_to(&snapshot(90, 1)).unwrap();
        write_image(&it.sim, &snapshot(90, 1));
        let lost = (from..=it.sim.events()).filter(|at| {
            let opened = try_open(&it.sim.crash_image(*at, Loss::All));
            matches!(opened, Err(StoreError::SnapshotLost { .. }))
        });
        assert!(lost.count() > 3);
    }

    #[test]
    fn an_offset_from_the_snapshot_is_noticed() {
        let mut it = Writer::new();
        for _ in 0..2 {
            it.groups(100);
            it.truncate(it.index - 10);
        }
        it.groups(10);
        it.term = 2;
        it.groups(10);
        it.store.close().unwrap();
        drop(it.store);
        let options = StoreOptions {
            snapshot: snapshot(210, 1),
            planted: FaultInjection::of(Some(Rule::OffsetFromSnapshot)),
            ..options()
        };
        let (_, found) = NodeStore::open(Arc::new(it.sim.clone()), dir(), options).unwrap();
        let position = namiki_cluster::storage::LogPosition {
            index: 210,
            term: 1,
        };
        assert_eq!(found.snapshot.position, position);
        assert_ne!(found.entries.len(), 10);
    }
}
