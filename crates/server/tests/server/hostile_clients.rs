//! Clients that do harm: typed errors, bounded memory, others unharmed.

use std::thread;
use std::time::{Duration, Instant};

use namiki_platform::seeded_random::Random;
use namiki_terminal::allow_many_files;

use crate::http_pages::number;
use crate::messages::{bind, execute, flush, frame, packet, parse, query, startup, sync};
use crate::raw_client::{Answer, Message, RawClient, field};
use crate::running::Running;

/// The states in which random bytes arrive.
const STATES: [&str; 11] = [
    "before startup",
    "authentication",
    "proof",
    "idle",
    "batch",
    "failed batch",
    "block",
    "failed block",
    "suspended portal",
    "copy in",
    "copy out",
];

/// A client in a state.
fn client_in(state: &str, server: &Running) -> RawClient {
    match state {
        "before startup" => RawClient::silent(server),
        "authentication" | "proof" => {
            let mut client = RawClient::silent_tcp(server);
            client.send(&startup(0, &[("user", &server.role)]));
            assert_eq!(client.message().unwrap().kind, b'R');
            if state == "proof" {
                let first = b"SCRAM-SHA-256\0\0\0\0\x0bn,,n=,r=abc";
                client.send(&frame(b'p', first));
                assert_eq!(client.message().unwrap().kind, b'R');
            }
            client
        }
        state => {
            let mut client = RawClient::connect(server);
            match state {
                "batch" => client.send(&parse("s", "SELECT id FROM t WHERE id = $1")),
                "failed batch" => client.send(&bind("", "none", &[])),
                "block" => client.send(&query("BEGIN; INSERT INTO t VALUES (1000)")),
                "failed block" => client.send(&query("BEGIN; SELECT 1 / 0")),
                "suspended portal" => {
                    let select = parse("s", "SELECT id FROM t WHERE id > $1");
                    let bound = bind("p", "s", &[Some("1")]);
                    client.send(&[select, bound, execute("p", 2)].concat());
                }
                "copy in" => client.send(&query("COPY t FROM STDIN")),
                "copy out" => client.send(&query("COPY t TO STDOUT")),
                _ => {}
            }
            client
        }
    }
}

/// Answers are messages of the protocol, and errors have a type.
fn check_answers(messages: &[Message], at: &str) {
    for Message { kind, body } in messages {
        assert!(b"RSKZTDCEIN123stnvGHdcA".contains(kind), "{at}: {kind}");
        if *kind == b'E' {
            let (sqlstate, message) = (field(body, b'C'), field(body, b'M'));
            let is_typed = sqlstate.len() == 5 && sqlstate != "XX000" && !message.is_empty();
            assert!(is_typed, "{at}: {sqlstate} {message}");
        }
    }
}

/// Bytes that resemble messages.
fn random_bytes(random: &mut Random, state: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..1 + random.below(8) {
        let body: Vec<u8> = (0..random.below(60))
            .map(|_| match random.below(4) {
                0 => random.below(256) as u8,
                1 => b"SELECT id FROM t"[random.below(16) as usize],
                _ => random.below(4) as u8,
            })
            .collect();
        match random.below(8) {
            0 => bytes.extend(body),
            1 if state == "before startup" => bytes.extend(packet(&body)),
            2 => {
                let kind = random.below(256) as u8;
                bytes.extend(frame(kind, &body));
            }
            3 => {
                // A length that is not that of the body.
                let kind = b"QPBDCEdfpX"[random.below(10) as usize];
                bytes.push(kind);
                bytes.extend((random.below(1 << 33) as u32).to_be_bytes());
                bytes.extend(body);
            }
            _ => {
                let kind = b"QPBDCEHSdcfpF"[random.below(13) as usize];
                bytes.extend(frame(kind, &body));
            }
        }
    }
    bytes
}

#[test]
fn random_bytes_harm_no_other_session() {
    let (_home, server) = Running::new();
    let mut other = RawClient::connect(&server);
    other.run("CREATE TABLE t (id int PRIMARY KEY)");
    other.run("INSERT INTO t SELECT x FROM generate_series(1, 100) AS x");
    let seed = 37;
    let mut random = Random::seeded(seed);
    let before = server.memory_bytes();
    let mut errors = 0;
    for round in 0..2200 {
        let state = STATES[round % STATES.len()];
        let mut client = client_in(state, &server);
        let bytes = random_bytes(&mut random, state);
        // The server may close the connection before all is sent.
        let _ = client.try_send(&bytes);
        let answers = client.finish();
        check_answers(&answers, &format!("seed {seed}, round {round}, {state}"));
        errors += answers.iter().filter(|it| it.kind == b'E').count();
        if round % 100 == 0 {
            assert_eq!(other.run("SELECT 1"), ["1"], "seed {seed}, round {round}");
        }
    }
    assert_eq!(other.run("SELECT 1"), ["1"]);
    assert!(errors > 1000, "{errors}");
    let grown = server.memory_bytes().saturating_sub(before);
    assert!(grown < 256 << 20, "{grown} bytes");
}

#[test]
fn lengths_are_refused_before_bytes_arrive() {
    let (_home, server) = Running::new();
    let mut other = RawClient::connect(&server);
    let before = server.memory_bytes();
    for length in [0x8000_0000_u32, 0x7fff_ffff, 0xffff_ffff, 0, 3, 0x4000_0000] {
        for kind in [b'Q', b'P', b'B', b'd', b'S'] {
            let mut client = RawClient::connect(&server);
            client.send(&[&[kind][..], &length.to_be_bytes()].concat());
            let sqlstate = Answer::of(&client.rest()).sqlstate().to_owned();
            let is_expected = matches!(sqlstate.as_str(), "08P01" | "54000");
            assert!(is_expected, "{kind} {length}: {sqlstate:?}");
        }
        let mut client = RawClient::silent(&server);
        client.send(&length.to_be_bytes());
        let sqlstate = Answer::of(&client.rest()).sqlstate().to_owned();
        assert!(matches!(sqlstate.as_str(), "08P01" | "54000"));
    }
    let grown = server.memory_bytes().saturating_sub(before);
    assert!(grown < 64 << 20, "{grown} bytes");
    assert_eq!(other.run("SELECT 1"), ["1"]);
}

/// All of them are there at once, and one more is refused.
#[test]
fn a_hundred_thousand_prepared_statements_are_kept() {
    const STATEMENTS: usize = 100_000;
    const TEXTS: usize = 500;
    let limit = STATEMENTS.to_string();
    let (_home, server) = Running::with(&["--statements", &limit]);
    let mut client = RawClient::connect(&server);
    let mut other = RawClient::connect(&server);
    let before = server.memory_bytes();
    for first in (0..STATEMENTS).step_by(TEXTS) {
        let mut messages: Vec<_> = (0..TEXTS)
            .map(|at| {
                let name = format!("s{}", first + at);
                parse(&name, &format!("SELECT $1::int + {at}"))
            })
            .collect();
        messages.push(sync());
        let answer = client.ask(&messages);
        assert_eq!(answer.error, None);
        assert_eq!(answer.kinds.len(), TEXTS + 1);
    }
    let grown = server.memory_bytes().saturating_sub(before);
    println!("{grown} bytes for {STATEMENTS} prepared statements");
    assert!(grown < 256 << 20, "{grown} bytes");
    let more = client.ask(&[parse("more", "SELECT 1"), sync()]);
    assert_eq!(more.sqlstate(), "53400");
    for at in [0, 7, 499, 500, 50_007, STATEMENTS - 1] {
        let name = format!("s{at}");
        let bound = bind("", &name, &[Some("1")]);
        let used = client.ask(&[bound, execute("", 0), sync()]);
        assert_eq!(used.lines(), [(at % TEXTS + 1).to_string()]);
    }
    assert_eq!(other.run("SELECT 1"), ["1"]);
    // Room for others, once they are closed.
    let closed = client.query("DEALLOCATE ALL");
    assert_eq!(closed.error, None);
    let again = client.ask(&[parse("s0", "SELECT 1"), sync()]);
    assert_eq!(again.error, None);
}

/// Long statements and parameters of all sessions share one budget, which is given back.
#[test]
fn bytes_that_sessions_hold_are_limited() {
    let (_home, server) = Running::new();
    let mut other = RawClient::connect(&server);
    let long = "x".repeat(40 << 20);
    let before = server.memory_bytes();
    let mut clients: Vec<RawClient> = (0..4).map(|_| RawClient::connect(&server)).collect();
    let (mut kept, mut refused) = (0, 0);
    for client in &mut clients {
        let prepared = client.ask(&[parse("s", "SELECT length($1::text)"), sync()]);
        assert_eq!(prepared.error, None);
        client.run("BEGIN");
        for portal in 0..5 {
            let bound = bind(&format!("p{portal}"), "s", &[Some(&long)]);
            match client.ask(&[bound, sync()]).sqlstate() {
                "" => kept += 1,
                "53200" => refused += 1,
                other => panic!("{other}"),
            }
        }
    }
    // 512 MiB, and what is being received.
    assert!((8..=12).contains(&kept), "{kept}");
    assert!(refused >= 4, "{refused}");
    let grown = server.memory_bytes().saturating_sub(before);
    assert!(grown < 1 << 30, "{grown} bytes");
    assert_eq!(other.run("SELECT 1"), ["1"]);
    // The end of a transaction closes its portals.
    for client in &mut clients {
        assert_eq!(client.query("ROLLBACK").error, None);
    }
    let bound = bind("p", "s", &[Some(&long)]);
    let used = clients[0].ask(&[bound, execute("p", 0), sync()]);
    assert_eq!(used.lines(), [long.len().to_string()]);
    // What was sent counts no more, although the clients are silent now.
    drop(long);
    let until = Instant::now() + Duration::from_secs(10);
    while number(&server, "namiki_server_input_bytes") > 0 {
        assert!(Instant::now() < until);
        thread::sleep(Duration::from_millis(200));
    }
}

/// A batch that is never ended changes a name again and again.
#[test]
fn unsynced_changes_take_little_memory() {
    let (_home, server) = Running::new();
    let mut client = RawClient::connect(&server);
    let messages: Vec<_> = (0..1000)
        .map(|at| parse("", &format!("SELECT {}", at % 10)))
        .collect();
    let messages = messages.concat();
    client.send(&messages);
    client.send(&flush());
    let mut before = 0;
    for round in 0..200 {
        client.send(&messages);
        client.send(&flush());
        for _ in 0..1000 {
            assert_eq!(client.message().unwrap().kind, b'1');
        }
        if round == 20 {
            before = server.memory_bytes();
        }
    }
    let grown = server.memory_bytes().saturating_sub(before);
    assert!(grown < 8 << 20, "{grown} bytes for 180,000 changes");
}

#[test]
fn a_client_that_does_not_read_is_left_alone() {
    let (_home, server) = Running::with(&["--send-timeout", "2s"]);
    let mut other = RawClient::connect(&server);
    other.run("CREATE TABLE t (id int PRIMARY KEY, filler text)");
    let filler = "x".repeat(1000);
    for hundred in 0..30 {
        let rows: Vec<String> = (0..100)
            .map(|at| format!("({}, '{filler}')", hundred * 100 + at))
            .collect();
        other.run(&format!("INSERT INTO t VALUES {}", rows.join(", ")));
    }
    let before = server.memory_bytes();
    // Some gigabytes of rows each.
    let mut clients: Vec<RawClient> = (0..100)
        .map(|_| {
            let mut client = RawClient::connect(&server);
            client.send(&query("SELECT a.filler, b.filler FROM t a, t b"));
            client
        })
        .collect();
    let begun = Instant::now();
    let mut slowest = Duration::ZERO;
    while begun.elapsed() < Duration::from_secs(4) {
        let at = Instant::now();
        assert_eq!(other.run("SELECT id FROM t WHERE id = 5"), ["5"]);
        slowest = slowest.max(at.elapsed());
        thread::sleep(Duration::from_millis(10));
    }
    assert!(slowest < Duration::from_secs(3), "{slowest:?}");
    let grown = server.memory_bytes().saturating_sub(before);
    assert!(grown < 1 << 30, "{grown} bytes");
    // The connections are closed, after the rows that were on the way, and their statements have ended.
    let until = Instant::now() + Duration::from_secs(60);
    while number(&server, "namiki_server_send_timeouts_total") < 100 {
        assert!(Instant::now() < until, "not all are closed");
    }
    for client in &mut clients {
        let rows = client.rest();
        assert!(rows.iter().all(|it| matches!(it.kind, b'T' | b'D')));
    }
    assert_eq!(
        other.run("SELECT count(*) FROM t a, t b WHERE a.id = b.id"),
        ["3000"]
    );
}

#[test]
fn silent_connections_do_not_keep_others_out() {
    const SILENT: usize = 600;
    const WITHOUT_LOGIN: usize = 256;
    allow_many_files();
    let (_home, server) = Running::new();
    let silent_tcp: Vec<_> = (0..SILENT)
        .map(|_| RawClient::silent_tcp(&server))
        .collect();
    let mut silent: Vec<RawClient> = (0..SILENT)
        .map(|at| {
            let mut client = RawClient::silent(&server);
            if at % 2 == 0 {
                let begun = &startup(0, &[("user", &server.role)])[..9];
                // The oldest ones are closed from now on.
                let _ = client.try_send(begun);
            }
            client
        })
        .collect();
    let mut client = RawClient::connect(&server);
    assert_eq!(client.run("SELECT 1"), ["1"]);
    // The oldest have made room, the newest have not.
    for closed in &mut silent[..SILENT - WITHOUT_LOGIN] {
        assert_eq!(closed.rest(), []);
    }
    let newest = silent.last_mut().unwrap();
    assert_eq!(newest.log_in(0, &[("user", &server.role)]).error, None);
    let evicted = 2 * (SILENT - WITHOUT_LOGIN) as u64;
    let found = number(&server, "namiki_server_connections_evicted_total");
    assert!((evicted..evicted + 3).contains(&found), "{found}");
    drop(silent_tcp);
}

#[test]
fn sessions_are_limited() {
    let (_home, server) = Running::with(&["--sessions", "5"]);
    let mut clients: Vec<RawClient> = (0..5).map(|_| RawClient::connect(&server)).collect();
    let refused = RawClient::silent(&server).log_in(0, &[("user", &server.role)]);
    assert_eq!(refused.sqlstate(), "53300");
    assert_eq!(clients[0].run("SELECT 1"), ["1"]);
    drop(clients.pop());
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        let again = RawClient::silent(&server).log_in(0, &[("user", &server.role)]);
        if again.error.is_none() {
            break;
        }
        assert!(Instant::now() < until);
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn idle_sessions_take_little_memory() {
    const SESSIONS: usize = 5000;
    /// After this time, a session has freed what it keeps for its next statement.
    const IDLE: Duration = Duration::from_secs(15);
    allow_many_files();
    let sessions = SESSIONS + 10;
    let (_home, server) = Running::with(&["--sessions", &sessions.to_string()]);
    let mut first = RawClient::connect(&server);
    first.run("CREATE TABLE t (id int PRIMARY KEY, n int)");
    first.run("INSERT INTO t SELECT x, 0 FROM generate_series(1, 10) AS x");
    let work = |client: &mut RawClient| {
        let bound = bind("", "s", &[Some("11")]);
        let found = client.ask(&[bound, execute("", 0), sync()]);
        assert_eq!(found.lines(), [""; 0]);
        let bound = bind("", "u", &[Some("3")]);
        let changed = client.ask(&[bound, execute("", 0), sync()]);
        assert_eq!(changed.tags, ["UPDATE 1"]);
    };
    let begin = |client: &mut RawClient| {
        let select = parse("s", "SELECT n FROM t WHERE id = $1");
        let update = parse("u", "UPDATE t SET n = n + 1 WHERE id = $1");
        assert_eq!(client.ask(&[select, update, sync()]).error, None);
        work(client);
    };
    // What the first sessions need is not counted.
    let mut warm: Vec<_> = (0..8).map(|_| RawClient::connect(&server)).collect();
    warm.iter_mut().for_each(begin);
    let before = server.memory_bytes();
    let mut clients: Vec<RawClient> = (0..SESSIONS).map(|_| RawClient::connect(&server)).collect();
    clients.iter_mut().for_each(begin);
    let each = |bytes: u64| bytes.saturating_sub(before) / SESSIONS as u64;
    let busy = each(server.memory_bytes());
    thread::sleep(IDLE);
    let idle = each(server.memory_bytes());
    println!("{idle} bytes for each of {SESSIONS} idle sessions, {busy} before");
    assert!(idle <= 50 << 10, "{idle} bytes for each session");
    clients.iter_mut().for_each(work);
    drop(warm);
}

#[test]
fn wrong_passwords_at_speed_harm_no_other() {
    let (_home, server) = Running::new();
    let mut other = RawClient::connect(&server);
    let begun = Instant::now();
    let mut slowest = Duration::ZERO;
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                while begun.elapsed() < Duration::from_secs(3) {
                    let mut client = RawClient::silent_tcp(&server);
                    client.send(&startup(0, &[("user", &server.role)]));
                    if client.message().is_err() {
                        continue;
                    }
                    let _ = client.try_send(&frame(b'p', b"SCRAM-SHA-256\0\0\0\0\x0bn,,n=,r=abc"));
                    let Ok(challenge) = client.message() else {
                        continue;
                    };
                    let challenge = String::from_utf8_lossy(&challenge.body[4..]).into_owned();
                    let nonce = challenge.split(',').next().unwrap_or_default().to_owned();
                    let proof = "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
                    let answer = format!("c=biws,{nonce},p={proof}");
                    let _ = client.try_send(&frame(b'p', answer.as_bytes()));
                    // Without waiting for the refusal.
                }
            });
        }
        while begun.elapsed() < Duration::from_secs(3) {
            let at = Instant::now();
            assert_eq!(other.run("SELECT 1"), ["1"]);
            slowest = slowest.max(at.elapsed());
        }
    });
    assert!(slowest < Duration::from_secs(1), "{slowest:?}");
    assert_eq!(RawClient::connect(&server).run("SELECT 1"), ["1"]);
}
