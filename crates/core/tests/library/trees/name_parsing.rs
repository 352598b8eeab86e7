//! The names of trees and kinds of keys.

use namiki::index::{KeyKind, TreeKind};

use super::new;

#[test]
fn names_are_read_back() {
    for kind in TreeKind::ALL {
        assert_eq!(kind.to_string().parse(), Ok(*kind));
        for keys in [KeyKind::Fixed8, KeyKind::Variable] {
            assert_eq!(keys.to_string().parse(), Ok(keys));
            if kind.is_in_build() {
                let tree = new(*kind, keys);
                assert_eq!((tree.kind(), tree.key_kind()), (*kind, keys));
            }
        }
    }
    let error = "bwtre".parse::<TreeKind>().unwrap_err();
    let names: Vec<String> = TreeKind::ALL.iter().map(ToString::to_string).collect();
    assert_eq!(
        error.to_string(),
        format!(
            "unknown tree \"bwtre\", expected one of: {}",
            names.join(", ")
        )
    );
    assert!("fixed9".parse::<KeyKind>().is_err());
}
