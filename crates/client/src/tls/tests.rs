//! Files of certificates: accepted ones, and the messages about others.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::{Duration, SystemTime};

use tempfile::TempDir;

use super::*;
use crate::tls_options::TlsOptions;

const CLUSTER: u128 = 7;
const DAY: Duration = Duration::from_secs(86_400);

fn authority() -> Authority {
    Authority::new(CLUSTER, 365 * DAY).unwrap()
}

/// Files of nodes 1 and 2, and of a client.
fn files_of(authority: &Authority) -> (TempDir, CertificateFiles) {
    let folder = tempfile::tempdir().unwrap();
    let files = authority.write(folder.path(), 1..=2).unwrap();
    (folder, files)
}

fn check(options: &TlsOptions) -> Result<(), TlsError> {
    Credentials::read(options)?.check_node(CLUSTER, 1)
}

/// The message about files that node 1 cannot use. It names the file.
fn said(options: &TlsOptions, file: &Path) -> String {
    let error = check(options).unwrap_err();
    let sentence = error.to_string();
    assert!(sentence.contains(file.to_str().unwrap()), "{sentence}");
    sentence
}

#[test]
fn what_the_authority_writes_is_accepted() {
    let (_folder, files) = files_of(&authority());
    let node = Credentials::read(&files.node(1)).unwrap();
    node.check_node(CLUSTER, 1).unwrap();
    assert_eq!(node.names().len(), 2);
    assert_eq!(node.check_client().unwrap(), CLUSTER, "a node may ask, too");
    assert!(node.warnings().is_empty());
    let client = Credentials::read(&files.client()).unwrap();
    assert_eq!(client.check_client().unwrap(), CLUSTER);
    let client = client.check_node(CLUSTER, 1).unwrap_err();
    assert!(
        client.to_string().contains("server authentication"),
        "{client}"
    );
}

#[test]
fn keys_are_for_one_user_and_never_overwritten() {
    let authority = authority();
    let (folder, files) = files_of(&authority);
    for entry in fs::read_dir(folder.path()).unwrap() {
        let path = entry.unwrap().path();
        let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        let is_key = path.extension().unwrap() == "key";
        assert!(!is_key || mode == 0o600, "{}: {mode:o}", path.display());
    }
    let before = fs::read(&files.node(1).key).unwrap();
    let again = authority.write(folder.path(), 1..=2);
    assert!(matches!(again, Err(IssueError::Exists(_))));
    assert_eq!(fs::read(&files.node(1).key).unwrap(), before);
}

#[test]
fn what_is_wrong_with_a_file_is_said() {
    let (folder, files) = files_of(&authority());
    let node = files.node(1);
    let missing = folder.path().join("missing.pem");
    let garbage = folder.path().join("garbage.pem");
    fs::write(&garbage, "no certificate\n").unwrap();
    for wrong in [&missing, &garbage] {
        let in_place = [
            (
                TlsOptions {
                    authority: wrong.clone(),
                    ..node.clone()
                },
                "`authority`",
            ),
            (
                TlsOptions {
                    certificate: wrong.clone(),
                    ..node.clone()
                },
                "`certificate`",
            ),
            (
                TlsOptions {
                    key: wrong.clone(),
                    ..node.clone()
                },
                "`key`",
            ),
        ];
        for (options, key) in in_place {
            let sentence = said(&options, wrong);
            assert!(sentence.contains(key), "{sentence}");
        }
    }
    // A key where a certificate belongs, and the reverse.
    let swapped = TlsOptions {
        certificate: node.key.clone(),
        key: node.certificate.clone(),
        ..node.clone()
    };
    assert!(said(&swapped, &node.key).contains("no certificate in PEM"));
    let other = files.node(2);
    let mixed = TlsOptions {
        key: other.key,
        ..node.clone()
    };
    assert!(matches!(check(&mixed), Err(TlsError::KeyMismatch { .. })));
    let sentence = said(&files.node(2), &other.certificate);
    assert!(
        sentence.contains("node-2.") && sentence.contains("not for node-1."),
        "{sentence}"
    );
    let elsewhere = Credentials::read(&node).unwrap().check_node(8, 1);
    assert!(
        matches!(elsewhere, Err(TlsError::OtherName { .. })),
        "another cluster"
    );
}

#[test]
fn an_authority_that_has_not_signed_is_told() {
    let (_folder, files) = files_of(&authority());
    let (_other_folder, other) = files_of(&authority());
    let mixed = TlsOptions {
        authority: other.node(1).authority,
        ..files.node(1)
    };
    assert!(matches!(
        check(&mixed),
        Err(TlsError::OtherAuthority { .. })
    ));
    // Two authorities in one file, as while one replaces the other.
    let both = [&files, &other].map(|files| fs::read_to_string(files.client().authority).unwrap());
    fs::write(&mixed.authority, both.concat()).unwrap();
    check(&mixed).unwrap();
}

#[test]
fn times_that_are_over_or_to_come_are_told() {
    let now = SystemTime::now();
    let times = |from, to| files_of(&authority().signing_for(from, to));
    let (_folder, expired) = times(now - 20 * DAY, now - 10 * DAY);
    let options = expired.node(1);
    let sentence = said(&options, &options.certificate);
    assert!(sentence.contains("expired, 10 days ago"), "{sentence}");
    let (_folder, early) = times(now + 3 * DAY, now + 10 * DAY);
    assert!(matches!(
        check(&early.node(1)),
        Err(TlsError::NotYetValid { .. })
    ));
    let (_folder, soon) = times(now - DAY, now + 10 * DAY + Duration::from_secs(60));
    check(&soon.node(1)).unwrap();
    let warnings = Credentials::read(&soon.node(1)).unwrap().warnings();
    assert!(warnings[0].contains("expires in 10 days"), "{warnings:?}");
    let expires = Credentials::read(&soon.node(1)).unwrap().expires_s();
    let until = now + 10 * DAY + Duration::from_secs(60);
    let until = until.duration_since(SystemTime::UNIX_EPOCH).unwrap();
    assert_eq!(expires, Some(until.as_secs()));
}

#[test]
fn a_key_that_all_can_read_is_warned_of() {
    let (_folder, files) = files_of(&authority());
    let options = files.node(1);
    fs::set_permissions(&options.key, fs::Permissions::from_mode(0o644)).unwrap();
    let warnings = Credentials::read(&options).unwrap().warnings();
    assert!(warnings[0].contains("chmod 600"), "{warnings:?}");
}
