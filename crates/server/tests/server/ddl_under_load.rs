//! Changes of tables while rows change: no row without its index entry, and each change ends.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use namiki_platform::seeded_random::Random;

use crate::raw_client::RawClient;
use crate::running::Running;

const WRITERS: u64 = 16;
/// Longest time of one change of the table.
const CHANGE_MAX: Duration = Duration::from_secs(120);

/// Writers insert, update and delete until told to stop. Statements are single, so the server repeats
/// them after conflicts: each must succeed.
fn write(server: &Running, writer: u64, is_over: &AtomicBool, written: &AtomicU64) {
    let mut client = RawClient::connect(server);
    let mut random = Random::stream(37, writer);
    while !is_over.load(Ordering::Relaxed) {
        let id = random.below(500) * WRITERS + writer;
        let value = random.below(100);
        let text = match random.below(3) {
            0 => format!("INSERT INTO t VALUES ({id}, {value}) ON CONFLICT DO NOTHING"),
            1 => format!("UPDATE t SET v = {value} WHERE id = {id}"),
            _ => format!("DELETE FROM t WHERE id = {id}"),
        };
        let answer = client.query(&text);
        assert_eq!(answer.error, None, "{text}");
        written.fetch_add(1, Ordering::Relaxed);
    }
}

/// Runs changes of the table under writers. Each has to end, and the writers have to go on.
fn change_under_writers(server: &Running, changes: &[&str]) {
    let (is_over, written) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (is_over, written) = (&is_over, &written);
            scope.spawn(move || write(server, writer, is_over, written));
        }
        let mut client = RawClient::connect(server);
        for change in changes {
            thread::sleep(Duration::from_millis(50));
            let before = Instant::now();
            client.run(change);
            let took = before.elapsed();
            assert!(took < CHANGE_MAX, "{change}: {took:?}");
        }
        let at = written.load(Ordering::Relaxed);
        let until = Instant::now() + CHANGE_MAX;
        // The writers go on afterwards.
        while written.load(Ordering::Relaxed) < at + WRITERS * 4 {
            assert!(Instant::now() < until, "the writers do not go on");
            thread::sleep(Duration::from_millis(5));
        }
        is_over.store(true, Ordering::Relaxed);
    });
}

/// Every row is found by the index, and the index has no other.
fn check_index(client: &mut RawClient) {
    for value in 0..100 {
        let by_index = client.run(&format!("SELECT id FROM t WHERE v = {value} ORDER BY id"));
        let by_rows = client.run(&format!(
            "SELECT id FROM t WHERE v + 0 = {value} ORDER BY id"
        ));
        assert_eq!(by_index, by_rows, "{value}");
    }
}

#[test]
fn an_index_is_made_under_writers() {
    let (_home, server) = Running::new();
    let mut client = RawClient::connect(&server);
    client.run("CREATE TABLE t (id int PRIMARY KEY, v int NOT NULL)");
    let create = "CREATE INDEX t_v ON t (v)";
    change_under_writers(&server, &[create, "DROP INDEX t_v", create]);
    check_index(&mut client);
    let plan = client
        .run("EXPLAIN SELECT id FROM t WHERE v = 5")
        .join("\n");
    assert!(plan.contains("t_v"), "{plan}");
}

#[test]
fn columns_are_added_under_writers() {
    let (_home, server) = Running::new();
    let mut client = RawClient::connect(&server);
    client.run("CREATE TABLE t (id int PRIMARY KEY, v int NOT NULL)");
    client.run("INSERT INTO t VALUES (100000, 7)");
    change_under_writers(
        &server,
        &[
            "ALTER TABLE t ADD COLUMN extra int DEFAULT 9",
            "CREATE INDEX t_v ON t (v)",
        ],
    );
    check_index(&mut client);
    assert_eq!(client.run("SELECT extra FROM t WHERE id = 100000"), ["9"]);
}

#[test]
fn a_primary_key_is_added_under_writers() {
    let (_home, server) = Running::new();
    let mut client = RawClient::connect(&server);
    client.run("CREATE TABLE t (id int NOT NULL, v int NOT NULL)");
    client.run("CREATE INDEX t_v ON t (v)");
    // Each id has one writer, and a row of its own from the start: no two rows meet in the key.
    let rows: Vec<String> = (0..WRITERS).map(|id| format!("({id}, 0)")).collect();
    client.run(&format!("INSERT INTO t VALUES {}", rows.join(", ")));
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (server, is_over) = (&server, &is_over);
            scope.spawn(move || {
                let mut client = RawClient::connect(server);
                while !is_over.load(Ordering::Relaxed) {
                    client.run(&format!("UPDATE t SET v = v + 1 WHERE id = {writer}"));
                }
            });
        }
        thread::sleep(Duration::from_millis(100));
        let before = Instant::now();
        let added = client.query("ALTER TABLE t ADD PRIMARY KEY (id)");
        let took = before.elapsed();
        is_over.store(true, Ordering::Relaxed);
        assert_eq!(added.error, None);
        assert!(took < CHANGE_MAX, "{took:?}");
    });
    let again = client.query("INSERT INTO t VALUES (3, 0)");
    assert_eq!(again.sqlstate(), "23505");
    let counted = client.run("SELECT count(*), count(DISTINCT id) FROM t");
    assert_eq!(counted, [format!("{WRITERS}|{WRITERS}")]);
}
