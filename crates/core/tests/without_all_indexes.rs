//! A build without the feature `all-indexes` refuses the trees it was made without, and says what to do.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![cfg(not(feature = "all-indexes"))]

use std::fs;

use namiki::{Builder, Database, IndexKind, OpenError, TreeKind};
use tempfile::TempDir;

fn left_out() -> impl Iterator<Item = TreeKind> {
    let all = TreeKind::ALL.iter().copied();
    all.filter(|kind| !kind.is_in_build())
}

fn is_refused(builder: Builder, dir: &TempDir, tree: TreeKind) {
    let refused = builder.open(dir.path()).unwrap_err();
    assert!(
        matches!(refused, OpenError::IndexNotInBuild(_)),
        "{refused}"
    );
    assert_eq!(
        refused.to_string(),
        format!(
            "the index `{tree}` is not in this build: enable the feature `all-indexes` of `namiki`"
        )
    );
}

#[test]
fn a_tree_that_was_left_out_is_refused_by_name() {
    assert_eq!(left_out().count(), TreeKind::ALL.len() - 1);
    for tree in left_out() {
        let dir = TempDir::new().unwrap();
        for kind in [IndexKind::Ordered(tree), IndexKind::OrderedAndHash(tree)] {
            assert_eq!(kind.to_string().parse(), Ok(kind));
            is_refused(Database::builder().index(kind), &dir, tree);
            // Refused for a table that does not exist yet, too: it could not be created later.
            is_refused(Database::builder().table_index("later", kind), &dir, tree);
        }
        // Nothing was created.
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}

/// The contents of a database do not depend on the index that it was opened with, or that was
/// refused.
#[test]
fn a_database_opens_again_after_a_refusal() {
    let dir = TempDir::new().unwrap();
    let open = |builder: Builder| {
        let db = builder.open(dir.path()).unwrap();
        let table = db.table::<u64, u64>("numbers").unwrap();
        (db, table)
    };
    let (db, table) = open(Database::builder());
    db.transact(|tx| tx.put(&table, &1, &2)).unwrap();
    drop((db, table));
    for tree in left_out() {
        is_refused(Database::builder().index(tree), &dir, tree);
    }
    for kind in [
        IndexKind::default(),
        IndexKind::Hash,
        IndexKind::OrderedAndHash(TreeKind::Art),
    ] {
        let (db, table) = open(Database::builder().index(kind));
        assert_eq!(db.transact(|tx| tx.get(&table, &1)).unwrap(), Some(2));
    }
}
