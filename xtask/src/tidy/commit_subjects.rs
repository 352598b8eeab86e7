//! A commit has a subject that fits into a line of `git log`; its body gives the reason.

use super::Finding;
use crate::git_history::{Baseline, Commit, commits_since};
use crate::repository_files::Tree;

/// Older commits are exempt.
const BASELINE: Baseline<'_> = Baseline {
    hash: "a3c411729cdd653266b1fca10b157a5547daff3e",
    seconds: 1795543222,
};

pub(super) const RULE: &str = "subjects of commits fit their line";

const CHARACTERS_MAX: usize = 72;

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    match commits(tree) {
        Ok(commits) => commits.iter().filter_map(judge).collect(),
        Err(error) => vec![Finding::new(".git", 0, error)],
    }
}

pub(super) fn measure(tree: &Tree) -> String {
    let count = commits(tree).map_or(0, |commits| commits.len());
    format!("{count} looked at")
}

fn commits(tree: &Tree) -> Result<Vec<Commit>, String> {
    match tree.root.as_deref() {
        Some(root) => commits_since(root, BASELINE),
        None => Ok(Vec::new()),
    }
}

fn judge(commit: &Commit) -> Option<Finding> {
    let length = commit.subject.chars().count();
    let advice = match length {
        // git writes the subjects of merges.
        _ if commit.is_merge => return None,
        0 => "its subject is empty; say what it does".to_owned(),
        1..=CHARACTERS_MAX => return None,
        _ => format!(
            "its subject has {length} characters, more than {CHARACTERS_MAX}; say what it does there, and why \
             below an empty line: {}",
            commit.subject
        ),
    };
    let hash = commit.hash.get(..12).unwrap_or(&commit.hash);
    Some(Finding::new(&format!("commit {hash}"), 0, advice))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(subject: &str, is_merge: bool) -> Option<String> {
        let commit = Commit {
            hash: "0123456789abcdef".to_owned(),
            subject: subject.to_owned(),
            is_merge,
        };
        judge(&commit).map(|finding| finding.to_string())
    }

    #[test]
    fn a_subject_fits_its_line() {
        assert_eq!(said(&"ä".repeat(CHARACTERS_MAX), false), None);
        let long = said(&"x".repeat(CHARACTERS_MAX + 1), false).unwrap_or_default();
        assert!(
            long.starts_with("commit 0123456789ab: its subject has 73"),
            "{long}"
        );
        let empty = said("", false).unwrap_or_default();
        assert!(empty.contains("is empty"), "{empty}");
    }

    #[test]
    fn merges_are_exempt() {
        assert_eq!(said(&"x".repeat(CHARACTERS_MAX + 1), true), None);
    }
}
