//! A view is a snapshot of the catalogue, too. Later creations, loads, renames, clearings and drops
//! of tables leave its answers unchanged, or the view refuses the table.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and prints its seeds"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use namiki::query::{Column, ColumnType, Datum, Plan, QueryError, Schema, encode_row};
use namiki::{Database, Error, NewTable, Table, View};
use namiki_platform::disk::{Disk, SimDisk};
use namiki_platform::seeded_random::Random;
use namiki_tests::watchdog::on_threads;

type Rows = BTreeMap<i64, i64>;
type Handle = Table<i64, [u8]>;

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];
const KEYS: u64 = 30;
const SPECS: [&str; 5] = [
    "SILO(EPOCH)+PWAL(auto)",
    "TT(NLR)+PWAL(1)",
    "TT(ELR)+PWAL(16)",
    "S2PL(NLR)+PWAL(1)",
    "S2PL(ELR)+PWAL(1)+ARIES",
];

fn schema() -> Schema {
    let columns = vec![
        Column::new("id", ColumnType::I64),
        Column::new("amount", ColumnType::I64),
    ];
    Schema::new(columns, &["id"]).unwrap()
}

fn row(key: i64, amount: i64) -> Vec<Datum> {
    vec![Datum::I64(key), Datum::I64(amount)]
}

fn value(key: i64, amount: i64) -> Vec<u8> {
    encode_row(&schema(), &row(key, amount)).unwrap()
}

/// Blocks the threads that load tables after an opening.
#[derive(Default)]
struct Gate {
    is_shut: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    fn set_shut(&self, is_shut: bool) {
        *self.is_shut.lock().unwrap() = is_shut;
        self.opened.notify_all();
    }

    fn pass(&self) {
        let is_shut = self.is_shut.lock().unwrap();
        drop(self.opened.wait_while(is_shut, |is_shut| *is_shut).unwrap());
    }
}

/// A present or past table.
struct Known {
    rows: Rows,
    /// `None` once it was dropped or cleared.
    name: Option<&'static str>,
    /// Whether the catalogue knows its columns, because it was loaded.
    has_columns: bool,
    /// Whether it is stored in segments.
    is_in_segments: bool,
    /// All handles obtained in this opening.
    handles: Vec<Handle>,
}

/// A view, and the expected contents at its moment.
struct OpenView {
    view: View,
    /// The rows, by table number.
    rows: BTreeMap<usize, Rows>,
    names: BTreeMap<&'static str, usize>,
    /// Tables with larger numbers are younger than the view.
    tables: usize,
}

struct World {
    disk: SimDisk,
    spec: &'static str,
    /// Whether loaded tables stay out of memory.
    stays: bool,
    gate: Arc<Gate>,
    db: Database,
    tables: Vec<Known>,
    views: Vec<OpenView>,
    random: Random,
}

fn open(disk: &SimDisk, spec: &str, stays: bool, gate: &Arc<Gate>) -> Database {
    let gate = Arc::clone(gate);
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let builder = Database::builder()
        .disk(disk)
        .spec(spec.parse().unwrap())
        .log_file_bytes(1 << 20)
        .buffer_bytes(16 << 10)
        .image_run_bytes(200)
        .before_load(Arc::new(move |_table| gate.pass()));
    let builder = if stays {
        builder.loaded_tables_bytes_max(0)
    } else {
        builder
    };
    builder.open(Path::new("/db")).unwrap()
}

impl World {
    fn new(seed: u64) -> Self {
        let mut random = Random::seeded(seed);
        let (disk, gate) = (SimDisk::new(), Arc::new(Gate::default()));
        let spec = SPECS[random.below(SPECS.len() as u64) as usize];
        let stays = random.chance(0.3);
        Self {
            db: open(&disk, spec, stays, &gate),
            disk,
            spec,
            stays,
            gate,
            tables: Vec::new(),
            views: Vec::new(),
            random,
        }
    }

    fn name(&mut self) -> &'static str {
        NAMES[self.random.below(NAMES.len() as u64) as usize]
    }

    fn live(&self, name: &str) -> Option<usize> {
        let mut tables = self.tables.iter();
        tables.position(|table| table.name == Some(name))
    }

    /// Creates or loads a table, or gets one more handle of it.
    fn make(&mut self, name: &'static str, loads: bool) {
        if let Some(number) = self.live(name) {
            let table = &mut self.tables[number];
            table.handles.push(self.db.table(name).unwrap());
            table.is_in_segments &= self.stays;
            return;
        }
        let rows: Rows = if loads {
            (0..self.random.below(KEYS) as i64)
                .map(|key| (key, key * 7))
                .collect()
        } else {
            Rows::new()
        };
        let mut handles = Vec::new();
        if loads {
            let sorted = rows.iter();
            let sorted = sorted.map(|(key, amount)| Ok::<_, Infallible>(row(*key, *amount)));
            let table = NewTable::new(name, schema());
            self.db.load_sorted(&table, sorted).unwrap();
        } else {
            handles.push(self.db.table(name).unwrap());
        }
        self.tables.push(Known {
            rows,
            name: Some(name),
            has_columns: loads,
            is_in_segments: loads,
            handles,
        });
    }

    /// Changes rows of a table by any of its handles.
    fn change(&mut self, name: &str) {
        let Some(number) = self.live(name) else {
            return;
        };
        let table = &mut self.tables[number];
        let Some(handle) = table.handles.last().filter(|_| !table.is_in_segments) else {
            return;
        };
        for _ in 0..1 + self.random.below(8) {
            let key = self.random.below(KEYS) as i64;
            if self.random.chance(0.3) {
                self.db.transact(|tx| tx.delete(handle, &key)).unwrap();
                table.rows.remove(&key);
            } else {
                let amount = self.random.below(1000) as i64;
                let put = |tx: &mut namiki::Transaction| tx.put(handle, &key, &value(key, amount));
                self.db.transact(put).unwrap();
                table.rows.insert(key, amount);
            }
        }
    }

    fn rename(&mut self, from: &'static str, to: &'static str) {
        let is_free = self.live(to).is_none();
        let number = self.live(from).filter(|_| is_free);
        let renamed = self.db.rename_table(from, to);
        assert_eq!(renamed.is_ok(), number.is_some() || from == to && !is_free);
        if let Some(number) = number {
            self.tables[number].name = Some(to);
        }
    }

    fn drop_table(&mut self, name: &'static str) {
        let number = self.live(name);
        assert_eq!(self.db.drop_table(name).is_ok(), number.is_some());
        if let Some(number) = number {
            self.tables[number].name = None;
        }
    }

    fn clear(&mut self, name: &'static str) {
        let Some(number) = self.live(name) else {
            return;
        };
        let table = &self.tables[number];
        let cleared = self.db.clear_table(name);
        assert_eq!(cleared.is_ok(), !table.is_in_segments);
        if cleared.is_err() {
            return;
        }
        let cleared = Known {
            rows: Rows::new(),
            name: Some(name),
            has_columns: table.has_columns,
            is_in_segments: false,
            handles: vec![self.db.table(name).unwrap()],
        };
        self.tables[number].name = None;
        self.tables.push(cleared);
    }

    fn open_view(&mut self) {
        let live = || (0..).zip(&self.tables).filter(|(_, it)| it.name.is_some());
        let view = OpenView {
            view: self.db.view().unwrap(),
            rows: live()
                .map(|(number, it)| (number, it.rows.clone()))
                .collect(),
            names: live()
                .map(|(number, it)| (it.name.unwrap(), number))
                .collect(),
            tables: self.tables.len(),
        };
        self.views.push(view);
    }

    /// Reopens the database. Sometimes changes tables and reads views before the tables are loaded.
    fn reopen(&mut self) {
        self.views.clear();
        for table in &mut self.tables {
            table.handles.clear();
        }
        if self.random.chance(0.7) {
            self.db.checkpoint().unwrap();
        }
        self.db.close().unwrap();
        self.gate.set_shut(true);
        self.db = open(&self.disk, self.spec, self.stays, &self.gate);
        for table in &mut self.tables {
            if let Some(name) = table.name.filter(|_| !table.is_in_segments) {
                table.handles.push(self.db.table(name).unwrap());
            }
        }
        for _ in 0..self.random.below(6) {
            let (name, other) = (self.name(), self.name());
            match self.random.below(4) {
                0 => self.drop_table(name),
                1 => self.clear(name),
                2 => self.rename(name, other),
                _ => self.open_view(),
            }
            self.check();
        }
        self.gate.set_shut(false);
    }

    fn step(&mut self) {
        let (name, other) = (self.name(), self.name());
        match self.random.below(24) {
            0..3 => self.make(name, false),
            3..6 => self.make(name, true),
            6..12 => self.change(name),
            12..14 => self.rename(name, other),
            14..16 => self.clear(name),
            16 => self.drop_table(name),
            17..21 => self.open_view(),
            21 if !self.views.is_empty() => {
                let number = self.random.below(self.views.len() as u64) as usize;
                drop(self.views.remove(number));
            }
            22 => drop(self.db.checkpoint().unwrap()),
            23 if self.random.chance(0.4) => self.reopen(),
            _ => {}
        }
    }

    /// Compares the answers of views and queries with the expected contents.
    fn check(&self) {
        for then in &self.views {
            for (number, table) in self.tables.iter().enumerate() {
                for handle in &table.handles {
                    self.check_handle(then, number, handle);
                }
            }
            for name in NAMES {
                self.check_name(then, name);
            }
        }
    }

    fn check_handle(&self, then: &OpenView, number: usize, handle: &Handle) {
        let scanned = then.view.scan(handle, ..);
        let Some(rows) = then.rows.get(&number) else {
            match scanned.unwrap_err() {
                Error::TableYoungerThanView { .. } => assert!(number >= then.tables),
                Error::TableDropped { .. } => assert!(number < then.tables),
                other => panic!("{other}"),
            }
            return;
        };
        let expected: Vec<_> = rows
            .iter()
            .map(|(key, it)| (*key, value(*key, *it)))
            .collect();
        assert_eq!(scanned.unwrap(), expected, "table {number}");
        let count = then.view.count(handle, ..).unwrap();
        assert_eq!(count, rows.len());
        let first = then.view.first(handle).unwrap();
        assert_eq!(first.as_ref(), expected.first());
        let found = then.view.get(handle, &3).unwrap();
        assert_eq!(found, rows.get(&3).map(|amount| value(3, *amount)));
        // Under the old name of the table, with the view given before or after it.
        let mut names = then.names.iter();
        let (name, _) = names.find(|(_, own)| **own == number).unwrap();
        let query = self.db.query().table_of_rows(handle, schema()).unwrap();
        let query = query.in_view(&then.view).unwrap();
        let answer = query.run(&Plan::scan(name));
        assert_eq!(&rows_of(answer.unwrap()), rows);
        // Under no other name.
        let present = handle.name();
        if !then.names.contains_key(&*present) {
            let query = self.db.query().in_view(&then.view).unwrap();
            let query = query.table_of_rows(handle, schema()).unwrap();
            assert!(query.run(&Plan::scan(&present)).is_err(), "{present}");
        }
    }

    fn check_name(&self, then: &OpenView, name: &str) {
        let query = self.db.query().in_view(&then.view).unwrap();
        let answer = query.run(&Plan::scan(name));
        match then.names.get(name) {
            Some(number) if self.tables[*number].has_columns => {
                assert_eq!(rows_of(answer.unwrap()), then.rows[number], "{name}");
            }
            Some(_) => assert!(matches!(answer, Err(QueryError::NotDescribed { .. }))),
            None => assert!(
                matches!(
                    answer,
                    Err(QueryError::UnknownTable { .. }
                        | QueryError::View(Error::TableYoungerThanView { .. }))
                ),
                "{name}"
            ),
        }
    }
}

fn rows_of(answer: namiki::query::Rows) -> Rows {
    let numbers = |row: Vec<Datum>| match row[..] {
        [Datum::I64(key), Datum::I64(amount)] => (key, amount),
        _ => panic!("{row:?}"),
    };
    answer.map(|row| numbers(row.unwrap())).collect()
}

#[test]
fn views_answer_as_of_their_moment_whatever_happens_to_tables() {
    for seed in 0..60 {
        println!("seed {seed}");
        let mut world = World::new(seed);
        for _ in 0..60 {
            world.step();
            world.check();
        }
    }
}

/// Each case alone.
#[test]
fn a_view_refuses_younger_tables_and_reads_older_ones() {
    let gate = Arc::default();
    let db = open(&SimDisk::new(), SPECS[0], false, &gate);
    let put = |table: &Handle, keys: i64| {
        db.transact(|tx| (0..keys).try_for_each(|key| tx.put(table, &key, &value(key, 1))))
            .unwrap();
    };
    let [b, c] = ["b", "c"].map(|name| db.table::<i64, [u8]>(name).unwrap());
    put(&b, 100);
    put(&c, 10);
    let view = db.view().unwrap();
    db.clear_table("b").unwrap();
    db.rename_table("c", "d").unwrap();
    let new_b = db.table::<i64, [u8]>("b").unwrap();
    let new_c = db.table::<i64, [u8]>("c").unwrap();
    put(&new_b, 3);
    put(&new_c, 4);
    for (name, younger) in [("b", &new_b), ("c", &new_c)] {
        let refused = view.count(younger, ..).unwrap_err();
        assert!(matches!(&refused, Error::TableYoungerThanView { table } if table == name));
        let refused = view.range(younger, ..).next().unwrap().unwrap_err();
        assert!(matches!(refused, Error::TableYoungerThanView { .. }));
        assert!(view.get(younger, &1).is_err());
    }
    let renamed = db.table::<i64, [u8]>("d").unwrap();
    assert_eq!(view.count(&b, ..).unwrap(), 100);
    assert_eq!(view.count(&c, ..).unwrap(), 10);
    assert_eq!(view.count(&renamed, ..).unwrap(), 10);
    let later = db.view().unwrap();
    let refused = later.count(&b, ..).unwrap_err();
    assert!(matches!(refused, Error::TableDropped { .. }));
    assert_eq!(later.count(&new_b, ..).unwrap(), 3);
}

/// A described table is found under its name at the moment that the query reads.
#[test]
fn a_query_in_a_view_means_names_of_its_moment() {
    let db = open(&SimDisk::new(), SPECS[0], false, &Arc::default());
    let table = |name: &str| db.table::<i64, [u8]>(name).unwrap();
    let put = |table: &Handle, key: i64| {
        db.transact(|tx| tx.put(table, &key, &value(key, 1)))
            .unwrap();
    };
    let [one, two] = ["one", "two"].map(table);
    put(&one, 1);
    put(&two, 2);
    let view = db.view().unwrap();
    let now = || db.query();
    let then = || now().in_view(&view).unwrap();
    let of = |query: namiki::query::Query, tables: &[&Handle]| {
        let mut tables = tables.iter();
        tables.try_fold(query, |query, table| query.table_of_rows(table, schema()))
    };
    let keys = |query: namiki::query::Query, name: &str| {
        let rows = query.run(&Plan::scan(name));
        rows.map(|rows| rows_of(rows).into_keys().collect::<Vec<_>>())
    };
    let described_before = [of(then(), &[&one, &two]), of(now(), &[&one, &two])];
    // The tables are renamed, and a younger table gets one of the old names.
    db.rename_table("one", "away").unwrap();
    db.rename_table("two", "one").unwrap();
    let younger = table("two");
    put(&younger, 3);
    let all = [&one, &two, &younger];
    for query in [of(then(), &all), of(then(), &[&younger, &two, &one])] {
        let query = query.unwrap();
        assert_eq!(keys(query, "one").unwrap(), [1]);
    }
    assert_eq!(keys(of(then(), &all).unwrap(), "two").unwrap(), [2]);
    assert_eq!(keys(of(now(), &all).unwrap(), "one").unwrap(), [2]);
    assert_eq!(keys(of(now(), &all).unwrap(), "two").unwrap(), [3]);
    assert!(keys(of(then(), &all).unwrap(), "away").is_err());
    let [in_view, in_none] = described_before.map(Result::unwrap);
    assert_eq!(keys(in_view, "two").unwrap(), [2]);
    assert_eq!(keys(in_none, "one").unwrap(), [2]);
    // The younger table alone: the name belonged to a table that was not described.
    let refused = keys(of(then(), &[&younger]).unwrap(), "two").unwrap_err();
    assert!(matches!(refused, QueryError::NotDescribed { .. }));
}

/// A change of the catalogue is ordered among the commits. A view that includes it includes
/// everything that returned before it. A view without it has nothing that began after it.
#[test]
fn changes_of_tables_have_their_place_between_commits() {
    const TABLES: i64 = 150;
    for spec in SPECS {
        let gate = Arc::default();
        let db = open(&SimDisk::new(), spec, false, &gate);
        let counts = db.table::<i64, i64>("counts").unwrap();
        let made = Mutex::new(Vec::<(i64, Table<i64, i64>)>::new());
        let done = AtomicBool::new(false);
        on_threads(3, |thread| {
            if thread == 0 {
                for number in 0..TABLES {
                    db.transact(|tx| tx.put(&counts, &1, &number)).unwrap();
                    let table = db.table(&format!("{number}")).unwrap();
                    db.transact(|tx| tx.put(&counts, &2, &number)).unwrap();
                    made.lock().unwrap().push((number, table));
                }
                done.store(true, Ordering::SeqCst);
                return;
            }
            while !done.load(Ordering::SeqCst) {
                let view = db.view().unwrap();
                let of = |key| view.get(&counts, &key).unwrap().unwrap_or(-1);
                let (before, after) = (of(1), of(2));
                let made = made.lock().unwrap().clone();
                let seen: BTreeSet<_> = made
                    .iter()
                    .filter(|(_, table)| view.count(table, ..).is_ok())
                    .map(|(number, _)| *number)
                    .collect();
                for (number, _) in made {
                    let is_there = seen.contains(&number);
                    assert!(!is_there || before >= number, "{number} without its past");
                    assert!(is_there || after < number, "{number} is missing");
                }
            }
        });
    }
}
