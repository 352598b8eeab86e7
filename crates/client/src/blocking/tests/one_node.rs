//! Requests to one node, its version, and the longest timeouts.

use super::*;
use crate::BackupSource;
use crate::blocking::cut_links;

/// A node tells every client when members change, whatever it asks for.
#[test]
fn changed_addresses_are_no_answer_of_one_node() {
    let address = Address::new();
    let name = address.name.clone();
    let script = script(move || {
        let nodes = Response::Nodes {
            addresses: vec!["127.0.0.1:1".to_owned()],
        };
        let mut node = address.accept();
        assert_eq!(node.request(), Some(Request::BeginBackup));
        node.say(&nodes);
        node.say(&Response::BackupBegun {
            image: 5,
            lsn: 9,
            bytes: 3,
        });
        assert!(matches!(
            node.request(),
            Some(Request::BackupFile { image: 5, .. })
        ));
        node.say(&nodes);
        node.say(&Response::BackupPart {
            file_bytes: 3,
            bytes: vec![1, 2, 3],
        });
    });
    let mut source = BackupSource::begin(&name, &options()).unwrap();
    assert_eq!((source.image(), source.lsn()), (5, 9));
    assert_eq!(source.read(0, 0).unwrap(), (3, vec![1, 2, 3]));
    script.join().unwrap();
}

#[test]
fn a_node_of_another_version_is_named() {
    let address = Address::new();
    let name = address.name.clone();
    let script = script(move || {
        let (mut node, _) = address.meet();
        node.say(&Response::Welcome {
            version: PROTOCOL_VERSION + 1,
            cluster: CLUSTER,
            node: 1,
            group_commands_max: 10,
            addresses: Vec::new(),
        });
        node.request();
    });
    let refused = status(&name, &options()).unwrap_err();
    let is_other = matches!(
        refused,
        ClientError::OtherVersion { node, .. } if node == PROTOCOL_VERSION + 1
    );
    assert!(is_other, "{refused}");
    script.join().unwrap();
}

#[test]
fn a_client_may_wait_for_ever() {
    let address = Address::new();
    let name = address.name.clone();
    let node = script(move || {
        let mut node = address.accept();
        let Some(Request::Tables { request, .. }) = node.request() else {
            panic!("the tables are asked for")
        };
        node.say(&Response::Tables {
            request,
            tables: Vec::new(),
            lsn: 1,
        });
        let mut node = address.accept();
        assert_eq!(node.request(), Some(Request::BeginBackup));
        node.say(&Response::BackupBegun {
            image: 5,
            lsn: 9,
            bytes: 3,
        });
    });
    let options = ClientOptions {
        timeout: Duration::MAX,
        connect_timeout: Duration::MAX,
        silence: Duration::MAX,
        ..options()
    };
    let mut client = Client::connect([name.clone()], options.clone()).unwrap();
    assert!(client.tables().unwrap().is_empty());
    BackupSource::begin(&name, &options).unwrap();
    node.join().unwrap();
}

#[test]
fn a_refusal_of_one_node_says_its_reason() {
    let address = Address::new();
    let name = address.name.clone();
    let node = script(move || {
        let mut node = address.accept();
        assert!(matches!(node.request(), Some(Request::CutLinks { .. })));
        let reason = "`allow_cuts` is false".to_owned();
        node.say(&Response::Refused { request: 0, reason });
    });
    let refused = cut_links(&name, vec![2], &options()).unwrap_err();
    assert!(matches!(refused, ClientError::NodeRefused { .. }));
    let said = format!("{name} refuses: `allow_cuts` is false");
    assert_eq!(refused.to_string(), said);
    node.join().unwrap();
}
