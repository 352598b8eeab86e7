//! psql, pgbench, psycopg and SQLAlchemy against a server.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::raw_client::RawClient;
use crate::running::Running;

/// Set by `cargo xtask clients`: no client may be missing.
const REQUIRE: &str = "NAMIKI_REQUIRE_CLIENTS";
/// A Python with psycopg and SQLAlchemy, from the same chore.
const PYTHON: &str = "NAMIKI_CLIENTS_PYTHON";

/// The folder of psql and pgbench, behind the wrappers on the PATH of Debian.
const DEBIAN: &str = "/usr/lib/postgresql";

#[expect(clippy::print_stdout, reason = "what was not tested is to be seen")]
fn left_out(what: &str) {
    assert!(
        env::var_os(REQUIRE).is_none(),
        "there is no {what}, and {REQUIRE} is set"
    );
    println!("left out: there is no {what}; `cargo xtask clients` gets it");
}

/// A program of PostgreSQL, of the newest version here.
fn postgresql(name: &str) -> Option<PathBuf> {
    let versions = std::fs::read_dir(DEBIAN).into_iter().flatten().flatten();
    let mut versions: Vec<PathBuf> = versions.map(|it| it.path().join("bin")).collect();
    versions.sort();
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = versions.into_iter().rev().chain(env::split_paths(&path));
    let mut programs = folders.map(|folder| folder.join(name));
    let found = programs.find(|program| program.is_file());
    if found.is_none() {
        left_out(name);
    }
    found
}

fn said(output: &Output) -> String {
    let (out, errors) = (&output.stdout, &output.stderr);
    format!(
        "{}{}",
        String::from_utf8_lossy(out),
        String::from_utf8_lossy(errors)
    )
}

/// Runs a command that must succeed.
fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let said = said(&output);
    assert!(output.status.success(), "{command:?}: {said}");
    said
}

/// Runs statements by psql, and returns what it prints.
fn psql(server: &Running, program: &Path, statements: &[&str]) -> String {
    let mut command = server.command(program);
    command.args(["-X", "-A", "-t", "-v", "ON_ERROR_STOP=1"]);
    for statement in statements {
        command.args(["-c", statement]);
    }
    run(&mut command)
}

#[test]
fn psql_logs_in_with_the_password_that_was_printed() {
    let Some(program) = postgresql("psql") else {
        return;
    };
    let (home, server) = Running::new();
    let over_tcp = |password: &str| {
        let mut command = server.command(&program);
        let database = format!("host=127.0.0.1 port={} dbname=namiki", server.port);
        command
            .args([
                "-X",
                "-A",
                "-t",
                "-w",
                "-d",
                &database,
                "-c",
                "SELECT 40 + 2",
            ])
            .env_remove("PGHOST")
            .env("PGPASSWORD", password)
            .output()
            .unwrap()
    };
    let password = server.password.clone().unwrap();
    assert_eq!(said(&over_tcp(&password)), "42\n");
    let refused = over_tcp("wrong");
    assert_eq!(refused.status.code(), Some(2));
    let text = said(&refused);
    assert!(text.contains("password authentication failed"), "{text}");
    let changed = Command::new(env!("CARGO_BIN_EXE_namiki-server"))
        .args(["password", "--dir"])
        .arg(home.data())
        .output()
        .unwrap();
    let changed = said(&changed);
    let changed = changed.split_whitespace().last().unwrap();
    assert_eq!(said(&over_tcp(changed)), "42\n");
    assert!(!over_tcp(&password).status.success());
}

#[test]
fn psql_creates_inserts_and_joins() {
    let Some(program) = postgresql("psql") else {
        return;
    };
    let (_home, server) = Running::new();
    let said = psql(
        &server,
        &program,
        &[
            "CREATE TABLE shop (id serial PRIMARY KEY, name text NOT NULL UNIQUE)",
            "CREATE TABLE sale (shop_id int NOT NULL, day date, amount numeric(10,2), PRIMARY KEY (shop_id, day))",
            "CREATE INDEX sale_day ON sale (day)",
            "INSERT INTO shop (name) VALUES ('north'), ('south') RETURNING id",
            "INSERT INTO sale VALUES (1, '2024-01-01', 10.50), (1, '2024-01-02', 20), (2, '2024-01-01', 7)",
            "SELECT name, sum(amount) FROM shop JOIN sale ON shop.id = sale.shop_id GROUP BY name ORDER BY name",
        ],
    );
    let expected = "CREATE TABLE\nCREATE TABLE\nCREATE INDEX\n1\n2\nINSERT 0 2\nINSERT 0 3\nnorth|30.50\nsouth|7.00\n";
    assert_eq!(said, expected);
    for (command, words) in [
        ("\\d", &["shop", "sale", "table"][..]),
        ("\\dt", &["shop", "sale"]),
        ("\\di", &["sale_day", "sale_pkey", "shop_name_key"]),
        (
            "\\d sale",
            &[
                "shop_id",
                "integer",
                "not null",
                "numeric(10,2)",
                "sale_day",
                "PRIMARY KEY",
            ],
        ),
    ] {
        // With what psql prints below a table.
        let mut described = server.command(&program);
        described.args(["-X", "-A", "-v", "ON_ERROR_STOP=1", "-c", command]);
        let said = run(&mut described);
        for word in words {
            assert!(said.contains(word), "{command}, {word}: {said}");
        }
    }
}

#[test]
fn psql_copies_a_file_in_and_out() {
    let Some(program) = postgresql("psql") else {
        return;
    };
    let (_home, server) = Running::new();
    let folder = tempfile::tempdir().unwrap();
    let (from, to) = (folder.path().join("in"), folder.path().join("out"));
    let rows: String = (0..20_000).map(|id| format!("{id}\tname {id}\n")).collect();
    std::fs::write(&from, &rows).unwrap();
    let said = psql(
        &server,
        &program,
        &[
            "CREATE TABLE t (id int PRIMARY KEY, name text)",
            &format!("\\copy t FROM {}", from.display()),
            &format!(
                "\\copy (SELECT id, name FROM t ORDER BY id) TO {}",
                to.display()
            ),
        ],
    );
    assert!(said.contains("COPY 20000"), "{said}");
    assert!(std::fs::read_to_string(&to).unwrap() == rows);
}

/// `pgbench -i`, and its two workloads by all three protocols: no transaction fails, and the sums of
/// TPC-B agree.
#[test]
fn pgbench_runs_in_all_modes() {
    let Some(program) = postgresql("pgbench") else {
        return;
    };
    let (_home, server) = Running::new();
    let pgbench = |arguments: &[&str]| run(server.command(&program).args(arguments));
    pgbench(&["-i", "-s", "1", "-q"]);
    let mut transactions = 0;
    for mode in ["simple", "extended", "prepared"] {
        for workload in ["tpcb-like", "select-only", "simple-update"] {
            let said = pgbench(&[
                "-n", "-M", mode, "-b", workload, "-c", "4", "-j", "2", "-t", "50",
            ]);
            assert!(
                said.contains("number of failed transactions: 0"),
                "{mode} {workload}: {said}"
            );
            assert!(said.contains("200/200"), "{mode} {workload}: {said}");
            transactions += u64::from(workload != "select-only") * 200;
        }
    }
    let mut client = RawClient::connect(&server);
    let sums = client.run(
        "SELECT (SELECT sum(abalance) FROM pgbench_accounts), (SELECT sum(delta) FROM pgbench_history), \
         (SELECT count(*) FROM pgbench_history)",
    );
    let sums: Vec<i64> = sums[0].split('|').map(|it| it.parse().unwrap()).collect();
    assert_eq!(sums[0], sums[1]);
    assert_eq!(sums[2] as u64, transactions);
    let of_branches = client.run("SELECT sum(bbalance) FROM pgbench_branches");
    let of_tellers = client.run("SELECT sum(tbalance) FROM pgbench_tellers");
    assert_eq!(of_branches, of_tellers);
    // A second initialisation replaces the tables.
    pgbench(&["-i", "-s", "2", "-q"]);
    assert_eq!(
        client.run("SELECT count(*) FROM pgbench_accounts"),
        ["200000"]
    );
    assert_eq!(client.run("SELECT count(*) FROM pgbench_history"), ["0"]);
}

/// Runs a Python program against a new server.
fn python(file: &str) {
    let Some(python) = env::var_os(PYTHON) else {
        return left_out("Python with psycopg and SQLAlchemy");
    };
    let (_home, server) = Running::new();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/server");
    let said = run(server.command(Path::new(&python)).arg(folder.join(file)));
    assert!(said.contains("all as expected"), "{said}");
}

#[test]
fn psycopg_works() {
    python("psycopg_session.py");
}

#[test]
fn sqlalchemy_works() {
    python("sqlalchemy_session.py");
}
