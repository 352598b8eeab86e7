//! Every history is serializable, for every protocol, at high contention. The checker that verifies
//! it also catches planted bugs.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and prints its seeds"
)]

use std::collections::BTreeMap;
use std::fmt::Display;
use std::num::{NonZeroU16, NonZeroU32};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use namiki::faults::{self, Checks, NoFaults};
use namiki::{
    Builder, ConcurrencyControl, Database, Error, IndexKind, Logging, ProtocolSpec, Session,
    TreeKind, WaitPolicy, WorkerId,
};
use namiki_platform::disk::{Disk, SimDisk};
use namiki_tests::history::Violation;
use namiki_tests::key_encoding::{Numbered, Spelling, Spelt};
use namiki_tests::tested_specs::with_and_without_log;
use namiki_tests::workload::{
    Mix, Numbers, Run, contents, interleaved, nested, promise_of, threads,
};

const STREAMS: NonZeroU16 = NonZeroU16::new(3).unwrap();

/// Longer runs: `NAMIKI_ROUNDS=50 cargo test --release -p namiki-tests --test isolation serializability`.
fn rounds() -> u64 {
    std::env::var("NAMIKI_ROUNDS").map_or(1, |rounds| rounds.parse().unwrap())
}

/// With an even seed each commit closes an epoch, so that floors keep moving. With an odd one the
/// first epoch never ends, so that stamps come from the records alone.
fn open(spec: ProtocolSpec, disk: &SimDisk, wait: Duration, seed: u64) -> Database {
    open_over(index_of(TreeKind::default(), seed), spec, disk, wait, seed)
}

/// Every other pair of seeds looks keys up in one part of the index and scans the other.
fn index_of(tree: TreeKind, seed: u64) -> IndexKind {
    match seed / 2 % 2 {
        0 => IndexKind::Ordered(tree),
        _ => IndexKind::OrderedAndHash(tree),
    }
}

fn open_over(
    index: IndexKind,
    spec: ProtocolSpec,
    disk: &SimDisk,
    wait: Duration,
    seed: u64,
) -> Database {
    let settings = settings(index, spec, disk, wait, seed);
    settings.open("/db").unwrap()
}

fn settings(
    index: IndexKind,
    spec: ProtocolSpec,
    disk: &SimDisk,
    wait: Duration,
    seed: u64,
) -> Builder {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    Database::builder()
        .spec(spec)
        .index(index)
        .epoch_length(if seed.is_multiple_of(2) {
            Duration::ZERO
        } else {
            Duration::MAX
        })
        // One thread cannot wait for itself.
        .wait_policy(match wait {
            Duration::MAX => WaitPolicy::NoWait,
            _ => WaitPolicy::WoundWait,
        })
        .streams(STREAMS)
        .disk(disk)
        .group_wait_max(wait)
        // Groups of one are flushed synchronously, larger ones asynchronously.
        .async_flush_min_commits(NonZeroU32::MIN.saturating_add(1))
        .buffer_bytes(16 << 10)
        .log_file_bytes(256 << 10)
}

fn table<K: Numbered>(db: &Database) -> Numbers<K> {
    db.table("numbers").unwrap()
}

/// The contents are unchanged when the database is reopened under another protocol.
fn assert_reopens(run: &Run, spec: ProtocolSpec, disk: &SimDisk, seed: u64) {
    if spec.logging == Logging::None {
        return;
    }
    let others = ProtocolSpec::all_durable();
    let other = others[seed as usize % others.len()];
    let db = open(other, disk, Duration::from_millis(1), seed);
    let found = contents(&mut db.session().unwrap(), &table::<u64>(&db)).unwrap();
    assert_eq!(
        found,
        run.contents(),
        "{spec} reopened as {other}, seed {seed}"
    );
}

fn transactions_of(mix: Mix) -> u64 {
    if mix.keys > 100 { 200 } else { 700 }
}

#[test]
fn shuffled_transactions_on_one_thread_are_serializable_under_every_protocol() {
    for spec in with_and_without_log() {
        let (mut committed, mut conflicts, mut overwritten) = (0, 0, 0);
        // Four consecutive seeds open the database in four ways.
        for seed in 0..4 * rounds() {
            for mix in [Mix::HOT, Mix::PHANTOMS, Mix::WIDE] {
                let disk = SimDisk::new();
                let db = open(spec, &disk, Duration::MAX, seed);
                let table = table::<u64>(&db);
                let run = interleaved::run(
                    &db,
                    &table,
                    mix,
                    seed,
                    transactions_of(mix),
                    2 + seed as usize % 6,
                )
                .unwrap_or_else(|error| panic!("{spec}, seed {seed}: {error}"));
                let context = format!("{spec}, seed {seed}, {mix:?}");
                let proof = run.assert_right(
                    &table,
                    &mut db.session().unwrap(),
                    promise_of(spec),
                    &context,
                );
                assert_eq!(db.counters().conflicts, run.conflicts, "{context}");
                (committed, conflicts, overwritten) = (
                    committed + run.committed,
                    conflicts + run.conflicts,
                    overwritten + proof.reads_overwritten,
                );
                drop((table, db));
                assert_reopens(&run, spec, &disk, seed);
            }
        }
        println!(
            "{spec}: {committed} commits, {conflicts} conflicts, {overwritten} overwritten reads"
        );
        assert!(committed > 2000, "{spec}: only {committed} commits");
        assert!(conflicts > 300, "{spec}: only {conflicts} conflicts");
        assert!(overwritten > 500, "{spec}: {overwritten} reads overwritten");
    }
}

/// After a recovery, the stamps, and the gaps of deleted keys, protect transactions as well as
/// before.
#[test]
fn transactions_on_a_recovered_database_are_serializable() {
    for (seed, spec) in (3000..3000 + 16 * rounds()).zip(ProtocolSpec::tested().into_iter().cycle())
    {
        let disk = SimDisk::new();
        let specs = ProtocolSpec::all_durable();
        for life in 0..4 {
            let spec = if life == 0 {
                spec
            } else {
                specs[(seed + life) as usize % specs.len()]
            };
            let db = open(spec, &disk, Duration::MAX, seed + life);
            let table = table::<u64>(&db);
            let run = interleaved::run(&db, &table, Mix::HOT, seed + life, 150, 4).unwrap();
            let context = format!("{spec}, seed {seed}, life {life}");
            run.assert_right(
                &table,
                &mut db.session().unwrap(),
                promise_of(spec),
                &context,
            );
        }
    }
}

#[test]
fn transactions_inside_one_another_are_serializable_under_every_protocol() {
    for spec in with_and_without_log() {
        for seed in 1000..1000 + 4 * rounds() {
            let disk = SimDisk::new();
            let db = open(spec, &disk, Duration::MAX, seed);
            let table = table::<u64>(&db);
            let mut sessions = sessions(&db, 4);
            let run = nested::run::<NoFaults>(&mut sessions, &table, Mix::HOT, seed, 500).unwrap();
            let context = format!("{spec}, seed {seed}");
            run.assert_right(&table, &mut sessions[0], promise_of(spec), &context);
            assert!(run.committed > 100 && run.conflicts > 10, "{context}");
        }
    }
}

#[test]
fn transactions_of_four_threads_are_serializable_under_every_protocol() {
    threads_under(
        &with_and_without_log(),
        WaitPolicy::WoundWait,
        2000,
        1500,
        [4, 4],
    );
}

/// A transaction that meets a lock of another thread, or of a group of any stream, does not wait
/// for it.
#[test]
fn transactions_of_threads_that_wait_for_no_lock_are_serializable() {
    let locks_reads = |spec: &ProtocolSpec| spec.concurrency == ConcurrencyControl::TwoPhase;
    let specs: Vec<ProtocolSpec> = with_and_without_log()
        .into_iter()
        .filter(locks_reads)
        .collect();
    threads_under(&specs, WaitPolicy::NoWait, 5000, 900, [4, 16]);
}

/// Runs each mix with its number of threads under each of these protocols.
fn threads_under(
    specs: &[ProtocolSpec],
    policy: WaitPolicy,
    first_seed: u64,
    transactions: u64,
    threads: [u64; 2],
) {
    // The scheduler decides the number of conflicts of each run, so the minimum is asserted for all
    // runs together.
    let (mut conflicts, mut overwritten, mut runs) = (0, 0, 0);
    for round in 0..rounds() {
        for (number, &spec) in (first_seed..).zip(specs) {
            let mixes = [Mix::HOT, Mix::PHANTOMS].into_iter().zip(threads);
            // The settings that depend on the seed differ between the mixes, and between rounds.
            for (seed, (mix, threads)) in (number + round..).zip(mixes) {
                let disk = SimDisk::new().with_yields(seed);
                let index = index_of(TreeKind::default(), seed);
                let db = settings(index, spec, &disk, Duration::from_millis(1), seed)
                    .wait_policy(policy)
                    .open("/db")
                    .unwrap();
                let table = table::<u64>(&db);
                let context = format!("{spec}, seed {seed}, {mix:?}, {threads} threads");
                let run = threads::run::<NoFaults>(&db, &table, mix, seed, transactions, threads)
                    .unwrap_or_else(|error| panic!("{context}: {error}"));
                let mut session = db.session().unwrap();
                let proof = run.assert_right(&table, &mut session, promise_of(spec), &context);
                println!(
                    "{context}: {} conflicts, {} overwritten reads",
                    run.conflicts, proof.reads_overwritten
                );
                assert!(run.committed >= transactions, "{context}");
                runs += 1;
                conflicts += run.conflicts;
                overwritten += proof.reads_overwritten as u64;
                drop((session, table, db));
                assert_reopens(&run, spec, &disk, seed);
            }
        }
    }
    assert!(conflicts > 50 * runs, "only {conflicts} conflicts");
    let expected = transactions / 3 * runs;
    assert!(
        overwritten > expected,
        "{overwritten} of {expected} overwritten"
    );
}

/// Every concurrency control with every release over every tree, shuffled and by threads.
///
/// Runs take turns at the protocols (eleven), at the settings of [`open_over`] and the keys that
/// depend on the seed (eight), and at the number of threads (three). These numbers are pairwise
/// coprime. So each protocol is combined with each of the others over some tree, and each tree with
/// each of them under some protocol.
#[test]
fn transactions_over_every_tree_are_serializable() {
    let specs: [ProtocolSpec; 11] = [
        "TT(NLR)+PWAL(1)",
        "SILO(NLR)+PWAL(1)",
        "S2PL(NLR)+PWAL(16)",
        "TT(EPOCH)+PWAL(auto)",
        "S2PL(NLR)+PWAL(16)+ARIES",
        "TT(ELR)+PWAL(16)",
        "SILO(ELR)+PWAL(16)",
        "S2PL(ELR)+PWAL(1)",
        "SILO(EPOCH)+PWAL(16)",
        "S2PL(EPOCH)+PWAL(1)",
        "S2PL(ELR)+PWAL(auto)+ARIES",
    ]
    .map(|spec| spec.parse().unwrap());
    let mut runs = (4000..).zip(specs.into_iter().cycle());
    for tree in TreeKind::ALL {
        let mut conflicts = 0;
        for (seed, spec) in runs.by_ref().take(24 * rounds() as usize) {
            let index = index_of(*tree, seed);
            let threads = if seed.is_multiple_of(3) { 16 } else { 4 };
            conflicts += match Spelling::of(seed / 4) {
                Spelling::Plain => conflicts_over::<u64>(index, spec, seed, threads),
                Spelling::Long => conflicts_over::<Spelt>(index, spec, seed, threads),
            };
        }
        assert!(conflicts > 20, "{tree}: only {conflicts} conflicts");
    }
}

/// Returns the number of conflicts in the threaded runs among these.
fn conflicts_over<K: Numbered>(
    index: IndexKind,
    spec: ProtocolSpec,
    seed: u64,
    threads: u64,
) -> u64 {
    let context = format!("{index} of {}, {spec}, seed {seed}", K::NAME);
    for mix in [Mix::HOT, Mix::PHANTOMS, Mix::WIDE] {
        let disk = SimDisk::new();
        let db = open_over(index, spec, &disk, Duration::MAX, seed);
        let table = table::<K>(&db);
        let run = interleaved::run(&db, &table, mix, seed, transactions_of(mix), 4)
            .unwrap_or_else(|error| panic!("{context}: {error}"));
        let context = format!("{context}, {mix:?}");
        run.assert_right(
            &table,
            &mut db.session().unwrap(),
            promise_of(spec),
            &context,
        );
        // Deleted keys are also removed in the background, and a key that is then inserted anew conflicts with
        // the scans of its leaf; so the number depends on when that happens, too.
        assert!(run.committed > 20, "{context}: {} commits", run.committed);
    }
    let disk = SimDisk::new().with_yields(seed);
    let db = open_over(index, spec, &disk, Duration::from_millis(1), seed);
    let table = table::<K>(&db);
    let run = threads::run::<NoFaults>(&db, &table, Mix::PHANTOMS, seed, 1000, threads)
        .unwrap_or_else(|error| panic!("{context}: {error}"));
    let context = format!("{context}, {threads} threads");
    run.assert_right(
        &table,
        &mut db.session().unwrap(),
        promise_of(spec),
        &context,
    );
    run.conflicts
}

fn sessions(db: &Database, count: u16) -> Vec<Session> {
    (0..count)
        .map(|worker| db.session_on(WorkerId(worker)).unwrap())
        .collect()
}

/// Runs with a planted bug until `look` finds a mismatch in the history or in the contents.
fn found<C: Checks, W: Display>(
    spec: &str,
    mix: Mix,
    look: impl Fn(&Run, &BTreeMap<u64, u64>) -> Result<(), W>,
) -> W {
    for seed in 1..=200 {
        let db = open(spec.parse().unwrap(), &SimDisk::new(), Duration::MAX, seed);
        let table = table::<u64>(&db);
        let mut sessions = sessions(&db, 5);
        let run = nested::run::<C>(&mut sessions, &table, mix, seed, 300).unwrap();
        let left = contents(&mut sessions[0], &table).unwrap();
        if let Err(wrong) = look(&run, &left) {
            println!("{spec}, seed {seed}: {wrong}");
            return wrong;
        }
    }
    panic!("the bug was not caught");
}

/// Runs with a planted bug until the checker finds a cycle.
fn caught<C: Checks>(spec: &str, mix: Mix) -> Violation {
    let promise = promise_of(spec.parse().unwrap());
    found::<C, _>(spec, mix, |run, _| run.check(promise).map(drop))
}

#[track_caller]
fn assert_circle(violation: &Violation) {
    assert!(matches!(violation, Violation::Cycle(_)), "{violation}");
}

#[test]
fn skipped_read_validation_is_caught() {
    for spec in [
        "TT(NLR)+NOLOG",
        "TT(NLR)+PWAL(16)",
        "TT(ELR)+PWAL(16)",
        "SILO(NLR)+NOLOG",
    ] {
        assert_circle(&caught::<faults::NoReadValidation>(spec, Mix::HOT));
    }
}

#[test]
fn skipped_phantom_check_is_caught() {
    for spec in ["TT(NLR)+NOLOG", "TT(ELR)+SWAL(16)", "SILO(ELR)+PWAL(1)"] {
        assert_circle(&caught::<faults::NoPhantomCheck>(spec, Mix::PHANTOMS));
    }
}

#[test]
fn reads_and_gaps_that_are_not_locked_are_caught() {
    for spec in [
        "S2PL(NLR)+NOLOG",
        "S2PL(ELR)+PWAL(16)",
        "S2PL(NLR)+PWAL(16)+ARIES",
        "S2PL(ELR)+SWAL(16)+ARIES",
    ] {
        assert_circle(&caught::<faults::NoReadLocks>(spec, Mix::HOT));
        assert_circle(&caught::<faults::NoGapLocks>(spec, Mix::PHANTOMS));
    }
}

/// Where operations are logged, records change before the commit: a reader without locks sees
/// versions that may never commit.
#[test]
fn a_read_of_what_has_not_committed_is_caught() {
    for spec in ["S2PL(NLR)+PWAL(auto)+ARIES", "S2PL(ELR)+PWAL(16)+ARIES"] {
        let look = |run: &Run, left: &BTreeMap<_, _>| run.check_contents(left);
        let wrong = found::<faults::NoReadLocks, _>(spec, Mix::HOT, look);
        // The contents are right; only a reader was wrong.
        assert!(wrong.contains(" saw "), "{spec}: {wrong}");
    }
}

/// A version that a transaction with a decided place in the order is about to overwrite is no
/// longer valid.
#[test]
fn a_lock_that_is_overlooked_is_caught() {
    assert_circle(&caught::<faults::NoLockCheck>(
        "SILO(NLR)+PWAL(16)",
        Mix::HOT,
    ));
}

/// An increment reads nothing, so the history has no cycle, and a version does not hold the sum.
#[test]
fn an_increment_of_an_older_version_is_caught() {
    for spec in ["TT(NLR)+PWAL(16)", "SILO(ELR)+PWAL(1)", "S2PL(NLR)+NOLOG"] {
        let spec: ProtocolSpec = spec.parse().unwrap();
        let wrong = (1..=50).find_map(|seed| {
            let db = open(spec, &SimDisk::new(), Duration::MAX, seed);
            let table = table::<u64>(&db);
            let mut sessions = sessions(&db, 5);
            let bug = nested::run::<faults::AddUnlocked>;
            let run = bug(&mut sessions, &table, Mix::HOT, seed, 300).unwrap();
            let contents = contents(&mut sessions[0], &table).unwrap();
            run.check_contents(&contents).err()
        });
        println!("{spec}: {}", wrong.expect("the bug was not caught"));
    }
}

/// The bug of a published TicToc with a timestamp history. The record of a deleted key serves
/// another key, or none, when a transaction that found it earlier writes it.
#[test]
fn a_record_that_serves_another_key_is_caught() {
    for spec in ["TT(NLR)+NOLOG", "TT(EPOCH)+PWAL(1)", "SILO(ELR)+PWAL(1)"] {
        let is_caught = (1..=100).any(|seed| {
            let db = open_churning(spec.parse().unwrap(), seed);
            let table = table::<u64>(&db);
            let run = beside_removals(&db, || {
                threads::run::<faults::RecordReused>(&db, &table, Mix::PHANTOMS, seed, 500, 4)
            });
            let left = contents(&mut db.session().unwrap(), &table).unwrap();
            run.check_contents(&left).is_err() || run.check(promise_of(db.spec())).is_err()
        });
        assert!(is_caught, "{spec}: the bug was not caught");
    }
}

/// Deleted keys leave the index as soon as possible, while other transactions read it and insert
/// the keys anew.
#[test]
fn keys_that_leave_the_index_disturb_no_transaction() {
    for (seed, spec) in (6000..).zip(with_and_without_log()) {
        for mix in [Mix::HOT, Mix::PHANTOMS] {
            let db = open_churning(spec, seed);
            let table = table::<u64>(&db);
            let run = beside_removals(&db, || {
                threads::run::<NoFaults>(&db, &table, mix, seed, 400 * rounds(), 4)
            });
            let context = format!("{spec}, seed {seed}, {mix:?}");
            let mut session = db.session().unwrap();
            run.assert_right(&table, &mut session, promise_of(spec), &context);
        }
    }
}

fn open_churning(spec: ProtocolSpec, seed: u64) -> Database {
    let disk = SimDisk::new().with_yields(seed);
    let index = index_of(TreeKind::default(), seed);
    let settings = settings(index, spec, &disk, Duration::from_millis(1), seed);
    settings.epoch_length(Duration::ZERO).open("/db").unwrap()
}

fn beside_removals(db: &Database, run: impl FnOnce() -> Result<Run, Error>) -> Run {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                db.take_out_deleted_keys().unwrap();
                std::thread::yield_now();
            }
        });
        let run = std::panic::catch_unwind(AssertUnwindSafe(run));
        is_over.store(true, Ordering::Relaxed);
        run.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            .unwrap()
    })
}

#[test]
fn a_skipped_check_of_the_predecessor_is_caught() {
    for spec in ["TT(NLR)+NOLOG", "TT(ELR)+PWAL(1)"] {
        assert_circle(&caught::<faults::NoPredecessorCheck>(spec, Mix::HOT));
    }
}
