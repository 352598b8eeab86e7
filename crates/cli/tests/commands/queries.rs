//! `namiki query` over any table, and the format of its output.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::PathBuf;

use namiki::Database;
use tempfile::TempDir;

use crate::program::{has, refuses, works};

struct Setting {
    dir: TempDir,
}

impl Setting {
    fn new() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn database(&self) -> String {
        self.path("db").to_str().unwrap().to_owned()
    }

    fn plan(&self, text: &str) -> String {
        let path = self.path("plan.json");
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    fn query(&self, plan: &str, format: &str) -> String {
        let plan = self.plan(plan);
        works(&["query", &self.database(), &plan, "--format", format])
    }

    fn refused(&self, plan: &str) -> String {
        refuses(1, &["query", &self.database(), &self.plan(plan)])
    }
}

/// From a CSV file to an answer, without a program.
#[test]
fn a_csv_file_is_imported_and_queried() {
    let setting = Setting::new();
    let file = setting.path("visits.csv");
    let rows = "key.1:string,key.2:u64,value.1:u32,value.2:option<string>,value.3:f64\n\
                alice,1,30,\"some(\"\"a, b\"\")\",1.5\nalice,2,12,none,2\nbob,1,7,\"some(\"\"c\"\")\",-1\n";
    fs::write(&file, rows).unwrap();
    let database = setting.database();
    works(&["import", &database, "visits", file.to_str().unwrap()]);
    let all = setting.query(
        r#"{"sort": {"input": {"scan": {"table": "visits"}}, "by": ["key_1", "key_2"]}}"#,
        "text",
    );
    assert_eq!(
        all,
        "key_1\tkey_2\tvalue_1\tvalue_2\tvalue_3\nalice\t1\t30\ta, b\t1.5\nalice\t2\t12\tnull\t2\nbob\t1\t7\tc\t-1\n"
    );
    let totals = r#"{"sort": {"by": ["key_1"], "input": {"aggregate": {
        "input": {"find": {"table": "visits", "filter": {"in": ["key_1", {"text": "bob"}, {"text": "alice"}]}}},
        "group_by": ["key_1"], "calculate": [{"function": "sum", "of": "value_1", "as": "total"}]}}}}"#;
    let expected = "{\"key_1\":\"alice\",\"total\":\"42\"}\n{\"key_1\":\"bob\",\"total\":\"7\"}\n";
    assert_eq!(setting.query(totals, "json"), expected);
    let found = setting
        .plan(r#"{"find": {"table": "visits", "filter": {"=": ["key_1", {"text": "bob"}]}}}"#);
    let explained = works(&["query", &database, &found, "--explain"]);
    assert!(explained.starts_with("scan visits: 'bob'"), "{explained}");
}

#[test]
fn tables_of_all_types_are_queried() {
    let setting = Setting::new();
    let db = Database::open(setting.path("db")).unwrap();
    let small = db.table::<u32, (i8, bool)>("small").unwrap();
    let bytes = db.table::<[u8], Vec<u64>>("bytes").unwrap();
    db.transact(|tx| {
        tx.put(&small, &300, &(-1, true))?;
        tx.put(&small, &7, &(5, false))?;
        tx.put(&bytes, &[0, 255][..], &vec![1, 2])
    })
    .unwrap();
    db.close().unwrap();
    let rows = r#"{"sort": {"input": {"find": {"table": "small", "filter": {">": ["key", 7]}}}, "by": ["key"]}}"#;
    let expected = "{\"key\":300,\"value_1\":-1,\"value_2\":true,\"key_bytes\":\"0000012c\"}\n";
    assert_eq!(setting.query(rows, "json"), expected);
    let all = setting.query(r#"{"scan": {"table": "bytes"}}"#, "text");
    assert_eq!(all, "key\tvalue\n0x00ff\t[1, 2]\n");
    let error = setting.refused(r#"{"scan": {"table": "large"}}"#);
    has(&error, "there is no table \"large\"");
}

/// Columns are printed in their order, with distinct names; the names are printed also without
/// rows.
#[test]
fn every_column_is_printed_in_its_place() {
    let setting = Setting::new();
    let db = Database::open(setting.path("db")).unwrap();
    let table = db.table::<u64, u64>("t").unwrap();
    db.transact(|tx| tx.put(&table, &1, &2)).unwrap();
    db.close().unwrap();
    let joined = r#"{"nested_loop_join": {"outer": {"scan": {"table": "t", "as": "z"}}, "table": "t", "as": "a", "lookup": ["z.key"]}}"#;
    assert_eq!(
        setting.query(joined, "json"),
        "{\"z.key\":1,\"z.value\":2,\"a.key\":1,\"a.value\":2}\n"
    );
    assert_eq!(
        setting.query(joined, "text"),
        "z.key\tz.value\ta.key\ta.value\n1\t2\t1\t2\n"
    );
    let twice =
        r#"{"nested_loop_join": {"outer": {"scan": {"table": "t"}}, "table": "t", "lookup": [1]}}"#;
    assert_eq!(
        setting.query(twice, "json"),
        "{\"t.key\":1,\"t.value\":2,\"t.key_2\":1,\"t.value_2\":2}\n"
    );
    let order = r#"{"project": {"input": {"scan": {"table": "t"}}, "columns": [{"as": "z\t\"", "of": 1}, {"as": "a", "of": 2}]}}"#;
    assert_eq!(setting.query(order, "json"), "{\"z\\t\\\"\":1,\"a\":2}\n");
    assert_eq!(setting.query(order, "text"), "z\\t\\\"\ta\n1\t2\n");
    let none = r#"{"find": {"table": "t", "filter": {"<": ["key", 1]}}}"#;
    assert_eq!(setting.query(none, "text"), "key\tvalue\n");
    assert_eq!(setting.query(none, "json"), "");
}
