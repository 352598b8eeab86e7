//! The example of README.md is a program of this repository, and it works; so do the others.

use std::error::Error;
use std::path::Path;
use std::process::Command;

/// Runs an example in a directory; returns what it prints.
fn run(example: &str, dir: &Path) -> Result<String, Box<dyn Error>> {
    run_with(example, &[], dir)
}

fn run_with(example: &str, arguments: &[&str], dir: &Path) -> Result<String, Box<dyn Error>> {
    // This is target/debug/deps/library-…; the example is target/debug/examples/payments, which
    // `cargo test` has built.
    let test = std::env::current_exe()?;
    let built = test.parent().and_then(|deps| deps.parent());
    let program = built
        .ok_or("no folder above")?
        .join("examples")
        .join(example);
    let run = Command::new(&program)
        .args(arguments)
        .current_dir(dir)
        .output();
    let run = run.map_err(|error| {
        format!("{error}: build it by `cargo build -p namiki --example {example}`")
    })?;
    assert!(run.status.success(), "{run:?}");
    Ok(String::from_utf8(run.stdout)?)
}

/// The second run starts from what the first one has left.
#[test]
fn the_readme_example_runs_twice() -> Result<(), Box<dyn Error>> {
    let readme = include_str!("../../../../README.md");
    let source = include_str!("../../examples/payments.rs");
    let shown = (readme.split("```")).find_map(|block| block.strip_prefix("rust,no_run\n"));
    let code = source.split_once("\n\n").map(|(_, code)| code);
    assert_eq!(shown, code, "README.md shows another program");

    let dir = tempfile::tempdir()?;
    for _ in 0..2 {
        run("payments", dir.path())?;
    }

    let db = namiki::Database::open(dir.path().join("shop"))?;
    let payments = db.table::<(u64, u64), str>("payments")?;
    let rows = db.transact(|tx| tx.scan(&payments, ..))?;
    let numbers: Vec<u64> = rows.into_iter().map(|((_, number), _)| number).collect();
    assert_eq!(numbers, [0, 1], "one payment for each run");
    Ok(())
}

#[test]
fn the_ledger_pays_refuses_and_tells() -> Result<(), Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    let first = run("ledger", dir.path())?;
    let expected = [
        "refused: 10 are missing",
        "account 1 of Alice, Current: -20",
        "account 2 of Alice, Savings { percent: 2 }: 30",
        "entry 2 of Bob: Paid { to: AccountId(2), amount: 30 }",
        "entry 1 of Bob: Received { from: AccountId(1), amount: 120 }",
        "entry 0 of Bob: Opened",
        "to Bob: 120 from Alice",
        "to Alice: 30 from Bob",
        "a remark on Alice: false; words on Bob: Some(3)",
        "7 entries, and 4 without the openings",
    ];
    assert!(first.lines().eq(expected), "{first}");
    let second = run("ledger", dir.path())?;
    assert!(
        second.contains("account 4 of Alice, Current: -20"),
        "{second}"
    );
    Ok(())
}

/// Four workers: jobs that fail once are retried, and the interrupted one is completed.
#[test]
fn the_queue_does_every_job_once() -> Result<(), Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    for round in 1..=2 {
        let told = run("queue", dir.path())?;
        let mut expected = vec![
            "taken and not finished: true".to_owned(),
            "1 interrupted, back in the queue".to_owned(),
            format!("{} done, 0 left", 50 * round),
        ];
        expected.extend(vec!["given up after 3 attempts: never".to_owned(); round]);
        assert!(told.lines().eq(expected), "{told}");
    }

    let db = namiki::Database::open(dir.path().join("queue"))?;
    let done = db.table::<u64, String>("done")?;
    let rows = db.transact(|tx| tx.scan(&done, ..))?;
    let mut made: Vec<_> = rows.into_iter().map(|(_, made)| made.len()).collect();
    made.sort_unstable();
    let expected: Vec<_> = (0..50).flat_map(|length| [length; 2]).collect();
    assert_eq!(made, expected);
    Ok(())
}

#[test]
fn the_index_by_hand_refuses_and_finds() -> Result<(), Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    let expected = [
        "refused: member 1 has this address",
        "turing@example.org: Some(\"Alan\")",
        "alan@example.org: None",
        "born in 1912: Alan",
        "born in 1906: Grace",
        "indexes agree with the table: true",
    ];
    for _ in 0..2 {
        let told = run("index_by_hand", dir.path())?;
        assert!(told.lines().eq(expected), "{told}");
    }
    Ok(())
}

#[test]
fn the_counters_count_what_is_there() -> Result<(), Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    for round in 1..=2 {
        let (about, home) = (400 * round, 1_200 * round);
        let all = about + home;
        let expected = format!("about: {about}\nall: {all}\nhome: {home}\nrows: {all}\n");
        assert_eq!(run("counters", dir.path())?, expected);
    }
    Ok(())
}

#[test]
fn the_bulk_load_goes_on_where_it_stopped() -> Result<(), Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    for resumed in [
        "10000 written, 0 there before",
        "0 written, 10000 there before",
    ] {
        let expected = format!(
            "the load stopped, its first 20000 rows are durable: go on behind the key of the last one (the next row \
             cannot be had)\nlast key: Some(19999)\nresumed: {resumed}\nrows: 30000\n"
        );
        assert_eq!(run("bulk_load", dir.path())?, expected);
    }
    Ok(())
}

#[test]
fn a_changed_type_reads_what_it_was() -> Result<(), Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    let first = run("changed_type", dir.path())?;
    assert!(
        first.contains("first_name: \"Ada\", last_name: \"Lovelace\""),
        "{first}"
    );
    assert!(
        first.contains("which has changed the type: use that"),
        "{first}"
    );
    assert_eq!(run("changed_type", dir.path())?, first);
    Ok(())
}

#[test]
fn tasks_are_measured_beside_threads() -> Result<(), Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    let told = run_with("tasks_beside_threads", &["0.02"], dir.path())?;
    assert!(told.contains("tasks to threads, median: "), "{told}");
    assert!(!told.contains(" 0/s"), "{told}");
    Ok(())
}
