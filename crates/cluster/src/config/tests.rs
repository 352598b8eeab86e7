//! Accepted and refused configurations.

use super::*;

const SHORT: &str = r#"
    cluster = "0123456789abcdef0123456789abcdef"
    node = 2
    directory = "data"

    [[member]]
    id = 2
    peer = "[::1]:7402"
    client = "[::1]:7502"

    [[member]]
    id = 1
    peer = "one.example:7401"
    client = "one.example:7501"
"#;

#[test]
fn a_short_file_has_defaults() {
    let config = NodeConfig::parse(SHORT).unwrap();
    assert_eq!(config.cluster, 0x0123_4567_89ab_cdef_0123_4567_89ab_cdef);
    assert_eq!(config.node, NodeId::first(2));
    assert_eq!(config.peer_listen, "[::1]:7402");
    assert_eq!(config.client_listen, "[::1]:7502");
    assert_eq!(config.members[0].id, NodeId::first(1));
    let expected = NodeConfig::new(
        config.cluster,
        config.node,
        "data".into(),
        config.members.clone(),
    );
    assert_eq!(config, expected);
}

#[test]
fn what_is_written_is_read_again() {
    let mut config = NodeConfig::parse(SHORT).unwrap();
    config.workers = 8;
    config.client_listen = "0.0.0.0:7502".to_owned();
    (config.set_metrics_listen("127.0.0.1:7600".to_owned())).unwrap();
    config.group_wait = Duration::from_micros(1500);
    config.session_idle_close = Some(Duration::from_secs(86_400));
    config.members[0].city = Some(City::Osaka);
    config.tls = Some(TlsOptions {
        authority: "ca.pem".into(),
        certificate: "/etc/node.pem".into(),
        key: "node.key".into(),
    });
    let text = config.to_text().unwrap();
    assert_eq!(NodeConfig::parse(&text).unwrap(), config);
}

/// Each case has a change and the required parts of the message.
#[test]
fn errors_name_the_key_and_what_to_write() {
    let changes = [
        ("node = 2", "node = 3", ["`node`", "one of 1, 2"]),
        ("node = 2", "node = \"two\"", ["node", "u64"]),
        ("node = 2", "nodes = 2", ["nodes", "unknown field"]),
        ("cdef\"", "\"", ["`cluster`", "32 hexadecimal"]),
        (
            "0123456789abcdef0123456789abcdef",
            "00000000000000000000000000000000",
            ["`cluster`", "32 hexadecimal"],
        ),
        ("id = 1", "id = 2", ["`member.id`", "another number"]),
        ("id = 1", "id = 0", ["`member.id`", "1 for the first"]),
        ("[::1]:7402", "7402", ["`member.peer`", "10.0.0.1:7400"]),
        ("[::1]:7402", "[::1]:7502", ["`member`", "own address"]),
        (
            "id = 1",
            "id = 1\ncity = \"kyoto\"",
            ["`member.city`", "tokyo"],
        ),
        (
            "id = 1",
            "id = 1\nincarnation = 2",
            ["incarnation", "unknown field"],
        ),
        (
            "node = 2",
            "node = 2\nworkers = 0",
            ["`workers`", "1 to 64"],
        ),
        (
            "node = 2",
            "node = 2\ngroup_size = 0",
            ["`group_size`", "from 1"],
        ),
        (
            "node = 2",
            "node = 2\nheartbeat_ms = 0",
            ["`heartbeat_ms`", "50"],
        ),
        (
            "node = 2",
            "node = 2\nelection_timeout_ms = 100",
            ["`election_timeout_ms`", "at least 150"],
        ),
        (
            "node = 2",
            "node = 2\nemulate_cities = true",
            ["`emulate_cities`", "`city`"],
        ),
        (
            "    [[member]]",
            "[tls]\nkey = \"a\"\n[[member]]",
            ["tls", "authority"],
        ),
        (
            "node = 2",
            "node = 2\nlog_bytes_max = 5",
            ["`log_bytes_max`", "bytes"],
        ),
    ];
    for (from, to, words) in changes {
        let text = SHORT.replacen(from, to, 1);
        assert_ne!(text, SHORT, "{from}");
        let error = NodeConfig::parse(&text).unwrap_err().to_string();
        assert!(
            words.iter().all(|word| error.contains(word)),
            "{to}: {error}"
        );
    }
}

#[test]
fn cities_become_delays_only_where_they_are_emulated() {
    let mut config = NodeConfig::parse(SHORT).unwrap();
    config.members[0].city = Some(City::Tokyo);
    config.members[1].city = Some(City::Osaka);
    assert_eq!(
        config.transport(config.node, &[]).peers[0].delay,
        Duration::ZERO
    );
    config.emulate_cities = true;
    let transport = config.transport(config.node, &[]);
    assert_eq!(transport.peers[0].delay, Duration::from_micros(7500));
    assert_eq!((transport.peers.len(), transport.peers[0].node), (1, 1));
    // As in the paper: a round trip, in the receiver.
    config.delay_in_handler = true;
    let peer = &config.transport(config.node, &[]).peers[0];
    assert_eq!(
        (peer.delay, peer.handling.as_millis()),
        (Duration::ZERO, 15)
    );
}

#[test]
fn paths_of_certificates_are_relative_to_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("node.toml");
    let tls = "[tls]\nauthority = \"ca.pem\"\ncertificate = \"../1.pem\"\nkey = \"/etc/1.key\"\n[[member]]";
    fs::write(&path, SHORT.replacen("[[member]]", tls, 1)).unwrap();
    let tls = NodeConfig::read(&path).unwrap().tls.unwrap();
    assert_eq!(tls.authority, folder.path().join("ca.pem"));
    assert_eq!(tls.certificate, folder.path().join("../1.pem"));
    assert_eq!(tls.key, Path::new("/etc/1.key"));
}

#[test]
fn a_missing_file_is_named() {
    let error = NodeConfig::read(Path::new("/nowhere/namiki.toml")).unwrap_err();
    assert!(error.to_string().contains("/nowhere/namiki.toml"));
}
