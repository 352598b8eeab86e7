//! `namiki tables`, `get`, `scan`, `put` and `remove`, as their user sees them.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, SystemTime};

use namiki::{Database, Key, ProtocolSpec, Value};

use crate::check_segments::load;
use crate::command::{SPECS, copy_tree, database, spec};
use crate::program::{everything, has, refuses, works};

#[derive(Key)]
struct Id(u64);

#[derive(Value)]
struct Account {
    owner: String,
}

fn shop(dir: &Path) -> String {
    let db = Database::open(dir).unwrap();
    let stock = db.table::<u64, i64>("stock").unwrap();
    let visits = db.table::<(String, u64), Option<u32>>("visits").unwrap();
    let names = db.table::<str, Vec<u8>>("names").unwrap();
    let accounts = db.table::<Id, Account>("accounts").unwrap();
    db.transact(|tx| {
        for item in 0..3000 {
            tx.put(&stock, &item, &(item as i64 - 5))?;
        }
        for (name, number) in [("al", 9), ("alice", 1), ("alice", 2), ("bob", 1)] {
            tx.put(&visits, &(name, number), &(number > 1).then_some(7))?;
        }
        let owner = "A".to_owned();
        tx.put(&accounts, &Id(1), &Account { owner })
    })
    .unwrap();
    for name in ["alan", "alice", "bob"] {
        db.transact(|tx| tx.put(&names, name, &vec![0, 255]))
            .unwrap();
    }
    db.close().unwrap();
    dir.to_str().unwrap().to_owned()
}

#[test]
fn rows_are_read_by_their_types_and_nothing_changes() {
    let dir = tempfile::tempdir().unwrap();
    let path = shop(dir.path());
    load(dir.path(), "people");
    let before = everything(dir.path());
    let scan = |arguments: &[&str]| works(&[&["scan", &path], arguments].concat());
    let get = |arguments: &[&str]| works(&[&["get", &path], arguments].concat());

    let listed = works(&["tables", &path]);
    let lines: Vec<Vec<&str>> = listed
        .lines()
        .map(|line| {
            line.split("  ")
                .map(str::trim)
                .filter(|it| !it.is_empty())
                .collect()
        })
        .collect();
    for line in [
        &["table", "key", "value", "kept in", "rows"][..],
        &["stock", "u64", "i64", "memory"],
        &["visits", "(string, u64)", "option<u32>", "memory"],
        &["people", "id", "town, letter", "segments", "500"],
    ] {
        assert!(
            lines.iter().any(|it| it == line),
            "{line:?} not in\n{listed}"
        );
    }
    let counted = works(&["tables", &path, "--count", "--format", "json"]);
    has(
        &counted,
        "\"table\":\"stock\",\"kept_in\":\"memory\",\"key\":\"u64\",\"value\":\"i64\",\"rows\":3000}",
    );

    assert_eq!(get(&["stock", "17"]), "12\n");
    assert_eq!(get(&["stock", "3"]), "-2\n");
    assert_eq!(get(&["visits", "(alice, 2)"]), "some(7)\n");
    assert_eq!(
        get(&["visits", "(\"alice\", 1)", "--format", "json"]),
        "null\n"
    );
    assert_eq!(get(&["names", "bob"]), "0x00ff\n");
    for key in ["(1)", "0x0000000000000001"] {
        assert_eq!(get(&["accounts", key]), "{owner: \"A\"}\n");
    }
    let said = refuses(1, &["get", &path, "stock", "3000"]);
    has(&said, "table \"stock\" has no key 3000");

    assert_eq!(
        scan(&["stock", "--from", "7", "--to", "9"]),
        "7 = 2\n8 = 3\n"
    );
    assert_eq!(scan(&["stock", "--from", "9", "--to", "7"]), "");
    assert_eq!(scan(&["stock", "--count"]), "3,000\n");
    assert_eq!(
        scan(&["stock", "--from", "2500", "--count", "--format", "json"]),
        "500\n"
    );
    assert_eq!(
        scan(&["stock", "--limit", "2", "--reverse"]),
        "2999 = 2994\n2998 = 2993\n"
    );
    // More than one transaction reads.
    let all: String = (0..3000)
        .map(|item| format!("{item} = {}\n", item - 5))
        .collect();
    assert!(scan(&["stock"]) == all);
    assert_eq!(scan(&["stock", "--limit", "2000"]).lines().count(), 2000);
    assert_eq!(
        scan(&["visits", "--prefix", "(alice)"]),
        "(\"alice\", 1) = none\n(\"alice\", 2) = some(7)\n"
    );
    assert_eq!(
        scan(&["names", "--prefix", "al", "--format", "json"]),
        "{\"key\":\"alan\",\"value\":\"0x00ff\"}\n{\"key\":\"alice\",\"value\":\"0x00ff\"}\n"
    );
    let said = refuses(2, &["scan", &path, "stock", "--prefix", "1"]);
    has(&said, "use --from and --to");
    let said = refuses(1, &["scan", &path, "people"]);
    has(&said, "is in segments");
    has(&said, "namiki query");
    let said = refuses(1, &["get", &path, "stick", "1"]);
    has(&said, "no table \"stick\"");
    has(&said, "\"stock\"");
    assert!(everything(dir.path()) == before, "something was changed");
}

/// Commits in the log after a crash count, too.
#[test]
fn rows_are_read_whatever_wrote_the_log() {
    for text in SPECS {
        let (dir, path) = database(spec(text));
        let before = everything(dir.path());
        assert_eq!(
            works(&["scan", &path, "stock", "--count"]),
            "19\n",
            "{text}"
        );
        assert_eq!(
            works(&["get", &path, "names", "item 7"]),
            "\"並木\"\n",
            "{text}"
        );
        assert!(
            everything(dir.path()) == before,
            "{text}: something was changed"
        );
    }
}

#[test]
fn rows_are_written_and_removed_for_their_program() {
    let dir = tempfile::tempdir().unwrap();
    let path = shop(dir.path());
    works(&["put", &path, "stock", "17", "-100"]);
    works(&["put", &path, "visits", "(carol, 3)", "some(8)"]);
    works(&["put", &path, "names", "dora", "0xff"]);
    works(&["put", &path, "accounts", "0x0000000000000002", "0x0100"]);
    works(&["remove", &path, "visits", "(alice, 1)"]);
    let said = refuses(1, &["remove", &path, "visits", "(alice, 1)"]);
    has(&said, "has no key (\"alice\", 1)");
    works(&[
        "put", &path, "notes", "1", "a \"b\"", "--create", "i64", "string",
    ]);

    let db = Database::open(dir.path()).unwrap();
    let stock = db.table::<u64, i64>("stock").unwrap();
    let visits = db.table::<(String, u64), Option<u32>>("visits").unwrap();
    let names = db.table::<str, Vec<u8>>("names").unwrap();
    let accounts = db.table::<Id, Account>("accounts").unwrap();
    let notes = db.table::<i64, String>("notes").unwrap();
    db.transact(|tx| {
        assert_eq!(tx.get(&stock, &17)?, Some(-100));
        assert_eq!(tx.get(&visits, &("carol", 3))?, Some(Some(8)));
        assert_eq!(tx.get(&visits, &("alice", 1))?, None);
        assert_eq!(tx.get(&names, "dora")?, Some(vec![255]));
        assert_eq!(tx.get(&accounts, &Id(2))?.map(|it| it.owner.len()), Some(0));
        assert_eq!(tx.get(&notes, &1)?.as_deref(), Some("a \"b\""));
        Ok(())
    })
    .unwrap();
}

#[test]
fn what_cannot_be_written_is_refused_and_makes_nothing() {
    let (dir, path) = database(ProtocolSpec::DEFAULT);
    let nowhere = dir.path().join("nowhere");
    let nowhere = nowhere.to_str().unwrap();
    for (status, arguments, why) in [
        (
            1,
            &["put", &*path, "new", "1", "1"][..],
            "there is no table \"new\"",
        ),
        (1, &["put", nowhere, "new", "1", "1"], "does not exist"),
        (
            2,
            &["put", &path, "stock", "x", "1"],
            "the key \"x\" is not of type u64",
        ),
        (
            2,
            &["put", &path, "stock", "1", "1.5"],
            "the value \"1.5\" is not of type i64",
        ),
        (
            2,
            &["put", nowhere, "new", "x", "1", "--create", "u64", "u64"],
            "is not of type u64",
        ),
        (
            2,
            &["put", nowhere, "new", "1", "1", "--create", "f64", "u64"],
            "cannot be the type of a key",
        ),
        (
            2,
            &[
                "put", nowhere, "new", "1", "1", "--create", "u64", "Account",
            ],
            "not a type that the database knows",
        ),
        (
            1,
            &["put", &path, "stock", "1", "1", "--create", "u64", "u64"],
            "maps u64 to i64, not u64 to u64",
        ),
        (1, &["remove", nowhere, "stock", "1"], "does not exist"),
    ] {
        let said = refuses(status, arguments);
        assert!(said.contains(why), "{arguments:?}: {said}");
        assert!(!Path::new(nowhere).exists(), "{arguments:?}");
    }
    let db = Database::open(dir.path()).unwrap();
    assert_eq!(db.tables(), ["stock", "names"]);
    for command in ["get", "scan", "put", "remove", "export"] {
        let arguments = [command, &path, "stock", "1", "1"];
        let used = match command {
            "get" | "remove" => 4,
            "put" => 5,
            _ => 3,
        };
        let said = refuses(1, &arguments[..used]);
        has(&said, "is in use");
    }
}

/// Paper: pwal §5.3, §5.5
#[test]
fn a_dumped_log_shows_tuples_as_tuples() {
    let dir = tempfile::tempdir().unwrap();
    let path = shop(dir.path());
    let dump = works(&["dump-log", &path, "--changes", "9999"]);
    for put in [
        "put visits[(\"alice\", 2)] = some(7)",
        "put visits[(\"al\", 9)] = some(7)",
        "put names[\"alan\"] = 0x00ff",
        "put accounts[(1)] = {owner: \"A\"}",
    ] {
        assert!(dump.contains(put), "{put} not in\n{dump}");
    }
}

/// A type's earlier release.
#[derive(Value)]
#[namiki(name = "Payment")]
struct PaymentV1 {
    amount: u64,
}

#[derive(Value)]
#[namiki(version = 2, from = PaymentV1)]
struct Payment {
    amount: u64,
    way: Way,
    tags: BTreeMap<String, u8>,
    part_of: Option<Box<Payment>>,
    at: Option<SystemTime>,
}

#[derive(Value)]
enum Way {
    Cash,
    Card { number: u64, holder: String },
    Note(u8, u8),
}

impl From<PaymentV1> for Payment {
    fn from(old: PaymentV1) -> Self {
        Self {
            amount: old.amount,
            way: Way::Cash,
            tags: BTreeMap::new(),
            part_of: None,
            at: None,
        }
    }
}

#[derive(Key)]
enum Account2 {
    Person { name: String, number: u32 },
    Bank(u64),
    Unnamed,
}

#[test]
fn rows_of_derived_types_are_shown_by_their_fields() {
    let dir = tempfile::tempdir().unwrap();
    let db = Database::open(dir.path()).unwrap();
    let old = db.table::<Account2, PaymentV1>("payments").unwrap();
    db.transact(|tx| tx.put(&old, &Account2::Unnamed, &PaymentV1 { amount: 7 }))
        .unwrap();
    let payments = db.table::<Account2, Payment>("payments").unwrap();
    let card = Way::Card {
        number: 4711,
        holder: "Alice".to_owned(),
    };
    let paid = Payment {
        amount: 9,
        way: card,
        tags: BTreeMap::from([("a".to_owned(), 1), ("b".to_owned(), 2)]),
        part_of: Some(Box::new(PaymentV1 { amount: 8 }.into())),
        at: Some(SystemTime::UNIX_EPOCH + Duration::from_millis(1500)),
    };
    let person = Account2::Person {
        name: "Alice".to_owned(),
        number: 1,
    };
    let note = Payment {
        way: Way::Note(1, 2),
        ..PaymentV1 { amount: 10 }.into()
    };
    db.transact(|tx| {
        tx.put(&payments, &person, &paid)?;
        tx.put(&payments, &Account2::Bank(2), &note)
    })
    .unwrap();
    // Also in the state that a killed process leaves: the journal has tables that the manifest does
    // not have yet.
    let path = dir.path().to_str().unwrap();
    let crashed = tempfile::tempdir().unwrap();
    let crashed = crashed.path().join("copy");
    copy_tree(dir.path(), &crashed);
    db.close().unwrap();
    let card = "{amount: 9, way: Card{number: 4711, holder: \"Alice\"}, tags: {\"a\": 1, \"b\": 2}, part_of: \
                some({amount: 8, way: Cash, tags: {}, part_of: none, at: none}), at: some(1970-01-01T00:00:01.5Z)}";
    let rows = [
        format!("Person{{name: \"Alice\", number: 1}} = {card}"),
        "Bank(2) = {amount: 10, way: Note(1, 2), tags: {}, part_of: none, at: none}".to_owned(),
        // A row of the earlier version.
        "Unnamed = {amount: 7}".to_owned(),
    ];
    for path in [path, crashed.to_str().unwrap()] {
        let scanned = works(&["scan", path, "payments"]);
        assert_eq!(scanned.lines().collect::<Vec<_>>(), rows);
    }
    let get = |key: &str, more: &[&str]| works(&[&["get", path, "payments", key], more].concat());
    assert_eq!(get("Person{name: Alice, number: 1}", &[]).trim_end(), card);
    let json = get("Person{name: \"Alice\", number: 1}", &["--format", "json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["way"]["Card"]["holder"], "Alice");
    assert_eq!(json["part_of"]["way"], "Cash");
    assert_eq!(get("Unnamed", &[]), "{amount: 7}\n");
    // An export contains the layouts of its types, so an imported table is shown with its fields,
    // and its program can open it.
    let elsewhere = tempfile::tempdir().unwrap();
    let [file, copy] =
        ["a.jsonl", "copy"].map(|name| elsewhere.path().join(name).to_str().unwrap().to_owned());
    works(&["export", path, "payments", "--output", &file]);
    works(&["import", &copy, "payments", &file]);
    let scanned = works(&["scan", &copy, "payments"]);
    assert_eq!(scanned.lines().collect::<Vec<_>>(), rows);
    let db = Database::open(&copy).unwrap();
    db.table::<Account2, Payment>("payments").unwrap();
    db.close().unwrap();
    // The shown form is accepted for writing.
    works(&["put", path, "payments", "Bank(3)", card]);
    let db = Database::open(dir.path()).unwrap();
    let payments = db.table::<Account2, Payment>("payments").unwrap();
    let read = db.read(|view| view.get(&payments, &Account2::Bank(3)));
    let read = read.unwrap().unwrap();
    assert!(matches!(read.way, Way::Card { number: 4711, .. }));
    assert_eq!(read.part_of.map(|part| part.amount), Some(8));
    db.close().unwrap();
}
