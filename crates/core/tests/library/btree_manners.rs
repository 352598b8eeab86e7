//! Typed tables against a `BTreeMap`, under every protocol; and phantom protection of the ranges
//! that their iterators have read.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::ops::Bound;
use std::sync::Arc;

use namiki::{
    ConcurrencyControl, Database, Direction, Error, IndexKind, ProtocolSpec, Table, Transaction,
    WaitPolicy,
};
use namiki_platform::disk::SimDisk;
use namiki_platform::seeded_random::Random;

/// A text that may be empty, begin another one, or contain a zero; and a number.
type Name = (String, u64);
type Model = BTreeMap<Name, String>;

const TEXTS: [&str; 8] = ["", "\0", "\0\0", "a", "a\0", "a\0b", "ab", "b"];
const NUMBERS: u64 = 6;

fn open(spec: ProtocolSpec, index: &str) -> Database {
    Database::builder()
        .spec(spec)
        .index(index.parse::<IndexKind>().unwrap())
        .wait_policy(WaitPolicy::NoWait)
        .disk(Arc::new(SimDisk::new()))
        .open("/db")
        .unwrap()
}

fn specs() -> Vec<ProtocolSpec> {
    ProtocolSpec::tested()
}

/// One transaction against the model.
struct Checked<'a> {
    tx: Transaction,
    table: &'a Table<Name, str>,
    model: Model,
    random: &'a mut Random,
}

impl Checked<'_> {
    fn name(&mut self) -> (&'static str, u64) {
        (
            TEXTS[self.random.index(TEXTS.len())],
            self.random.below(NUMBERS),
        )
    }

    fn bound(&mut self) -> Bound<(&'static str, u64)> {
        let name = self.name();
        match self.random.below(5) {
            0 => Bound::Unbounded,
            1 | 2 => Bound::Included(name),
            _ => Bound::Excluded(name),
        }
    }

    /// The rows of the model in a range, which may be upside down.
    fn within(
        &self,
        (start, end): (Bound<(&str, u64)>, Bound<(&str, u64)>),
    ) -> Vec<(Name, String)> {
        let is_after = |name: &Name| match start {
            Bound::Unbounded => true,
            Bound::Included((text, number)) => *name >= (text.to_owned(), number),
            Bound::Excluded((text, number)) => *name > (text.to_owned(), number),
        };
        let is_before = |name: &Name| match end {
            Bound::Unbounded => true,
            Bound::Included((text, number)) => *name <= (text.to_owned(), number),
            Bound::Excluded((text, number)) => *name < (text.to_owned(), number),
        };
        let rows = self.model.iter();
        let rows = rows.filter(|(name, _)| is_after(name) && is_before(name));
        rows.map(|(name, value)| (name.clone(), value.clone()))
            .collect()
    }

    fn owned(&self, (text, number): (&str, u64)) -> Name {
        (text.to_owned(), number)
    }

    /// Applies one operation to both, and compares.
    fn step(&mut self) {
        let (table, name) = (self.table, self.name());
        let owned = self.owned(name);
        let value = format!("{}", self.random.next_u64());
        match self.random.below(18) {
            0..=3 => {
                self.tx.put(table, &name, &value).unwrap();
                self.model.insert(owned, value);
            }
            4 => match self.tx.insert(table, &name, &value) {
                Ok(()) => assert_eq!(self.model.insert(owned, value), None),
                Err(Error::Duplicate { .. }) => assert!(self.model.contains_key(&owned)),
                Err(other) => panic!("{other:?}"),
            },
            5 => {
                let removed = self.tx.delete(table, &name).unwrap();
                assert_eq!(removed, self.model.remove(&owned).is_some());
            }
            6 => {
                let found = self.tx.get(table, &(&name.0, &name.1)).unwrap();
                assert_eq!(found.as_ref(), self.model.get(&owned));
                let is_there = self.tx.contains_key(table, &owned).unwrap();
                assert_eq!(is_there, found.is_some());
                let length = self.tx.get_with(table, &&name, str::len).unwrap();
                assert_eq!(length, found.map(|value| value.len()));
            }
            7 => {
                assert_eq!(self.tx.first(table).unwrap(), first(&self.model));
                assert_eq!(self.tx.last(table).unwrap(), last(&self.model));
            }
            8 => assert_eq!(self.tx.pop_first(table).unwrap(), self.model.pop_first()),
            9 => assert_eq!(self.tx.pop_last(table).unwrap(), self.model.pop_last()),
            10 => {
                let found: Result<Vec<_>, Error> = self.tx.prefix(table, &(name.0,)).collect();
                let begins = (
                    Bound::Included((name.0, 0)),
                    Bound::Included((name.0, u64::MAX)),
                );
                assert_eq!(found.unwrap(), self.within(begins));
            }
            11..=13 => self.compare_both_ends(),
            14 => {
                let range = (self.bound(), self.bound());
                let count = self.tx.count(table, range).unwrap();
                assert_eq!(count, self.within(range).len());
            }
            15 => {
                let range = (self.bound(), self.bound());
                let keep = |number: u64| !number.is_multiple_of(3);
                let retained = self.tx.retain(table, range, |name, _| keep(name.1));
                let rows = self.within(range).into_iter();
                let removed: Vec<Name> = rows
                    .map(|(name, _)| name)
                    .filter(|it| !keep(it.1))
                    .collect();
                assert_eq!(retained.unwrap(), removed.len());
                self.model.retain(|name, _| !removed.contains(name));
            }
            16 => {
                let names = [self.name(), self.name(), self.name()];
                let mut found = Vec::new();
                self.tx.get_many(table, names, &mut found).unwrap();
                let expected = names.map(|name| self.model.get(&self.owned(name)).cloned());
                assert_eq!(found, expected);
            }
            _ => {
                let range = (self.bound(), self.bound());
                assert_eq!(self.tx.scan(table, range).unwrap(), self.within(range));
                let mut found = Vec::new();
                let visit = |name, value| {
                    found.push((name, value));
                    std::ops::ControlFlow::Continue(())
                };
                self.tx
                    .scan_with(table, range, Direction::Backward, visit)
                    .unwrap();
                found.reverse();
                assert_eq!(found, self.within(range));
            }
        }
    }

    /// Takes rows of a range from both ends, by turns that are drawn.
    fn compare_both_ends(&mut self) {
        let range = (self.bound(), self.bound());
        let mut expected = self.within(range).into_iter();
        let mut rows = self.tx.range(self.table, range);
        let from_front = self.random.unit();
        let mut left = self.random.below(2 * NUMBERS * TEXTS.len() as u64);
        loop {
            let (row, should) = if self.random.chance(from_front) {
                (rows.next(), expected.next())
            } else {
                (rows.next_back(), expected.next_back())
            };
            assert_eq!(row.transpose().unwrap(), should);
            if should.is_none() || left == 0 {
                break;
            }
            left -= 1;
        }
    }
}

fn first(model: &Model) -> Option<(Name, String)> {
    model
        .first_key_value()
        .map(|(name, value)| (name.clone(), value.clone()))
}

fn last(model: &Model) -> Option<(Name, String)> {
    model
        .last_key_value()
        .map(|(name, value)| (name.clone(), value.clone()))
}

#[test]
fn a_table_does_what_a_btree_map_does() {
    let seed = RandomState::new().hash_one(0);
    println!("seed {seed}");
    for (at, spec) in specs().into_iter().enumerate() {
        let index = ["art", "art+hash"][at % 2];
        let mut random = Random::stream(seed, at as u64);
        let db = open(spec, index);
        let table = db.table::<Name, str>("names").unwrap();
        let mut model = Model::new();
        for transaction in 0..25 {
            let mut checked = Checked {
                tx: db.begin().unwrap(),
                table: &table,
                model: model.clone(),
                random: &mut random,
            };
            let steps = checked.random.below(40);
            for _ in 0..steps {
                checked.step();
            }
            let Checked { tx, model: new, .. } = checked;
            if transaction % 5 == 4 {
                tx.rollback();
            } else {
                tx.commit().unwrap();
                model = new;
            }
            let rows = db.transact(|tx| tx.scan(&table, ..)).unwrap();
            assert!(rows.into_iter().eq(model.clone()), "{spec}");
        }
    }
}

/// Many rows, so that an iterator reads ahead more than once, with keys of eight bytes and others.
#[test]
fn long_ranges_are_read_to_their_ends() {
    for spec in ["TT(EPOCH)+PWAL(auto)", "S2PL(ELR)+PWAL(1)"] {
        let db = open(spec.parse().unwrap(), "art");
        let numbers = db.table::<u64, u64>("numbers").unwrap();
        let texts = db.table::<str, u64>("texts").unwrap();
        db.transact(|tx| {
            (0..1500).try_for_each(|number| {
                tx.put(&numbers, &number, &number)?;
                tx.put(&texts, &format!("{number:05}"), &number)
            })
        })
        .unwrap();
        let all: Vec<u64> = (0..1500).collect();
        let read = |rows: Result<Vec<u64>, Error>| assert_eq!(rows.unwrap(), all);
        let mut tx = db.begin().unwrap();
        read(tx.range(&numbers, ..).map(|row| Ok(row?.1)).collect());
        read(tx.range(&texts, ..).map(|row| Ok(row?.1)).collect());
        let mut back: Vec<u64> = tx
            .range(&texts, ..)
            .rev()
            .map(|row| row.unwrap().1)
            .collect();
        back.reverse();
        assert_eq!(back, all);
        let mut rows = tx.range(&numbers, ..);
        let (mut low, mut high) = (Vec::new(), Vec::new());
        while let Some(row) = rows.next() {
            low.push(row.unwrap().1);
            high.extend(rows.next_back().map(|row| row.unwrap().1));
        }
        high.reverse();
        low.append(&mut high);
        assert_eq!(low, all);
        assert!(rows.next().is_none() && rows.next_back().is_none());
        let tens: Vec<u64> = tx
            .prefix(&texts, "0101")
            .map(|row| row.unwrap().1)
            .collect();
        assert_eq!(tens, (1010..1020).collect::<Vec<u64>>());
    }
}

#[test]
fn ranges_have_ends_of_every_form() {
    let db = open(ProtocolSpec::DEFAULT, "art");
    let table = db.table::<String, u8>("names").unwrap();
    let names = ["alan", "alice", "bob", "carol"];
    let mut tx = db.begin().unwrap();
    for (at, name) in names.iter().enumerate() {
        tx.put(&table, name, &(at as u8)).unwrap();
    }
    let owned = String::from("bob");
    let numbers = |found: Result<Vec<(String, u8)>, Error>| -> Vec<u8> {
        found.unwrap().into_iter().map(|(_, at)| at).collect()
    };
    assert_eq!(numbers(tx.scan(&table, ..)), [0, 1, 2, 3]);
    assert_eq!(numbers(tx.scan(&table, "alice"..)), [1, 2, 3]);
    assert_eq!(numbers(tx.scan(&table, ..&owned)), [0, 1]);
    assert_eq!(numbers(tx.scan(&table, ..=owned.clone())), [0, 1, 2]);
    assert_eq!(numbers(tx.scan(&table, "alan".."bob")), [0, 1]);
    assert_eq!(numbers(tx.scan(&table, "alan"..="bob")), [0, 1, 2]);
    let apart = (Bound::Excluded("alan"), Bound::Excluded(&owned));
    assert_eq!(numbers(tx.scan(&table, apart)), [1]);
    assert!(numbers(tx.scan(&table, "bob".."alan")).is_empty());
    assert_eq!(numbers(tx.prefix(&table, "al").collect()), [0, 1]);
    assert_eq!(numbers(tx.prefix(&table, "").collect()), [0, 1, 2, 3]);
    let bytes = db.table::<[u8], u8>("bytes").unwrap();
    for key in [&[254][..], &[255], &[255, 255], &[255, 255, 0]] {
        tx.put(&bytes, key, &1).unwrap();
    }
    assert_eq!(tx.prefix(&bytes, &[255]).count(), 3);
    assert_eq!(tx.prefix(&bytes, &[255, 255]).count(), 2);
}

#[test]
fn nothing_follows_an_error() {
    let db = open(ProtocolSpec::DEFAULT, "art");
    let bytes = db.table::<u64, [u8]>("rows").unwrap();
    db.transact(|tx| (0..9).try_for_each(|at| tx.put(&bytes, &at, &[1])))
        .unwrap();
    db.transact(|tx| tx.put(&bytes, &4, &[2])).unwrap();

    /// Bytes of 1 alone.
    struct One;
    impl namiki::Value for One {
        type Owned = Self;
        const NAME: &'static str = "bytes";

        fn encode(&self, into: &mut namiki::ValueBytes) {
            into.push(1);
        }
        fn decode(bytes: &[u8]) -> Option<Self> {
            (bytes == [1]).then_some(Self)
        }
    }
    let ones = db.table::<u64, One>("rows").unwrap();
    let mut tx = db.begin().unwrap();
    let keys = |rows: Vec<Result<(u64, One), Error>>| -> Vec<Option<u64>> {
        rows.into_iter()
            .map(|row| row.ok().map(|(key, One)| key))
            .collect()
    };
    let forward = tx.range(&ones, 2..).collect();
    assert_eq!(keys(forward), [Some(2), Some(3), None]);
    let backward = tx.range(&ones, ..).rev().collect();
    assert_eq!(keys(backward), [Some(8), Some(7), Some(6), Some(5), None]);
    let mut rows = tx.range(&ones, ..);
    assert!(rows.by_ref().any(|row| row.is_err()));
    assert!(rows.next_back().is_none());
    // The second step reads ahead, up to the error, which is then met from the other end.
    let mut rows = tx.range(&ones, ..);
    assert!(rows.next().is_some_and(|row| row.is_ok()));
    assert!(rows.next().is_some_and(|row| row.is_ok()));
    assert!(rows.next_back().is_some_and(|row| row.is_err()));
    assert!(rows.next().is_none());

    let elsewhere = open(ProtocolSpec::DEFAULT, "art");
    let mut foreign = elsewhere.begin().unwrap();
    let rows: Vec<_> = foreign.range(&ones, ..).collect();
    assert!(matches!(rows[..], [Err(Error::ForeignTable { .. })]));
}

/// A read, which would have seen a key if that had existed.
type Read = fn(&mut Transaction, &Table<u64, str>) -> Result<(), Error>;

fn take(
    rows: impl Iterator<Item = Result<(u64, String), Error>>,
    count: usize,
) -> Result<(), Error> {
    rows.take(count).try_for_each(|row| row.map(drop))
}

const READS: [(&str, Read, u64); 20] = [
    ("first", |tx, table| tx.first(table).map(drop), 5),
    ("last", |tx, table| tx.last(table).map(drop), 1005),
    ("pop_first", |tx, table| tx.pop_first(table).map(drop), 5),
    ("pop_last", |tx, table| tx.pop_last(table).map(drop), 1005),
    (
        "contains_key",
        |tx, table| tx.contains_key(table, &15).map(drop),
        15,
    ),
    (
        "get_with",
        |tx, table| tx.get_with(table, &15, |_| ()).map(drop),
        15,
    ),
    (
        "get_many",
        |tx, table| tx.get_many(table, [10, 15, 20], &mut Vec::new()),
        15,
    ),
    ("count", |tx, table| tx.count(table, 25..75).map(drop), 74),
    (
        "count from above",
        |tx, table| tx.count(table, 25..75).map(drop),
        26,
    ),
    (
        "retain",
        |tx, table| tx.retain(table, 25..75, |_, _| true).map(drop),
        55,
    ),
    (
        "the first of a range",
        |tx, table| take(tx.range(table, 15..), 1),
        16,
    ),
    (
        "some of a range",
        |tx, table| take(tx.range(table, 15..), 3),
        35,
    ),
    (
        "many of a range",
        |tx, table| take(tx.range(table, 15..), 60),
        595,
    ),
    (
        "the last of a range",
        |tx, table| take(tx.range(table, ..75).rev(), 1),
        74,
    ),
    (
        "some of the end of a range",
        |tx, table| take(tx.range(table, ..75).rev(), 3),
        55,
    ),
    (
        "many of the end of a range",
        |tx, table| take(tx.range(table, ..).rev(), 60),
        425,
    ),
    (
        "a range to its end",
        |tx, table| take(tx.range(table, 25..75), 99),
        74,
    ),
    (
        "a range to its beginning",
        |tx, table| take(tx.range(table, 25..75).rev(), 99),
        26,
    ),
    (
        "behind all rows",
        |tx, table| take(tx.range(table, 995..), 99),
        2000,
    ),
    (
        "a range from both ends",
        |tx, table| {
            let mut rows = tx.range(table, 25..75);
            while let Some(row) = rows.next() {
                row?;
                rows.next_back().transpose()?;
            }
            Ok(())
        },
        45,
    ),
];

/// The transaction reads a range, and writes a key that another one has read, which adds a key to
/// the range. At most one of them can commit: no serial order has the reads of both.
#[test]
fn a_key_that_appears_in_what_was_read_is_noticed() {
    for (at, spec) in specs().into_iter().enumerate() {
        for index in ["art", "art+hash"] {
            // One of them for the rest of the protocols, which differ in their logs.
            if at % 3 != 0 && index == "art" {
                continue;
            }
            for (what, read, phantom) in READS {
                let db = open(spec, index);
                let table = db.table::<u64, str>("rows").unwrap();
                let other = db.table::<u64, u64>("other").unwrap();
                db.transact(|tx| {
                    tx.put(&other, &1, &1)?;
                    (1..=100).try_for_each(|at| tx.put(&table, &(10 * at), "a row"))
                })
                .unwrap();
                let mut tx = db.begin().unwrap();
                read(&mut tx, &table).unwrap();
                let added = db.begin().and_then(|mut tx| {
                    tx.get(&other, &1)?;
                    tx.put(&table, &phantom, "appears")?;
                    tx.commit()
                });
                let written = tx.put(&other, &1, &2).and_then(|()| tx.commit());
                let locks = spec.concurrency == ConcurrencyControl::TwoPhase;
                assert_eq!(added.is_err(), locks, "{spec} {index} {what}: {added:?}");
                assert_eq!(written.is_ok(), locks, "{spec} {index} {what}: {written:?}");
            }
        }
    }
}

/// Where gaps are locked one by one, the unread part is not locked.
#[test]
fn an_iterator_reads_no_more_than_it_says() {
    fn adds(db: &Database, table: &Table<u64, str>, key: u64) -> Result<(), Error> {
        let mut tx = db.begin()?;
        tx.put(table, &key, "appears")?;
        tx.commit().map(drop)
    }
    let read: [(&str, Read, [u64; 2]); 5] = [
        ("first", |tx, table| tx.first(table).map(drop), [15, 1005]),
        ("last", |tx, table| tx.last(table).map(drop), [5, 985]),
        ("one", |tx, table| take(tx.range(table, 15..), 1), [5, 25]),
        (
            "one from the end",
            |tx, table| take(tx.range(table, ..75).rev(), 1),
            [55, 85],
        ),
        // The second step reads 16.
        ("two", |tx, table| take(tx.range(table, 15..), 2), [5, 185]),
    ];
    for (what, read, free) in read {
        let db = open("S2PL(ELR)+PWAL(1)".parse().unwrap(), "art");
        let table = db.table::<u64, str>("rows").unwrap();
        db.transact(|tx| (1..=100).try_for_each(|at| tx.put(&table, &(10 * at), "a row")))
            .unwrap();
        let mut tx = db.begin().unwrap();
        read(&mut tx, &table).unwrap();
        for key in free {
            if let Err(error) = adds(&db, &table, key) {
                panic!("{what}: {key} is not free: {error}");
            }
        }
        tx.commit().unwrap();
    }
}

/// `insert` and `remove` return what those of a `BTreeMap` do, under every protocol.
#[test]
fn replace_and_remove_return_the_value_before() {
    for spec in specs() {
        let db = open(spec, "art");
        let table = db.table::<u64, str>("rows").unwrap();
        let mut model = BTreeMap::new();
        let seed = RandomState::new().hash_one(0);
        let mut random = Random::seeded(seed);
        for number in 0..200 {
            let key = random.below(10);
            let (found, expected) = if random.chance(0.5) {
                let value = number.to_string();
                let found = db.transact(|tx| tx.replace(&table, &key, &value));
                (found, model.insert(key, value))
            } else {
                (
                    db.transact(|tx| tx.remove(&table, &key)),
                    model.remove(&key),
                )
            };
            assert_eq!(found.unwrap(), expected, "{spec} seed {seed}");
        }
        let rows: BTreeMap<_, _> = db
            .transact(|tx| tx.scan(&table, ..))
            .unwrap()
            .into_iter()
            .collect();
        assert_eq!(rows, model, "{spec} seed {seed}");
        // It reads: a concurrent write by another transaction is a conflict, or waits.
        let mut tx = db.begin().unwrap();
        tx.replace(&table, &1, "mine").unwrap();
        let other = db.begin().and_then(|mut other| {
            other.put(&table, &1, "other")?;
            other.commit()
        });
        assert_ne!(tx.commit().is_ok(), other.is_ok(), "{spec}");
    }
}

#[test]
fn a_view_reads_many_keys_at_once() {
    for index in ["art", "hash"] {
        let db = open(ProtocolSpec::DEFAULT, index);
        let table = db.table::<u64, str>("rows").unwrap();
        db.transact(|tx| (0..100).try_for_each(|key| tx.put(&table, &key, &key.to_string())))
            .unwrap();
        let view = db.view().unwrap();
        db.transact(|tx| tx.delete(&table, &50)).unwrap();
        let mut found = vec![None];
        let keys = (0..40).map(|at| 7 * at);
        view.get_many(&table, keys.clone(), &mut found).unwrap();
        let expected: Vec<_> = keys
            .map(|key| (key < 100).then(|| key.to_string()))
            .collect();
        assert_eq!(found, expected, "{index}");
        view.get_many(&table, [0_u64; 0], &mut found).unwrap();
        assert!(found.is_empty());
        // A value that cannot be read: those before it are there.
        let texts = db.table::<u64, [u8]>("bytes").unwrap();
        db.transact(|tx| {
            tx.put(&texts, &1, b"a")?;
            tx.put(&texts, &2, &[0xff])
        })
        .unwrap();
        drop(texts);
        db.read_with::<_, Error>(|view| {
            view.get_many(&table, [1_u64, 50, 2], &mut found)?;
            assert_eq!(found, [Some("1".to_owned()), None, Some("2".to_owned())]);
            Ok(())
        })
        .unwrap();
    }
}

/// A name is one line wherever it is printed.
#[test]
fn names_with_control_characters_are_refused() {
    let db = open(ProtocolSpec::DEFAULT, "art");
    db.table::<u64, u64>("a b · 並").unwrap();
    for name in ["a\nb", "\t", "\u{1b}[31m", "a\u{85}"] {
        let refused = db.table::<u64, u64>(name).map(drop).unwrap_err();
        assert!(matches!(refused, Error::TableName { .. }), "{refused}");
        let refused = db.rename_table("a b · 並", name).unwrap_err();
        assert!(!refused.to_string().contains(name), "{refused}");
    }
}
