//! `namiki export` and `namiki import`, as their user sees them: an import equals the export.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use namiki::files::Manifest;
use namiki::query::{Column, ColumnType, Datum, Schema};
use namiki::{Database, Key, NewTable, Stamp, TableInfo, UntypedTable, Value};
use namiki_platform::disk::{Disk, SyncedDisk};
use namiki_platform::seeded_random::Random;
use namiki_segment::{CheckVisitor, SegmentError};

use crate::program::{everything, has, refuses, works};

/// A random value of a type; edge cases are more frequent.
trait Draw {
    fn draw(random: &mut Random) -> Self;
}

macro_rules! integers {
    ($($type:ty),*) => {$(
        impl Draw for $type {
            fn draw(random: &mut Random) -> Self {
                match random.below(5) {
                    0 => <$type>::MIN,
                    1 => <$type>::MAX,
                    2 => random.below(100) as $type,
                    3 => ((1_u64 << 53) + random.below(3)) as $type,
                    _ => ((u128::from(random.next_u64()) << 64) | u128::from(random.next_u64())) as $type,
                }
            }
        }
    )*};
}
integers!(u8, u16, u32, u64, u128, i8, i16, i32, i64, i128);

macro_rules! floats {
    ($($type:ty: $bits:ty),*) => {$(
        impl Draw for $type {
            fn draw(random: &mut Random) -> Self {
                match random.below(8) {
                    0 => -0.0,
                    1 => <$type>::INFINITY,
                    2 => <$type>::NEG_INFINITY,
                    3 => <$type>::NAN,
                    4 => <$type>::MIN_POSITIVE / 3.0,
                    5 => <$type>::MAX,
                    // Arbitrary bits, including NaNs with payloads.
                    _ => <$type>::from_bits(random.next_u64() as $bits),
                }
            }
        }
    )*};
}
floats!(f32: u32, f64: u64);

impl Draw for bool {
    fn draw(random: &mut Random) -> Self {
        random.chance(0.5)
    }
}

impl Draw for () {
    fn draw(_: &mut Random) {}
}

impl Draw for char {
    fn draw(random: &mut Random) -> Self {
        const SOME: [char; 14] = [
            '"',
            '\'',
            ',',
            '\n',
            '\r',
            '\0',
            ' ',
            '\\',
            '(',
            ')',
            '=',
            '並',
            '\u{feff}',
            '\u{10ffff}',
        ];
        if random.chance(0.5) {
            SOME[random.index(SOME.len())]
        } else {
            (b'a' + random.below(26) as u8).into()
        }
    }
}

impl Draw for String {
    fn draw(random: &mut Random) -> Self {
        let chars = random.below(9);
        (0..chars).map(|_| char::draw(random)).collect()
    }
}

impl<T: Draw> Draw for Vec<T> {
    fn draw(random: &mut Random) -> Self {
        let items = random.below(5);
        (0..items).map(|_| T::draw(random)).collect()
    }
}

impl<T: Draw> Draw for Option<T> {
    fn draw(random: &mut Random) -> Self {
        random.chance(0.6).then(|| T::draw(random))
    }
}

impl<T: Draw, const N: usize> Draw for [T; N] {
    fn draw(random: &mut Random) -> Self {
        std::array::from_fn(|_| T::draw(random))
    }
}

macro_rules! tuples {
    ($(($($part:ident),*);)*) => {$(
        impl<$($part: Draw),*> Draw for ($($part,)*) {
            fn draw(random: &mut Random) -> Self {
                ($($part::draw(random),)*)
            }
        }
    )*};
}
tuples! { (A, B); (A, B, C); (A, B, C, D); (A, B, C, D, E); (A, B, C, D, E, F); }

#[derive(Key)]
struct Id(u64);

#[derive(Key)]
enum Place {
    Town(String),
    Number(u8),
}

#[derive(Value)]
struct Account {
    owner: String,
    amounts: Vec<i64>,
}

impl Draw for Id {
    fn draw(random: &mut Random) -> Self {
        Self(Draw::draw(random))
    }
}

impl Draw for Place {
    fn draw(random: &mut Random) -> Self {
        if random.chance(0.5) {
            Self::Town(Draw::draw(random))
        } else {
            Self::Number(Draw::draw(random))
        }
    }
}

impl Draw for Account {
    fn draw(random: &mut Random) -> Self {
        Self {
            owner: Draw::draw(random),
            amounts: Draw::draw(random),
        }
    }
}

/// A table of these types with random rows, named by its types.
fn fill<K, V>(db: &Database, random: &mut Random)
where
    K: Key<Owned = K> + Draw,
    V: Value<Owned = V> + Draw,
{
    let name = format!("{} to {}", K::type_name(), V::type_name());
    let table = db.table::<K, V>(&name).unwrap();
    db.transact(|tx| (0..40).try_for_each(|_| tx.put(&table, &K::draw(random), &V::draw(random))))
        .unwrap();
}

fn random_tables(db: &Database, random: &mut Random) {
    macro_rules! keys {
        ($($type:ty),* $(,)?) => {$( fill::<$type, u64>(db, random); )*};
    }
    macro_rules! values {
        ($($type:ty),* $(,)?) => {$( fill::<u32, $type>(db, random); )*};
    }
    keys!(
        u8,
        u16,
        u32,
        u64,
        u128,
        i8,
        i16,
        i32,
        i64,
        i128,
        bool,
        char,
        (),
        String,
        Vec<u8>
    );
    keys!(
        [u8; 0],
        [u8; 8],
        [u8; 16],
        Option<String>,
        Option<Option<u8>>,
        Option<()>,
        Id,
        Place
    );
    keys!(
        (String, u64),
        (Vec<u8>, Option<i8>, char),
        ((u8, String), [u8; 3]),
        (Place, Id)
    );
    keys!(
        (u8, u8, u8, u8),
        (String, String, u8, bool, char),
        (u8, u8, u8, u8, u8, u128)
    );
    values!(
        u8,
        u16,
        u32,
        u128,
        i8,
        i16,
        i32,
        i64,
        i128,
        f32,
        f64,
        bool,
        char,
        ()
    );
    values!(
        String,
        Vec<u8>,
        [u8; 7],
        [u16; 3],
        [[u8; 2]; 2],
        Vec<u64>,
        Vec<String>,
        Vec<Vec<u8>>
    );
    values!(
        Option<f64>,
        Option<Option<String>>,
        Option<()>,
        Vec<Option<char>>,
        Account
    );
    values!(
        (u64, f32),
        (String, Vec<u8>, Option<(u8, i128)>),
        (u8, Account),
        Vec<Account>
    );
    values!(
        (u8, u8, u8, u8),
        (u8, u8, u8, u8, char),
        (String, String, u8, u8, u8, Vec<bool>)
    );
}

/// The whole contents of tables: types and rows.
fn contents(db: &Database) -> Vec<(TableInfo, Vec<(Vec<u8>, Vec<u8>)>)> {
    let tables = db.table_infos().into_iter().map(|info| {
        let table = db.untyped_table(&info.name).unwrap().unwrap();
        let rows = db.transact(|tx| tx.scan(&table, ..)).unwrap();
        (info, rows)
    });
    tables.collect()
}

/// A table in segments with all types of columns, and optionally with an index.
fn load_columns(dir: &Path, random: &mut Random, with_index: bool) {
    let columns = vec![
        Column::new("id", ColumnType::U64),
        Column::new("small", ColumnType::I64).nullable(),
        Column::new("yes", ColumnType::Bool),
        Column::new("price", ColumnType::Decimal { scale: 2 }),
        Column::new("day", ColumnType::Date),
        Column::new("name", ColumnType::Text),
        Column::new("picture", ColumnType::Bytes).nullable(),
    ];
    let mut table = NewTable::new("columns", Schema::new(columns, &["id"]).unwrap());
    if with_index {
        table = table.index("by_name", &["name"]);
    }
    let rows: BTreeMap<u64, Vec<Datum>> = (0..100)
        .map(|_| {
            let id = Draw::draw(random);
            let small: Option<i64> = Draw::draw(random);
            let picture: Option<Vec<u8>> = Draw::draw(random);
            let row = vec![
                Datum::U64(id),
                small.map_or(Datum::Null, Datum::I64),
                Datum::Bool(Draw::draw(random)),
                Datum::Decimal {
                    unscaled: i64::draw(random).into(),
                    scale: 2,
                },
                Datum::Date(random.below(40_000) as i32 - 9_000),
                Datum::Text(Draw::draw(random)),
                picture.map_or(Datum::Null, Datum::Bytes),
            ];
            (id, row)
        })
        .collect();
    let db = Database::open(dir).unwrap();
    let rows = rows.into_values().map(Ok::<_, std::convert::Infallible>);
    db.load_sorted(&table, rows).unwrap();
    db.close().unwrap();
}

/// The tables in segments: columns, indexes, and the entries of all their segments.
fn segments(dir: &Path) -> Vec<(String, Schema, Vec<String>, Vec<(Vec<u8>, Vec<u8>)>)> {
    let disk: Arc<dyn Disk> = Arc::new(SyncedDisk::new());
    let manifest = Manifest::read(&*disk, dir).unwrap().unwrap();
    let tables = manifest.loaded_tables.tables.iter().map(|table| {
        let mut found = Entries::default();
        for segment in
            std::iter::once(&table.segment).chain(table.indexes.iter().map(|it| &it.segment))
        {
            let (path, id) = (segment.file.path(dir), segment.id(manifest.identity()));
            namiki_segment::check_with(&disk, &path, id, &mut found).unwrap();
        }
        let indexes = table.indexes.iter().map(|it| it.name.clone()).collect();
        (table.name.clone(), table.schema.clone(), indexes, found.0)
    });
    tables.collect()
}

#[derive(Default)]
struct Entries(Vec<(Vec<u8>, Vec<u8>)>);

impl CheckVisitor for Entries {
    type Error = SegmentError;

    fn wants_rows(&self) -> bool {
        true
    }

    fn on_row(&mut self, key: &[u8], value: &[u8], _: Stamp) -> Result<(), SegmentError> {
        self.0.push((key.to_vec(), value.to_vec()));
        Ok(())
    }
}

fn opened(dir: &Path) -> Database {
    Database::builder().open_read_only(dir).unwrap()
}

#[test]
fn what_is_imported_is_what_was_exported() {
    let seed = 0x2026_1126;
    println!("seed {seed:#x}");
    let random = &mut Random::seeded(seed);
    let dir = tempfile::tempdir().unwrap();
    let place = |name: &str| dir.path().join(name);
    let (shop, folder, copy) = (place("shop"), place("folder"), place("copy"));
    let name = |path: &Path| path.to_str().unwrap().to_owned();
    let db = Database::open(&shop).unwrap();
    random_tables(&db, random);
    // Bytes that the type would not write.
    let damaged = db.create_untyped_table(&UntypedTable {
        layouts: None,
        schema: Some(b"zero"),
        name: "wrong bytes",
        key_type: "(string, u8)",
        value_type: "f64",
        eight_byte_keys: false,
        room_bytes: 8,
    });
    let damaged = damaged.unwrap();
    assert_eq!(db.add_schema_version(&damaged, b"\0one").unwrap(), 1);
    db.transact(|tx| tx.put(&damaged, &[255][..], &[1, 2][..]))
        .unwrap();
    db.close().unwrap();
    load_columns(&shop, random, true);

    let before = everything(&shop);
    works(&["export", &name(&shop), "--all", &name(&folder)]);
    assert!(everything(&shop) == before, "something was changed");
    works(&["import", &name(&copy), "--all", &name(&folder)]);
    let (expected, found) = (contents(&opened(&shop)), contents(&opened(&copy)));
    assert!(expected.len() > 60);
    for ((info, rows), found) in expected.iter().zip(&found) {
        assert_eq!(*info, found.0);
        assert_eq!(rows, &found.1, "{}", info.name);
    }
    assert_eq!(expected.len(), found.len());
    assert_eq!(segments(&shop), segments(&copy));
    // A repeated import changes nothing.
    works(&["import", &name(&copy), "--all", &name(&folder), "--resume"]);
    assert_eq!(segments(&shop), segments(&copy));

    // The same by CSV, a table at a time, if CSV can represent all of its contents.
    let (csv, again) = (place("rows.csv"), place("again"));
    let mut without_csv = Vec::new();
    for (info, rows) in &expected {
        let export = ["export", &name(&shop), &info.name, "--output", &name(&csv)];
        let output = crate::program::namiki(&export);
        if output.status.code() != Some(0) {
            let said = String::from_utf8(output.stderr).unwrap();
            has(&said, "--format jsonl");
            assert!(!csv.exists());
            without_csv.push(info.name.clone());
            continue;
        }
        works(&["import", &name(&again), &info.name, &name(&csv)]);
        let db = opened(&again);
        let (found, found_rows) = contents(&db).pop().unwrap();
        assert_eq!((&found.name, &found.key_type), (&info.name, &info.key_type));
        assert_eq!(
            (&found.value_type, found.fixed_keys),
            (&info.value_type, info.fixed_keys)
        );
        assert_eq!(&found_rows, rows, "{}", info.name);
        fs::remove_file(&csv).unwrap();
    }
    // Floats of any bits are among them.
    assert!(
        without_csv.contains(&"wrong bytes".to_owned()),
        "{without_csv:?}"
    );
    let floats = |name: &String| name.contains("f32") || name.contains("f64");
    let others = without_csv.iter().filter(|it| !floats(it)).count();
    assert_eq!(others, 1, "{without_csv:?}");
}

/// A shop with a table of `rows` numbers, and a file of them.
fn numbers(dir: &Path, rows: u64, format: &str) -> (String, String) {
    let shop = dir.join("shop");
    let db = Database::open(&shop).unwrap();
    let table = db.table::<u64, String>("numbers").unwrap();
    for from in (0..rows).step_by(1000) {
        let some = from..rows.min(from + 1000);
        db.transact(|tx| {
            some.clone()
                .try_for_each(|number| tx.put(&table, &number, &format!("number {number}")))
        })
        .unwrap();
    }
    db.close().unwrap();
    let file = dir.join(format!("numbers.{format}"));
    let (shop, file) = (shop.to_str().unwrap(), file.to_str().unwrap());
    works(&["export", shop, "numbers", "--output", file]);
    (shop.to_owned(), file.to_owned())
}

#[test]
fn a_bad_line_is_named_and_resume_does_the_rest() {
    for format in ["jsonl", "csv"] {
        let dir = tempfile::tempdir().unwrap();
        let (shop, file) = numbers(dir.path(), 3500, format);
        let copy = dir.path().join("copy");
        let copy = copy.to_str().unwrap();
        let sound = fs::read_to_string(&file).unwrap();
        let mut lines: Vec<&str> = sound.lines().collect();
        // Line 1 is the header, so this is the line of number 2345.
        let at = 2346;
        assert!(lines[at].contains("number 2345"));
        let bad = lines[at].replacen("2345", "-1", 1);
        lines[at] = &bad;
        fs::write(&file, lines.join("\n")).unwrap();
        let said = refuses(1, &["import", copy, "numbers", &file]);
        for part in [
            "line 2347 of ",
            "the key",
            "2,345 rows before it",
            "--resume",
        ] {
            assert!(said.contains(part), "{format}: {said}");
        }
        assert_eq!(works(&["scan", copy, "numbers", "--count"]), "2,345\n");

        // The corrected file conflicts with existing rows, but not with equal ones.
        fs::write(&file, &sound).unwrap();
        let said = refuses(1, &["import", copy, "numbers", &file]);
        has(&said, "line 2 of ");
        has(&said, "is in the table");
        works(&["put", copy, "numbers", "7", "seven"]);
        let said = refuses(1, &["import", copy, "numbers", &file, "--resume"]);
        has(&said, "line 9 of ");
        has(&said, "another value");
        works(&["put", copy, "numbers", "7", "number 7"]);
        works(&["import", copy, "numbers", &file, "--resume"]);
        let equal = contents(&opened(Path::new(&shop))) == contents(&opened(Path::new(copy)));
        assert!(equal, "{format}");
        works(&["put", copy, "numbers", "7", "seven"]);
        works(&["import", copy, "numbers", &file, "--replace"]);
        let equal = contents(&opened(Path::new(&shop))) == contents(&opened(Path::new(copy)));
        assert!(equal, "{format}");
    }
}

/// A transaction has changed it, so it is in memory; the copy is in segments again.
#[test]
fn a_loaded_table_in_memory_is_exported_with_columns() {
    let dir = tempfile::tempdir().unwrap();
    let place = |name: &str| dir.path().join(name);
    let (shop, folder, copy) = (place("shop"), place("folder"), place("copy"));
    let name = |path: &Path| path.to_str().unwrap().to_owned();
    load_columns(&shop, &mut Random::seeded(7), false);
    let (_, schema, _, mut rows) = segments(&shop).pop().unwrap();
    let db = Database::open(&shop).unwrap();
    let table = db.untyped_table("columns").unwrap().unwrap();
    let (first, _) = rows.remove(0);
    db.transact(|tx| tx.delete(&table, &first)).unwrap();
    db.close().unwrap();
    assert!(segments(&shop).is_empty());

    works(&["export", &name(&shop), "--all", &name(&folder)]);
    works(&["import", &name(&copy), "--all", &name(&folder)]);
    let expected = ("columns".to_owned(), schema, Vec::new(), rows);
    assert_eq!(segments(&copy), [expected]);
}

#[test]
fn a_file_that_was_cut_off_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (_, file) = numbers(dir.path(), 30, "jsonl");
    let text = fs::read_to_string(&file).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let import = |name: &str, lines: &[&str]| {
        fs::write(&file, lines.join("\n")).unwrap();
        let copy = dir.path().join(name);
        refuses(1, &["import", copy.to_str().unwrap(), "numbers", &file])
    };
    let said = import("a", &lines[..20]);
    has(&said, "line 21 of ");
    has(&said, "it was cut off");
    let without_one = [&lines[..20], &lines[21..]].concat();
    let said = import("b", &without_one);
    has(&said, "it counts 30 rows, and there are 29");
    let twice = [&lines[..], &lines[1..2]].concat();
    let said = import("c", &twice);
    has(&said, "it follows the last line");
    let said = import("d", &lines[1..]);
    has(&said, "line 1 of ");
    has(&said, "it is not a header");
    assert!(!dir.path().join("d").exists());
    let newer = lines[0].replacen("\"namiki\":1", "\"namiki\":2", 1);
    let said = import("e", &[&newer[..]]);
    has(&said, "use a newer release");
}

#[test]
fn a_file_of_other_types_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (shop, file) = numbers(dir.path(), 3, "csv");
    works(&[
        "put", &shop, "names", "a", "b", "--create", "string", "string",
    ]);
    let said = refuses(1, &["import", &shop, "names", &file]);
    let told = "table \"names\" maps string to string, and ";
    has(&said, told);
    has(&said, "rows of u64 to string");
    let said = refuses(1, &["import", &shop, "--all", dir.path().to_str().unwrap()]);
    has(&said, "holds no export");
    let said = refuses(1, &["export", &shop, "--all", dir.path().to_str().unwrap()]);
    has(&said, "is not empty");
}

#[test]
fn an_export_can_be_piped_into_an_import() {
    let dir = tempfile::tempdir().unwrap();
    let (shop, _) = numbers(dir.path(), 2000, "jsonl");
    let copy = dir.path().join("copy");
    let mut export = Command::new(env!("CARGO_BIN_EXE_namiki"))
        .args(["export", &shop, "numbers"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let import = Command::new(env!("CARGO_BIN_EXE_namiki"))
        .args(["import", copy.to_str().unwrap(), "numbers", "-"])
        .stdin(export.stdout.take().unwrap())
        .output()
        .unwrap();
    assert!(export.wait().unwrap().success());
    assert!(import.status.success(), "{import:?}");
    assert!(contents(&opened(Path::new(&shop))) == contents(&opened(&copy)));
}

/// A row that no transaction of the default length could hold.
#[test]
fn rows_longer_than_a_log_file_are_imported() {
    let dir = tempfile::tempdir().unwrap();
    let (shop, copy) = (dir.path().join("shop"), dir.path().join("copy"));
    let db = Database::open(&shop).unwrap();
    let table = db.table::<u64, Vec<u8>>("pictures").unwrap();
    db.transact(|tx| tx.put(&table, &1, &vec![7; 20 << 20]))
        .unwrap();
    db.close().unwrap();
    let file = dir.path().join("pictures.jsonl");
    let (shop, file) = (shop.to_str().unwrap(), file.to_str().unwrap());
    works(&["export", shop, "pictures", "--output", file]);
    let copy = copy.to_str().unwrap();
    works(&["import", copy, "pictures", file]);
    assert!(contents(&opened(Path::new(shop))) == contents(&opened(Path::new(copy))));
}

#[test]
fn an_unclosed_cell_ends_the_import_with_its_row() {
    let dir = tempfile::tempdir().unwrap();
    let (db, file) = (dir.path().join("db"), dir.path().join("a.csv"));
    let [db, path] = [&db, &file].map(|path| path.to_str().unwrap());
    for (text, said) in [
        (
            "1,\"open\n2,two\n3,three\n",
            "the file ends before another one ends it",
        ),
        (
            "1,\"one\"x\n2,two\n",
            "goes on after its closing quotation mark",
        ),
    ] {
        fs::write(&file, format!("key:u64,value:string\n0,zero\n{text}")).unwrap();
        let errors = refuses(1, &["import", db, "t", path, "--replace"]);
        has(&errors, "line 3 of");
        has(&errors, said);
        assert_eq!(works(&["scan", db, "t"]), "0 = \"zero\"\n");
    }
    fs::write(&file, "key:u64,value:string\n1,\"o\"\"ne\n\"\n").unwrap();
    works(&["import", db, "t", path]);
    assert_eq!(works(&["get", db, "t", "1"]), "\"o\\\"ne\\n\"\n");
}

/// Empty lines are skipped, but counted.
#[test]
fn a_bad_row_behind_empty_lines_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let (db, file) = (dir.path().join("db"), dir.path().join("a.csv"));
    let [db, path] = [&db, &file].map(|path| path.to_str().unwrap());
    for (row, said) in [
        (
            "1,\"open\n2,two",
            "the file ends before another one ends it",
        ),
        ("1,\"one\"x\n2,two\n", "goes on after its closing"),
        ("x,one\n", "the key"),
        ("1\n", "it has 1 cells"),
    ] {
        for line_end in ["\n", "\r\n"] {
            let text = format!("\n\nkey:u64,value:string\n\n0,zero\n\n\n{row}");
            fs::write(&file, text.replace('\n', line_end)).unwrap();
            let errors = refuses(1, &["import", db, "t", path, "--replace"]);
            has(&errors, "line 8 of");
            has(&errors, said);
            assert_eq!(works(&["scan", db, "t"]), "0 = \"zero\"\n");
        }
    }
}

#[test]
fn the_mark_that_some_programs_put_first_is_passed_over() {
    let dir = tempfile::tempdir().unwrap();
    let (db, file) = (dir.path().join("db"), dir.path().join("a"));
    let [db, path] = [&db, &file].map(|path| path.to_str().unwrap());
    let header = r#"{"namiki":1,"table":"t","key":"u64","value":"string"}"#;
    let lines = format!("{header}\n{{\"key\":1,\"value\":\"a\"}}\n{{\"end\":true,\"rows\":1}}\n");
    let csv = "key:u64,value:string\n2,b\n".to_owned();
    for (text, format) in [(lines, "jsonl"), (csv, "csv")] {
        fs::write(&file, format!("\u{feff}{text}")).unwrap();
        works(&["import", db, "t", path, "--format", format]);
    }
    assert_eq!(works(&["scan", db, "t"]), "1 = \"a\"\n2 = \"b\"\n");
}
