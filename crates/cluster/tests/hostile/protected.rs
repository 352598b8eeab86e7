//! The same by TLS: without a certificate of the cluster no request is answered; with one, the same
//! rules hold as without TLS.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use namiki_client::Security;
use namiki_client::tls::{Authority, CertificateFiles, CertificateName, Credentials};
use namiki_platform::seeded_random::Random;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use tempfile::TempDir;

use crate::cluster::{CLUSTER, Cluster, NODES};
use crate::links::{Link, dial, rest};
use crate::{UNAUTHENTICATED_BYTES_MAX, alone, attacks, messages, seeded, under_load};

const DAY: Duration = Duration::from_secs(86_400);

struct TlsLink(StreamOwned<ClientConnection, TcpStream>);

impl Read for TlsLink {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.read(into)
    }
}

impl Write for TlsLink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl Link for TlsLink {
    fn finish(&mut self) {
        self.0.conn.send_close_notify();
        // It may be closed already.
        let _ = self.0.flush();
        let _ = self.0.sock.shutdown(Shutdown::Write);
    }
}

/// Dials by TLS any node at the address. The handshake continues with the first operation.
fn dial_tls(address: &str, config: &Arc<ClientConfig>) -> TlsLink {
    TlsLink(StreamOwned::new(handshake(config), dial(address)))
}

fn handshake(config: &Arc<ClientConfig>) -> ClientConnection {
    let name = CertificateName::AnyNode { cluster: CLUSTER };
    ClientConnection::new(Arc::clone(config), name.server_name()).unwrap()
}

/// The first bytes of a handshake.
fn client_hello(config: &Arc<ClientConfig>) -> Vec<u8> {
    let mut bytes = Vec::new();
    handshake(config).write_tls(&mut bytes).unwrap();
    bytes
}

/// Configurations of the dialling side.
struct Diallers {
    node: Arc<ClientConfig>,
    client: Arc<ClientConfig>,
    /// Without a certificate, and with one of another authority.
    unauthenticated: [Arc<ClientConfig>; 2],
}

fn certificates(folder: &TempDir, name: &str) -> CertificateFiles {
    let authority = Authority::new(CLUSTER, DAY).unwrap();
    authority
        .write(&folder.path().join(name), 1..=NODES)
        .unwrap()
}

impl Diallers {
    fn new(own: &CertificateFiles, other: &CertificateFiles) -> Self {
        let config = |options| {
            let credentials = Credentials::read(&options).unwrap();
            Arc::new(credentials.client_config().unwrap())
        };
        let authority = fs::read(own.client().authority).unwrap();
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_slice(&authority).unwrap())
            .unwrap();
        let provider = rustls::crypto::ring::default_provider();
        let builder = ClientConfig::builder_with_provider(provider.into());
        let builder = builder.with_safe_default_protocol_versions().unwrap();
        let without = builder.with_root_certificates(roots).with_no_client_auth();
        let mut of_other = other.node(3);
        of_other.authority = own.client().authority;
        Self {
            node: config(own.node(3)),
            client: config(own.client()),
            unauthenticated: [Arc::new(without), config(of_other)],
        }
    }
}

/// Asserts that the node sends no answer of the protocol over TLS, whatever is sent.
fn is_turned_away(mut link: TlsLink, bytes: &[u8]) {
    let _ = link.write_all(bytes).and_then(|()| link.flush());
    link.finish();
    assert_eq!(rest(link), [0; 0], "an unauthenticated peer was answered");
}

#[test]
fn mutated_bytes_by_tls_stop_no_node_and_no_commit() {
    let _alone = alone();
    let mut random = seeded();
    let folder = tempfile::tempdir().unwrap();
    let (own, other) = (certificates(&folder, "own"), certificates(&folder, "other"));
    let diallers = Diallers::new(&own, &other);
    let security = Security::tls(&own.client()).unwrap();
    let cluster = Cluster::start(security, |config| {
        config.tls = Some(own.node(config.node.number()));
    });
    under_load(&cluster, UNAUTHENTICATED_BYTES_MAX, |load| {
        for round in 1..=300 {
            // Not node 3: the test plays it.
            let target = 1 + random.below(NODES - 1);
            let ports = [cluster.node_address(target), cluster.client_address(target)];
            let any = ports[random.index(2)];
            match random.below(6) {
                0 => harm_handshake(any, &diallers, &mut random),
                1 => {
                    let hello = [
                        messages::NodeHello::to(target, 3).bytes(),
                        messages::client_hello(),
                    ];
                    let config = &diallers.unauthenticated[random.index(2)];
                    let hello = &hello[random.index(2)];
                    is_turned_away(dial_tls(any, config), hello);
                }
                // A client at the port for nodes.
                2 => {
                    let attack = attacks::on_nodes(target, &mut random).refused();
                    let link = dial_tls(ports[0], &diallers.client);
                    attack.run(link, &mut random);
                }
                3 => {
                    let attack = attacks::of_node(3, target, &mut random);
                    attack.run(dial_tls(ports[0], &diallers.node), &mut random);
                }
                _ => {
                    let attack = attacks::on_clients(&mut random);
                    attack.run(dial_tls(ports[1], &diallers.client), &mut random);
                }
            }
            if round % 100 == 0 {
                load.wait_for_more();
            }
        }
    });
}

/// Bytes that are not a handshake, or a corrupted one.
fn harm_handshake(address: &str, diallers: &Diallers, random: &mut Random) {
    let genuine = client_hello(&diallers.node);
    let bytes = match random.below(4) {
        0 => messages::NodeHello::to(1, 3).bytes(),
        1 => messages::client_hello(),
        2 => genuine[..random.index(genuine.len())].to_vec(),
        _ => attacks::mutated(&genuine, random),
    };
    let mut link = dial(address);
    let _ = link.write_all(&bytes);
    link.finish();
    rest(link);
}
