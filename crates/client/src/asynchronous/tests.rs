//! The client for tasks against nodes that follow a script.

use std::net::TcpListener as StdListener;
use std::pin::pin;
use std::sync::mpsc::{Receiver, channel};
use std::task::Poll;
use std::time::{Duration, Instant};

use tokio::net::TcpListener;

use super::AsyncClient;
use crate::protocol::{
    Command, Freshness, MemberChange, Outcome, PROTOCOL_VERSION, Request, Response, Scanned,
    SessionId, encoded,
};
use crate::{ClientError, ClientOptions, Consistency, GroupOutcomes, ReadNode, ReadOptions};

const SESSION: SessionId = SessionId(4);
const CLUSTER: u128 = 7;

/// A scripted node, in its own thread.
mod node {
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};

    use super::*;
    use crate::protocol::decode;

    pub(super) struct Node(TcpStream);

    impl Node {
        pub(super) fn accept(listener: &TcpListener) -> Self {
            let (mut node, _) = Self::meet(listener);
            node.say(&Response::Welcome {
                version: PROTOCOL_VERSION,
                cluster: CLUSTER,
                node: 1,
                group_commands_max: 10,
                addresses: Vec::new(),
            });
            node
        }

        /// Accepts a client and returns the cluster that it names.
        pub(super) fn meet(listener: &TcpListener) -> (Self, u128) {
            let mut node = Self(listener.accept().unwrap().0);
            match node.request() {
                Some(Request::Hello { cluster, .. }) => (node, cluster),
                other => panic!("{other:?}"),
            }
        }

        pub(super) fn request(&mut self) -> Option<Request> {
            let mut length = [0; 4];
            self.0.read_exact(&mut length).ok()?;
            let mut bytes = vec![0; u32::from_le_bytes(length) as usize];
            self.0.read_exact(&mut bytes).unwrap();
            Some(decode(&bytes).unwrap())
        }

        pub(super) fn say(&mut self, response: &Response) {
            self.0.write_all(&encoded(response).unwrap()).unwrap();
        }

        pub(super) fn opens_session(&mut self) {
            let Some(Request::OpenSession { nonce }) = self.request() else {
                panic!("a session is opened first")
            };
            self.say(&Response::SessionOpened {
                nonce,
                session: SESSION,
            });
        }

        /// Answers the next request, which is one for the tables.
        pub(super) fn tables(&mut self) {
            let Some(Request::Tables { request, .. }) = self.request() else {
                panic!("the tables are asked for")
            };
            self.say(&Response::Tables {
                request,
                tables: Vec::new(),
                lsn: 1,
            });
        }

        pub(super) fn group(&mut self) -> u64 {
            match self.request() {
                Some(Request::Submit { group, .. }) => group,
                other => panic!("{other:?}"),
            }
        }

        pub(super) fn results(&mut self, group: u64) {
            self.say(&Response::Results {
                session: SESSION,
                group,
                outcomes: vec![Outcome::Done],
                lsn: group,
            });
        }
    }
}

fn commands() -> Vec<Command> {
    vec![Command::Transfer {
        table: 1,
        from: 1,
        to: 2,
        amount: 3,
    }]
}

fn run<F: Future>(future: F) -> F::Output {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().build().unwrap().block_on(future)
}

#[test]
fn tasks_submit_read_and_follow_the_leader() {
    let [old, new] = [0; 2].map(|_| std::net::TcpListener::bind("127.0.0.1:0").unwrap());
    let address = old.local_addr().unwrap().to_string();
    let new_address = new.local_addr().unwrap().to_string();
    let nodes = std::thread::spawn(move || {
        let mut client = node::Node::accept(&old);
        let Some(Request::Read { request, .. }) = client.request() else {
            panic!()
        };
        client.say(&Response::Rows {
            request,
            values: vec![None],
            lsn: 1,
        });
        let Some(Request::ClearTable { table: 1 }) = client.request() else {
            panic!()
        };
        client.say(&Response::TableCleared {
            table: 1,
            successor: Some(2),
            lsn: 2,
        });
        let mut session = node::Node::accept(&old);
        let Some(Request::OpenSession { nonce }) = session.request() else {
            panic!()
        };
        session.say(&Response::SessionOpened {
            nonce,
            session: SESSION,
        });
        assert_eq!((session.group(), session.group()), (1, 2));
        session.results(2);
        session.say(&Response::NotLeader {
            request: 1,
            leader: Some((2, new_address)),
        });
        assert_eq!(session.request(), None);
        // Another cluster has taken the address.
        let (mut other, cluster) = node::Node::meet(&new);
        assert_eq!(cluster, CLUSTER);
        other.say(&Response::OtherCluster { cluster: 8 });
        assert_eq!(other.request(), None);
        let mut old_again = node::Node::accept(&old);
        assert_eq!(old_again.group(), 1);
        old_again.say(&Response::NotLeader {
            request: 1,
            leader: Some((2, new.local_addr().unwrap().to_string())),
        });
        let mut session = node::Node::accept(&new);
        assert_eq!(session.group(), 1);
        session.results(1);
        drop(client);
    });
    run(async {
        let options = ClientOptions::default();
        let mut client = AsyncClient::connect([address], options).await.unwrap();
        let rows = client.read(vec![(1, vec![1])]).await.unwrap();
        assert_eq!((rows.values, rows.lsn), (vec![None], 1));
        assert_eq!(client.clear_table(1).await.unwrap(), Some(2));
        let mut session = client.open_session().await.unwrap();
        let first = session.submit(commands()).await.unwrap();
        let second = session.submit(commands()).await.unwrap();
        // The node does not answer in time, and the group can be waited for again.
        let unknown = session.wait_until(first, Instant::now()).await;
        let known = matches!(
            unknown,
            Ok(_) | Err(ClientError::OutcomeUnknown { group: 1, .. })
        );
        assert!(known, "{unknown:?}");
        if unknown.is_err() {
            assert_eq!(session.wait(first).await.unwrap(), [Outcome::Done]);
        }
        assert_eq!(session.wait(second).await.unwrap(), [Outcome::Done]);
    });
    nodes.join().unwrap();
}

#[test]
fn many_sessions_share_a_thread() {
    run(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let listener = listener.into_std().unwrap();
        listener.set_nonblocking(false).unwrap();
        std::thread::spawn(move || {
            loop {
                let mut node = node::Node::accept(&listener);
                std::thread::spawn(move || {
                    while let Some(request) = node.request() {
                        match request {
                            Request::OpenSession { nonce } => node.say(&Response::SessionOpened {
                                nonce,
                                session: SESSION,
                            }),
                            Request::Submit { group, .. } => node.results(group),
                            other => panic!("{other:?}"),
                        }
                    }
                });
            }
        });
        let sessions = (0..20).map(|_| {
            let address = address.clone();
            tokio::spawn(async move {
                let options = ClientOptions::default();
                let client = AsyncClient::connect([address], options).await.unwrap();
                let mut session = client.open_session().await.unwrap();
                for _ in 0..10 {
                    let group = session.submit(commands()).await.unwrap();
                    assert_eq!(session.wait(group).await.unwrap(), [Outcome::Done]);
                }
            })
        });
        for session in sessions.collect::<Vec<_>>() {
            session.await.unwrap();
        }
    });
}

#[tokio::test]
async fn a_session_is_resumed_and_a_follower_read() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let script = std::thread::spawn(move || {
        let _client = node::Node::accept(&listener);
        let mut node = node::Node::accept(&listener);
        let Some(Request::ResumeSession { session, .. }) = node.request() else {
            panic!("it is resumed first")
        };
        node.say(&Response::SessionResumed {
            session,
            fence: 50,
            first_group: 100,
            acknowledged_through: 0,
            groups: vec![1],
            lsn: 51,
        });
        let Some(Request::Outcomes { request, .. }) = node.request() else {
            panic!("it asks for outcomes")
        };
        let outcomes = Some(Vec::new());
        node.say(&Response::GroupOutcomes {
            request,
            outcomes,
            lsn: 52,
        });
        for number in [1, 100] {
            assert_eq!(node.group(), number);
            node.results(number);
        }
        let mut reads = node::Node::accept(&listener);
        let Some(Request::Scan {
            request,
            freshness: Freshness::AtLeast(100),
            ..
        }) = reads.request()
        else {
            panic!("it has seen entry 100")
        };
        let scanned = Scanned {
            count: 5,
            lsn: 101,
            ..Scanned::default()
        };
        reads.say(&Response::Scanned { request, scanned });
        (node, reads)
    });
    let mut client = AsyncClient::connect([address.clone()], ClientOptions::default())
        .await
        .unwrap();
    let token = format!("{CLUSTER:x}.4.2c").parse().unwrap();
    let mut session = client.resume(&token).await.unwrap();
    assert_eq!((client.seen(), session.earlier_groups()), (51, &[1][..]));
    let outcomes = session.outcomes(1).await.unwrap();
    assert_eq!(outcomes, GroupOutcomes::NotExecuted);
    assert_eq!(client.seen(), 52);
    let group = session.submit_again(1, commands()).await.unwrap();
    assert_eq!(session.wait(group).await.unwrap(), [Outcome::Done]);
    session.acknowledge_taken();
    let group = session.submit(commands()).await.unwrap();
    assert_eq!(session.wait(group).await.unwrap(), [Outcome::Done]);
    let near = ReadOptions {
        consistency: Consistency::Session,
        node: ReadNode::Address(address),
    };
    assert_eq!(client.reading(&near).count(7).await.unwrap(), 5);
    assert_eq!(client.seen(), 101);
    script.join().unwrap();
}

const WATCHDOG: Duration = Duration::from_secs(60);

fn options() -> ClientOptions {
    ClientOptions {
        timeout: WATCHDOG,
        // A busy machine is no silent node.
        silence: WATCHDOG,
        ..ClientOptions::default()
    }
}

/// An address, and a node at it that follows a script.
fn scripted(
    run: impl FnOnce(StdListener) + Send + 'static,
) -> (String, std::thread::JoinHandle<()>) {
    let listener = StdListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    (address, std::thread::spawn(move || run(listener)))
}

/// Polls a call until the node has received its request, and cancels it.
async fn cancel_when_asked(call: impl Future, asked: &Receiver<()>) {
    let mut call = pin!(call);
    std::future::poll_fn(|context| {
        assert!(call.as_mut().poll(context).is_pending(), "it is answered");
        if asked.try_recv().is_ok() {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

#[tokio::test]
async fn a_cancelled_control_request_leaves_no_answer_to_the_next() {
    let (asked, is_asked) = channel();
    let (cancelled, is_cancelled) = channel();
    let (said, is_said) = channel();
    let (address, script) = scripted(move |listener| {
        let create = |node: &mut node::Node, expected: &str, table| match node.request() {
            Some(Request::CreateTable { name, .. }) if name == expected => {
                if name == "a" {
                    asked.send(()).unwrap();
                    is_cancelled.recv().unwrap();
                }
                let lsn = 5;
                node.say(&Response::Table { name, table, lsn });
            }
            other => panic!("{other:?}"),
        };
        let mut node = node::Node::accept(&listener);
        create(&mut node, "a", 1);
        said.send(()).unwrap();
        // The client closes the connection before it asks for anything else.
        assert_eq!(node.request(), None);
        let mut node = node::Node::accept(&listener);
        create(&mut node, "b", 2);
    });
    let mut client = AsyncClient::connect([address], options()).await.unwrap();
    cancel_when_asked(client.create_table("a", true), &is_asked).await;
    cancelled.send(()).unwrap();
    is_said.recv().unwrap();
    assert_eq!(client.create_table("b", true).await.unwrap(), 2);
    script.join().unwrap();
}

#[tokio::test]
async fn a_cancelled_read_is_not_sent_again() {
    let (asked, is_asked) = channel();
    let (address, script) = scripted(move |listener| {
        let mut client = node::Node::accept(&listener);
        assert!(matches!(client.request(), Some(Request::Read { .. })));
        asked.send(()).unwrap();
        assert!(matches!(client.request(), Some(Request::Scan { .. })));
        asked.send(()).unwrap();
        drop(client);
        let mut client = node::Node::accept(&listener);
        client.tables();
        let mut session = node::Node::accept(&listener);
        session.opens_session();
        assert!(matches!(session.request(), Some(Request::Outcomes { .. })));
        asked.send(()).unwrap();
        drop(session);
        let mut session = node::Node::accept(&listener);
        assert_eq!(session.group(), 1);
        session.results(1);
        assert_eq!(session.request(), None);
    });
    let mut client = AsyncClient::connect([address], options()).await.unwrap();
    cancel_when_asked(client.read(vec![(1, vec![1])]), &is_asked).await;
    cancel_when_asked(client.count(1), &is_asked).await;
    assert!(client.tables().await.unwrap().is_empty());
    let mut session = client.open_session().await.unwrap();
    cancel_when_asked(session.outcomes(9), &is_asked).await;
    let group = session.submit(commands()).await.unwrap();
    assert_eq!(session.wait(group).await.unwrap(), [Outcome::Done]);
    drop(session);
    script.join().unwrap();
}

#[tokio::test]
async fn a_task_changes_members() {
    let change = MemberChange::Remove {
        node: 3,
        incarnation: 1,
    };
    let asked = Request::ChangeMembers(change.clone());
    let made = change.clone();
    let (address, script) = scripted(move |listener| {
        let mut node = node::Node::accept(&listener);
        assert_eq!(node.request(), Some(asked.clone()));
        node.say(&Response::MembersChanged(made));
        assert_eq!(node.request(), Some(asked));
        node.say(&Response::Refused {
            request: 0,
            reason: "node 3 leads".to_owned(),
        });
    });
    let mut client = AsyncClient::connect([address], options()).await.unwrap();
    client.change_members(&change).await.unwrap();
    let refused = client.change_members(&change).await.unwrap_err();
    assert!(matches!(refused, ClientError::Refused { reason } if reason == "node 3 leads"));
    script.join().unwrap();
}

/// A node tells a session where the members are, and ends without having read its groups.
#[tokio::test]
async fn a_task_learns_from_a_killed_node() {
    let new = StdListener::bind("127.0.0.1:0").unwrap();
    let (submitted, is_submitted) = channel();
    let (ended, has_ended) = channel();
    let (address, script) = scripted(move |old| {
        let client = node::Node::accept(&old);
        let mut node = node::Node::accept(&old);
        node.opens_session();
        is_submitted.recv().unwrap();
        node.say(&Response::Nodes {
            addresses: vec![new.local_addr().unwrap().to_string()],
        });
        // The connection is reset, since there are unread bytes.
        drop((client, node, old));
        ended.send(()).unwrap();
        let mut node = node::Node::accept(&new);
        for group in 1..=2 {
            assert_eq!(node.group(), group);
            node.results(group);
        }
    });
    let client = AsyncClient::connect([address], options()).await.unwrap();
    let mut session = client.open_session().await.unwrap();
    let first = session.submit(commands()).await.unwrap();
    submitted.send(()).unwrap();
    has_ended.recv().unwrap();
    let second = session.submit(commands()).await.unwrap();
    for group in [first, second] {
        assert_eq!(session.wait(group).await.unwrap(), [Outcome::Done]);
    }
    script.join().unwrap();
}
