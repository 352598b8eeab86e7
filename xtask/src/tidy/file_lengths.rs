//! A file of more than 800 lines contains two concepts.

use super::Finding;
use crate::repository_files::Tree;

const LINES_MAX: usize = 800;

/// Exempt files, each with its reason.
const LONGER: &[(&str, &str)] = &[];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.files.iter().filter(|file| file.is_rust()) {
        let lines = file.text.lines().count();
        if lines > LINES_MAX && !LONGER.iter().any(|(path, _)| *path == file.path) {
            let advice = format!(
                "{lines} lines, more than {LINES_MAX}: two concepts? Split it, or give its reason in \
                 LONGER in xtask/src/tidy/file_lengths.rs"
            );
            findings.push(Finding::new(&file.path, 0, advice));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_file_is_found() {
        let (fits, long) = ("x\n".repeat(LINES_MAX), "x\n".repeat(LINES_MAX + 1));
        let tree = Tree::of(&[("a.rs", &fits), ("b.rs", &long), ("Cargo.lock", &long)]);
        let found = check(&tree);
        assert_eq!(found.len(), 1);
        assert!(
            found[0].to_string().starts_with("b.rs: 801 lines"),
            "{found:?}"
        );
    }
}
