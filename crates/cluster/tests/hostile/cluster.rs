//! Three nodes in this process, on real sockets and disks, and a client under constant load.

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use namiki_client::protocol::{Command, Outcome, Write};
use namiki_client::{Client, ClientOptions, Security, status};
use namiki_cluster::config::{Member, NodeConfig};
use namiki_cluster::{NodeId, Server, ServerError, create_directory};
use namiki_platform::disk::open_best;
use tempfile::TempDir;

use crate::WATCHDOG;

pub(crate) const NODES: u64 = 3;
pub(crate) const WORKERS: u16 = 1;
pub(crate) const CLUSTER: u128 = 0x00c0_ffee;

pub(crate) struct Cluster {
    servers: Vec<Server>,
    configs: Vec<NodeConfig>,
    pub(crate) options: ClientOptions,
    _folder: TempDir,
}

impl Cluster {
    pub(crate) fn start_plain() -> Self {
        Self::start(Security::Plain, |_| {})
    }

    /// Starts nodes; `change` adjusts their configurations.
    pub(crate) fn start(security: Security, change: impl Fn(&mut NodeConfig)) -> Self {
        let begin = Instant::now();
        loop {
            if let Some(cluster) = Self::try_start(security.clone(), &change) {
                return cluster;
            }
            assert!(begin.elapsed() < WATCHDOG, "no ports are free");
        }
    }

    /// `None` if another process has taken a port that was free.
    fn try_start(security: Security, change: impl Fn(&mut NodeConfig)) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let listen = |_| TcpListener::bind("127.0.0.1:0").unwrap();
        let listeners: Vec<TcpListener> = (0..2 * NODES).map(listen).collect();
        let address = |it: &TcpListener| it.local_addr().unwrap().to_string();
        let addresses: Vec<String> = listeners.iter().map(address).collect();
        drop(listeners);
        let members: Vec<Member> = (1..=NODES)
            .zip(addresses.chunks(2))
            .map(|(number, addresses)| Member {
                id: NodeId::first(number),
                peer: addresses[0].clone(),
                client: addresses[1].clone(),
                city: None,
            })
            .collect();
        let (mut servers, mut configs) = (Vec::new(), Vec::new());
        for member in &members {
            let directory = folder.path().join(member.id.to_string());
            let mut config = NodeConfig::new(CLUSTER, member.id, directory, members.clone());
            config.workers = WORKERS;
            change(&mut config);
            let (disk, _) = open_best(folder.path()).unwrap();
            create_directory(&config, 1, (&config.numbers(), None), Arc::clone(&disk)).unwrap();
            let logger = slog::Logger::root(slog::Discard, slog::o!());
            match Server::start(&config, disk, logger) {
                Ok(server) => servers.push(server),
                Err(ServerError::Transport(_)) => return None,
                Err(error) => panic!("{error}"),
            }
            configs.push(config);
        }
        Some(Self {
            servers,
            configs,
            options: ClientOptions {
                timeout: WATCHDOG,
                security,
                cluster: Some(CLUSTER),
                ..ClientOptions::default()
            },
            _folder: folder,
        })
    }

    fn config(&self, number: u64) -> &NodeConfig {
        &self.configs[number as usize - 1]
    }

    pub(crate) fn node_address(&self, number: u64) -> &str {
        &self.config(number).peer_listen
    }

    pub(crate) fn client_address(&self, number: u64) -> &str {
        &self.config(number).client_listen
    }

    pub(crate) fn client(&self) -> Client {
        let addresses = (1..=NODES).map(|number| self.client_address(number));
        Client::connect(addresses, self.options.clone()).unwrap()
    }

    /// Number of messages of other nodes that Raft has refused.
    pub(crate) fn refused_messages(&self) -> u64 {
        let statuses = (1..=NODES).map(|number| {
            let status = status(self.client_address(number), &self.options).unwrap();
            status.refused_messages
        });
        statuses.sum()
    }

    /// Stops all nodes but one.
    pub(crate) fn keep_only(&mut self, number: u64) {
        let kept = self.servers.swap_remove(number as usize - 1);
        for server in std::mem::replace(&mut self.servers, vec![kept]) {
            server.stop();
        }
    }

    fn require_running(&self) {
        for server in &self.servers {
            assert_eq!(server.failure(), None, "{:?}", server.node());
        }
    }
}

/// A client that writes row after row and waits for each.
pub(crate) struct Load {
    acknowledged: Arc<AtomicU64>,
    is_over: Arc<AtomicBool>,
    table: u32,
    working: JoinHandle<()>,
}

fn key_of(row: u64) -> Vec<u8> {
    row.to_be_bytes().to_vec()
}

fn put(table: u32, row: u64) -> Command {
    Command::Write(Box::new(Write {
        conditions: Vec::new(),
        rows: vec![(table, key_of(row), Some(row.to_le_bytes().to_vec()))],
    }))
}

impl Load {
    pub(crate) fn begin(cluster: &Cluster) -> Self {
        let mut client = cluster.client();
        let table = client.create_table("rows", true).unwrap();
        let mut session = client.open_session().unwrap();
        let acknowledged = Arc::new(AtomicU64::new(0));
        let is_over = Arc::new(AtomicBool::new(false));
        let (done, stop) = (Arc::clone(&acknowledged), Arc::clone(&is_over));
        let working = std::thread::spawn(move || {
            let mut row = 0;
            while !stop.load(Ordering::Relaxed) {
                let group = session.submit(vec![put(table, row)]).unwrap();
                assert_eq!(session.wait(group).unwrap(), [Outcome::Done]);
                row += 1;
                done.store(row, Ordering::Relaxed);
            }
        });
        Self {
            acknowledged,
            is_over,
            table,
            working,
        }
    }

    /// Waits until more rows are acknowledged.
    pub(crate) fn wait_for_more(&self) {
        let rows = || self.acknowledged.load(Ordering::Relaxed);
        let (begin, before) = (Instant::now(), rows());
        while rows() < before + 20 {
            assert!(!self.working.is_finished(), "the client has failed");
            assert!(begin.elapsed() < WATCHDOG, "nothing is acknowledged");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Asserts that all acknowledged rows exist and all nodes run.
    pub(crate) fn finish(self, cluster: &Cluster) {
        self.is_over.store(true, Ordering::Relaxed);
        self.working.join().unwrap();
        let rows = self.acknowledged.load(Ordering::Relaxed);
        let keys = (0..rows).map(|row| (self.table, key_of(row)));
        let found = cluster.client().read(keys.collect()).unwrap();
        let expected = (0..rows).map(|row| Some(row.to_le_bytes().to_vec()));
        assert!(found.values.into_iter().eq(expected), "a row is missing");
        cluster.require_running();
    }
}
