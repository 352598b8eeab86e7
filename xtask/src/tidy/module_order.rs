//! Inside core a file imports only modules that stand to its left, so the engine can be read from
//! left to right and nothing needs what comes later.

use std::collections::BTreeSet;

use super::Finding;
use crate::imports::{imports, module_of};
use crate::rust_text::Token;
use crate::tree::{SourceFile, Tree};

const SOURCE: &str = "crates/core/src/";

/// The modules of core. A new one is put where its imports allow.
const ORDER: &[&str] = &[
    "error",
    "spec",
    "choose",
    "sync",
    "thread",
    "record",
    "arena",
    "lock",
    "admission",
    "turn",
    "cc",
    "space",
    "recent",
    "epoch",
    "format",
    "operation",
    "transactions",
    "undo",
    "sets",
    "codec",
    "engine",
    "durably",
    "acquire",
    "commit",
    "ticket",
    "txn",
    "table",
    "session",
    "manifest",
    "recovery",
    "db",
    "open",
];

/// The file that lists the order, for the advice.
const HERE: &str = "xtask/src/tidy/module_order.rs";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    check_order(tree, ORDER)
}

fn check_order(tree: &Tree, order: &[&str]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut met = BTreeSet::new();
    for file in tree.files.iter().filter(|file| file.is_rust()) {
        let Some(inside) = file.path.strip_prefix(SOURCE) else {
            continue;
        };
        // The crate's root shows the modules to the world and may name them all.
        if inside == "lib.rs" {
            continue;
        }
        let path: Vec<&str> = inside.trim_end_matches(".rs").split('/').collect();
        let Some(place) = order.iter().position(|module| *module == path[0]) else {
            let advice = format!(
                "`{}` has no place in the order: add it to ORDER in {HERE}",
                path[0]
            );
            findings.push(Finding::new(&file.path, 0, advice));
            continue;
        };
        met.insert(path[0]);
        // The first name after the crate's root: `a` and `c` in `crate::{a::b, c}`.
        let imports = imports(&file.tokens, &module_of(inside), &[]).into_iter();
        let mut firsts: Vec<Token> = imports.map(|import| import.segments[0].clone()).collect();
        firsts.dedup();
        for import in &firsts {
            let name = import.text.as_str();
            // A module without a place is told once, at its own file.
            if order.contains(&name) || !has_module(tree, name) {
                findings.extend(judge(file, import, place, order));
            }
        }
    }
    for module in order.iter().filter(|module| !met.contains(*module)) {
        let advice = format!("ORDER names `{module}`, which {SOURCE} does not have: take it out");
        findings.push(Finding::new(HERE, 0, advice));
    }
    findings
}

fn has_module(tree: &Tree, name: &str) -> bool {
    let file = format!("{SOURCE}{name}.rs");
    let folder = format!("{SOURCE}{name}/");
    tree.files
        .iter()
        .any(|other| other.path == file || other.path.starts_with(&folder))
}

fn judge(file: &SourceFile, import: &Token, place: usize, order: &[&str]) -> Option<Finding> {
    let (own, name) = (order[place], &import.text);
    let advice = match order.iter().position(|module| module == name) {
        Some(other) if other <= place => return None,
        Some(_) => format!(
            "`{own}` imports `{name}`, which stands to its right; move what both need into `{own}` \
             or further left"
        ),
        None => format!(
            "`crate::{name}` goes through the crate's root and hides where it comes from; import it \
             from its module"
        ),
    };
    Some(Finding::new(&file.path, import.line, advice))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(files: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<_> = files
            .iter()
            .map(|(path, text)| (format!("{SOURCE}{path}"), *text))
            .collect();
        let files: Vec<_> = files
            .iter()
            .map(|(path, text)| (path.as_str(), *text))
            .collect();
        let found = check_order(&Tree::of(&files), &["record", "cc", "db"]);
        found
            .into_iter()
            .map(|finding| finding.to_string().replace(SOURCE, ""))
            .collect()
    }

    const RECORD: (&str, &str) = ("record.rs", "");
    const DB: (&str, &str) = (
        "db.rs",
        "use crate::record::A; use crate::{cc::{B, C}, db::D};",
    );

    #[test]
    fn imports_to_the_left_and_from_oneself_are_fine() {
        let cc = (
            "cc/mod.rs",
            "use crate::record::{A, B}; fn f() { crate::cc::g() }",
        );
        let lib = ("lib.rs", "pub use crate::db::Database;");
        assert!(findings(&[RECORD, cc, DB, lib]).is_empty());
    }

    #[test]
    fn an_import_to_the_right_is_found() {
        let cc = ("cc/tictoc.rs", "\nuse crate::db::Database;");
        let found = findings(&[RECORD, cc, DB]);
        assert_eq!(found.len(), 1);
        assert!(
            found[0].starts_with("cc/tictoc.rs:2: `cc` imports `db`"),
            "{found:?}"
        );
    }

    #[test]
    fn paths_in_groups_in_code_and_through_super_are_found() {
        for text in [
            "use crate::{record::A, db::{self, B}};",
            "fn f() { crate::db::open() }",
            "pub(in crate::db) fn f() {}",
            "use super::super::db;",
            "mod tests { use super::super::super::db::A; }",
        ] {
            let found = findings(&[RECORD, ("cc/tictoc.rs", text), DB]);
            assert_eq!(found.len(), 1, "{text}: {found:?}");
            assert!(found[0].contains("imports `db`"), "{text}: {found:?}");
        }
        let mod_file = findings(&[RECORD, ("cc/mod.rs", "use super::db;"), DB]);
        assert_eq!(mod_file.len(), 1, "{mod_file:?}");
    }

    #[test]
    fn super_inside_the_own_module_is_fine() {
        let text =
            "pub(super) struct A; use super::db; mod tests { use super::*; use super::super::db; }";
        assert!(findings(&[RECORD, ("cc/tictoc.rs", text), DB]).is_empty());
    }

    #[test]
    fn comments_do_not_import() {
        assert!(findings(&[RECORD, ("cc.rs", "//! Used by [`crate::db`]."), DB]).is_empty());
    }

    #[test]
    fn the_root_is_no_short_cut() {
        let found = findings(&[RECORD, ("cc.rs", "use crate::Database;"), DB]);
        assert!(
            found[0].contains("goes through the crate's root"),
            "{found:?}"
        );
    }

    #[test]
    fn modules_and_order_match() {
        let uses = ("txn.rs", "use crate::view::A;");
        let found = findings(&[RECORD, DB, ("view.rs", "use crate::txn::B;"), uses]);
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(
            found[0].starts_with("view.rs: `view` has no place in the order"),
            "{found:?}"
        );
        assert!(found[2].contains("ORDER names `cc`"), "{found:?}");
    }
}
