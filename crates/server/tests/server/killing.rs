//! `kill -9` under TPC-B, again and again: everything that was acknowledged is there, and nothing in halves.
//!
//! Clients pay over the wire and note what the server has acknowledged. Another client creates and
//! drops indexes, truncates, copies and alters. Then the server is killed, and started again.
//!
//! `cargo xtask clients --kills N` sets the number of rounds.

use std::collections::BTreeSet;
use std::env;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use namiki_platform::seeded_random::Random;

use crate::messages::{bind, copy_data, copy_done, execute, parse, query, sync};
use crate::raw_client::{Answer, Message, RawClient};
use crate::running::{Home, Running};

/// The environment variable with the number of rounds.
const ROUNDS: &str = "NAMIKI_KILL_ROUNDS";
/// Rounds before a merge.
const ROUNDS_BY_DEFAULT: u64 = 3;
const PAYING_CLIENTS: u64 = 6;
const ACCOUNTS: u64 = 1_000;
const TELLERS: u64 = 10;
/// Rows of each COPY.
const COPIED: usize = 500;
/// A statement that gets no answer for this long is taken as an answer that the kill prevented.
const STEP_MAX: Duration = Duration::from_secs(60);

/// What clients know of their payments.
#[derive(Default)]
struct Witness {
    begun: AtomicU64,
    /// Numbers of payments that were acknowledged.
    acknowledged: Mutex<BTreeSet<u64>>,
    /// Numbers of the sequence that were returned by acknowledged payments.
    serials: Mutex<Vec<i64>>,
    /// How often tables were changed, by [`CHANGES`].
    changes: [AtomicU64; CHANGES.len()],
    /// Columns that were added to the table `altered` since it was made.
    added: AtomicU64,
    /// Whether the server is about to be killed.
    is_over: AtomicBool,
}

/// Kinds of changes of tables that are under way at a kill.
const CHANGES: [&str; 6] = [
    "CREATE INDEX",
    "DROP INDEX",
    "TRUNCATE",
    "ALTER TABLE",
    "DROP and CREATE TABLE",
    "COPY",
];
/// Columns of a table after which another one takes its place.
const ADDED_MAX: u64 = 80;

#[test]
fn acknowledged_payments_survive_kills() {
    let rounds = env::var(ROUNDS).ok();
    let rounds = rounds.map_or(ROUNDS_BY_DEFAULT, |it| it.parse().unwrap());
    let seed = 37;
    let mut random = Random::seeded(seed);
    let home = Home::new();
    let server = home.start(&[]);
    create(&server);
    server.kill();
    let witness = Witness::default();
    for round in 0..rounds {
        let server = home.start(&[]);
        check(&server, &witness, &format!("seed {seed}, round {round}"));
        let run_ms = 50 + random.below(700);
        pay_until_killed(server, &witness, run_ms, random.next_u64());
    }
    let server = home.start(&[]);
    check(&server, &witness, &format!("seed {seed}, end"));
    let paid = witness.acknowledged.lock().unwrap().len();
    println!("{rounds} kills, {paid} acknowledged payments, all there");
    assert!(paid > 0);
    for (kind, number) in CHANGES.iter().zip(&witness.changes) {
        let number = number.load(Ordering::Relaxed);
        println!("{kind}: {number} times");
        assert!(number > 0, "{kind} has never succeeded");
    }
}

fn create(server: &Running) {
    let mut client = RawClient::connect(server);
    for text in [
        "CREATE TABLE branches (bid int PRIMARY KEY, bbalance int NOT NULL)",
        "CREATE TABLE tellers (tid int PRIMARY KEY, tbalance int NOT NULL)",
        "CREATE TABLE accounts (aid int PRIMARY KEY, abalance int NOT NULL)",
        "CREATE TABLE history (number bigint PRIMARY KEY, serial_number serial, tid int, aid int, delta int)",
        "CREATE TABLE copied (id int PRIMARY KEY, batch int NOT NULL)",
        "CREATE TABLE altered (id int PRIMARY KEY)",
        "INSERT INTO branches VALUES (1, 0)",
        "INSERT INTO altered VALUES (1), (2), (3)",
    ] {
        client.run(text);
    }
    for (table, number) in [("tellers", TELLERS), ("accounts", ACCOUNTS)] {
        let rows: Vec<String> = (1..=number).map(|id| format!("({id}, 0)")).collect();
        client.run(&format!("INSERT INTO {table} VALUES {}", rows.join(", ")));
    }
}

/// Clients pay, and one changes tables, until the server is killed.
fn pay_until_killed(server: Running, witness: &Witness, run_ms: u64, seed: u64) {
    witness.is_over.store(false, Ordering::Relaxed);
    // They are connected before the first payment, and see the kill as the end of their connection.
    let clients: Vec<RawClient> = (0..PAYING_CLIENTS)
        .map(|_| RawClient::connect(&server))
        .collect();
    let changing = RawClient::connect(&server);
    thread::scope(|scope| {
        for (number, client) in clients.into_iter().enumerate() {
            scope.spawn(move || pay(client, witness, seed ^ number as u64));
        }
        scope.spawn(move || change_tables(changing, witness, seed));
        thread::sleep(Duration::from_millis(run_ms));
        witness.is_over.store(true, Ordering::Relaxed);
        server.kill();
    });
}

/// Sends messages and reads the answer; `None` once the server is gone.
fn ask(client: &mut RawClient, messages: &[Vec<u8>]) -> Option<Answer> {
    client.try_send(&messages.concat()).ok()?;
    let mut received: Vec<Message> = Vec::new();
    loop {
        let message = client.message().ok()?;
        let is_last = message.kind == b'Z';
        received.push(message);
        if is_last {
            return Some(Answer::of(&received));
        }
    }
}

/// Pays until the server is gone. Half of the payments are one batch, the others are blocks.
fn pay(mut client: RawClient, witness: &Witness, seed: u64) -> Option<()> {
    let mut random = Random::seeded(seed);
    let insert = "INSERT INTO history (number, tid, aid, delta) VALUES ($1, $2, $3, $4) RETURNING serial_number";
    for (name, text) in [
        (
            "a",
            "UPDATE accounts SET abalance = abalance + $2 WHERE aid = $1",
        ),
        (
            "t",
            "UPDATE tellers SET tbalance = tbalance + $2 WHERE tid = $1",
        ),
        (
            "b",
            "UPDATE branches SET bbalance = bbalance + $2 WHERE bid = $1",
        ),
        ("h", insert),
    ] {
        let prepared = ask(&mut client, &[parse(name, text), sync()])?;
        assert_eq!(prepared.error, None);
    }
    loop {
        let number = witness.begun.fetch_add(1, Ordering::Relaxed);
        let aid = (random.below(ACCOUNTS) + 1).to_string();
        let tid = (random.below(TELLERS) + 1).to_string();
        let delta = (random.below(10_001) as i64 - 5_000).to_string();
        let number_text = number.to_string();
        let (aid, tid, delta) = (aid.as_str(), tid.as_str(), delta.as_str());
        let mut messages = Vec::new();
        for (name, values) in [
            ("a", vec![aid, delta]),
            ("t", vec![tid, delta]),
            ("b", vec!["1", delta]),
            ("h", vec![number_text.as_str(), tid, aid, delta]),
        ] {
            let values: Vec<_> = values.into_iter().map(Some).collect();
            messages.extend([bind("", name, &values), execute("", 0)]);
        }
        let answer = if random.chance(0.5) {
            messages.push(sync());
            ask(&mut client, &messages)?
        } else {
            let begun = ask(&mut client, &[query("BEGIN")])?;
            assert_eq!(begun.error, None);
            messages.push(sync());
            let paid = ask(&mut client, &messages)?;
            let mut ended = ask(&mut client, &[query("COMMIT")])?;
            if ended.tags == ["ROLLBACK"] || paid.error.is_some() {
                ended.error = paid.error.clone();
            }
            ended.rows = paid.rows;
            ended
        };
        match answer.sqlstate() {
            "" => {
                let serial = answer.rows[0][0].as_deref().unwrap().parse().unwrap();
                witness.serials.lock().unwrap().push(serial);
                witness.acknowledged.lock().unwrap().insert(number);
            }
            // Nothing of it is there: a block met another one.
            "40001" => {}
            // The kill may be reported before the connection ends.
            _ if witness.is_over.load(Ordering::Relaxed) => return None,
            other => panic!("{other}: {:?}", answer.error),
        }
    }
}

/// Changes tables until the server is gone.
fn change_tables(mut client: RawClient, witness: &Witness, seed: u64) -> Option<()> {
    let mut random = Random::seeded(seed);
    // In turns, from a random one on: each kind has its share of the kills.
    let first = random.below(CHANGES.len() as u64) as usize;
    for turn in first.. {
        let batch = random.below(1 << 30);
        let mut kind = turn % CHANGES.len();
        let is_wide = witness.added.load(Ordering::Relaxed) >= ADDED_MAX;
        if kind == 3 && is_wide {
            kind = 4;
        }
        let text = match kind {
            0 => "CREATE INDEX accounts_balance ON accounts (abalance)".to_owned(),
            1 => "DROP INDEX accounts_balance".to_owned(),
            2 => "TRUNCATE copied".to_owned(),
            3 => format!("ALTER TABLE altered ADD COLUMN extra_{batch} int DEFAULT 7"),
            4 => "BEGIN; DROP TABLE altered; CREATE TABLE altered (id int PRIMARY KEY); \
                  INSERT INTO altered VALUES (1), (2), (3); COMMIT"
                .to_owned(),
            _ => String::new(),
        };
        let answer = if text.is_empty() {
            copy_rows(&mut client, batch)?
        } else {
            ask(&mut client, &[query(&text)])?
        };
        match answer.sqlstate() {
            "" => {
                witness.changes[kind].fetch_add(1, Ordering::Relaxed);
                match kind {
                    3 => {
                        witness.added.fetch_add(1, Ordering::Relaxed);
                    }
                    4 => witness.added.store(0, Ordering::Relaxed),
                    _ => {}
                }
            }
            // The index is there already, or is not.
            "42P07" if kind == 0 => {}
            "42704" | "42P01" if kind == 1 => {}
            // A name was drawn twice.
            "42701" if kind == 3 => {}
            "40001" => {}
            _ if witness.is_over.load(Ordering::Relaxed) => return None,
            other => panic!("{text}: {other}, {:?}", answer.error),
        }
        if answer.status != 'I' {
            ask(&mut client, &[query("ROLLBACK")])?;
        }
    }
    None
}

/// Replaces the copied rows by those of another batch, in one transaction. Returns the answer to COMMIT, with the first
/// error.
fn copy_rows(client: &mut RawClient, batch: u64) -> Option<Answer> {
    for text in ["BEGIN", "TRUNCATE copied"] {
        let answer = ask(client, &[query(text)])?;
        if answer.error.is_some() {
            return Some(answer);
        }
    }
    client.try_send(&query("COPY copied FROM STDIN")).ok()?;
    let mut received = Vec::new();
    loop {
        let message = client.message().ok()?;
        let kind = message.kind;
        received.push(message);
        match kind {
            b'G' => break,
            b'Z' => return Some(Answer::of(&received)),
            _ => {}
        }
    }
    let rows: String = (0..COPIED).map(|id| format!("{id}\t{batch}\n")).collect();
    let copied = ask(client, &[copy_data(rows.as_bytes()), copy_done()])?;
    if copied.error.is_some() {
        return Some(copied);
    }
    let mut ended = ask(client, &[query("COMMIT")])?;
    if ended.error.is_none() && ended.tags != ["COMMIT"] {
        ended.error = Some(("XX000".to_owned(), format!("{:?}", ended.tags)));
    }
    Some(ended)
}

/// Compares the database with the witness.
fn check(server: &Running, witness: &Witness, at: &str) {
    let begun = std::time::Instant::now();
    let mut client = RawClient::connect(server);
    let sums = client.run(
        "SELECT (SELECT sum(abalance) FROM accounts), (SELECT sum(tbalance) FROM tellers), \
         (SELECT sum(bbalance) FROM branches), (SELECT coalesce(sum(delta), 0) FROM history)",
    );
    let sums: Vec<&str> = sums[0].split('|').collect();
    assert!(sums.iter().all(|sum| *sum == sums[0]), "{at}: {sums:?}");
    let rows = client.run("SELECT number, serial_number FROM history ORDER BY number");
    let mut numbers = BTreeSet::new();
    let mut serials = BTreeSet::new();
    for row in &rows {
        let (number, serial) = row.split_once('|').unwrap();
        numbers.insert(number.parse::<u64>().unwrap());
        let is_new = serials.insert(serial.parse::<i64>().unwrap());
        assert!(is_new, "{at}: the sequence gave {serial} twice");
    }
    let acknowledged = witness.acknowledged.lock().unwrap();
    let lost: Vec<_> = acknowledged.difference(&numbers).collect();
    assert!(lost.is_empty(), "{at}: lost {lost:?}");
    let begun_payments = witness.begun.load(Ordering::Relaxed);
    assert!(numbers.iter().all(|it| *it < begun_payments), "{at}");
    let given = witness.serials.lock().unwrap();
    let distinct: BTreeSet<_> = given.iter().collect();
    assert_eq!(
        distinct.len(),
        given.len(),
        "{at}: a number was given twice"
    );
    // A copy is there as a whole, or not at all.
    let copied = client.run("SELECT count(*), count(DISTINCT batch) FROM copied");
    let whole = [format!("{COPIED}|1"), "0|0".to_owned()];
    assert!(whole.contains(&copied[0]), "{at}: {copied:?}");
    // An index has an entry for each row, or there is none.
    for balance in client.run("SELECT DISTINCT abalance FROM accounts ORDER BY abalance LIMIT 5") {
        let by_index = client.run(&format!(
            "SELECT count(*) FROM accounts WHERE abalance = {balance}"
        ));
        let by_rows = client.run(&format!(
            "SELECT count(*) FROM accounts WHERE abalance + 0 = {balance}"
        ));
        assert_eq!(by_index, by_rows, "{at}: {balance}");
    }
    let altered = client.run("SELECT count(*) FROM altered");
    assert_eq!(altered, ["3"], "{at}");
    assert!(begun.elapsed() < STEP_MAX, "{at}: {:?}", begun.elapsed());
}
