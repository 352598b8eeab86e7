//! Compiler messages for programs with types that cannot be keys or values: their sentence, place
//! and remedy.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

/// The compiler's errors for a program that uses this library: the sentence of each error, the code
/// that it marks, and all text below it.
fn errors_of(program: &str) -> Vec<(String, String, String)> {
    // The library that this test was built with is in the same directory: if there are several, it
    // is the latest.
    let exe = std::env::current_exe().unwrap();
    let deps = exe.parent().unwrap();
    let files = deps.read_dir().unwrap().map(|entry| entry.unwrap().path());
    let is_ours = |path: &std::path::PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("libnamiki-") && name.ends_with(".rlib")
    };
    let built = files
        .filter(is_ours)
        .max_by_key(|path| path.metadata().and_then(|it| it.modified()).unwrap());
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("program.rs");
    std::fs::write(&source, program).unwrap();
    let compiled = std::process::Command::new("rustc")
        .args([
            "--edition=2024",
            "--crate-type=lib",
            "--emit=metadata",
            "--error-format=json",
        ])
        .arg("--extern")
        .arg(format!("namiki={}", built.unwrap().display()))
        .arg("-L")
        .arg(format!("dependency={}", deps.display()))
        .arg("--out-dir")
        .arg(dir.path())
        .arg(&source)
        .output()
        .unwrap();
    let said = String::from_utf8(compiled.stderr).unwrap();
    let messages = said.lines().map(|line| serde_json::from_str(line).unwrap());
    let errors = messages.filter(|message: &serde_json::Value| {
        // The last one counts the others.
        message["level"] == "error" && !message["spans"].as_array().unwrap().is_empty()
    });
    let errors = errors.map(|message| {
        let spans = message["spans"].as_array().unwrap();
        let mut marked = spans
            .iter()
            .find(|span| span["is_primary"] == true)
            .unwrap();
        while marked["file_name"] != *source.to_string_lossy() {
            // In a macro of the standard library's.
            marked = &marked["expansion"]["span"];
        }
        let [from, to] =
            ["byte_start", "byte_end"].map(|end| marked[end].as_u64().unwrap() as usize);
        let below = message["children"].as_array().unwrap().iter();
        let below: Vec<&str> = below.map(|it| it["message"].as_str().unwrap()).collect();
        let sentence = message["message"].as_str().unwrap().to_owned();
        (sentence, program[from..to].to_owned(), below.join("\n"))
    });
    errors.collect()
}

#[test]
fn the_compiler_says_what_to_derive() {
    let uses = |body: &str| {
        format!(
            "use namiki::*; pub fn f(tx: &mut Transaction, db: &Database, table: &Table<u64, u64>) {{ {body} }}"
        )
    };
    let derived = |declaration: &str| format!("use namiki::*; {declaration}");
    let cases = [
        (
            derived("#[derive(Key)] pub struct A { pub price: f64, pub number: u64 }"),
            "`f64` cannot be the key of a table",
            "f64",
            "floats are no keys",
        ),
        (
            derived("pub struct Own; #[derive(Key)] pub enum A { B(u8, Own), C }"),
            "`Own` cannot be the key of a table",
            "Own",
            "#[derive(namiki::Key)]",
        ),
        (
            derived("pub struct Own; #[derive(Value)] pub struct A { pub own: Vec<Own> }"),
            "`Own` cannot be a value of a table",
            "Vec<Own>",
            "namiki::Serde<Own>",
        ),
        (
            uses("let _ = db.table::<f32, u64>(\"t\");"),
            "`f32` cannot be the key of a table",
            "f32",
            "#[derive(namiki::Key)]",
        ),
        (
            uses("let _ = tx.get(table, &1_i32);"),
            "`i32` cannot stand for a key of type `u64`",
            "&1_i32",
            "numbers have to be of the key's own type",
        ),
        (
            uses("let _ = tx.scan(table, \"a\"..\"b\");"),
            "`str` cannot stand for a key of type `u64`",
            "\"a\"..\"b\"",
            "text stands for text",
        ),
        (
            uses("let _ = tx.scan(table, 1);"),
            "`{integer}` is no range of keys of type `u64`",
            "1",
            "a pair of `Bound`s",
        ),
        (
            uses("let _ = tx.prefix(table, \"a\");"),
            "keys of type `u64` do not begin with `str`",
            "\"a\"",
            "first parts",
        ),
        (
            uses("let _ = tx.get_with(table, &1, |_| ());"),
            "values of type `u64` have no borrowed form",
            "table",
            "read other values with `get`",
        ),
        (
            derived(
                "#[derive(Value)] #[namiki(version = 2, from = u64)] pub struct A(pub u64); \
                 impl From<u64> for A { fn from(it: u64) -> A { A(it) } }",
            ),
            "values of type `u64` do not say which version they are",
            "u64",
            "only these begin with a version",
        ),
        (
            derived(
                "#[derive(Value)] #[namiki(version = 2)] pub struct Old(pub u64); \
                 #[derive(Value)] #[namiki(version = 2, from = Old)] pub struct A(pub u64); \
                 impl From<Old> for A { fn from(it: Old) -> A { A(it.0) } }",
            ),
            "has to have a lower version",
            "Old",
            "",
        ),
        (
            derived(
                "#[derive(Value)] pub struct Old(pub u64); \
                 #[derive(Value)] #[namiki(version = 2, from = Old)] pub struct A(pub u64);",
            ),
            "the trait bound `A: From<Old>` is not satisfied",
            "Old",
            "",
        ),
    ];
    assert_eq!(
        errors_of(&derived("#[derive(Key, Value)] pub struct A(pub u64);")),
        []
    );
    for (program, sentence, marked, below) in cases {
        let errors = errors_of(&program);
        let Some((said, at, notes)) = errors.first() else {
            panic!("{program} compiles");
        };
        assert!(said.contains(sentence), "{program}\n{said}\n{notes}");
        assert_eq!(at, marked, "{program}\n{said}\n{notes}");
        assert!(notes.contains(below), "{program}\n{said}\n{notes}");
        let more: Vec<_> = errors.iter().filter(|it| it.0 != *said).collect();
        assert!(more.is_empty(), "{program}\n{more:?}");
    }
}
