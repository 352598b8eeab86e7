//! Comments and documents name only files that exist, and a rule's code leads to the file that
//! defines it.
//!
//! A name like `node.rs` or `art/node.rs` stands for any file with a path that ends with it. A line
//! `//! - N2. …` defines the rule `N2`, which other comments use in brackets: `(N2)`. If several
//! files define a rule with that code, a file that uses it without defining one must name the right
//! file, anywhere in its comments.
//!
//! A rule that is a number alone leads nowhere, except those of the papers.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::Finding;
use crate::repository_files::{SourceFile, Tree};

/// Words that look like file names.
const SITES: &[&str] = &["docs.rs"];

/// Rules with numbers that the papers define, by the word in front.
const NUMBERED: &[&str] = &["deadlock"];

/// The longest text in brackets that is examined, in bytes.
const BRACKETS_BYTES_MAX: usize = 120;

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let paths = tree.files.iter().map(|file| file.path.as_str());
    let endings: HashSet<&str> = paths.flat_map(endings).collect();
    let mut findings = Vec::new();
    for file in &tree.files {
        for (line, text) in texts(file) {
            for name in file_names(text).filter(|name| !endings.contains(name)) {
                let advice = format!("`{name}` is the end of no file's path");
                findings.push(Finding::new(&file.path, line, advice));
            }
            if let Some(number) = numbered_rule(text) {
                let advice = format!(
                    "rule {number} is defined nowhere: name the decision, or the file and the code of the rule"
                );
                findings.push(Finding::new(&file.path, line, advice));
            }
        }
    }
    let defined = defined_rules(tree);
    for file in tree.files.iter().filter(|file| file.is_rust()) {
        findings.extend(unclear_rules(file, &defined));
    }
    findings
}

/// The endings of a path: `art/node.rs` and `node.rs` for `art/node.rs`.
fn endings(path: &str) -> impl Iterator<Item = &str> {
    let behind_slashes = path.match_indices('/').map(|(at, _)| &path[at + 1..]);
    std::iter::once(path).chain(behind_slashes)
}

/// Lines that may name files: comments of Rust files, and documents.
fn texts(file: &SourceFile) -> Vec<(usize, &str)> {
    if file.is_rust() {
        lines_of_comments(file).collect()
    } else if file.path.ends_with(".md") {
        (1..).zip(file.text.lines()).collect()
    } else {
        Vec::new()
    }
}

fn lines_of_comments(file: &SourceFile) -> impl Iterator<Item = (usize, &str)> {
    let comments = file.comments.iter();
    comments.flat_map(|comment| (comment.line..).zip(comment.text.lines()))
}

/// The names of Rust files in a text, without `../`.
fn file_names(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| !(c.is_alphanumeric() || "_-./".contains(c)));
    words.filter_map(|word| {
        // The part after the colon of an address.
        if word.starts_with("//") || SITES.contains(&word) {
            return None;
        }
        let name = word.trim_end_matches('.').trim_start_matches(['.', '/']);
        let stem = name.strip_suffix(".rs")?.rsplit('/').next()?;
        // `NAME.rs` stands for any file.
        let is_file = stem.chars().any(|c| c.is_ascii_lowercase());
        is_file.then_some(name)
    })
}

/// The number of a rule that no paper defines.
fn numbered_rule(text: &str) -> Option<&str> {
    let words = text.split(|c: char| !c.is_alphanumeric());
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    words.iter().enumerate().find_map(|(at, word)| {
        let is_rule = ["rule", "rules"].contains(&&*word.to_ascii_lowercase());
        let number = words.get(at + 1)?;
        let is_number = number.chars().all(|c| c.is_ascii_digit());
        let before = words[..at].last().map(|it| it.to_ascii_lowercase());
        let is_of_paper = before.is_some_and(|it| NUMBERED.contains(&&*it));
        (is_rule && is_number && !is_of_paper).then_some(*number)
    })
}

fn is_code(word: &str) -> bool {
    let letters = word.chars().take_while(char::is_ascii_uppercase).count();
    let digits = &word[letters..];
    (1..=2).contains(&letters)
        && (1..=2).contains(&digits.len())
        && digits.chars().all(|c| c.is_ascii_digit())
}

/// The text after the slashes of a comment's line.
fn said(line: &str) -> &str {
    line.trim_start_matches(['/', '!']).trim()
}

/// Maps the codes of rules to the files that define them.
fn defined_rules(tree: &Tree) -> BTreeMap<&str, BTreeSet<&str>> {
    let mut defined: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for file in tree.files.iter().filter(|file| file.is_rust()) {
        for (_, line) in lines_of_comments(file) {
            let item = said(line).strip_prefix("- ").unwrap_or_default();
            if let Some((code, _)) = item.split_once(". ")
                && is_code(code)
            {
                defined.entry(code).or_default().insert(&file.path);
            }
        }
    }
    defined
}

/// The rules that a file uses ambiguously: several other files define that code, and it names none
/// of them.
fn unclear_rules(file: &SourceFile, defined: &BTreeMap<&str, BTreeSet<&str>>) -> Vec<Finding> {
    let mut text = String::new();
    let mut line_of = Vec::new();
    let mut named = HashSet::new();
    for (number, line) in lines_of_comments(file) {
        named.extend(file_names(line));
        line_of.push((text.len(), number));
        text += said(line);
        text.push(' ');
    }
    let mut unclear: BTreeMap<&str, Finding> = BTreeMap::new();
    for (at, code) in used_codes(&text) {
        let Some(files) = defined.get(code).filter(|files| files.len() > 1) else {
            continue;
        };
        let is_named = |path: &&str| endings(path).any(|ending| named.contains(ending));
        if files.contains(file.path.as_str()) || files.iter().any(is_named) {
            continue;
        }
        let files: Vec<_> = files.iter().copied().collect();
        let advice = format!(
            "`{code}` is a rule of each of {}: name the file that is meant",
            files.join(", ")
        );
        let line = line_of.partition_point(|(begins, _)| *begins <= at) - 1;
        unclear
            .entry(code)
            .or_insert_with(|| Finding::new(&file.path, line_of[line].1, advice));
    }
    unclear.into_values().collect()
}

/// The codes at the start of each part of a text in brackets, with their offsets.
fn used_codes(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.match_indices('(').flat_map(|(open, _)| {
        let inside = text[open + 1..]
            .split(['(', ')'])
            .next()
            .unwrap_or_default();
        let inside = Some(inside).filter(|inside| inside.len() <= BRACKETS_BYTES_MAX);
        let parts = inside.unwrap_or_default().split([',', ';']);
        let parts = parts.flat_map(|part| part.split(" and "));
        let codes = parts.filter_map(|part| part.split_whitespace().next());
        codes
            .filter(|code| is_code(code))
            .map(move |code| (open, code))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(files: &[(&str, &str)]) -> Vec<String> {
        let found = check(&Tree::of(files));
        found.iter().map(Finding::to_string).collect()
    }

    #[test]
    fn a_file_that_is_gone_is_found() {
        let found = findings(&[
            ("a/b.rs", "//! See `b.rs`, `a/b.rs` and `gone.rs`.\n"),
            ("c.md", "[here](../a/b.rs), and\n`x/b.rs`.\n"),
        ]);
        let gone = "a/b.rs:1: `gone.rs` is the end of no file's path";
        assert_eq!(
            found,
            [gone, "c.md:2: `x/b.rs` is the end of no file's path"]
        );
    }

    #[test]
    fn sites_and_placeholders_are_no_files() {
        let text = "//! https://serde.rs, docs.rs, `*.rs`, `NAME.rs`.\nlet a = \"none.rs\";";
        assert_eq!(findings(&[("a.rs", text)]), [""; 0]);
    }

    #[test]
    fn a_rule_that_is_a_number_alone_is_found() {
        let found = findings(&[
            (
                "a.rs",
                "//! Lost data (rule 13).\n// Deadlock rule 1, N2.\n",
            ),
            ("b.md", "Rules 3 and 4; a rule\nof 7 words."),
        ]);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("a.rs:1: rule 13 "), "{found:?}");
        assert!(found[1].starts_with("b.md:1: rule 3 "), "{found:?}");
        let in_code = "let rule = 7; let a = \"rule 7\";";
        assert_eq!(findings(&[("a.rs", in_code)]), [""; 0]);
    }

    const TWICE: [(&str, &str); 2] = [
        ("a/node.rs", "//! - N1. It is so.\n// (N1)"),
        (
            "b/node.rs",
            "//! - N1. It is\n//!   otherwise.\n//! - N2. Once.",
        ),
    ];

    #[test]
    fn a_code_of_several_files_needs_a_name() {
        let user = |text| {
            let [one, other] = TWICE;
            findings(&[one, other, ("a/user.rs", text)])
        };
        let found = user("// Fine (N2).\n// Unclear (N2,\n// N1).");
        let expected = "a/user.rs:2: `N1` is a rule of each of a/node.rs, b/node.rs";
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with(expected), "{found:?}");
        assert_eq!(user("//! Rules: `a/node.rs`.\n// (N1)"), [""; 0]);
        assert_eq!(user("// N1 is a transaction, (as N1 says)"), [""; 0]);
    }
}
