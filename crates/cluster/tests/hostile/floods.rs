//! Valid requests without end: large groups and reads from several connections at once.
//!
//! Claims: the leader remains in its term, since no heartbeat waits for a client; commands of
//! others are acknowledged; memory stays within the limits on requests.

use std::io::{BufReader, Read, Write as _};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use namiki_client::protocol::{
    Command, Freshness, Outcome, Request, Response, Role, ScanRange, SessionId, SessionLimit,
    Write, decode, encoded,
};
use namiki_client::{BackupSource, ClientError, Security, status};
use namiki_cluster::config::NodeConfig;

use crate::cluster::{Cluster, NODES};
use crate::links::dial;
use crate::messages::client_hello;
use crate::{MIB, alone, attacks, seeded, under_load};

/// Duration of a flood.
const FLOOD: Duration = Duration::from_secs(8);
/// Connections of a flood.
const CONNECTIONS: u64 = 6;
/// Commands of a group: the most that are accepted.
const COMMANDS: usize = 100_000;
/// Keys of a read: the most that are accepted.
const KEYS: usize = 100_000;

/// A disk that all nodes share can stall for more than a second, and a leader hands over when its disk stalls for an election
/// timeout. That is not what these tests look for.
const ELECTION_TIMEOUT: Duration = Duration::from_secs(2);

/// Starts nodes; `change` adjusts their configurations.
fn start(change: impl Fn(&mut NodeConfig)) -> Cluster {
    Cluster::start(Security::Plain, |config| {
        config.set_election_timeout(ELECTION_TIMEOUT);
        change(config);
    })
}

/// The leader's number and its term.
pub(crate) fn leader_of(cluster: &Cluster) -> (u64, u64) {
    let begin = Instant::now();
    loop {
        for number in 1..=NODES {
            let status = status(cluster.client_address(number), &cluster.options).unwrap();
            if status.role == Role::Leader {
                return (number, status.term);
            }
        }
        assert!(begin.elapsed() < crate::WATCHDOG, "no node leads");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Asserts that the leader is still the same, in its term.
fn assert_leads(cluster: &Cluster, leader: (u64, u64)) {
    assert_eq!(leader_of(cluster), leader, "the leader was deposed");
}

/// The next response on a raw connection; `None` at its end.
pub(crate) fn response(link: &mut impl Read) -> Option<Response> {
    let mut length = [0; 4];
    link.read_exact(&mut length).ok()?;
    let mut message = vec![0; u32::from_le_bytes(length) as usize];
    link.read_exact(&mut message).ok()?;
    Some(decode(&message).unwrap())
}

/// A connection after its welcome.
pub(crate) fn welcome(address: &str) -> TcpStream {
    let mut link = dial(address);
    link.write_all(&client_hello()).unwrap();
    let welcome = response(&mut link);
    assert!(
        matches!(welcome, Some(Response::Welcome { .. })),
        "{welcome:?}"
    );
    link
}

fn open_session(link: &mut TcpStream, nonce: u128) -> SessionId {
    let open = encoded(&Request::OpenSession { nonce }).unwrap();
    link.write_all(&open).unwrap();
    match response(link) {
        Some(Response::SessionOpened { session, .. }) => session,
        other => panic!("{other:?} instead of a session"),
    }
}

/// Connections that send requests as fast as the node takes them, and read all answers.
struct Flood {
    is_over: Arc<AtomicBool>,
    sent: Arc<AtomicU64>,
    answered: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
}

impl Flood {
    /// `next` makes the `number`-th request of a connection and its session.
    fn begin(
        address: &str,
        next: impl Fn(SessionId, u64) -> Vec<u8> + Clone + Send + 'static,
    ) -> Self {
        let mut flood = Self {
            is_over: Arc::default(),
            sent: Arc::default(),
            answered: Arc::default(),
            threads: Vec::new(),
        };
        let open = |number| {
            let mut link = welcome(address);
            let session = open_session(&mut link, u128::from(number) + 1);
            (link, session)
        };
        let opened: Vec<(TcpStream, SessionId)> = (0..CONNECTIONS).map(open).collect();
        for (mut link, session) in opened {
            let mut answers = link.try_clone().unwrap();
            let (is_over, sent, next) = (
                Arc::clone(&flood.is_over),
                Arc::clone(&flood.sent),
                next.clone(),
            );
            flood.threads.push(std::thread::spawn(move || {
                let mut group = 0;
                while !is_over.load(Ordering::Relaxed) {
                    group += 1;
                    let request = next(session, group);
                    if link.write_all(&request).is_err() {
                        break;
                    }
                    sent.fetch_add(1, Ordering::Relaxed);
                }
                // Whatever is not answered is given up.
                let _ = link.shutdown(Shutdown::Both);
            }));
            let answered = Arc::clone(&flood.answered);
            flood.threads.push(std::thread::spawn(move || {
                while response(&mut answers).is_some() {
                    answered.fetch_add(1, Ordering::Relaxed);
                }
            }));
        }
        flood
    }

    fn end(self) {
        self.is_over.store(true, Ordering::Relaxed);
        for thread in self.threads {
            thread.join().unwrap();
        }
        let (sent, answered) = (&self.sent, &self.answered);
        let (sent, answered) = (
            sent.load(Ordering::Relaxed),
            answered.load(Ordering::Relaxed),
        );
        eprintln!("{sent} requests were sent, {answered} answers have come");
        assert!(answered > 0, "no request was answered");
    }
}

fn flood_the_leader(
    bytes_max: isize,
    next: impl Fn(SessionId, u64) -> Vec<u8> + Clone + Send + 'static,
) {
    let _alone = alone();
    let cluster = start(|_| {});
    under_load(&cluster, bytes_max, |load| {
        let (leader, term) = leader_of(&cluster);
        let flood = Flood::begin(cluster.client_address(leader), next);
        let begin = Instant::now();
        let mut longest = Duration::ZERO;
        while begin.elapsed() < FLOOD {
            let before = Instant::now();
            load.wait_for_more();
            longest = longest.max(before.elapsed());
            assert_leads(&cluster, (leader, term));
        }
        flood.end();
        eprintln!("20 rows of another client took {longest:?} at the longest");
        assert_leads(&cluster, (leader, term));
    });
}

/// A valid group of commands that change nothing.
fn transfers(session: SessionId, group: u64) -> Request {
    let command = Command::Transfer {
        table: 99,
        from: 1,
        to: 2,
        amount: 3,
    };
    Request::Submit {
        session,
        fence: session.0,
        group,
        acknowledged_through: group - 1,
        commands: vec![command; COMMANDS],
    }
}

#[test]
fn floods_of_large_groups_depose_no_leader() {
    flood_the_leader(600 * MIB, |session, group| {
        encoded(&transfers(session, group)).unwrap()
    });
}

#[test]
fn floods_of_large_rows_depose_no_leader() {
    flood_the_leader(900 * MIB, |session, group| {
        let row = (99, vec![7; 8], Some(vec![8; 1000]));
        let write = Write {
            conditions: Vec::new(),
            rows: vec![row; 100],
        };
        let command = Command::Write(Box::new(write));
        let submit = Request::Submit {
            session,
            fence: session.0,
            group,
            acknowledged_through: group - 1,
            commands: vec![command; 70],
        };
        encoded(&submit).unwrap()
    });
}

#[test]
fn floods_of_large_reads_depose_no_leader() {
    flood_the_leader(600 * MIB, |_, request| {
        let keys = (0..KEYS as u64).map(|row| (1, row.to_be_bytes().to_vec()));
        let keys = keys.collect();
        let freshness = Freshness::Leader;
        let read = Request::Read {
            request,
            freshness,
            keys,
        };
        encoded(&read).unwrap()
    });
}

/// Opens sessions without end; none of others is evicted, and no node forgets one.
#[test]
fn sessions_without_end_are_refused_and_evict_none() {
    const SESSIONS: u32 = 100_000;
    const SESSIONS_MAX: u32 = 500;
    let _alone = alone();
    let cluster = start(|config| {
        config.client_sessions_max = SESSIONS_MAX;
    });
    under_load(&cluster, 200 * MIB, |load| {
        let (leader, term) = leader_of(&cluster);
        let mut link = welcome(cluster.client_address(leader));
        let (mut opened, mut full, mut busy) = (0, 0, 0);
        for batch in 0..SESSIONS / 1000 {
            let mut requests = Vec::new();
            for number in 0..1000 {
                let nonce = u128::from(batch * 1000 + number) << 64 | 1;
                requests.extend(encoded(&Request::OpenSession { nonce }).unwrap());
            }
            link.write_all(&requests).unwrap();
            for _ in 0..1000 {
                match response(&mut link) {
                    Some(Response::SessionOpened { .. }) => opened += 1,
                    Some(Response::SessionsFull {
                        limit: SessionLimit::Client(sessions),
                        ..
                    }) => {
                        assert_eq!(sessions, u64::from(SESSIONS_MAX));
                        full += 1;
                    }
                    Some(Response::Busy { .. }) => busy += 1,
                    other => panic!("{other:?}"),
                }
            }
        }
        eprintln!("{opened} sessions are open, {full} were refused, {busy} had to wait");
        // One is the load's.
        assert_eq!(opened + 1, SESSIONS_MAX);
        assert!(full > SESSIONS / 2);
        let refused = cluster.client().open_session();
        let is_full = matches!(refused, Err(ClientError::TooManySessions { .. }));
        assert!(is_full, "{:?}", refused.err());
        // The load's session goes on.
        load.wait_for_more();
        assert_leads(&cluster, (leader, term));
    });
}

/// Clients that ask without end and read no answer.
#[test]
fn slow_readers_are_disconnected_and_memory_is_bounded() {
    const READERS: usize = 8;
    let _alone = alone();
    let cluster = start(|_| {});
    let requests = encoded(&Request::Status).unwrap().repeat(10_000);
    // Their responses, up to half of the limit of each, and what is taken to be written.
    under_load(&cluster, (READERS as isize * 12 + 48) * MIB, |load| {
        let (leader, term) = leader_of(&cluster);
        let address = cluster.client_address(leader).to_owned();
        let slow: Vec<JoinHandle<Duration>> = (0..READERS)
            .map(|_| {
                let (mut link, requests) = (welcome(&address), requests.clone());
                std::thread::spawn(move || {
                    let begin = Instant::now();
                    while link.write_all(&requests).is_ok() {
                        assert!(begin.elapsed() < crate::WATCHDOG, "it stays connected");
                    }
                    begin.elapsed()
                })
            })
            .collect();
        load.wait_for_more();
        let ends = slow.into_iter().map(|it| it.join().unwrap());
        eprintln!("the last one was disconnected after {:?}", ends.max());
        load.wait_for_more();
        assert_leads(&cluster, (leader, term));
    });
}

/// Clients that ask for long answers without end and read a little at a time.
struct SlowReaders {
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<usize>>,
}

impl SlowReaders {
    /// Each sends `request` many times; it reads slowly until the flood is over, then the rest.
    fn begin(address: &str, request: &Request) -> Self {
        const READERS: usize = 4;
        const REQUESTS: usize = 40;
        let is_over = Arc::new(AtomicBool::new(false));
        let requests = encoded(request).unwrap().repeat(REQUESTS);
        let read = |_| {
            let mut link = welcome(address);
            link.write_all(&requests).unwrap();
            let is_over = Arc::clone(&is_over);
            std::thread::spawn(move || {
                let mut link = BufReader::new(DribblingReader { link, is_over });
                let answers = (0..REQUESTS).map_while(|_| response(&mut link));
                answers.filter(is_long).count()
            })
        };
        let threads = (0..READERS).map(read).collect();
        Self { is_over, threads }
    }

    /// They read everything now: some answers, and that the node is busy otherwise. On a machine that is slow they are
    /// disconnected before, as they have not read what waited.
    fn end(self) {
        self.is_over.store(true, Ordering::Relaxed);
        for thread in self.threads {
            let long = thread.join().unwrap();
            eprintln!("a slow reader has got {long} long answers");
        }
    }
}

fn is_long(answer: &Response) -> bool {
    match answer {
        Response::Scanned { .. } | Response::BackupPart { .. } => true,
        Response::Busy { .. } | Response::Disconnected { .. } => false,
        other => panic!("{other:?}"),
    }
}

/// Reads a little at a time until the flood is over.
struct DribblingReader {
    link: TcpStream,
    is_over: Arc<AtomicBool>,
}

impl Read for DribblingReader {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.is_over.load(Ordering::Relaxed) {
            return self.link.read(buffer);
        }
        // Less, and the system tells the node for seconds that there is no room: then it is disconnected.
        std::thread::sleep(Duration::from_millis(50));
        let bytes = buffer.len().min(32 << 10);
        self.link.read(&mut buffer[..bytes])
    }
}

/// Writes a table of twelve long rows.
fn long_rows(cluster: &Cluster) -> u32 {
    let mut client = cluster.client();
    let table = client.create_table("long", false).unwrap();
    let mut session = client.open_session().unwrap();
    for key in 0..12 {
        let write = Write {
            conditions: Vec::new(),
            rows: vec![(table, vec![key], Some(vec![key; 900 << 10]))],
        };
        let group = session.submit(vec![Command::Write(Box::new(write))]);
        assert_eq!(session.wait(group.unwrap()).unwrap(), [Outcome::Done]);
    }
    table
}

#[test]
fn scans_by_slow_readers_share_a_budget() {
    let _alone = alone();
    let cluster = start(|_| {});
    let table = long_rows(&cluster);
    let range = ScanRange {
        table,
        rows_max: 100,
        ..ScanRange::default()
    };
    // 16 MiB for each of four, and an answer once more while it is encoded and sent.
    under_load(&cluster, 200 * MIB, |load| {
        let (leader, term) = leader_of(&cluster);
        let scan = Request::Scan {
            request: 1,
            freshness: Freshness::Leader,
            range: range.clone(),
        };
        let slow = SlowReaders::begin(cluster.client_address(leader), &scan);
        let mut client = cluster.client();
        for _ in 0..5 {
            let scanned = client.scan(range.clone()).unwrap();
            assert!(scanned.rows.len() > 1, "{}", scanned.rows.len());
            load.wait_for_more();
        }
        assert_leads(&cluster, (leader, term));
        slow.end();
        assert_leads(&cluster, (leader, term));
    });
}

#[test]
fn backups_by_slow_readers_share_a_budget() {
    let _alone = alone();
    let cluster = start(|_| {});
    long_rows(&cluster);
    let (leader, term) = leader_of(&cluster);
    let address = cluster.client_address(leader);
    let mut source = BackupSource::begin(address, &cluster.options).unwrap();
    let has_rows = |file: &u32| {
        source
            .read(*file, 0)
            .is_ok_and(|(_, bytes)| bytes.len() == 1 << 20)
    };
    let file = (0..100).find(has_rows).expect("a file with the rows");
    let image = source.image();
    under_load(&cluster, 120 * MIB, |load| {
        let offset = 0;
        let part = Request::BackupFile {
            image,
            file,
            offset,
        };
        let slow = SlowReaders::begin(address, &part);
        for _ in 0..5 {
            let (_, bytes) = source.read(file, 0).unwrap();
            assert_eq!(bytes.len(), 1 << 20);
            load.wait_for_more();
        }
        assert_leads(&cluster, (leader, term));
        slow.end();
        assert_leads(&cluster, (leader, term));
    });
}

/// Hashes in a loop, and junk at every port of every node, while the leader is flooded.
#[test]
fn hashes_and_junk_depose_no_leader() {
    let _alone = alone();
    let mut random = seeded();
    let cluster = start(|_| {});
    under_load(&cluster, 600 * MIB, |load| {
        let (leader, term) = leader_of(&cluster);
        let address = cluster.client_address(leader);
        let groups = Flood::begin(address, |session, group| {
            encoded(&transfers(session, group)).unwrap()
        });
        let mut hashes: Vec<TcpStream> = (0..4).map(|_| welcome(address)).collect();
        let hash = encoded(&Request::StateHash { at: None }).unwrap();
        let begin = Instant::now();
        let (mut answered, mut busy) = (0, 0);
        while begin.elapsed() < FLOOD {
            for link in &mut hashes {
                link.write_all(&hash).unwrap();
                match response(link) {
                    Some(Response::Status(status)) => {
                        assert!(status.state_hash.is_some());
                        answered += 1;
                    }
                    Some(Response::Busy { .. }) => busy += 1,
                    other => panic!("{other:?}"),
                }
            }
            let target = 1 + random.below(NODES);
            attacks::on_clients(&mut random).run(dial(cluster.client_address(target)), &mut random);
            attacks::on_nodes(target, &mut random)
                .run(dial(cluster.node_address(target)), &mut random);
        }
        groups.end();
        eprintln!("{answered} hashes were computed, {busy} had to wait");
        assert!(answered > 0);
        load.wait_for_more();
        assert_leads(&cluster, (leader, term));
    });
}
