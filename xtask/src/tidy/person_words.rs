//! Threads, transactions and callers are not persons. They are named by their role: caller, reader,
//! writer, waiter, holder, committer, flusher, recovery.
//!
//! A few of these words may stay, because persons do occur: readers of a document, for example.

use std::collections::BTreeSet;

use super::Finding;
use crate::repository_files::{SourceFile, Tree};
use crate::rust_lexer::words_of_identifier;

const WORDS: &[&str] = &[
    "who",
    "whoever",
    "whom",
    "whomever",
    "whose",
    "nobody",
    "somebody",
    "anybody",
    "everybody",
    "he",
    "his",
    "him",
    "himself",
];

/// Maximal number per 10,000 words.
const RATE_MAX: usize = 2;

pub(super) const IN_RUST: &str = "threads are no persons in code";
pub(super) const IN_DOCUMENTS: &str = "threads are no persons in documents";

pub(super) fn check_rust(tree: &Tree) -> Vec<Finding> {
    rust(tree).findings()
}

pub(super) fn check_documents(tree: &Tree) -> Vec<Finding> {
    documents(tree).findings()
}

pub(super) fn measure_rust(tree: &Tree) -> String {
    rust(tree).measured()
}

pub(super) fn measure_documents(tree: &Tree) -> String {
    documents(tree).measured()
}

/// The words in comments and in identifiers; each identifier counts once per file.
fn rust(tree: &Tree) -> Count {
    let mut count = Count::default();
    for file in tree.files.iter().filter(|file| file.is_rust()) {
        for comment in &file.comments {
            count.read(file, comment.line, &comment.text);
        }
        let mut met = BTreeSet::new();
        for token in &file.tokens {
            let words = words_of_identifier(&token.text);
            let found = words.iter().find(|word| WORDS.contains(&word.as_str()));
            if let Some(word) = found
                && met.insert(&token.text)
            {
                count.found(file, token.line, &format!("`{word}` in `{}`", token.text));
            }
        }
    }
    count
}

fn documents(tree: &Tree) -> Count {
    let mut count = Count::default();
    for file in tree.files.iter().filter(|file| file.path.ends_with(".md")) {
        count.read(file, 1, &file.text);
    }
    count
}

#[derive(Default)]
struct Count {
    words: usize,
    found: Vec<Finding>,
}

impl Count {
    fn read(&mut self, file: &SourceFile, first_line: usize, text: &str) {
        for (number, line) in (first_line..).zip(text.lines()) {
            let words = line.split(|c: char| !c.is_alphanumeric());
            for word in words.filter(|word| !word.is_empty()) {
                self.words += 1;
                if WORDS.contains(&word.to_lowercase().as_str()) {
                    self.found(file, number, &format!("`{word}`"));
                }
            }
        }
    }

    fn found(&mut self, file: &SourceFile, line: usize, what: &str) {
        let advice = format!("{what}: name what acts by its part (caller, writer, waiter, holder)");
        self.found.push(Finding::new(&file.path, line, advice));
    }

    /// All places, if the rate is too high.
    fn findings(self) -> Vec<Finding> {
        if self.found.len() * 10_000 > self.words * RATE_MAX {
            self.found
        } else {
            Vec::new()
        }
    }

    fn measured(&self) -> String {
        let in_tenths = (self.found.len() * 100_000).div_ceil(self.words.max(1));
        format!(
            "{} in {} words, {}.{} for every 10,000 (at most {RATE_MAX})",
            self.found.len(),
            self.words,
            in_tenths / 10,
            in_tenths % 10
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A text of `words` words, followed by `text`.
    fn after(words: usize, begin: &str, text: &str) -> String {
        format!("{begin}{}\n{text}", "word ".repeat(words))
    }

    #[test]
    fn two_of_ten_thousand_words_may_stay() {
        let enough = after(10_000, "// ", "// whose\nfn nobody() {}");
        let tree = Tree::of(&[("a.rs", &enough)]);
        assert!(check_rust(&tree).is_empty(), "{}", measure_rust(&tree));
        let too_few = after(9_998, "// ", "// whose\nfn nobody() {}");
        let found = check_rust(&Tree::of(&[("a.rs", &too_few)]));
        let found: Vec<_> = found.iter().map(Finding::to_string).collect();
        assert!(found[0].starts_with("a.rs:2: `whose`: "), "{found:?}");
        assert!(
            found[1].starts_with("a.rs:3: `nobody` in `nobody`"),
            "{found:?}"
        );
    }

    #[test]
    fn every_word_is_found_in_every_form() {
        for word in WORDS {
            let capital = word[..1].to_uppercase() + &word[1..];
            for text in [
                format!("/* {capital}, then */"),
                format!("//! ({word})"),
                format!("fn a_{word}_b() {{}}"),
                format!("struct A{capital}B;"),
            ] {
                assert_eq!(check_rust(&Tree::of(&[("a.rs", &text)])).len(), 1, "{text}");
            }
            let document = format!("{capital}'s");
            assert_eq!(check_documents(&Tree::of(&[("a.md", &document)])).len(), 1);
        }
    }

    #[test]
    fn other_words_and_strings_are_fine() {
        let text = "// the whole cache, this\nfn which(others: u8) { f(\"who\") }";
        assert!(check_rust(&Tree::of(&[("a.rs", text), ("b.md", "who")])).is_empty());
        assert!(
            check_documents(&Tree::of(&[("a.rs", "// who"), ("b.md", "The others.")])).is_empty()
        );
    }

    #[test]
    fn an_identifier_counts_once_in_a_file() {
        let text = "fn nobody() { nobody(); }";
        assert_eq!(
            check_rust(&Tree::of(&[("a.rs", text), ("b.rs", text)])).len(),
            2
        );
    }

    #[test]
    fn the_rate_is_said() {
        let text = after(9_999, "", "who");
        let tree = Tree::of(&[("a.md", &text)]);
        assert_eq!(
            measure_documents(&tree),
            "1 in 10000 words, 1.0 for every 10,000 (at most 2)"
        );
        assert_eq!(
            measure_rust(&tree),
            "0 in 0 words, 0.0 for every 10,000 (at most 2)"
        );
    }
}
