//! The example of README.md is a program of this repository, and it works.

mod shop {
    include!("../../core/examples/shop.rs");

    pub(super) fn run() -> Result<(), Box<dyn std::error::Error>> {
        main()
    }
}

/// The example starts from whatever an earlier run has left.
#[test]
fn the_readme_example_runs_twice() -> Result<(), Box<dyn std::error::Error>> {
    let readme = include_str!("../../../README.md");
    let source = include_str!("../../core/examples/shop.rs");
    let shown = readme
        .split("```")
        .find_map(|block| block.strip_prefix("rust,no_run\n"));
    let code = source.split_once("\n\n").map(|(_, code)| code);
    assert_eq!(
        shown, code,
        "README.md shows another program than examples/shop.rs"
    );

    let dir = tempfile::tempdir()?;
    std::env::set_current_dir(dir.path())?;
    shop::run()?;
    shop::run()?;

    let db = namiki::Database::open("shop")?;
    let payments = db.table::<(u64, u64), str>("payments")?;
    let numbers: Vec<_> = (db.transact(|tx| tx.scan(&payments, ..))?.into_iter())
        .map(|((_, number), _)| number)
        .collect();
    assert_eq!(numbers, [0, 1], "one payment for each run");
    Ok(())
}
