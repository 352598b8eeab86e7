//! The textbook anomalies, step by step. Each is refused; each is committed, and found by the
//! checker, when the check that refuses it is left out.
//!
//! One transaction runs inside another, so there is one thread and one order of steps.
//!
//! Paper: tictoc-pwal §2.1
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and prints its seeds"
)]

use std::sync::Arc;
use std::time::Duration;

use namiki::faults::{self, Checks, NoFaults};
use namiki::{Conflict, Database, Error, Session, Stamp, Transaction, WaitPolicy};
use namiki_platform::disk::{Disk, SimDisk};
use namiki_tests::history::{self, History, KeyId, Promise, Violation, check};

type Numbers = namiki::Table<u64, u64>;

const X: u64 = 1;
const Y: u64 = 2;
const Z: u64 = 3;
const HOT: u64 = 9;

/// A database with x = y = z = 0, and the history of its commits.
struct Book {
    db: Database,
    table: Numbers,
    history: History,
    ids: u64,
}

/// The reads and writes of one transaction so far.
#[derive(Default)]
struct Page {
    reads: Vec<(u64, u64)>,
    writes: Vec<u64>,
}

impl Page {
    fn read(&mut self, tx: &mut Transaction, table: &Numbers, key: u64) -> Result<(), Error> {
        let version = tx.version(table, &key)?;
        self.reads.push((key, version.stamp.0));
        Ok(())
    }

    fn write(&mut self, tx: &mut Transaction, table: &Numbers, key: u64) -> Result<(), Error> {
        self.writes.push(key);
        tx.put(table, &key, &7)
    }
}

impl Book {
    /// A book in an epoch that does not end.
    fn new() -> Self {
        // Groups of one, so that no lock is held between transactions.
        Self::of("TT(ELR)+PWAL(1)", Duration::MAX)
    }

    fn of(spec: &str, epoch_length: Duration) -> Self {
        let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
        let db = Database::builder()
            .spec(spec.parse().unwrap())
            .group_wait_max(Duration::MAX)
            .epoch_length(epoch_length)
            // One thread cannot wait for itself.
            .wait_policy(WaitPolicy::NoWait)
            .disk(disk)
            .open("/db")
            .unwrap();
        let table = db.table("numbers").unwrap();
        let mut book = Self {
            db,
            table,
            history: History::new(),
            ids: 0,
        };
        book.commit(|page, tx, table| {
            [X, Y, Z, HOT]
                .into_iter()
                .try_for_each(|key| page.write(tx, table, key))
        });
        book
    }

    fn session(&self) -> Session {
        self.db.session().unwrap()
    }

    /// Runs a whole transaction.
    fn commit(
        &mut self,
        body: impl FnOnce(&mut Page, &mut Transaction, &Numbers) -> Result<(), Error>,
    ) -> u64 {
        self.commit_with::<NoFaults>(body)
    }

    fn commit_with<C: Checks>(
        &mut self,
        body: impl FnOnce(&mut Page, &mut Transaction, &Numbers) -> Result<(), Error>,
    ) -> u64 {
        self.try_commit::<C>(body).unwrap()
    }

    fn try_commit<C: Checks>(
        &mut self,
        body: impl FnOnce(&mut Page, &mut Transaction, &Numbers) -> Result<(), Error>,
    ) -> Result<u64, Error> {
        let mut page = Page::default();
        let table = self.table.clone();
        let ended = self
            .session()
            .try_faulty::<C, _>(|tx| body(&mut page, tx, &table));
        ended.map(|((), ticket)| self.push(page, ticket.stamp()))
    }

    fn push(&mut self, page: Page, stamp: Stamp) -> u64 {
        self.ids += 1;
        let mut transaction = history::Transaction::new(self.ids, stamp.0);
        let name =
            |history: &mut History, key: u64| -> KeyId { history.key(1, &key.to_be_bytes()) };
        for (key, version) in page.reads {
            transaction
                .reads
                .push((name(&mut self.history, key), version));
        }
        for key in page.writes {
            transaction.writes.push(name(&mut self.history, key));
        }
        self.history.push(transaction);
        self.ids
    }

    /// Runs a transaction with `between` in the middle of it.
    fn around<C: Checks>(
        &mut self,
        first: impl FnOnce(&mut Page, &mut Transaction, &Numbers) -> Result<(), Error>,
        between: impl FnOnce(&mut Self),
        last: impl FnOnce(&mut Page, &mut Transaction, &Numbers) -> Result<(), Error>,
    ) -> Result<u64, Error> {
        let mut page = Page::default();
        let table = self.table.clone();
        let ended = self.session().try_faulty::<C, _>(|tx| {
            first(&mut page, tx, &table)?;
            between(self);
            last(&mut page, tx, &table)
        });
        ended.map(|((), ticket)| self.push(page, ticket.stamp()))
    }

    /// Extends the read timestamp of `key` far beyond the present: a reader also reads a key that
    /// was overwritten `overwritten` times.
    fn read_far_ahead(&mut self, key: u64, overwritten: u64) {
        for _ in 0..overwritten {
            self.commit(|page, tx, table| page.write(tx, table, HOT));
        }
        self.commit(|page, tx, table| {
            page.read(tx, table, HOT)?;
            page.read(tx, table, key)
        });
    }

    fn stamp_of(&self, id: u64) -> u64 {
        self.history.transactions()[id as usize - 1].stamp
    }

    #[track_caller]
    fn assert_serial(&self) {
        check(&self.history, Promise::Serializable).unwrap_or_else(|found| panic!("{found}"));
    }

    #[track_caller]
    fn assert_anomaly(&self, name: &str) {
        match check(&self.history, Promise::Serializable) {
            Err(Violation::Cycle(cycle)) => assert_eq!(cycle.anomaly(), name, "{cycle}"),
            other => panic!("{name} expected, but: {other:?}"),
        }
    }
}

#[track_caller]
fn assert_conflict(ended: &Result<u64, Error>, expected: Conflict) {
    match ended {
        Err(Error::Conflict(conflict)) if *conflict == expected => {}
        other => panic!("{expected:?} expected, but: {other:?}"),
    }
}

fn lost_update<C: Checks>(book: &mut Book) -> Result<u64, Error> {
    book.around::<C>(
        |page, tx, table| page.read(tx, table, X),
        |book| {
            book.commit(|page, tx, table| {
                page.read(tx, table, X)?;
                page.write(tx, table, X)
            });
        },
        |page, tx, table| page.write(tx, table, X),
    )
}

/// Protocols that validate reads: other transactions continue, and a transaction that has read
/// versions they changed cannot commit.
pub(crate) const OPTIMISTIC: [&str; 3] =
    ["TT(ELR)+PWAL(1)", "SILO(ELR)+PWAL(1)", "SILO(NLR)+NOLOG"];

fn optimistic_books() -> impl Iterator<Item = Book> {
    let book = |spec| Book::of(spec, Duration::MAX);
    OPTIMISTIC.into_iter().map(book)
}

#[test]
fn an_update_is_not_lost() {
    for mut book in optimistic_books() {
        let ended = lost_update::<NoFaults>(&mut book);
        assert_conflict(&ended, Conflict::ReadChanged);
        book.assert_serial();
    }

    let mut book = Book::new();
    lost_update::<faults::NoReadValidation>(&mut book).unwrap();
    book.assert_anomaly("lost update");
}

fn write_skew<C: Checks>(book: &mut Book, overwrites: u64) -> Result<u64, Error> {
    book.around::<C>(
        |page, tx, table| page.read(tx, table, X),
        |book| {
            book.commit(|page, tx, table| {
                page.read(tx, table, Y)?;
                page.write(tx, table, X)
            });
            for _ in 0..overwrites {
                book.commit(|page, tx, table| page.write(tx, table, X));
            }
        },
        |page, tx, table| page.write(tx, table, Y),
    )
}

#[test]
fn a_write_skew_is_refused() {
    for mut book in optimistic_books() {
        let ended = write_skew::<NoFaults>(&mut book, 0);
        assert_conflict(&ended, Conflict::ReadChanged);
        book.assert_serial();
    }

    let mut book = Book::new();
    write_skew::<faults::NoReadValidation>(&mut book, 0).unwrap();
    book.assert_anomaly("write skew");
}

/// The published bug: x was overwritten more than once. The stamp of the last transaction to commit
/// is below the wts of the present version, and not below the wts of the version that follows the
/// one it read.
#[test]
fn a_version_that_is_no_predecessor_is_refused() {
    let mut book = Book::new();
    let ended = write_skew::<NoFaults>(&mut book, 3);
    assert_conflict(&ended, Conflict::ReadChanged);
    book.assert_serial();

    let mut book = Book::new();
    write_skew::<faults::NoPredecessorCheck>(&mut book, 3).unwrap();
    book.assert_anomaly("write skew");
}

/// The cycle that a re-check of leaf versions alone would miss, because the order of stamps is not
/// that of time. T2 reads y, valid far ahead. T1 scans the gap of k, writes y further ahead and
/// commits. T2 inserts k at a low stamp. T2 read y before T1 wrote it, and T1 read the gap before
/// T2 filled it.
fn phantom<C: Checks>(book: &mut Book) -> Result<u64, Error> {
    const K: u64 = 5;
    book.read_far_ahead(Y, 100);
    book.around::<C>(
        |page, tx, table| page.read(tx, table, Y),
        |book| {
            book.commit_with::<C>(|page, tx, table| {
                assert!(tx.versions(table, 4..=6)?.is_empty());
                page.reads.push((K, 0));
                page.write(tx, table, Y)
            });
        },
        |page, tx, table| page.write(tx, table, K),
    )
}

#[test]
fn an_insertion_below_a_gap_readers_stamp_is_refused() {
    let mut book = Book::new();
    let ended = phantom::<NoFaults>(&mut book);
    assert_conflict(&ended, Conflict::ReadChanged);
    book.assert_serial();

    let mut book = Book::new();
    phantom::<faults::NoPhantomCheck>(&mut book).unwrap();
    book.assert_anomaly("phantom");
}

/// A word has 15 bits for the distance of a version's last read from its wts. A read further ahead
/// moves the wts, and the version is still the one that others have read.
#[test]
fn a_version_read_far_ahead_stays_the_same() {
    const FAR: u64 = 40_000;
    let mut book = Book::of("TT(NLR)+NOLOG", Duration::MAX);
    let id = book
        .around::<NoFaults>(
            |page, tx, table| page.read(tx, table, X),
            |book| book.read_far_ahead(X, FAR),
            |page, tx, table| page.write(tx, table, Y),
        )
        .unwrap();
    assert!(book.stamp_of(id) < FAR, "it is ordered before the reader");
    // A transaction that overwrites it comes after the reader.
    let id = book.commit(|page, tx, table| page.write(tx, table, X));
    assert!(book.stamp_of(id) > FAR);
    book.assert_serial();
}

/// The floor of the epoch is for writers. A reader at the floor would move the rts of every record
/// that no transaction has read in this epoch.
#[test]
fn readers_are_ordered_by_reads_writers_above_the_floor() {
    let mut book = Book::of("TT(NLR)+PWAL(1)", Duration::ZERO);
    let mut last = 0;
    for _ in 0..10 {
        last = book.commit(|page, tx, table| page.write(tx, table, HOT));
    }
    let reader = book.commit(|page, tx, table| {
        page.read(tx, table, X)?;
        page.read(tx, table, Y)
    });
    assert_eq!(book.stamp_of(reader), book.stamp_of(1));
    let writer = book.commit(|page, tx, table| page.write(tx, table, X));
    assert!(book.stamp_of(writer) > book.stamp_of(last));
    book.assert_serial();
}

/// The anomaly that TicToc permits; therefore it is never offered where external consistency is
/// required. T_c reads z and is about to write w. T_a overwrites z and returns. Then T_b begins,
/// reads the old w, and returns. Then T_c commits. The only serial order is T_b, T_c, T_a, although
/// T_a had returned before T_b began.
#[test]
fn tictoc_is_serializable_but_not_strictly() {
    const W: u64 = X;
    let mut book = Book::new();
    book.read_far_ahead(Z, 10);
    let mut t_a = 0;
    let mut t_b = 0;
    let t_c = book
        .around::<NoFaults>(
            |page, tx, table| page.read(tx, table, Z),
            |book| {
                t_a = book.commit(|page, tx, table| page.write(tx, table, Z));
                t_b = book.commit(|page, tx, table| page.read(tx, table, W));
            },
            |page, tx, table| page.write(tx, table, W),
        )
        .unwrap();
    let order = check(&book.history, Promise::Serializable).unwrap().order;
    let at = |id: u64| order.iter().position(|other| *other == id);
    assert!(at(t_b) < at(t_c) && at(t_c) < at(t_a), "{order:?}");

    let mut strict = History::new();
    let (w, z) = (strict.key(1, b"w"), strict.key(1, b"z"));
    let stamp = |id| book.stamp_of(id);
    let before = stamp(1);
    strict.push_initial(w, before);
    strict.push_initial(z, before);
    let tx = history::Transaction::new;
    strict.push(tx(t_c, stamp(t_c)).read(z, before).write(w).during(1, 6));
    strict.push(tx(t_a, stamp(t_a)).write(z).during(2, 3));
    strict.push(tx(t_b, stamp(t_b)).read(w, before).during(4, 5));
    check(&strict, Promise::Serializable).unwrap();
    let told = check(&strict, Promise::StrictlySerializable).unwrap_err();
    assert!(told.to_string().contains("real-time violation"), "{told}");
}
