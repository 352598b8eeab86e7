//! Nodes with certificates, their logs, and dialers with any certificate.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use namiki_client::TlsOptions;
use namiki_client::tls::{Authority, CertificateFiles, CertificateName, Credentials};
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use slog::{Drain, KV, Key, Never, OwnedKVList, Record, Serializer};
use tempfile::TempDir;

use super::rig::*;
use crate::transport::{NodeSecurity, NodeTls, TransportSettings};

pub(super) const DAY: Duration = Duration::from_secs(86_400);

/// Certificates of one authority, for nodes 1 to 3 and clients.
pub(super) struct Certificates {
    _folder: TempDir,
    pub(super) files: CertificateFiles,
}

impl Certificates {
    pub(super) fn new() -> Self {
        Self::of(&Authority::new(CLUSTER, DAY).unwrap())
    }

    pub(super) fn of(authority: &Authority) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let files = authority.write(folder.path(), 1..=3).unwrap();
        Self {
            _folder: folder,
            files,
        }
    }
}

/// Lines of logs.
#[derive(Clone, Default)]
pub(super) struct Lines(Arc<Mutex<Vec<String>>>);

struct Values(String);

impl Serializer for Values {
    fn emit_arguments(&mut self, key: Key, value: &std::fmt::Arguments<'_>) -> slog::Result {
        self.0.push_str(&format!(" {key}={value}"));
        Ok(())
    }
}

impl Drain for Lines {
    type Ok = ();
    type Err = Never;

    fn log(&self, record: &Record<'_>, values: &OwnedKVList) -> Result<(), Never> {
        let mut line = Values(record.msg().to_string());
        let _ = record.kv().serialize(record, &mut line);
        let _ = values.serialize(record, &mut line);
        self.0.lock().unwrap().push(line.0);
        Ok(())
    }
}

impl Lines {
    pub(super) fn logger(&self) -> slog::Logger {
        slog::Logger::root(self.clone(), slog::o!())
    }

    /// Waits until a line has these words.
    pub(super) fn wait_for(&self, words: &str) {
        let found = || {
            self.0
                .lock()
                .unwrap()
                .iter()
                .any(|line| line.contains(words))
        };
        let begin = std::time::Instant::now();
        while !found() {
            let lines = self.0.lock().unwrap().join("\n");
            assert!(begin.elapsed() < WATCHDOG, "no {words:?} in:\n{lines}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

pub(super) fn security(options: &TlsOptions, number: u64, lines: &Lines) -> NodeSecurity {
    let tls = NodeTls::read(options, CLUSTER, number, lines.logger()).unwrap();
    NodeSecurity::Tls(Arc::new(tls))
}

/// Two nodes as [`two_nodes`] makes them, with TLS. Both write to these lines.
pub(super) fn two_secured(
    certificates: &Certificates,
    change: impl Fn(&mut TransportSettings),
) -> (Node, Node, Lines) {
    let lines = Lines::default();
    let [first, second] =
        [1, 2].map(|number| security(&certificates.files.node(number), number, &lines));
    let (one, two) = start_two([first, second], &lines, change);
    one.wait_for_lanes(2, 2 + usize::from(WORKERS));
    two.wait_for_lanes(1, 2 + usize::from(WORKERS));
    (one, two, lines)
}

/// Two nodes, which need not connect.
pub(super) fn start_two(
    [first, second]: [NodeSecurity; 2],
    lines: &Lines,
    change: impl Fn(&mut TransportSettings),
) -> (Node, Node) {
    let (one, two) = (listeners(), listeners());
    let address = |it: &crate::transport::Listeners| it.peers.local_addr().unwrap().to_string();
    let (to_one, to_two) = (peer(1, &address(&one)), peer(2, &address(&two)));
    let mut of_one = settings(1, vec![to_two, peer(3, "127.0.0.1:1")]);
    let mut of_two = settings(2, vec![to_one]);
    change(&mut of_one);
    change(&mut of_two);
    let start = |listeners, settings, security| {
        let (sender, events) = channel();
        let inbox = Arc::new(Recorder(sender));
        Node::start_secured(listeners, settings, security, lines.logger(), inbox, events)
    };
    (start(one, of_one, first), start(two, of_two, second))
}

pub(super) type TlsStream = StreamOwned<ClientConnection, TcpStream>;

/// Dials by TLS any node at the address. The handshake continues with the first operation.
pub(super) fn dial_tls(address: &str, config: ClientConfig) -> TlsStream {
    let name = CertificateName::AnyNode { cluster: CLUSTER };
    let connection = ClientConnection::new(Arc::new(config), name.server_name()).unwrap();
    StreamOwned::new(connection, dial(address))
}

/// The configuration of a dialler with these files.
pub(super) fn dialer(options: &TlsOptions) -> ClientConfig {
    Credentials::read(options).unwrap().client_config().unwrap()
}

/// Sends bytes, and reads the reply before the connection ends: an answer, or the reason for the
/// end.
pub(super) fn exchange(mut stream: TlsStream, bytes: &[u8]) -> Result<Vec<u8>, String> {
    let mut answer = vec![0; 20];
    let exchanged = stream
        .write_all(bytes)
        .and_then(|()| stream.flush())
        .and_then(|()| stream.read_exact(&mut answer));
    exchanged
        .map(|()| answer)
        .map_err(|error| error.to_string())
}
