//! The contents of the directory in `tests/fixtures`, which an earlier build of the program wrote:
//! several lives of one database, each with another protocol, and the rows of the tables after
//! each.
//!
//! `namiki-harness fixture` writes such a directory: checkpoints in the middle of most lives, restore points, images of
//! several runs, and two loaded tables, one of which is taken into memory ([`LoadedRows`]).

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::num::NonZeroU16;
use std::path::Path;
use std::time::Duration;

use namiki::query::{Column, ColumnType, Datum, Schema, decode_row, encode_key, encode_row};
use namiki::{Builder, Database, Error, NewTable, Table};

/// For each life of the database: its protocol, its number of streams, and whether it was closed at
/// the end. The other lives ended with the process.
pub const LIVES: [(&str, u16, bool); 8] = [
    ("TT(NLR)+PWAL(1)", 2, true),
    ("TT(EPOCH)+PWAL(auto)", 2, false),
    ("TT(ELR)+SWAL(4)", 1, true),
    ("S2PL(NLR)+PWAL(2)+ARIES", 2, false),
    ("SILO(ELR)+PWAL(1)", 3, false),
    ("S2PL(ELR)+SWAL(1)+ARIES", 1, true),
    ("S2PL(NLR)+SWAL(auto)", 1, false),
    ("SILO(EPOCH)+PWAL(1)", 2, false),
];

/// Transactions in a life.
const TRANSACTIONS: u64 = 24;
/// A life other than the first takes a checkpoint after this number of transactions.
const BEFORE_CHECKPOINT: u64 = 10;
/// Small enough that a run of an image has a few rows.
const RUN_BYTES: u64 = 400;

/// The rows of every table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rows {
    /// Table `accounts`.
    pub accounts: BTreeMap<u64, i64>,
    /// Table `names`.
    pub names: BTreeMap<String, String>,
    /// Table `orders`; some values are longer than the space in a record.
    pub orders: BTreeMap<(u32, String), Vec<u8>>,
    /// Table `flags`, from the third life on.
    pub flags: BTreeMap<i32, bool>,
}

/// The rows of the loaded tables: numbers and names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoadedRows {
    /// Table `cities`, which transactions have changed since.
    pub cities: BTreeMap<u64, String>,
    /// Table `nations`, unchanged since it was loaded.
    pub nations: BTreeMap<u64, String>,
}

/// The life in which these tables are loaded.
const LOADING_LIFE: usize = 3;
const LOADED: u64 = 50;

fn loaded_schema() -> Result<Schema, String> {
    let columns = vec![
        Column::new("id", ColumnType::U64),
        Column::new("name", ColumnType::Text),
    ];
    Schema::new(columns, &["id"]).map_err(|error| error.to_string())
}

fn loaded_row(id: u64, table: &str) -> [Datum; 2] {
    [Datum::U64(id), Datum::Text(format!("{table} {id}"))]
}

impl LoadedRows {
    /// The loaded rows with all later changes.
    #[must_use]
    pub fn written() -> Self {
        let rows = |table: &str| {
            (0..LOADED)
                .map(|id| (id, format!("{table} {id}")))
                .collect()
        };
        let mut cities: BTreeMap<u64, String> = rows("cities");
        cities.remove(&7);
        cities.insert(LOADED, format!("cities {LOADED}"));
        Self {
            cities,
            nations: rows("nations"),
        }
    }

    /// Reads the loaded tables of an open database. Both are in memory afterwards.
    ///
    /// # Errors
    /// The error of the read.
    pub fn read(db: &Database) -> Result<Self, String> {
        let schema = loaded_schema()?;
        let rows = |table: &str| -> Result<BTreeMap<u64, String>, String> {
            let told = |error: Error| format!("{table}: {error}");
            let opened = db.table::<u64, [u8]>(table).map_err(told)?;
            let found = db.read(|view| view.scan(&opened, ..)).map_err(told)?;
            let name = |(id, value): (u64, Vec<u8>)| {
                let key = encode_key(&schema, &loaded_row(id, table));
                let key = key.map_err(|error| error.to_string())?;
                let row = decode_row(&schema, &key, &value);
                match row.as_deref() {
                    Some([_, Datum::Text(name)]) => Ok((id, name.clone())),
                    other => Err(format!("{table}: row {id} is {other:?}")),
                }
            };
            found.into_iter().map(name).collect()
        };
        Ok(Self {
            cities: rows("cities")?,
            nations: rows("nations")?,
        })
    }

    fn write(db: &Database) -> Result<(), String> {
        for table in ["cities", "nations"] {
            let rows = (0..LOADED).map(|id| Ok::<_, Infallible>(loaded_row(id, table).to_vec()));
            let loaded = db.load_sorted(&NewTable::new(table, loaded_schema()?), rows);
            loaded.map_err(|error| error.to_string())?;
        }
        let told = |error: Error| error.to_string();
        let cities = db.table::<u64, [u8]>("cities").map_err(told)?;
        let added = encode_row(&loaded_schema()?, &loaded_row(LOADED, "cities"));
        let added = added.map_err(|error| error.to_string())?;
        let changed = db.transact(|tx| {
            tx.delete(&cities, &7)?;
            tx.put(&cities, &LOADED, &added[..])
        });
        changed.map_err(told)
    }
}

/// The tables.
struct Tables {
    accounts: Table<u64, i64>,
    names: Table<str, str>,
    orders: Table<(u32, String), [u8]>,
    flags: Option<Table<i32, bool>>,
}

impl Tables {
    fn of(db: &Database, flags: bool) -> Result<Self, Error> {
        Ok(Self {
            accounts: db.table("accounts")?,
            names: db.table_with_room("names", 24)?,
            orders: db.table("orders")?,
            flags: flags.then(|| db.table("flags")).transpose()?,
        })
    }
}

/// One change. `None` deletes the row.
enum Change {
    Account(u64, Option<i64>),
    Name(String, Option<String>),
    Order((u32, String), Option<Vec<u8>>),
    Flag(i32, Option<bool>),
}

/// The changes of a transaction.
fn changes(life: u64, transaction: u64) -> Vec<Change> {
    let number = life * TRANSACTIONS + transaction;
    let account = number * 7 % 40;
    let mut changes = vec![
        Change::Account(account, Some(number as i64 - 30)),
        Change::Name(
            format!("name {}", number % 17),
            Some(format!("並木 {life}.{transaction}")),
        ),
    ];
    if number.is_multiple_of(3) {
        let length = if number.is_multiple_of(9) {
            700
        } else {
            number as usize % 12
        };
        changes.push(Change::Order(
            (life as u32, format!("item {}\0{}", number % 5, number % 4)),
            Some(vec![number as u8; length]),
        ));
    }
    if number % 4 == 1 {
        changes.push(Change::Account((account + 11) % 40, None));
        changes.push(Change::Name(format!("name {}", (number + 8) % 17), None));
    }
    if number % 11 == 2 && life > 0 {
        let item = format!("item {}\0{}", number % 5, number % 4);
        changes.push(Change::Order((life as u32 - 1, item), None));
    }
    if life >= 2 {
        changes.push(Change::Flag(
            number as i32 % 9 - 4,
            (!number.is_multiple_of(5)).then_some(number.is_multiple_of(2)),
        ));
    }
    changes
}

fn set<K: Ord, V>(rows: &mut BTreeMap<K, V>, key: K, value: Option<V>) {
    match value {
        Some(value) => drop(rows.insert(key, value)),
        None => drop(rows.remove(&key)),
    }
}

impl Rows {
    /// The rows of the tables after all lives.
    #[must_use]
    pub fn written() -> Self {
        let mut rows = Self::default();
        for life in 0..LIVES.len() as u64 {
            for transaction in 0..TRANSACTIONS {
                for change in changes(life, transaction) {
                    match change {
                        Change::Account(key, value) => set(&mut rows.accounts, key, value),
                        Change::Name(key, value) => set(&mut rows.names, key, value),
                        Change::Order(key, value) => set(&mut rows.orders, key, value),
                        Change::Flag(key, value) => set(&mut rows.flags, key, value),
                    }
                }
            }
        }
        rows
    }

    /// Reads the tables of an open database.
    ///
    /// # Errors
    /// Those of the reading transaction.
    pub fn read(db: &Database) -> Result<Self, Error> {
        let tables = Tables::of(db, true)?;
        db.transact(|tx| {
            Ok(Self {
                accounts: tx.scan(&tables.accounts, ..)?.into_iter().collect(),
                names: tx.scan(&tables.names, ..)?.into_iter().collect(),
                orders: tx.scan(&tables.orders, ..)?.into_iter().collect(),
                flags: match &tables.flags {
                    Some(flags) => tx.scan(flags, ..)?.into_iter().collect(),
                    None => BTreeMap::new(),
                },
            })
        })
    }
}

/// The settings of a life. Log files are small, so that there are several of them and the fixture
/// stays short.
///
/// # Errors
/// If the protocol cannot be parsed.
pub fn builder(life: usize) -> Result<Builder, String> {
    let (spec, streams, _) = LIVES[life];
    let streams = NonZeroU16::new(streams).ok_or("no streams")?;
    Ok(Database::builder()
        .spec(spec.parse().map_err(|error| format!("{spec}: {error}"))?)
        .streams(streams)
        .group_wait_max(Duration::from_millis(1))
        .buffer_bytes(8 << 10)
        .log_file_bytes(16 << 10)
        .checkpoint_at_close(None)
        .restore_points(Duration::ZERO)
        .image_run_bytes(RUN_BYTES))
}

/// Runs one life of the database. If the life is not to be closed, the process aborts at the end,
/// with one transaction's changes made and not committed.
///
/// # Errors
/// The reason for the failure.
pub fn live(dir: &Path, life: usize) -> Result<(), String> {
    let told = |error: Error| error.to_string();
    let db = builder(life)?
        .open(dir)
        .map_err(|error| error.to_string())?;
    let tables = Tables::of(&db, life >= 2).map_err(told)?;
    if life == LOADING_LIFE {
        LoadedRows::write(&db)?;
    }
    let streams = LIVES[life].1;
    for transaction in 0..TRANSACTIONS {
        if life > 0 && transaction == BEFORE_CHECKPOINT {
            db.checkpoint().map_err(told)?;
        }
        let worker = namiki::WorkerId((transaction % u64::from(streams)) as u16);
        let mut session = db.session_on(worker).map_err(told)?;
        let changed = session.transact(|tx| {
            for change in changes(life as u64, transaction) {
                apply(tx, &tables, change)?;
            }
            Ok(())
        });
        changed.map_err(told)?;
    }
    let closed = LIVES[life].2;
    if closed {
        return db.close().map_err(told);
    }
    let mut left_open = db.begin().map_err(told)?;
    apply(
        &mut left_open,
        &tables,
        Change::Account(1000, Some(life as i64)),
    )
    .map_err(told)?;
    // Later commits in the same stream, so that operations of the open transaction reach the log.
    for key in [3, 5] {
        let mut again = db.begin().map_err(told)?;
        let unchanged = again.get(&tables.accounts, &key).map_err(told)?;
        apply(&mut again, &tables, Change::Account(key, unchanged)).map_err(told)?;
        again.commit().map_err(told)?;
    }
    std::process::abort()
}

fn apply(tx: &mut namiki::Transaction, tables: &Tables, change: Change) -> Result<(), Error> {
    match change {
        Change::Account(key, Some(value)) => tx.put(&tables.accounts, &key, &value),
        Change::Account(key, None) => tx.delete(&tables.accounts, &key).map(drop),
        Change::Name(key, Some(value)) => tx.put(&tables.names, &key[..], &value[..]),
        Change::Name(key, None) => tx.delete(&tables.names, &key[..]).map(drop),
        Change::Order(key, Some(value)) => tx.put(&tables.orders, &key, &value[..]),
        Change::Order(key, None) => tx.delete(&tables.orders, &key).map(drop),
        Change::Flag(key, value) => {
            let Some(flags) = &tables.flags else {
                return Ok(());
            };
            match value {
                Some(value) => tx.put(flags, &key, &value),
                None => tx.delete(flags, &key).map(drop),
            }
        }
    }
}
