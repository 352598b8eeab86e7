//! The states of all nodes at one entry.

use super::*;
use crate::blocking::states_at_one_entry;
use crate::protocol::{NodeStatus, Role};

fn status_at(applied_lsn: u64, state_hash: Option<u128>) -> Response {
    Response::Status(Box::new(NodeStatus {
        incarnation: 1,
        members: Vec::new(),
        removed: Vec::new(),
        founders: Vec::new(),
        node: 1,
        role: Role::Follower,
        term: 1,
        leader: None,
        last_lsn: applied_lsn,
        persisted_lsn: applied_lsn,
        committed_lsn: applied_lsn,
        applied_lsn,
        commands_applied: 0,
        log_bytes: 0,
        log_bytes_max: None,
        missing_payloads: 0,
        may_have_forgotten: false,
        tables_lost: false,
        backup: None,
        waits_for_room: false,
        version: String::new(),
        refused_messages: 0,
        matched: Vec::new(),
        state_hash,
    }))
}

#[test]
fn nodes_are_compared_at_another_entry_if_one_has_passed() {
    // What each node answers to requests for its hash, in turn; it has applied as many entries as it has been asked for its status.
    let behind = |wanted| Response::Behind {
        request: 0,
        applied: 1,
        wanted,
    };
    let passed = |applied| Response::EntryPassed { applied };
    let scripts: [Vec<Box<dyn Fn(u64) -> Response + Send>>; 2] = [
        vec![
            Box::new(move |at| passed(at + 1)),
            Box::new(move |at| status_at(at, Some(5))),
            Box::new(move |at| status_at(at, Some(5))),
        ],
        vec![
            Box::new(move |at| status_at(at, Some(5))),
            Box::new(behind),
            Box::new(move |at| status_at(at, Some(6))),
        ],
    ];
    let (addresses, nodes): (Vec<_>, Vec<_>) = scripts
        .into_iter()
        .map(|script| {
            let address = Address::new();
            let name = address.name.clone();
            let node = std::thread::spawn(move || {
                let (mut answers, mut applied) = (script.into_iter(), 0);
                while answers.len() > 0 {
                    let mut node = address.accept();
                    match node.request() {
                        Some(Request::Status) => {
                            applied += 1;
                            node.say(&status_at(applied, None));
                        }
                        Some(Request::StateHash { at: Some(at) }) => {
                            // One more entry in the time in which entries are counted, and four times that ahead.
                            assert_eq!(at, applied + 4);
                            let answer = answers.next().unwrap();
                            node.say(&answer(at));
                        }
                        other => panic!("{other:?}"),
                    }
                }
            });
            (name, node)
        })
        .unzip();
    let states = states_at_one_entry(&addresses, &options()).unwrap();
    assert_eq!(states.lsn, 6 + 4);
    let hashes: Vec<u128> = states.nodes.iter().map(|it| it.hash).collect();
    assert_eq!(hashes, [5, 6]);
    assert!(!states.are_equal());
    nodes.into_iter().for_each(|node| node.join().unwrap());
    // None of them listens any more.
    let refused = states_at_one_entry(&addresses, &options());
    assert!(matches!(refused, Err(ClientError::Node { .. })));
    let none = states_at_one_entry(&[], &options());
    assert!(matches!(none, Err(ClientError::NoAddress)));
}
