//! Statements that do harm: typed errors, bounded time and memory, others unharmed.

use std::thread;
use std::time::{Duration, Instant};

use crate::raw_client::RawClient;
use crate::running::Running;

/// Memory that a server may take for one bad statement after another.
const MEMORY_MAX: u64 = 2 << 30;

/// Runs a statement while another session runs short ones. Returns the SQLSTATE, empty on success.
fn run_beside_others(server: &Running, name: &str, text: &str) -> String {
    let mut client = RawClient::connect(server);
    let mut other = RawClient::connect(server);
    other.run("SELECT 1");
    let is_done = std::sync::atomic::AtomicBool::new(false);
    let (sqlstate, slowest) = thread::scope(|scope| {
        let others = scope.spawn(|| {
            let mut slowest = Duration::ZERO;
            while !is_done.load(std::sync::atomic::Ordering::Relaxed) {
                let before = Instant::now();
                other.run("SELECT 1");
                slowest = slowest.max(before.elapsed());
                thread::sleep(Duration::from_millis(5));
            }
            slowest
        });
        let answer = client.query(text);
        is_done.store(true, std::sync::atomic::Ordering::Relaxed);
        (answer.sqlstate().to_owned(), others.join().unwrap())
    });
    assert!(slowest < Duration::from_secs(5), "{name}: {slowest:?}");
    let memory = server.memory_bytes();
    assert!(memory < MEMORY_MAX, "{name}: {memory} bytes");
    assert_eq!(client.run("SELECT 1"), ["1"], "{name}");
    sqlstate
}

#[test]
fn deep_statements_are_refused() {
    let (_home, server) = Running::new();
    let nested = 10_000;
    for (name, text) in [
        (
            "parentheses",
            format!("SELECT {}1{}", "(".repeat(nested), ")".repeat(nested)),
        ),
        ("unclosed", "SELECT ".to_owned() + &"(".repeat(nested)),
        ("not", format!("SELECT {} true", "NOT ".repeat(nested))),
        ("minus", format!("SELECT {} 1", "- ".repeat(nested))),
        (
            "case",
            format!(
                "SELECT {}1{}",
                "CASE WHEN true THEN ".repeat(nested),
                " END".repeat(nested)
            ),
        ),
        (
            "subqueries",
            format!(
                "SELECT {}1{}",
                "(SELECT ".repeat(nested),
                ")".repeat(nested)
            ),
        ),
        (
            "arrays",
            format!("SELECT {}1{}", "ARRAY[".repeat(nested), "]".repeat(nested)),
        ),
    ] {
        let sqlstate = run_beside_others(&server, name, &text);
        let is_expected = matches!(sqlstate.as_str(), "54001" | "42601" | "0A000");
        assert!(is_expected, "{name}: {sqlstate:?}");
    }
}

#[test]
fn long_chains_are_run_or_refused() {
    let (_home, server) = Running::new();
    let chain = |of: &dyn Fn(usize) -> String, number: usize, between: &str| {
        (0..number).map(of).collect::<Vec<_>>().join(between)
    };
    let or = chain(&|at| format!("1 = {at}"), 10_000, " OR ");
    let plus = chain(&|at| at.to_string(), 10_000, " + ");
    let union = chain(&|at| format!("SELECT {at}"), 10_000, " UNION ALL ");
    let list = chain(&|at| at.to_string(), 100_000, ", ");
    for (name, text) in [
        ("or", format!("SELECT {or}")),
        ("plus", format!("SELECT {plus}")),
        ("union", union),
        ("list", format!("SELECT 1 WHERE 5 IN ({list})")),
    ] {
        let sqlstate = run_beside_others(&server, name, &text);
        let is_expected = matches!(
            sqlstate.as_str(),
            "" | "54001" | "54000" | "54011" | "53200"
        );
        assert!(is_expected, "{name}: {sqlstate:?}");
    }
}

#[test]
fn a_long_statement_is_run_or_refused() {
    let (_home, server) = Running::new();
    let text = format!("SELECT length('{}')", "x".repeat(10 << 20));
    let sqlstate = run_beside_others(&server, "10 MB", &text);
    assert!(
        matches!(sqlstate.as_str(), "" | "54000" | "54001" | "53200"),
        "{sqlstate:?}"
    );
}

/// Texts that take long to plan do not keep the planning of others waiting for long.
#[test]
fn expensive_planning_delays_others_little() {
    let (_home, server) = Running::new();
    let is_done = std::sync::atomic::AtomicBool::new(false);
    let mut other = RawClient::connect(&server);
    other.run("CREATE TABLE t (id int PRIMARY KEY, a int)");
    let (planned, slowest) = thread::scope(|scope| {
        let clients: Vec<_> = (0..6)
            .map(|client| {
                let (server, is_done) = (&server, &is_done);
                scope.spawn(move || {
                    let mut connection = RawClient::connect(server);
                    let mut planned = 0;
                    while !is_done.load(std::sync::atomic::Ordering::Relaxed) {
                        let parts: Vec<String> = (0..450)
                            .map(|at| format!("a = {}", at * 7 + client * 1_000_000 + planned))
                            .collect();
                        let text = format!("SELECT a + 1 FROM t WHERE {}", parts.join(" OR "));
                        let answer = connection.query(&text);
                        assert_eq!(answer.sqlstate(), "");
                        planned += 1;
                    }
                    planned
                })
            })
            .collect();
        let begun = Instant::now();
        let mut slowest = Duration::ZERO;
        let mut at = 0;
        while begun.elapsed() < Duration::from_secs(5) {
            let before = Instant::now();
            // A text that was not planned before.
            other.run(&format!("SELECT a + {at} AS b{at} FROM t WHERE id = {at}"));
            slowest = slowest.max(before.elapsed());
            at += 1;
            thread::sleep(Duration::from_millis(10));
        }
        is_done.store(true, std::sync::atomic::Ordering::Relaxed);
        let planned: usize = clients.into_iter().map(|it| it.join().unwrap()).sum();
        (planned, slowest)
    });
    assert!(planned > 6, "{planned}");
    assert!(slowest < Duration::from_secs(2), "{slowest:?}");
}
