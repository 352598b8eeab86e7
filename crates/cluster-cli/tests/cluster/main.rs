//! Clusters of real processes, as a user of `namiki node` and `namiki cluster` sees them.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod damage;
mod damaged_images;
mod images;
mod members;
mod operate;
mod prometheus;

use std::collections::HashSet;
use std::fs;
use std::ops::Range;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use namiki_client::protocol::{Command as ClusterCommand, Outcome, Write};
use namiki_client::tls::CertificateFiles;
use namiki_client::{Client, ClientOptions, Security, Session, status};
use namiki_cluster::config::NodeConfig;
use tempfile::TempDir;

const WATCHDOG: Duration = Duration::from_secs(120);

fn namiki(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_namiki-cluster"))
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn refuses(status: i32, arguments: &[&str]) -> String {
    let output = namiki(arguments);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(status), "{arguments:?}: {said}");
    said
}

/// A cluster, of three nodes unless a test says otherwise, which is stopped in any case.
struct Cluster(TempDir);

impl Cluster {
    fn start() -> Self {
        Self::start_with(&[])
    }

    fn start_with(flags: &[&str]) -> Self {
        Self::of_nodes(3, flags)
    }

    fn of_nodes(nodes: u64, flags: &[&str]) -> Self {
        let cluster = Self(tempfile::tempdir().unwrap());
        // Other tests, of this process and of others, start clusters at the same time, and the ports of one that is down are not held.
        static STARTED: AtomicU32 = AtomicU32::new(0);
        let of_process = 12_000 + std::process::id() % 45 * 400;
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let port = of_process + number % 4 * 10 + number / 4 % 2 * 200;
        let port = format!("--port={port}");
        let nodes = format!("--nodes={nodes}");
        cluster.works(&[&["start", &nodes, &port], flags].concat());
        cluster
    }

    fn dir(&self) -> &str {
        self.0.path().to_str().unwrap()
    }

    fn output(&self, arguments: &[&str]) -> Output {
        let cluster = ["--dir", self.dir()];
        namiki(&[&cluster, arguments].concat())
    }

    fn works(&self, arguments: &[&str]) -> String {
        let output = self.output(arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {said}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// The table of the nodes, healthy or not.
    fn status(&self) -> String {
        let output = self.output(&["status"]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(matches!(output.status.code(), Some(0 | 1)), "{said}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn config(&self, node: u64) -> NodeConfig {
        let path = self.0.path().join(format!("node-{node}/namiki.toml"));
        NodeConfig::read(&path).unwrap()
    }

    /// Waits for a leader other than `other`, at most as long as the watchdog.
    fn leader_other_than(&self, other: Option<u64>) -> u64 {
        let begin = Instant::now();
        loop {
            let table = self.status();
            let leaders = table.lines().filter(|line| line.contains(" leader "));
            let leader = leaders
                .map(|line| line.split(' ').next().unwrap().parse().unwrap())
                .find(|leader| Some(*leader) != other);
            if let Some(leader) = leader {
                return leader;
            }
            assert!(begin.elapsed() < WATCHDOG, "no leader: {table}");
        }
    }

    fn client(&self) -> Client {
        self.client_by(Security::Plain)
    }

    /// The numbers of the nodes.
    fn nodes(&self) -> Vec<u64> {
        let names = fs::read_dir(self.0.path()).unwrap();
        let names = names.map(|it| it.unwrap().file_name().into_string().unwrap());
        let numbers = names.filter_map(|it| it.strip_prefix("node-")?.parse().ok());
        let mut numbers: Vec<u64> = numbers.collect();
        numbers.sort_unstable();
        numbers
    }

    fn client_by(&self, security: Security) -> Client {
        let nodes = self.nodes().into_iter();
        let addresses = nodes.map(|node| self.config(node).client_listen);
        let options = ClientOptions {
            security,
            ..plain()
        };
        Client::connect(addresses, options).unwrap()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // A test that fails has its own message.
        drop(self.output(&["stop"]));
    }
}

fn plain() -> ClientOptions {
    ClientOptions {
        timeout: WATCHDOG,
        ..ClientOptions::default()
    }
}

fn put(table: u32, key: u64) -> Vec<ClusterCommand> {
    let row = (
        table,
        key.to_be_bytes().to_vec(),
        Some(key.to_le_bytes().to_vec()),
    );
    vec![ClusterCommand::Write(Box::new(Write {
        conditions: Vec::new(),
        rows: vec![row],
    }))]
}

/// Writes each row in a group of its own, and waits for it.
fn put_rows(session: &mut Session, table: u32, keys: Range<u64>) {
    for key in keys {
        let group = session.submit(put(table, key)).unwrap();
        assert_eq!(session.wait(group).unwrap(), [Outcome::Done]);
    }
}

#[test]
fn what_was_acknowledged_outlives_leaders_and_restarts() {
    let cluster = Cluster::start();
    let mut client = cluster.client();
    let table = client.create_table("rows", true).unwrap();
    let mut session = client.open_session().unwrap();
    let mut put_rows = |keys| put_rows(&mut session, table, keys);
    put_rows(0..20);
    let first = cluster.leader_other_than(None);
    cluster.works(&["kill", "leader"]);
    // The same session continues with the next leader.
    put_rows(20..40);
    cluster.leader_other_than(Some(first));
    cluster.works(&["restart", &first.to_string()]);
    put_rows(40..60);
    // All at once, as after a power cut.
    for node in ["1", "2", "3"] {
        cluster.works(&["kill", node]);
    }
    cluster.works(&["start"]);
    put_rows(60..80);
    let keys = (0..80_u64).map(|key| (table, key.to_be_bytes().to_vec()));
    let rows = cluster.client().read(keys.collect()).unwrap();
    let expected = (0..80_u64).map(|key| Some(key.to_le_bytes().to_vec()));
    assert_eq!(rows.values, expected.collect::<Vec<_>>());
}

#[test]
fn a_node_that_lost_its_directory_is_replaced_under_load() {
    let cluster = Cluster::start();
    let mut client = cluster.client();
    let table = client.create_table("rows", true).unwrap();
    let leader = cluster.leader_other_than(None);
    let (lost, third) = (leader % 3 + 1, (leader + 1) % 3 + 1);
    let data = cluster.0.path().join(format!("node-{lost}/data"));
    let (is_over, acknowledged) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let load = scope.spawn(|| {
            let mut session = client.open_session().unwrap();
            while !is_over.load(Ordering::Relaxed) {
                let key = acknowledged.load(Ordering::Relaxed);
                let group = session.submit(put(table, key)).unwrap();
                assert_eq!(session.wait(group).unwrap(), [Outcome::Done]);
                acknowledged.store(key + 1, Ordering::Relaxed);
            }
        });
        let wait_for_more = || {
            let (begin, before) = (Instant::now(), acknowledged.load(Ordering::Relaxed));
            while acknowledged.load(Ordering::Relaxed) < before + 20 {
                assert!(begin.elapsed() < WATCHDOG && !load.is_finished());
                std::thread::sleep(Duration::from_millis(5));
            }
        };
        wait_for_more();
        let number = lost.to_string();
        let refused =
            |arguments: &[&str]| refuses(1, &[&["--dir", cluster.dir()], arguments].concat());
        assert!(refused(&["replace", &number]).contains("has not lost its directory"));
        assert!(refused(&["replace", "9"]).contains("no node"));
        cluster.works(&["kill", &number]);
        fs::remove_dir_all(&data).unwrap();
        // It returns neither as if nothing had happened nor as a new node.
        assert!(refused(&["restart", &number]).contains("--replacement"));
        fs::create_dir(&data).unwrap();
        assert!(refused(&["restart", &number]).contains("never starts as a voter"));
        wait_for_more();
        let said = cluster.works(&["replace", &number]);
        assert!(said.contains(&format!("node {lost} votes")), "{said}");
        let table = cluster.status();
        assert!(
            table.contains(&format!("{lost} (incarnation 2)")),
            "{table}"
        );
        // A majority is the replacement and the leader now.
        cluster.works(&["kill", &third.to_string()]);
        wait_for_more();
        // The rest of the directory is moved aside, and the node is replaced again.
        cluster.works(&["restart", &third.to_string()]);
        cluster.works(&["kill", &number]);
        cluster.works(&["replace", &number]);
        assert!(data.with_file_name("data.lost-2/NODE").exists());
        wait_for_more();
        is_over.store(true, Ordering::Relaxed);
        load.join().unwrap();
    });
    // Everything is on the replacement: it and the third are all that is left.
    cluster.works(&["kill", &leader.to_string()]);
    let count = acknowledged.load(Ordering::Relaxed);
    let keys = (0..count).map(|key| (table, key.to_be_bytes().to_vec()));
    let rows = cluster.client().read(keys.collect()).unwrap();
    let expected = (0..count).map(|key| Some(key.to_le_bytes().to_vec()));
    assert_eq!(rows.values, expected.collect::<Vec<_>>());
    cluster.works(&["kill", &third.to_string()]);
    let address = cluster.config(lost).client_listen;
    let status = status(&address, &plain()).unwrap();
    assert_eq!((status.node, status.incarnation), (lost, 3));
    assert!(status.members.iter().all(|it| it.votes), "{status:?}");
    assert!(status.applied_lsn >= rows.lsn, "{status:?}");
}

#[test]
fn a_protected_cluster_outlives_its_leader() {
    let cluster = Cluster::start_with(&["--tls"]);
    let files = CertificateFiles::in_folder(&cluster.0.path().join("certificates"));
    let mut client = cluster.client_by(Security::tls(&files.client()).unwrap());
    let table = client.create_table("rows", true).unwrap();
    let mut session = client.open_session().unwrap();
    let mut put_rows = |keys| put_rows(&mut session, table, keys);
    put_rows(0..20);
    let first = cluster.leader_other_than(None);
    cluster.works(&["kill", "leader"]);
    put_rows(20..40);
    cluster.works(&["restart", &first.to_string()]);
    put_rows(40..60);
    let keys = (0..60_u64).map(|key| (table, key.to_be_bytes().to_vec()));
    let rows = client.read(keys.collect()).unwrap();
    let expected = (0..60_u64).map(|key| Some(key.to_le_bytes().to_vec()));
    assert_eq!(rows.values, expected.collect::<Vec<_>>());
    // A replacement has the certificate of its number.
    let lost = first % 3 + 1;
    cluster.works(&["kill", &lost.to_string()]);
    let node = cluster.0.path().join(format!("node-{lost}"));
    fs::remove_dir_all(node.join("data")).unwrap();
    let config = node.join("namiki.toml");
    let config = config.to_str().unwrap();
    // Not under its old identity: it has lost data that it acknowledged.
    let said = refuses(1, &["node", "init", "--config", config]);
    assert!(said.contains("--replacement"), "{said}");
    assert!(
        namiki(&["node", "init", "--replacement", "--config", config])
            .status
            .success()
    );
    cluster.works(&["restart", &lost.to_string()]);
    let replace = || {
        let number = lost.to_string();
        let replaced = namiki(&["replace", &number, "--config", config]);
        assert!(replaced.status.success(), "{replaced:?}");
        String::from_utf8(replaced.stdout).unwrap()
    };
    assert!(replace().contains(&format!("node {lost} votes\n")));
    assert!(replace().contains("nothing was replaced"));
    // Without a certificate no request is answered.
    let address = cluster.config(1).client_listen;
    let refused = status(&address, &plain()).unwrap_err();
    assert!(refused.to_string().contains("it speaks TLS"), "{refused}");
    // Nor does a node start with the certificate of another.
    let node = cluster.0.path().join("node-1/namiki.toml");
    cluster.works(&["kill", "1"]);
    let text = fs::read_to_string(&node).unwrap();
    fs::write(&node, text.replace("node-1.", "node-2.")).unwrap();
    let said = refuses(1, &["node", "--config", node.to_str().unwrap()]);
    assert!(
        said.contains("is for node-2.") && said.contains("not for node-1."),
        "{said}"
    );
    fs::write(&node, text).unwrap();
}

#[test]
fn certificates_are_made_once() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("certificates");
    let folder = folder.to_str().unwrap();
    let cluster = "5f0c1d6ab2e94c07a1d3f8e2b4c69701";
    let make = ["certificates", folder, "--nodes=2", "--cluster", cluster];
    let made = namiki(&make);
    assert!(made.status.success(), "{made:?}");
    let said = String::from_utf8(made.stdout).unwrap();
    assert!(said.contains(cluster) && said.contains("2 nodes"), "{said}");
    for name in ["ca", "client", "node-1", "node-2"] {
        for ending in ["pem", "key"] {
            let path = Path::new(folder).join(format!("{name}.{ending}"));
            assert!(path.exists(), "{}", path.display());
        }
    }
    assert!(refuses(1, &make).contains("is not overwritten"));
    assert!(
        refuses(2, &["certificates", folder, "--nodes=2", "--cluster=7"])
            .contains("32 hexadecimal")
    );
}

#[test]
fn nodes_are_paused_cut_off_and_brought_back() {
    let cluster = Cluster::start();
    let leader = cluster.leader_other_than(None);
    let other = leader % 3 + 1;
    cluster.works(&["pause", &leader.to_string()]);
    assert!(cluster.status().contains("paused"));
    let next = cluster.leader_other_than(Some(leader));
    cluster.works(&["resume", &leader.to_string()]);
    let link = format!("{}-{}", leader.min(other), leader.max(other));
    cluster.works(&["cut", &link]);
    let table = cluster.status();
    assert!(table.contains(&format!("cut: {link}")), "{table}");
    assert!(cluster.works(&["heal"]).contains("whole"));
    assert!(!cluster.status().contains("cut:"));

    // Requests for nodes and links that do not exist.
    let dir = cluster.dir();
    let refused =
        |arguments: &[&str], status| refuses(status, &[&["--dir", dir], arguments].concat());
    assert!(refused(&["kill", "9"], 1).contains("no node \"9\""));
    assert!(refused(&["cut", "1"], 2).contains("1-3"));
    assert!(refused(&["cut", "1-1"], 2).contains("no link to itself"));
    assert!(refused(&["start", "--workers=7"], 1).contains("--workers"));
    cluster.works(&["kill", &next.to_string()]);
    assert!(refused(&["kill", &next.to_string()], 1).contains("is not running"));

    // Stopped in good order, twice without harm, and gone.
    cluster.works(&["stop"]);
    assert!(cluster.status().contains("no leader: 0 of 3"));
    cluster.works(&["stop", "--remove"]);
    assert!(refused(&["status"], 1).contains("holds no cluster"));
}

#[test]
fn no_directory_is_made_among_nodes_of_another_cluster() {
    let cluster = Cluster::start();
    cluster.leader_other_than(None);
    let config = cluster.0.path().join("node-1/namiki.toml");
    let text = fs::read_to_string(&config).unwrap();
    let number = format!("{:032x}", cluster.config(1).cluster);
    let other = format!("{:032x}", cluster.config(1).cluster ^ 1);
    assert!(text.contains(&number), "{text}");
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("node.toml");
    fs::write(&path, text.replace(&number, &other)).unwrap();
    let said = refuses(1, &["node", "init", "--config", path.to_str().unwrap()]);
    let told = format!("belongs to cluster {number}, not to cluster {other}");
    assert!(said.contains(&told), "{said}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn a_node_without_what_it_needs_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("node.toml");
    let config = path.to_str().unwrap();
    assert!(refuses(2, &["node"]).contains("--config is missing"));
    assert!(said_once(&["node", "--config", config]).contains("cannot read"));
    said_once(&["status", "--dir", "no-such-cluster"]);
    assert!(refuses(2, &["node", "--dir", "x"]).contains("--config"));
    fs::write(&path, "node = 1\n").unwrap();
    let said = refuses(1, &["node", "--config", config]);
    assert!(
        said.contains("is not valid: line 1: missing field `cluster`"),
        "{said}"
    );
    // The problem is reported once, on one line.
    assert_eq!(
        (said.matches("is not valid").count(), said.lines().count()),
        (1, 1),
        "{said}"
    );
    let text = "cluster = \"0123456789abcdef0123456789abcdef\"\nnode = 1\ndirectory = \"data\"\n\
                [[member]]\nid = 1\npeer = \"127.0.0.1:1\"\nclient = \"127.0.0.1:2\"\n";
    fs::write(&path, text).unwrap();
    // A node that has lost its directory must not return as a new one.
    let lost = refuses(2, &["node", "--config", config]);
    assert!(lost.contains("namiki node init"), "{lost}");
    assert!(
        namiki(&["node", "init", "--config", config])
            .status
            .success()
    );
    let twice = refuses(1, &["node", "init", "--config", config]);
    assert!(twice.contains(dir_name(dir.path())), "{twice}");
}

fn dir_name(path: &Path) -> &str {
    path.file_name().unwrap().to_str().unwrap()
}

#[test]
fn failures_of_configurations_say_each_cause_once() {
    let temporary = tempfile::tempdir().unwrap();
    let cluster = temporary.path().join("cluster");
    let node = cluster.join("node-1");
    fs::create_dir_all(node.join("data")).unwrap();
    let config = node.join("namiki.toml");
    let common = "cluster = \"00000000000000000000000000000007\"\nnode = 1\ndirectory = \"data\"\n";
    let member = "[[member]]\nid = 1\npeer = \"127.0.0.1:1\"\nclient = \"127.0.0.1:2\"\n";
    let tls = "[tls]\nauthority = \"no-such-authority\"\ncertificate = \"c\"\nkey = \"k\"\n";
    for (text, says) in [
        ("cluster = ".to_owned(), "line 1"),
        (format!("{common}node = 2\n{member}"), "duplicate key"),
        (format!("{common}unknown = 2\n{member}"), "unknown"),
        (format!("{common}workers = 0\n{member}"), "workers"),
        (format!("{common}{tls}{member}"), "no-such-authority"),
    ] {
        fs::write(&config, text).unwrap();
        let own = said_once(&["node", "--config", config.to_str().unwrap()]);
        assert!(own.contains(says), "{says}: {own}");
        let status = said_once(&["status", "--dir", cluster.to_str().unwrap()]);
        assert!(!status.is_empty());
    }
}

/// The message of a failed command; no part of it occurs twice.
fn said_once(arguments: &[&str]) -> String {
    let said = refuses(1, arguments);
    let mut parts = HashSet::new();
    for part in said.trim().split(": ").filter(|part| part.contains(' ')) {
        assert!(parts.insert(part), "{part:?} is there twice: {said}");
    }
    assert!(
        !said.contains("untagged") && !said.contains("Err("),
        "{said}"
    );
    said
}

#[test]
fn help_teaches_with_examples() {
    for (arguments, example) in [
        (&["--help"][..], "\n  namiki cluster start "),
        (&["node", "--help"], "\n  namiki node --config "),
        (&["certificates", "--help"], "\n  authority = "),
        (&["status", "--help"], "\n  namiki cluster status --config "),
    ] {
        let output = namiki(arguments);
        let help = String::from_utf8(output.stdout).unwrap();
        assert!(help.contains(example), "{help}");
    }
    let script = namiki(&["completions", "bash"]).stdout;
    assert!(String::from_utf8(script).unwrap().contains("restart"));
}
