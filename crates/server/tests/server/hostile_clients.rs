//! Clients that do harm: typed errors, bounded memory, others unharmed.

use std::thread;
use std::time::{Duration, Instant};

use namiki_platform::seeded_random::Random;
use namiki_terminal::allow_many_files;

use crate::messages::{bind, execute, frame, packet, parse, query, startup, sync};
use crate::raw_client::{Answer, RawClient};
use crate::running::Running;

/// The states in which random bytes arrive.
const STATES: [&str; 6] = [
    "before startup",
    "authentication",
    "idle",
    "batch",
    "failed batch",
    "copy",
];

/// A client in a state.
fn client_in(state: &str, server: &Running) -> RawClient {
    match state {
        "before startup" => RawClient::silent(server),
        "authentication" => {
            let mut client = RawClient::silent_tcp(server);
            client.send(&startup(0, &[("user", &server.role)]));
            assert_eq!(client.message().unwrap().kind, b'R');
            client
        }
        state => {
            let mut client = RawClient::connect(server);
            match state {
                "batch" => client.send(&parse("s", "SELECT id FROM t WHERE id = $1")),
                "failed batch" => client.send(&bind("", "none", &[])),
                "copy" => client.send(&query("COPY t FROM STDIN")),
                _ => {}
            }
            client
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
    let seed = 37;
    let mut random = Random::seeded(seed);
    let before = server.memory_bytes();
    for round in 0..1200 {
        let state = STATES[round % STATES.len()];
        let mut client = client_in(state, &server);
        let bytes = random_bytes(&mut random, state);
        // The server may close the connection before all is sent.
        let _ = client.try_send(&bytes);
        if round % 100 == 0 {
            assert_eq!(other.run("SELECT 1"), ["1"], "seed {seed}, round {round}");
        }
    }
    assert_eq!(other.run("SELECT 1"), ["1"]);
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

#[test]
fn prepared_statements_are_limited() {
    let (_home, server) = Running::with(&["--statements", "2000"]);
    let mut client = RawClient::connect(&server);
    let mut other = RawClient::connect(&server);
    let before = server.memory_bytes();
    let mut refused = 0;
    for at in 0..100_000 {
        let name = format!("s{at}");
        let text = format!("SELECT $1::int + {at}");
        let answer = client.ask(&[parse(&name, &text), sync()]);
        match answer.sqlstate() {
            "" => {}
            "53400" => refused += 1,
            other => panic!("{other}"),
        }
        // The rest is refused as the first one is.
        if refused == 100 {
            break;
        }
    }
    assert_eq!(refused, 100);
    let used = client.ask(&[bind("", "s7", &[Some("1")]), execute("", 0), sync()]);
    assert_eq!(used.lines(), ["8"]);
    assert_eq!(other.run("SELECT 1"), ["1"]);
    let grown = server.memory_bytes().saturating_sub(before);
    assert!(grown < 512 << 20, "{grown} bytes");
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
    // The connections are closed, and their statements have ended.
    assert!(
        clients
            .iter_mut()
            .all(|it| it.try_send(&vec![b'X'; 1 << 20]).is_err())
    );
    assert_eq!(
        other.run("SELECT count(*) FROM t a, t b WHERE a.id = b.id"),
        ["3000"]
    );
}

#[test]
fn silent_connections_do_not_keep_others_out() {
    allow_many_files();
    let (_home, server) = Running::new();
    let silent: Vec<RawClient> = (0..600).map(|_| RawClient::silent_tcp(&server)).collect();
    let half: Vec<RawClient> = (0..100)
        .map(|_| {
            let mut client = RawClient::silent(&server);
            client.send(&startup(0, &[("user", &server.role)])[..9]);
            client
        })
        .collect();
    let mut client = RawClient::connect(&server);
    assert_eq!(client.run("SELECT 1"), ["1"]);
    drop((silent, half));
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
    const SESSIONS: usize = 1000;
    allow_many_files();
    let sessions = SESSIONS + 10;
    let (_home, server) = Running::with(&["--sessions", &sessions.to_string()]);
    let mut first = RawClient::connect(&server);
    first.run("CREATE TABLE t (id int PRIMARY KEY)");
    // What the first sessions need is not counted.
    let warm: Vec<_> = (0..8).map(|_| RawClient::connect(&server)).collect();
    let before = server.memory_bytes();
    let mut clients: Vec<RawClient> = (0..SESSIONS).map(|_| RawClient::connect(&server)).collect();
    for client in &mut clients {
        assert_eq!(client.run("SELECT count(*) FROM t WHERE id = 1"), ["0"]);
    }
    let each = server.memory_bytes().saturating_sub(before) / SESSIONS as u64;
    assert!(each <= 50 << 10, "{each} bytes for each session");
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
