//! Unsafe code is only in the files listed in `xtask/unsafe-files.txt`. A new file therefore
//! appears in review as a changed line of that list.

use std::collections::BTreeMap;

use super::Finding;
use crate::repository_files::{SourceFile, Tree};
use crate::rust_lexer::starts_with;

const LIST: &str = "xtask/unsafe-files.txt";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut listed = BTreeMap::new();
    let list = tree.get(LIST).map_or("", |file| &file.text);
    for (index, line) in list.lines().enumerate() {
        let path = line.split('#').next().unwrap_or_default().trim();
        if !path.is_empty() && listed.insert(path, index + 1).is_some() {
            findings.push(Finding::new(
                LIST,
                index + 1,
                format!("`{path}` is listed twice"),
            ));
        }
    }
    for file in &tree.files {
        let found = first_unsafe(file);
        let listed_at = listed.remove(file.path.as_str());
        match (found, listed_at) {
            (Some(line), None) => {
                let advice = format!(
                    "unsafe code in a file that is not listed; do without, or move it to a listed \
                     file, or list this one in {LIST}"
                );
                findings.push(Finding::new(&file.path, line, advice));
            }
            (None, Some(at)) => {
                let advice = format!(
                    "`{}` holds no unsafe code any more: take the line out",
                    file.path
                );
                findings.push(Finding::new(LIST, at, advice));
            }
            _ => {}
        }
    }
    for (path, line) in listed {
        findings.push(Finding::new(
            LIST,
            line,
            format!("`{path}` does not exist: take it out"),
        ));
    }
    findings
}

/// The first line with the keyword, or with an attribute that permits unsafe code.
fn first_unsafe(file: &SourceFile) -> Option<usize> {
    let tokens = &file.tokens;
    let permits = |at: usize| {
        starts_with(&tokens[at..], &["expect", "(", "unsafe_code"])
            || starts_with(&tokens[at..], &["allow", "(", "unsafe_code"])
            || starts_with(&tokens[at..], &["warn", "(", "unsafe_code"])
    };
    (0..tokens.len())
        .find(|&at| tokens[at].text == "unsafe" || permits(at))
        .map(|at| tokens[at].line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(list: &str, text: &str) -> Vec<String> {
        let found = check(&Tree::of(&[(LIST, list), ("a.rs", text)]));
        found.iter().map(Finding::to_string).collect()
    }

    #[test]
    fn listed_unsafe_code_is_fine() {
        assert!(findings("# Why.\na.rs  # mapped memory\n", "unsafe { f() }").is_empty());
    }

    #[test]
    fn unlisted_unsafe_code_is_found() {
        for text in [
            "\nunsafe { f() }",
            "\nunsafe fn f() {}",
            "\n#![expect(unsafe_code)]",
        ] {
            let found = findings("", text);
            assert_eq!(found.len(), 1, "{text}");
            assert!(
                found[0].starts_with("a.rs:2: unsafe code in a file"),
                "{found:?}"
            );
        }
    }

    #[test]
    fn speaking_of_it_is_not_doing_it() {
        let text = "// unsafe\n#![forbid(unsafe_code)]\nconst A: &str = \"unsafe\";";
        assert!(findings("", text).is_empty());
    }

    #[test]
    fn a_list_that_no_longer_holds_is_found() {
        assert!(
            findings("\na.rs", "fn f() {}")[0].starts_with(&format!("{LIST}:2: `a.rs` holds no"))
        );
        assert!(findings("b.rs", "")[0].contains("`b.rs` does not exist"));
        assert!(findings("a.rs\na.rs", "unsafe {}")[0].contains("twice"));
    }
}
