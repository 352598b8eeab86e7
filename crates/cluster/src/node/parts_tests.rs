//! One node's parts, one call after another. Reads while a node that starts brings its tables into memory: stale ones see the entry of
//! its image. Hashes of the state at one entry.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use namiki::Database;
use namiki::replica::Replica;
use namiki_client::protocol::{Freshness, Request, Response, ScanRange, Scanned};
use namiki_platform::Stamp;
use namiki_platform::disk::{Disk, SimDisk};
use parking_lot::{Condvar, Mutex};

use super::parts::{self, NodeInbox, Parts};
use super::{NodeOptions, OpenedNode};
use crate::clusters::Clusters;
use crate::control::Control;
use crate::entry::{EntryBody, LogEntry};
use crate::image::rows::{ImageHead, put_rows};
use crate::membership::Membership;
use crate::network::{ClientName, ConnectionId, Inbox as _, Network, NodeId, PeerMessage};
use crate::raft::RaftEvent;
use crate::scans::run_scans;
use crate::session::SessionTable;
use crate::storage::{NodeIdentity, NodeStore, StoreError, StoreOptions};

/// The entry of the image.
const CLUSTER: u128 = 7;
const S: u64 = 5;
const ACCOUNTS: u32 = 1;
/// The table that the log behind the image creates.
const LATER: u32 = 2;
const ROWS: u64 = 3;

/// Holds loading threads up.
#[derive(Default)]
struct Gate {
    is_open: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    fn pass(&self) {
        let mut is_open = self.is_open.lock();
        while !*is_open {
            self.opened.wait(&mut is_open);
        }
    }

    fn open(&self) {
        *self.is_open.lock() = true;
        self.opened.notify_all();
    }
}

/// Keeps the answers.
#[derive(Default)]
struct Answers(Mutex<Vec<Response>>);

impl Network for Answers {
    fn send(&self, _: NodeId, _: PeerMessage) {}
    fn set_members(&self, _: &Membership) {}
    fn reply(&self, _: ConnectionId, response: Response) {
        self.0.lock().push(response);
    }
    fn response_bytes_free(&self, _: ConnectionId) -> usize {
        usize::MAX
    }
}

/// One of three nodes, with an image at S. Behind it, its log has an entry that creates a table, and one that drops another; it knows
/// both to be committed. Its tables are not loaded before its gate is open.
struct Starting {
    gate: Arc<Gate>,
    parts: Parts,
    inbox: NodeInbox,
    answers: Arc<Answers>,
}

/// Otherwise the replica would wait for its threads for ever.
impl Drop for Starting {
    fn drop(&mut self) {
        self.gate.open();
    }
}

fn make_image(disk: &Arc<dyn Disk>, tables: &Path, voters: &[NodeId]) -> Result<(), StoreError> {
    let builder = Database::builder().disk(Arc::clone(disk));
    let replica = Arc::new(Replica::open(builder, tables).unwrap());
    let accounts = replica.create_table("accounts", true).unwrap();
    assert_eq!(accounts.0, ACCOUNTS);
    let mut group = replica.begin_group();
    for account in 0..ROWS {
        let slot = group.lock(accounts, &account.to_be_bytes()).unwrap();
        group.write(slot, Some(&value(account))).unwrap();
    }
    let mut changes = Vec::new();
    group.encode_changes(&mut changes);
    group.seal().install(Stamp(S), &changes).unwrap();
    let head = ImageHead::new(Clusters::new(CLUSTER), 1, Membership::new(voters), 1);
    put_rows(&replica, &head, &mut SessionTable::default());
    let view = replica.view_for_image().unwrap();
    replica.write_image(view, |_| true).unwrap();
    Ok(())
}

fn value(account: u64) -> Vec<u8> {
    (account * 10).to_le_bytes().to_vec()
}

fn rows() -> Vec<(Vec<u8>, Vec<u8>)> {
    let rows = (0..ROWS).map(|account| (account.to_be_bytes().to_vec(), value(account)));
    rows.collect()
}

impl Starting {
    fn new() -> Self {
        let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
        let dir = Path::new("/node");
        let voters: Vec<_> = (1..=3).map(NodeId::first).collect();
        let identity = NodeIdentity {
            cluster: CLUSTER,
            node: voters[0],
            workers: 1,
        };
        let fill = |disk: &Arc<dyn Disk>, tables: &Path| make_image(disk, tables, &voters);
        NodeStore::create_with_tables(Arc::clone(&disk), dir, &identity, &voters, None, fill)
            .unwrap();
        let mut opened = OpenedNode::open(Arc::clone(&disk), dir, StoreOptions::default()).unwrap();
        let later = Control::CreateTable {
            name: "later".to_owned(),
            eight_byte_keys: false,
        };
        let dropped = Control::DropTable { table: ACCOUNTS };
        let entries = [later, dropped].into_iter().zip(S + 1..);
        let entries = entries.map(|(control, index)| LogEntry {
            index,
            term: 1,
            body: EntryBody::Control(control.encode()),
        });
        opened.recovered.entries = entries.collect();
        (opened.recovered.term, opened.recovered.commit) = (1, S + 2);
        let gate = Arc::<Gate>::default();
        let held = Arc::clone(&gate);
        opened.replica = Replica::in_memory().unwrap();
        opened.replica = {
            let builder = Database::builder().disk(disk);
            let builder = builder.before_load(Arc::new(move |_: &str| held.pass()));
            Replica::open_unloaded(builder, dir.join("db")).unwrap()
        };
        let answers = Arc::<Answers>::default();
        let options = NodeOptions::default();
        let network = Arc::clone(&answers) as Arc<dyn Network>;
        let parts = Parts::new(&options, opened, network, None).unwrap();
        Self {
            inbox: NodeInbox::new(&parts.shared, &options),
            gate,
            parts,
            answers,
        }
    }

    /// Lets the applier and the scans do what they can, and takes the answers.
    fn run(&mut self) -> Vec<Response> {
        let shared = Arc::clone(&self.parts.shared);
        let now = Some(Duration::ZERO);
        while shared.applier.len() + shared.scans.len() > 0 {
            let events = shared.applier.take_all(now).unwrap();
            parts::run_applier(&shared, &mut self.parts.applier, events);
            run_scans(&shared, shared.scans.take_all(now).unwrap());
        }
        assert!(shared.failure.lock().is_none());
        std::mem::take(&mut *self.answers.0.lock())
    }

    fn ask(&mut self, request: Request) -> Vec<Response> {
        let client = ClientName::of_address("10.0.0.1".parse().unwrap());
        self.inbox.request(ConnectionId(1), &client, request);
        self.run()
    }

    /// Reads a key of each table.
    fn read(&mut self, request: u64, freshness: Freshness, tables: &[u32]) -> Vec<Response> {
        let key = 1_u64.to_be_bytes().to_vec();
        self.ask(Request::Read {
            request,
            freshness,
            keys: tables.iter().map(|table| (*table, key.clone())).collect(),
        })
    }

    fn scan(&mut self, request: u64, rows_max: u32) -> Vec<Response> {
        self.ask(Request::Scan {
            request,
            freshness: Freshness::AtLeast(0),
            range: ScanRange {
                table: ACCOUNTS,
                rows_max,
                ..ScanRange::default()
            },
        })
    }

    /// Loads the tables, and applies the log behind the image.
    fn load(&mut self) -> Vec<Response> {
        self.gate.open();
        parts::run_loading(&self.parts.shared);
        self.run()
    }

    /// The hash after an entry that is not applied yet; both entries of the log are applied at once.
    fn hash_at(entry: u64) -> u128 {
        let mut node = Self::new();
        let at = Some(entry);
        assert_eq!(node.ask(Request::StateHash { at }), []);
        match &node.load()[..] {
            [Response::Status(status)] if status.applied_lsn == entry => status.state_hash.unwrap(),
            other => panic!("{other:?}"),
        }
    }

    /// The answers of more than a second.
    fn wait(&mut self) -> Vec<Response> {
        for _ in 0..40 {
            self.parts.run_raft([RaftEvent::Tick]);
        }
        self.run()
    }
}

fn at_s(request: u64) -> Response {
    Response::Rows {
        request,
        values: vec![Some(value(1))],
        lsn: S,
    }
}

#[test]
fn stale_reads_see_the_image_before_the_tables_are_loaded() {
    let mut node = Starting::new();
    let stale = Freshness::AtLeast(0);
    assert_eq!(node.read(1, stale, &[ACCOUNTS]), [at_s(1)]);
    // A client that has seen no more than the image.
    assert_eq!(node.read(2, Freshness::AtLeast(S), &[ACCOUNTS]), [at_s(2)]);
    let scanned = Scanned {
        rows: rows(),
        count: ROWS,
        has_more: false,
        lsn: S,
    };
    let answer = Response::Scanned {
        request: 3,
        scanned: scanned.clone(),
    };
    assert_eq!(node.scan(3, 100), [answer]);
    let counted = Response::Scanned {
        request: 4,
        scanned: Scanned {
            rows: Vec::new(),
            ..scanned
        },
    };
    assert_eq!(node.scan(4, 0), [counted]);
    let tables = node.ask(Request::Tables {
        request: 5,
        freshness: stale,
    });
    assert!(
        matches!(&tables[..], [Response::Tables { tables, lsn: S, .. }] if tables.len() == 1),
        "{tables:?}"
    );
    assert_eq!(node.parts.shared.applied(), S);
}

#[test]
fn other_reads_wait_for_the_log_behind_the_image() {
    let mut node = Starting::new();
    let strong = node.read(1, Freshness::Strong, &[ACCOUNTS]);
    let seen = node.read(2, Freshness::AtLeast(S + 1), &[LATER]);
    // The image does not have this table, which may be behind it.
    let later = node.read(3, Freshness::AtLeast(0), &[LATER]);
    assert_eq!([strong, seen, later], [[], [], []]);
    let answers = node.wait();
    let no_leader = Response::NotLeader {
        request: 1,
        leader: None,
    };
    let behind = |request, wanted| Response::Behind {
        request,
        applied: S,
        wanted,
    };
    assert_eq!(answers, [no_leader, behind(2, S + 1), behind(3, S + 2)]);
    assert_eq!(node.read(4, Freshness::AtLeast(0), &[LATER]), []);
    assert_eq!(node.read(5, Freshness::AtLeast(S + 2), &[LATER]), []);

    let rows = |request| Response::Rows {
        request,
        values: vec![None],
        lsn: S + 2,
    };
    assert_eq!(node.load(), [rows(4), rows(5)]);
    let refused = node.read(6, Freshness::AtLeast(0), &[ACCOUNTS]);
    assert!(
        matches!(&refused[..], [Response::Refused { request: 6, .. }]),
        "{refused:?}"
    );
}

#[test]
fn a_hash_is_of_the_requested_entry() {
    let (first, last) = (Starting::hash_at(S + 1), Starting::hash_at(S + 2));
    assert_ne!(first, last);
    assert_eq!(first, Starting::hash_at(S + 1));
}

#[test]
fn a_hash_of_another_entry_is_refused() {
    let mut node = Starting::new();
    let at = |entry| Request::StateHash { at: Some(entry) };
    // Not before the tables are there.
    assert_eq!(node.ask(at(S)), [Response::Busy { request: 0 }]);
    assert_eq!(node.load(), []);
    let applied = S + 2;
    for entry in [0, S, S + 1] {
        assert_eq!(node.ask(at(entry)), [Response::EntryPassed { applied }]);
    }
    assert_eq!(node.ask(at(S + 3)), []);
    let behind = Response::Behind {
        request: 0,
        applied,
        wanted: S + 3,
    };
    assert_eq!(node.wait(), [behind]);
    // A client that is gone.
    assert_eq!(node.ask(at(S + 3)), []);
    node.inbox.client_gone(ConnectionId(1));
    assert_eq!(node.wait(), []);
    assert!(matches!(&node.ask(at(applied))[..], [Response::Status(_)]));
}
