//! Nodes and clients with certificates, and peers with others or none.

use std::fs;
use std::io::{Read as _, Write as _};
use std::time::SystemTime;

use namiki_client::tls::Authority;
use namiki_client::{
    AsyncClient, Client, ClientError, ClientOptions, Security, TlsOptions, status,
};

use super::hostile::{HELLO, bytes_of, code, rest, still_talks};
use super::rig::*;
use super::tls_rig::*;
use crate::network::{NodeId, PeerMessage};
use crate::transport::hello::Hello;
use crate::transport::{NodeSecurity, NodeTls};

fn hello(from: u64) -> Vec<u8> {
    let from = NodeId::first(from);
    bytes_of(&Hello { from, ..HELLO }.to_frame())
}

/// The error of a client with this security at an address, in one attempt.
fn told(address: &str, security: &Security) -> String {
    let options = ClientOptions {
        timeout: WATCHDOG,
        security: security.clone(),
        ..ClientOptions::default()
    };
    match status(address, &options) {
        Err(ClientError::Node { why, .. }) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn messages_arrive_in_order_by_tls() {
    let certificates = Certificates::new();
    let (one, two, _) = two_secured(&certificates, |_| {});
    // Short, middling, and longer than all buffers.
    let bytes = |number: u64| [10, 5000, 1_000_000][usize::try_from(number % 3).unwrap()];
    for number in 1..=60 {
        one.network
            .send(NodeId::first(2), payload(0, number, bytes(number)));
        two.network
            .send(NodeId::first(1), payload(1, number, bytes(number)));
    }
    for number in 1..=60 {
        let expected = |worker| payload(worker, number, bytes(number));
        assert_eq!(two.next_message(), (NodeId::first(1), expected(0)));
        assert_eq!(one.next_message(), (NodeId::first(2), expected(1)));
    }
    assert_eq!(one.running.dropped(NodeId::first(2)), 0);
}

#[test]
fn peers_without_the_authority_are_refused_and_nodes_go_on() {
    let authority = Authority::new(CLUSTER, DAY).unwrap();
    let certificates = Certificates::of(&authority);
    let files = &certificates.files;
    let (one, two, lines) = two_secured(&certificates, |_| {});
    let other = Certificates::new();
    let mixed = TlsOptions {
        authority: files.node(3).authority,
        ..other.files.node(3)
    };
    let now = SystemTime::now();
    let expired = Certificates::of(&authority.signing_for(now - 3 * DAY, now - 2 * DAY));
    let without = {
        let mut roots = rustls::RootCertStore::empty();
        let text = fs::read(files.client().authority).unwrap();
        use rustls::pki_types::pem::PemObject as _;
        roots
            .add(rustls::pki_types::CertificateDer::from_pem_slice(&text).unwrap())
            .unwrap();
        let provider = rustls::crypto::ring::default_provider();
        let builder = rustls::ClientConfig::builder_with_provider(provider.into());
        let builder = builder.with_safe_default_protocol_versions().unwrap();
        builder.with_root_certificates(roots).with_no_client_auth()
    };
    let refused = [
        (dialer(&mixed), "UnknownCA", "signed by another authority"),
        (
            dialer(&expired.files.node(3)),
            "CertificateExpired",
            "has expired",
        ),
        (without, "CertificateRequired", "shows no certificate"),
    ];
    for (config, alert, logged) in refused {
        for address in [&one.peer_address, &one.client_address] {
            let refusal = exchange(dial_tls(address, config.clone()), &hello(3)).unwrap_err();
            assert!(refusal.contains(alert), "{refusal}");
        }
        lines.wait_for("refused a node");
        lines.wait_for(logged);
        still_talks(&one, &two);
    }
}

#[test]
fn a_certificate_makes_only_the_node_that_it_names() {
    let certificates = Certificates::new();
    let files = &certificates.files;
    let (one, two, lines) = two_secured(&certificates, |_| {});
    for options in [files.node(2), files.client()] {
        let stream = dial_tls(&one.peer_address, dialer(&options));
        let answer = exchange(stream, &hello(3)).unwrap();
        assert_eq!(code(&answer), 20, "{options:?}");
        lines.wait_for("not for its number and cluster");
        still_talks(&one, &two);
    }
    let stream = dial_tls(&one.peer_address, dialer(&files.node(3)));
    assert_eq!(code(&exchange(stream, &hello(3)).unwrap()), 0);
}

#[test]
fn a_dialled_node_with_a_certificate_of_another_is_left() {
    let certificates = Certificates::new();
    let lines = Lines::default();
    let tls = |number| security(&certificates.files.node(number), number, &lines);
    // Node 2 has the certificate of node 3.
    let (one, _two) = start_two([tls(1), tls(3)], &lines, |_| {});
    lines.wait_for("is not for node-2.");
    assert_eq!(one.running.lanes_up(NodeId::first(2)), 0);
}

#[test]
fn plain_and_protected_nodes_tell_what_is_missing() {
    let certificates = Certificates::new();
    let lines = Lines::default();
    let tls = security(&certificates.files.node(1), 1, &lines);
    let (one, two) = start_two([tls, NodeSecurity::Plain], &lines, |_| {});
    // As diallers and as answerers.
    for said in [
        "TLS; configure certificates on both sides, or on none node=2 lane=control",
        "configure [tls] on all nodes, or on none node=1 lane=control",
        "reason=the other side does not speak TLS; configure certificates on both sides, or on none address",
        "reason=it speaks TLS, and the other node does not; configure [tls] on all nodes, or on none address",
    ] {
        lines.wait_for(said);
    }
    let client = Security::tls(&certificates.files.client()).unwrap();
    let of_protected = told(&one.client_address, &Security::Plain);
    assert!(of_protected.contains("it speaks TLS"), "{of_protected}");
    let of_plain = told(&two.client_address, &client);
    assert!(of_plain.contains("does not speak TLS"), "{of_plain}");
}

#[test]
fn bytes_that_are_no_handshake_are_refused_in_time() {
    let certificates = Certificates::new();
    let (one, two, lines) = two_secured(&certificates, short_timeouts);
    let record = |kind, body: &[u8]| {
        let length = u16::try_from(body.len()).unwrap().to_be_bytes();
        [&[kind, 3, 1], &length[..], body].concat()
    };
    // A message with a claimed length of 16 MiB, in records of maximal length.
    let endless = [
        record(22, &[&[1, 255, 255, 255][..], &[0; 16_000]].concat()),
        record(22, &[0; 16_000]),
    ];
    let hostile = [
        b"GET / HTTP/1.1\r\nHost: example\r\n\r\n".to_vec(),
        hello(2),
        vec![0; 100_000],
        vec![0xff; 100_000],
        record(22, &[9; 500]),
        record(23, &[1; 500]),
        [endless[0].clone(), endless[1].repeat(10)].concat(),
        // Handshakes that never continue: nothing, half a head, half a hello.
        vec![],
        vec![22, 3],
        record(22, &[1, 0, 2, 0, 3, 3, 7, 7]),
    ];
    for bytes in hostile {
        for address in [&one.peer_address, &one.client_address] {
            let mut stream = dial(address);
            // It may be closed before all is written.
            let _ = stream.write_all(&bytes);
            rest(stream);
        }
        still_talks(&one, &two);
    }
    lines.wait_for("refused a node");
    lines.wait_for("the other side does not speak TLS");
}

#[test]
fn a_handshake_byte_by_byte_ends_in_time() {
    let certificates = Certificates::new();
    let (one, two, _) = two_secured(&certificates, short_timeouts);
    let mut stream = dial(&one.peer_address);
    let head = [22, 3, 1, 64, 0, 1, 0, 63, 252];
    // Each byte is in time, all of them together are not.
    let is_closed = (0..u64::MAX).any(|at| {
        std::thread::sleep(std::time::Duration::from_millis(5));
        let byte = head.get(usize::try_from(at).unwrap()).copied().unwrap_or(0);
        stream.write_all(&[byte]).is_err()
    });
    assert!(is_closed);
    still_talks(&one, &two);
}

#[test]
fn half_handshakes_beyond_the_limit_are_closed_at_once() {
    let certificates = Certificates::new();
    let (one, two, _) = two_secured(&certificates, |_| {});
    for address in [&one.peer_address, &one.client_address] {
        let waiting: Vec<_> = (0..8).map(|_| dial(address)).collect();
        for _ in 0..300 {
            rest(dial(address));
        }
        still_talks(&one, &two);
        drop(waiting);
    }
}

#[test]
fn clients_are_welcome_by_tls() {
    let certificates = Certificates::new();
    let files = &certificates.files;
    let (one, _two, _) = two_secured(&certificates, |_| {});
    let options = |files| ClientOptions {
        timeout: WATCHDOG,
        connect_timeout: WATCHDOG,
        security: Security::tls(&files).unwrap(),
        ..ClientOptions::default()
    };
    for files in [files.client(), files.node(2)] {
        let address = || [one.client_address.clone()];
        Client::connect(address(), options(files.clone())).unwrap();
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().build().unwrap();
        let connected = AsyncClient::connect(address(), options(files));
        runtime.block_on(connected).unwrap();
    }
}

#[test]
fn clients_are_told_what_is_wrong_with_a_certificate() {
    let certificates = Certificates::new();
    let (one, _two, lines) = two_secured(&certificates, |_| {});
    let other = Certificates::new();
    let client = Security::tls(&other.files.client()).unwrap();
    let said = told(&one.client_address, &client);
    assert!(
        said.contains("the other side is signed by another authority"),
        "{said}"
    );
    // The client trusts the node, which does not trust it.
    let both =
        [&certificates, &other].map(|it| fs::read_to_string(it.files.client().authority).unwrap());
    fs::write(other.files.client().authority, both.concat()).unwrap();
    let client = Security::tls(&other.files.client()).unwrap();
    let said = told(&one.client_address, &client);
    assert!(
        said.contains("refuses the certificate of this one"),
        "{said}"
    );
    // The right authority, and another cluster.
    let elsewhere = Authority::new(CLUSTER + 1, DAY).unwrap();
    let elsewhere = Certificates::of(&elsewhere);
    let said = told(
        &one.client_address,
        &Security::tls(&elsewhere.files.client()).unwrap(),
    );
    assert!(said.contains("another authority"), "{said}");
    lines.wait_for("disconnected a client");
}

#[test]
fn a_new_certificate_counts_without_a_restart() {
    let (old, new) = (Certificates::new(), Certificates::new());
    let lines = Lines::default();
    let options = old.files.node(1);
    let tls = std::sync::Arc::new(NodeTls::read(&options, CLUSTER, 1, lines.logger()).unwrap());
    let two = security(&old.files.node(2), 2, &lines);
    let (one, _two) = start_two(
        [NodeSecurity::Tls(std::sync::Arc::clone(&tls)), two],
        &lines,
        |_| {},
    );
    let client = Security::tls(&new.files.client()).unwrap();
    let said = told(&one.client_address, &client);
    assert!(said.contains("another authority"), "{said}");
    // Half of a replacement has no effect.
    fs::copy(new.files.node(1).certificate, &options.certificate).unwrap();
    tls.refresh();
    lines.wait_for("the old one remains");
    fs::copy(new.files.node(1).key, &options.key).unwrap();
    fs::copy(new.files.node(1).authority, &options.authority).unwrap();
    tls.refresh();
    lines.wait_for("was read again");
    let options = ClientOptions {
        timeout: WATCHDOG,
        security: client,
        ..ClientOptions::default()
    };
    Client::connect([one.client_address.clone()], options).unwrap();
}

#[test]
fn garbage_after_a_handshake_ends_the_connection() {
    let certificates = Certificates::new();
    let (one, two, _) = two_secured(&certificates, |_| {});
    let mut stream = dial_tls(&one.peer_address, dialer(&certificates.files.node(3)));
    stream.write_all(&hello(3)).unwrap();
    let mut answer = [0; 20];
    stream.read_exact(&mut answer).unwrap();
    // Bytes that are not encrypted.
    stream.sock.write_all(&[23, 3, 3, 0, 50]).unwrap();
    stream.sock.write_all(&[7; 50]).unwrap();
    let mut rest = Vec::new();
    assert!(stream.read_to_end(&mut rest).is_err());
    still_talks(&one, &two);
    let message = PeerMessage::Raft(bytes::Bytes::from_static(b"by TLS"));
    assert_eq!(one.send_until_received(&two, &message), message);
}
