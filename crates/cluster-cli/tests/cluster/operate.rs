//! What an operator sees: `/metrics`, `/healthz`, the log, and the exit status of `status`.

use std::fs;
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

use namiki_client::{Client, ClientError};
use namiki_cluster::config::NodeConfig;

use crate::prometheus::{Page, request};
use crate::{Cluster, WATCHDOG, namiki, plain, put_rows, refuses};

impl Cluster {
    fn metrics_address(&self, node: u64) -> String {
        self.config(node).metrics_listen.unwrap()
    }

    pub(crate) fn page(&self, node: u64) -> Page {
        Page::of(&self.metrics_address(node))
    }

    fn health(&self, node: u64) -> (u16, String) {
        request("GET", &self.metrics_address(node), "/healthz")
    }

    pub(crate) fn log(&self, node: u64) -> String {
        let path = self.0.path().join(format!("node-{node}/log.txt"));
        fs::read_to_string(path).unwrap()
    }

    /// The configuration of a node, as an argument.
    fn config_path(&self, node: u64) -> String {
        format!("{}/node-{node}/namiki.toml", self.dir())
    }
}

/// Waits until something holds, at most as long as the watchdog.
pub(crate) fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < WATCHDOG, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// For tests that need the same leader throughout: it stays in spite of pauses of this machine.
const LONG_TIMEOUT: &str = "--election-timeout-ms=3000";

/// Runs the program until its exit status is this one. Returns its output.
pub(super) fn until_it_exits(status: i32, arguments: &[&str]) -> String {
    let mut said = String::new();
    wait_for(&format!("{arguments:?} exits with {status}"), || {
        let output = namiki(arguments);
        said = String::from_utf8(output.stdout).unwrap();
        output.status.code() == Some(status)
    });
    said
}

#[test]
fn metrics_move_with_the_commands() {
    let cluster = Cluster::start_with(&["--metrics", LONG_TIMEOUT]);
    let leader = cluster.leader_other_than(None);
    let follower = leader % 3 + 1;
    wait_for("everything is healthy", || {
        (1..=3).all(|node| cluster.health(node) == (200, "ok\n".to_owned()))
    });
    let before = cluster.page(leader);
    let mut client = cluster.client();
    let table = client.create_table("rows", true).unwrap();
    let mut session = client.open_session().unwrap();
    put_rows(&mut session, table, 0..20);
    drop(session);
    client.read(vec![(table, vec![0; 8])]).unwrap();
    let refused = client.create_table("", true).unwrap_err();
    assert!(matches!(refused, ClientError::Refused { .. }), "{refused}");
    // This one is redirected to the leader.
    let mut other = Client::connect([cluster.config(follower).client_listen], plain()).unwrap();
    other.read(vec![(table, vec![0; 8])]).unwrap();

    let page = cluster.page(leader);
    for (series, least) in [
        ("commands_answered_total{outcome=\"done\"}", 20.0),
        ("commands_applied_total", 20.0),
        ("groups_sealed_total", 20.0),
        ("groups_applied_total", 20.0),
        ("group_latency_seconds_count{stage=\"committed\"}", 20.0),
        ("group_latency_seconds_count{stage=\"answered\"}", 20.0),
        ("log_flush_seconds_count{stream=\"0\"}", 20.0),
        ("reads_total", 2.0),
        ("requests_refused_total{reason=\"invalid\"}", 1.0),
        ("committed_index", 22.0),
    ] {
        let moved = page.get(series) - before.get(series);
        assert!(moved >= least, "{series} moved by {moved}");
    }
    for (series, value) in [
        ("role{role=\"leader\"}", 1.0),
        ("leader", leader as f64),
        ("healthy", 1.0),
        ("tls_enabled", 0.0),
        ("sessions", 1.0),
        ("clients", 1.0),
        ("payloads_missing", 0.0),
        ("payloads_damaged_total", 0.0),
    ] {
        // A client that is gone is noticed a little later.
        wait_for(series, || cluster.page(leader).get(series) >= value);
    }
    assert!(page.get("log_flush_seconds_sum{stream=\"0\"}") > 0.0);
    assert!(page.get("log_unused_bytes") < page.get("log_limit_bytes"));
    for series in ["log_bytes", "disk_free_bytes", "resident_memory_bytes"] {
        assert!(page.get(series) > 0.0, "{series}");
    }
    for peer in (1..=3).filter(|it| *it != leader) {
        let of = |name: &str| format!("{name}{{peer=\"{peer}\"}}");
        assert_eq!(page.get(&of("peer_reachable")), 1.0);
        let down = format!("peer_connections{{peer=\"{peer}\",state=\"down\"}}");
        wait_for(&down, || cluster.page(leader).get(&down) == 0.0);
        wait_for("a follower matches", || {
            let page = cluster.page(leader);
            page.get(&of("peer_lag_entries")) == 0.0
                && page.get(&of("peer_matched_index")) >= page.get("committed_index")
        });
        wait_for("a follower applies", || {
            cluster.page(peer).get("commands_applied_total") >= page.get("commands_applied_total")
        });
    }
    let page = cluster.page(follower);
    assert_eq!(page.get("role{role=\"follower\"}"), 1.0);
    assert!(page.get("requests_refused_total{reason=\"not_leader\"}") >= 1.0);
    assert!(!page.has(&format!("peer_lag_entries{{peer=\"{leader}\"}}")));
    assert_eq!(page.get("groups_sealed_total"), 0.0);

    // Another leader, another count.
    let elections = |node| cluster.page(node).get("elections_won_total");
    let others = || (1..=3).filter(|node| *node != leader);
    let before: f64 = others().map(elections).sum();
    cluster.works(&["kill", "leader"]);
    cluster.leader_other_than(Some(leader));
    assert!(others().map(elections).sum::<f64>() > before);

    // What is not asked for as it should be harms nothing.
    let address = cluster.metrics_address(follower);
    assert_eq!(request("GET", &address, "/").0, 404);
    assert_eq!(request("POST", &address, "/metrics").0, 405);
    assert_eq!(request("HEAD", &address, "/metrics"), (200, String::new()));
    assert_eq!(request("\u{0}", &address, "/metrics").0, 400);
    let long = format!("/{}", "x".repeat(64 << 10));
    assert!(matches!(request("GET", &address, &long).0, 414 | 431));
    assert_eq!(request("GET", &address, "/metrics?x=1").0, 200);
    // More connections than the port has, none of which asks for anything.
    let silent: Vec<TcpStream> = (0..40)
        .map(|_| TcpStream::connect(&address).unwrap())
        .collect();
    assert_eq!(request("GET", &address, "/metrics").0, 200);
    drop(silent);
}

/// A program has ended without closing its session, and another one holds the second session.
#[test]
fn sessions_that_are_left_behind_are_closed_by_an_operator() {
    let cluster = Cluster::of_nodes(1, &[]);
    let mut client = cluster.client();
    let table = client.create_table("rows", true).unwrap();
    let mut session = client.open_session().unwrap();
    put_rows(&mut session, table, 0..20);
    let token = session.token();
    drop(session);
    let mut held = cluster.client().open_session().unwrap();
    let said = cluster.works(&["sessions"]);
    let (number, other) = (token.session().0.to_string(), held.token().session().0);
    let line = |said: &str| {
        said.lines()
            .any(|line| line.starts_with(&format!("{number} ")))
    };
    assert!(
        line(&said) && said.contains("127.0.0.1") && said.contains("not used for"),
        "{said}"
    );
    assert_eq!(said.lines().count(), 3, "{said}");
    let refused = refuses(1, &["--dir", cluster.dir(), "sessions", "--close", "99999"]);
    assert!(refused.contains("no session 99999"), "{refused}");
    assert_eq!(
        cluster.works(&["sessions", "--close-idle", "1d"]),
        "closed: 0\n"
    );
    assert_eq!(
        cluster.works(&["sessions", "--close", &number]),
        "closed: 1\n"
    );
    let said = cluster.works(&["sessions"]);
    assert!(!line(&said) && said.contains(&other.to_string()), "{said}");
    let gone = cluster.client().resume(&token).unwrap_err();
    assert!(matches!(gone, ClientError::NoSuchSession { .. }), "{gone}");
    put_rows(&mut held, table, 20..21);
}

#[test]
fn a_lost_majority_is_an_error_everywhere() {
    let cluster = Cluster::start_with(&["--metrics"]);
    let left = cluster.leader_other_than(None);
    let others = [left % 3 + 1, (left + 1) % 3 + 1];
    wait_for("the node is healthy", || cluster.health(left).0 == 200);
    until_it_exits(0, &["--dir", cluster.dir(), "status"]);
    for node in others {
        cluster.works(&["kill", &node.to_string()]);
    }
    wait_for("the rest is not healthy", || {
        let (status, why) = cluster.health(left);
        status == 503 && why.contains("1 of 3 voters")
    });
    assert_eq!(cluster.page(left).get("healthy"), 0.0);
    let output = cluster.output(&["status"]);
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(
        said.contains("no leader: 1 of 3 nodes answer, and 2 are needed"),
        "{said}"
    );
    assert!(
        said.contains(&format!("node {}: it does not run", others[0])),
        "{said}"
    );
    wait_for("an error is logged", || {
        let log = cluster.log(left);
        let mut errors = log.lines().filter(|line| line.contains(" ERRO "));
        errors.any(|line| line.contains("the majority is lost") && line.contains("start the other"))
    });
    wait_for("unreachable nodes are logged", || {
        let log = cluster.log(left);
        let mut warnings = log.lines().filter(|line| line.contains(" WARN "));
        warnings.any(|line| line.contains(&format!("node {} is not reached", others[0])))
    });
    cluster.works(&["start"]);
    wait_for("the rest is healthy", || cluster.health(left).0 == 200);
    wait_for("the end is logged", || {
        cluster.log(left).contains("a leader is known again")
    });
    until_it_exits(0, &["--dir", cluster.dir(), "status"]);
}

#[test]
fn the_exit_status_tells_whether_a_cluster_is_healthy() {
    let cluster = Cluster::start_with(&[LONG_TIMEOUT]);
    let leader = cluster.leader_other_than(None);
    let other = leader % 3 + 1;
    let config = cluster.config_path(1);
    let addresses: Vec<String> = (1..=3)
        .map(|node| cluster.config(node).client_listen)
        .collect();
    let all = addresses.join(",");
    for arguments in [
        &["--dir", cluster.dir(), "status"][..],
        &["status", "--config", &config],
        &["status", "--endpoints", &all],
        &["status", "--endpoints", &all, "--config", &config],
    ] {
        let said = until_it_exits(0, arguments);
        assert!(said.contains(env!("CARGO_PKG_VERSION")), "{said}");
    }
    let json = |status: i32| {
        let said = until_it_exits(status, &["status", "--config", &config, "--json"]);
        serde_json::from_str::<serde_json::Value>(&said).unwrap()
    };
    let healthy = json(0);
    assert_eq!(healthy["healthy"], true);
    assert_eq!(healthy["leader"], leader);
    assert_eq!(healthy["problems"].as_array().unwrap().len(), 0);
    assert_eq!(healthy["nodes"][2]["node"], 3);
    assert_eq!(healthy["nodes"][2]["lag"], 0);

    // The nodes know where the third one is.
    let two = addresses[..2].join(",");
    let said = until_it_exits(0, &["status", "--endpoints", &two]);
    assert!(said.contains(&addresses[2]), "{said}");

    // A node that is alone lags, although it answers.
    for node in (1..=3).filter(|node| *node != other) {
        cluster.works(&["cut", &format!("{}-{}", node.min(other), node.max(other))]);
    }
    let mut client = cluster.client();
    let table = client.create_table("rows", true).unwrap();
    put_rows(&mut client.open_session().unwrap(), table, 0..5);
    let alone = json(1);
    let problems = alone["problems"].to_string();
    assert!(
        problems.contains(&format!("node {other} lags")),
        "{problems}"
    );
    assert_eq!(alone["leader"], leader);
    cluster.works(&["heal"]);
    until_it_exits(0, &["--dir", cluster.dir(), "status"]);

    cluster.works(&["kill", &other.to_string()]);
    let killed = json(1);
    assert_eq!(killed["healthy"], false);
    assert_eq!(killed["nodes"][other as usize - 1]["reachable"], false);
    assert!(refuses(1, &["status", "--endpoints", &all]).contains("not healthy"));

    assert!(refuses(2, &["status", "--json", "--watch"]).contains("cannot be used with"));
    let said = refuses(2, &["node", "--config", &config, "--metrics", "here"]);
    assert!(
        said.contains("metrics_listen") && said.contains("10.0.0.1:7400"),
        "{said}"
    );
}

/// The manual, `docs/operate-a-cluster.md`.
fn manual() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    fs::read_to_string(root.join("docs/operate-a-cluster.md")).unwrap()
}

#[test]
fn the_manual_names_every_setting() {
    let manual = manual();
    let unknown = NodeConfig::parse("unknown = 1").unwrap_err().to_string();
    let (_, keys) = unknown.split_once("expected one of ").unwrap();
    let keys: Vec<&str> = keys.split(", ").collect();
    assert!(keys.len() >= 18, "{unknown}");
    for key in keys {
        let row = format!("\n| {key} |");
        assert!(manual.contains(&row), "{key}");
    }
}

#[test]
fn the_manual_names_the_metrics_that_there_are() {
    let cluster = Cluster::start_with(&["--metrics", "--tls", LONG_TIMEOUT]);
    let leader = cluster.leader_other_than(None);
    let page = cluster.page(leader);
    let names = page.names();
    let manual = manual();
    let monitoring = manual.split("\n## Monitoring").nth(1).unwrap();
    let monitoring = monitoring.split("\n### Lines").next().unwrap();
    // Expressions of the alert rules have full names.
    let is_name = |it: char| it.is_ascii_lowercase() || it == '_';
    let mut in_rules = monitoring.split("namiki_cluster_").skip(1);
    // The first one explains the prefix.
    in_rules.next();
    for text in in_rules {
        let name = text.split(|it| !is_name(it)).next().unwrap();
        assert!(names.contains(name), "{name} is in a rule: {names:?}");
    }
    // The table names each family, without the prefix.
    let family = |name: &str| {
        let suffixes = ["_bucket", "_sum", "_count"];
        let histogram = suffixes.iter().find_map(|it| name.strip_suffix(it));
        histogram.unwrap_or(name).to_owned()
    };
    for name in names.iter().map(|name| family(name)) {
        assert!(monitoring.contains(&format!("`{name}`")), "{name}");
    }
    // The file of any node names its certificate; an address alone has none.
    let config = cluster.config_path(2);
    until_it_exits(0, &["status", "--config", &config]);
    let address = cluster.config(1).client_listen;
    let said = until_it_exits(1, &["status", "--endpoints", &address]);
    assert!(said.contains("speaks TLS"), "{said}");
    assert_eq!(page.get("tls_enabled"), 1.0);
    let year = 365.0 * 86_400.0;
    let expires = page.get("certificate_expiry_timestamp_seconds");
    assert!((expires - page.get("start_time_seconds") - year).abs() < 86_400.0);
}

#[test]
fn verify_compares_the_nodes() {
    let cluster = Cluster::start();
    let mut client = cluster.client();
    let table = client.create_table("rows", true).unwrap();
    put_rows(&mut client.open_session().unwrap(), table, 0..10);
    let said = cluster.works(&["verify"]);
    let lines: Vec<&str> = said.lines().collect();
    assert!(lines[0].starts_with("entry "), "{said}");
    let hash_of = |line: &str, node: u64| {
        let hash = line.strip_prefix(&format!("node {node}  "));
        hash.unwrap_or_else(|| panic!("{said}")).to_owned()
    };
    let hashes: Vec<String> = (1..=3)
        .map(|node| hash_of(lines[node as usize], node))
        .collect();
    assert!(hashes.iter().all(|hash| *hash == hashes[0]), "{said}");
    assert!(lines[4].ends_with("3 in all"), "{said}");
    let by_config = namiki(&["verify", "--config", &cluster.config_path(2)]);
    assert_eq!(by_config.status.code(), Some(0));
    cluster.works(&["kill", "3"]);
    let output = cluster.output(&["verify"]);
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("node 3 cannot be compared"), "{said}");
}
