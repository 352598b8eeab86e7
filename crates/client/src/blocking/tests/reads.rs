//! Rows and tables, read from the leader and from any node.

use super::*;
use crate::protocol::{Freshness, Scanned};
use crate::{Consistency, ReadNode, ReadOptions};

#[test]
fn a_lagging_node_at_an_address_is_asked_again() {
    let (leader, follower) = (Address::new(), Address::new());
    let addresses = [leader.name.clone()];
    let near = ReadOptions {
        consistency: Consistency::Session,
        node: ReadNode::Address(follower.name.clone()),
    };
    let nodes = script(move || {
        let mut node = leader.accept();
        let name = match node.request() {
            Some(Request::CreateTable { name, .. }) => name,
            other => panic!("{other:?}"),
        };
        node.say(&Response::Table {
            name,
            table: 7,
            lsn: 30,
        });
        let mut node = follower.accept();
        let members = Response::Nodes {
            addresses: vec![leader.name.clone(), follower.name.clone()],
        };
        node.say(&members);
        let mut request = node.request();
        for applied in [20, 29] {
            let Some(Request::Scan {
                request: number,
                freshness: Freshness::AtLeast(30),
                ..
            }) = request
            else {
                panic!("{request:?}")
            };
            node.say(&Response::Behind {
                request: number,
                applied,
                wanted: 30,
            });
            // No other node is at this address.
            node = follower.accept();
            node.say(&members);
            request = node.request();
        }
        let Some(Request::Scan { request, .. }) = request else {
            panic!("{request:?}")
        };
        node.say(&Response::Scanned {
            request,
            scanned: Scanned {
                count: 5,
                lsn: 40,
                ..Scanned::default()
            },
        });
        let Some(Request::Read {
            request,
            freshness: Freshness::AtLeast(0),
            ..
        }) = node.request()
        else {
            panic!("a stale read needs no entry")
        };
        // It does not lead, and is not left for that.
        node.say(&Response::Rows {
            request,
            values: vec![None],
            lsn: 35,
        });
        let Some(Request::Tables {
            freshness: Freshness::Strong,
            ..
        }) = node.request()
        else {
            panic!("a strong read")
        };
        leader.listener.set_nonblocking(true).unwrap();
        let asked = leader.listener.accept();
        assert!(asked.is_err(), "the leader was asked instead: {asked:?}");
    });
    let mut client = Client::connect(addresses, options()).unwrap();
    assert_eq!(client.create_table("accounts", true).unwrap(), 7);
    assert_eq!(client.seen(), 30);
    assert_eq!(client.reading(&near).count(7).unwrap(), 5);
    assert_eq!(client.seen(), 40);
    let mut options = near.clone();
    options.consistency = Consistency::Stale;
    let rows = client.reading(&options).read(vec![(7, vec![1])]).unwrap();
    assert_eq!((rows.lsn, client.seen()), (35, 40));
    client.note_seen(90);
    assert_eq!(client.seen(), 90);
    options.consistency = Consistency::Strong;
    // It is answered by the end of the connection.
    drop(std::thread::spawn(move || {
        client.reading(&options).tables()
    }));
    nodes.join().unwrap();
}

#[test]
fn rows_and_tables_are_asked_of_the_leader() {
    let (follower, leader) = (Address::new(), Address::new());
    let addresses = [follower.name.clone()];
    let leader_name = leader.name.clone();
    let keys = vec![(7, vec![1]), (7, vec![2])];
    let asked = keys.clone();
    let nodes = script(move || {
        let mut node = follower.accept();
        assert!(matches!(node.request(), Some(Request::CreateTable { .. })));
        node.not_leader(Some(&leader.name));
        let mut node = leader.accept();
        let Some(Request::CreateTable { name, .. }) = node.request() else {
            panic!()
        };
        node.say(&Response::Table {
            name,
            table: 7,
            lsn: 3,
        });
        let Some(Request::Read { request, keys, .. }) = node.request() else {
            panic!()
        };
        assert_eq!(keys, asked);
        // Busy once.
        node.say(&Response::Busy { request });
        let Some(Request::Read { request, .. }) = node.request() else {
            panic!()
        };
        node.say(&Response::Rows {
            request,
            values: vec![Some(vec![5]), None],
            lsn: 99,
        });
        for (successor, lsn) in [(Some(8), 100), (None, 101)] {
            let Some(Request::ClearTable { table: 7 }) = node.request() else {
                panic!()
            };
            node.say(&Response::TableCleared {
                table: 7,
                successor,
                lsn,
            });
        }
    });
    let mut client = Client::connect(addresses, options()).unwrap();
    assert_eq!(client.create_table("accounts", true).unwrap(), 7);
    assert_eq!(client.leader(), Some(&*leader_name));
    let rows = client.read(keys).unwrap();
    assert_eq!((rows.values, rows.lsn), (vec![Some(vec![5]), None], 99));
    assert_eq!(client.clear_table(7).unwrap(), Some(8));
    assert_eq!((client.clear_table(7).unwrap(), client.seen()), (None, 101));
    nodes.join().unwrap();
}
