//! Startup packets, versions, databases, roles.

use crate::messages::{frame, packet};
use crate::raw_client::{Answer, RawClient};
use crate::running::Running;

const SSL_REQUEST: [u8; 4] = 80_877_103_i32.to_be_bytes();
const GSS_REQUEST: [u8; 4] = 80_877_104_i32.to_be_bytes();

#[test]
fn encryption_is_declined_and_the_session_begins() {
    let (_home, server) = Running::new();
    let mut client = RawClient::silent(&server);
    for request in [GSS_REQUEST, SSL_REQUEST] {
        client.send(&packet(&request));
        assert_eq!(&client.bytes::<1>().unwrap(), b"N");
    }
    let answer = client.log_in(0, &[("user", &server.role)]);
    assert_eq!(answer.error, None);
    let kinds = answer.kinds;
    assert!(kinds.starts_with("RS") && kinds.ends_with("KZ"), "{kinds}");
    assert_eq!(answer.status, 'I');
    let mut again = RawClient::silent(&server);
    for _ in 0..3 {
        again.send(&packet(&SSL_REQUEST));
    }
    assert_eq!(again.bytes::<2>().unwrap(), *b"NN");
    assert_eq!(Answer::of(&again.rest()).sqlstate(), "08P01");
}

#[test]
fn versions_are_negotiated() {
    let (_home, server) = Running::new();
    for (minor, secret_bytes, negotiates) in [(0, 4, false), (2, 32, false), (9999, 32, true)] {
        let mut client = RawClient::silent(&server);
        let answer = client.log_in(minor, &[("user", &server.role)]);
        // It is not newer than what the client speaks.
        assert_eq!(answer.version, negotiates.then_some((3 << 16) | 2));
        assert_eq!(answer.error, None);
        assert_eq!(client.key.1.len(), secret_bytes, "3.{minor}");
        assert_eq!(answer.kinds.starts_with('v'), negotiates, "3.{minor}");
    }
    let mut client = RawClient::silent(&server);
    let answer = client.log_in(0, &[("user", &server.role), ("_pq_.future", "1")]);
    assert!(answer.kinds.starts_with('v'), "{}", answer.kinds);
    assert_eq!(answer.version, Some(3 << 16));
    let mut old = RawClient::silent(&server);
    old.send(&packet(&[0, 2, 0, 0, b'm', b'e', 0, 0]));
    assert_eq!(Answer::of(&old.rest()).sqlstate(), "0A000");
}

#[test]
fn unknown_roles_and_databases_are_named() {
    let (_home, server) = Running::new();
    let role = server.role.as_str();
    for (parameters, sqlstate, named) in [
        (&[("user", "no-such-role")][..], "28000", "no-such-role"),
        (&[("user", role), ("database", "other")], "3D000", "other"),
        (&[("database", "namiki")], "28000", "user name"),
        (
            &[("user", role), ("replication", "true")],
            "0A000",
            "replication",
        ),
        (
            &[("user", role), ("no_such_setting", "1")],
            "42704",
            "no_such_setting",
        ),
    ] {
        let answer = RawClient::silent(&server).log_in(0, parameters);
        assert_eq!(answer.sqlstate(), sqlstate, "{parameters:?}");
        let (_, message) = answer.error.unwrap();
        assert!(message.contains(named), "{message}");
    }
}

/// A client without the password learns nothing, whether the role exists or not.
#[test]
fn wrong_proofs_are_refused_alike() {
    let (_home, server) = Running::new();
    let mut salts = Vec::new();
    for role in [server.role.as_str(), "no-such-role", "no-such-role"] {
        let mut client = RawClient::silent_tcp(&server);
        client.send(&crate::messages::startup(0, &[("user", role)]));
        assert_eq!(client.message().unwrap().kind, b'R');
        let first = b"n,,n=,r=clientnonce";
        let mut body = b"SCRAM-SHA-256\0".to_vec();
        body.extend((first.len() as u32).to_be_bytes());
        body.extend(first);
        client.send(&frame(b'p', &body));
        let challenge = client.message().unwrap();
        let challenge = String::from_utf8(challenge.body[4..].to_vec()).unwrap();
        let nonce = challenge.split(',').next().unwrap();
        salts.push(challenge.split(',').nth(1).unwrap().to_owned());
        let proof = "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
        client.send(&frame(b'p', format!("c=biws,{nonce},p={proof}").as_bytes()));
        assert_eq!(Answer::of(&client.rest()).sqlstate(), "28P01", "{role}");
    }
    assert_eq!(salts[1], salts[2]);
}

#[test]
fn a_password_is_shown_once() {
    let (home, server) = Running::new();
    let password = server.password.clone().unwrap();
    assert!(server.said.contains(&format!("PGPASSWORD={password} psql")));
    server.stop();
    let again = home.start(&[]);
    assert_eq!(again.password, None);
    assert!(!again.said.contains(&password));
}
