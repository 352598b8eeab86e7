//! The example of README.md is a program of this repository, and it works.

use std::error::Error;
use std::process::Command;

/// The second run starts from what the first one has left.
#[test]
fn the_readme_example_runs_twice() -> Result<(), Box<dyn Error>> {
    let readme = include_str!("../../../README.md");
    let source = include_str!("../examples/payments.rs");
    let shown = (readme.split("```")).find_map(|block| block.strip_prefix("rust,no_run\n"));
    let code = source.split_once("\n\n").map(|(_, code)| code);
    assert_eq!(shown, code, "README.md shows another program");

    // target/debug/deps/readme-… beside target/debug/examples/payments, which `cargo test` has built.
    let test = std::env::current_exe()?;
    let built = test.parent().and_then(|deps| deps.parent());
    let example = built.ok_or("no folder above")?.join("examples/payments");
    let dir = tempfile::tempdir()?;
    for _ in 0..2 {
        let run = Command::new(&example).current_dir(&dir).output();
        let run = run.map_err(|error| {
            format!("{error}: build it by `cargo build -p namiki --example payments`")
        })?;
        assert!(run.status.success(), "{run:?}");
    }

    let db = namiki::Database::open(dir.path().join("shop"))?;
    let payments = db.table::<(u64, u64), str>("payments")?;
    let rows = db.transact(|tx| tx.scan(&payments, ..))?;
    let numbers: Vec<u64> = rows.into_iter().map(|((_, number), _)| number).collect();
    assert_eq!(numbers, [0, 1], "one payment for each run");
    Ok(())
}
