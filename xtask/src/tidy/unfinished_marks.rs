//! Marks of unfinished work that must not be committed.

use super::Finding;
use crate::repository_files::Tree;

/// Patterns in Rust files, with their remedies. They are concatenated so that this file does not
/// match itself.
const IN_RUST: &[(&str, &str)] = &[
    (
        concat!("todo", "!("),
        "write it now, or leave the whole feature out",
    ),
    (
        concat!("unimplemented", "!("),
        "write it now, or leave the whole feature out",
    ),
    (concat!("dbg", "!("), "take the debugging out"),
];

/// A test that never runs proves nothing.
const IGNORED: &str = concat!("#[", "ignore");

/// Patterns in every file.
const ANYWHERE: &[(&str, &str)] = &[(concat!("FIX", "ME"), "mend it, or open an issue")];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &tree.files {
        let in_rust = if file.is_rust() { IN_RUST } else { &[] };
        for (index, line) in file.text.lines().enumerate() {
            for (word, advice) in ANYWHERE.iter().chain(in_rust) {
                if line.contains(word) {
                    let advice = format!("`{word}`: {advice}");
                    findings.push(Finding::new(&file.path, index + 1, advice));
                }
            }
            if file.is_rust() && line.contains(IGNORED) {
                let advice = format!(
                    "`{IGNORED}`: a test that never runs proves nothing; mend it or delete it"
                );
                findings.push(Finding::new(&file.path, index + 1, advice));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mark_is_found() {
        for (word, _) in ANYWHERE.iter().chain(IN_RUST) {
            let found = check(&Tree::of(&[("a.rs", &format!("\n  {word}"))]));
            assert_eq!(found.len(), 1, "{word}");
            assert!(found[0].to_string().starts_with("a.rs:2: "), "{found:?}");
        }
    }

    #[test]
    fn a_test_that_never_runs_is_found() {
        let text = format!("{IGNORED}]");
        assert_eq!(check(&Tree::of(&[("a.rs", &text)])).len(), 1);
    }

    #[test]
    fn prose_may_name_a_macro() {
        let text = format!("No {} here.", IN_RUST[0].0);
        assert!(check(&Tree::of(&[("README.md", &text)])).is_empty());
        let text = format!("{}: write this", ANYWHERE[0].0);
        assert_eq!(check(&Tree::of(&[("README.md", &text)])).len(), 1);
    }
}
