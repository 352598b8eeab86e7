//! The directory of a cluster's node that does not run: what reads a database reads its tables, as of their last image.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};

use namiki_client::protocol::{Command, Outcome, Write};
use namiki_client::{BackupSource, Client, ClientOptions};
use namiki_cluster::config::{Member, NodeConfig};
use namiki_cluster::{NodeId, Server, ServerError, create_directory};
use namiki_platform::disk::open_best;

use crate::program::{everything, has, refuses, works};

/// The directory of a node that was a cluster by itself: it has written rows and an image of them, and has stopped.
fn stopped_node(folder: &Path) -> PathBuf {
    for attempt in 0.. {
        let listen = || TcpListener::bind("127.0.0.1:0").unwrap();
        let listeners = [listen(), listen()];
        let [peer, client] = (listeners.each_ref()).map(|it| it.local_addr().unwrap().to_string());
        drop(listeners);
        let id = NodeId::first(1);
        let dir = folder.join(format!("node-{attempt}"));
        let member = Member {
            id,
            peer,
            client: client.clone(),
            city: None,
        };
        let config = NodeConfig::new(7, id, dir.clone(), vec![member]);
        let (disk, _) = open_best(folder).unwrap();
        create_directory(&config, 1, (&config.numbers(), None), disk.clone()).unwrap();
        let server =
            match Server::start(&config, disk, slog::Logger::root(slog::Discard, slog::o!())) {
                Ok(server) => server,
                // Another process has taken a port that was free.
                Err(ServerError::Transport(_)) => continue,
                Err(error) => panic!("{error}"),
            };
        write_rows(&client);
        server.stop();
        return dir;
    }
    unreachable!("one port after the other is taken")
}

fn write_rows(address: &str) {
    let options = ClientOptions::default();
    let mut client = Client::connect([address.to_owned()], options.clone()).unwrap();
    let accounts = client.create_table("accounts", true).unwrap();
    let notes = client.create_table("notes", false).unwrap();
    let row = |table, key: &[u8], value: &[u8]| (table, key.to_vec(), Some(value.to_vec()));
    let mut rows: Vec<_> = (0..1000_u64)
        .map(|key| row(accounts, &key.to_be_bytes(), b"12345678"))
        .collect();
    rows.push(row(notes, b"a", b"1"));
    let mut session = client.open_session().unwrap();
    let mut write = |rows| {
        let command = Command::Write(Box::new(Write {
            conditions: Vec::new(),
            rows,
        }));
        let group = session.submit(vec![command]).unwrap();
        assert_eq!(session.wait(group).unwrap(), [Outcome::Done]);
    };
    write(rows);
    BackupSource::begin(address, &options).unwrap();
    // It is in the log alone.
    write(vec![row(notes, b"later", b"2")]);
}

#[test]
fn a_stopped_nodes_directory_is_read_as_a_database() {
    let folder = tempfile::tempdir().unwrap();
    let node = stopped_node(folder.path());
    let before = everything(&node);
    for dir in [node.clone(), node.join("db")] {
        let dir = dir.to_str().unwrap();
        works(&["check", dir]);
        let tables = works(&["tables", dir, "--count"]);
        has(&tables, "accounts");
        has(&tables, "1,000");
        has(&tables, "notes");
        assert_eq!(works(&["scan", dir, "notes"]), "0x61 = 0x31\n");
        let counted = works(&["scan", dir, "accounts", "--count"]);
        assert_eq!(counted, "1,000\n");
        let exported = works(&["export", dir, "notes"]);
        let row = r#"{"key":"0x61","value":"0x31"}"#;
        let lines: Vec<&str> = exported.lines().collect();
        assert_eq!(lines[1..], [row, r#"{"end":true,"rows":1}"#], "{exported}");
        refuses(1, &["get", dir, "notes", "0x6c61746572"]);
    }
    assert_eq!(everything(&node), before, "nothing was changed");
    fs::write(node.join("NODE"), "namiki-node 1 crc32c=00000000\n{}").unwrap();
    let said = refuses(1, &["tables", node.to_str().unwrap()]);
    has(&said, "NODE");
}
