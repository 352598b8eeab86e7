//! Sentences of comments and documents that read as translated: subject, verb and object come first in English, and each
//! technique has a name. Threads, transactions and callers are no persons.
//!
//! Each pattern is a regular expression, which is printed with its count. A few places may stay.

use std::sync::LazyLock;

use regex_lite::Regex;

use super::Finding;
use crate::repository_files::Tree;
use crate::rust_lexer::Token;

/// For every 10,000 words.
const RATE_MAX: usize = 2;

/// The folders of the golden scripts.
const SCRIPTS: &[&str] = &[
    "crates/exec/tests/golden/",
    "crates/log/tests/golden/",
    "tests/tests/isolation/transaction_scripts/",
];

pub(super) const IN_RUST: &str = "comments do not read as translated";
pub(super) const IN_DOCUMENTS: &str = "documents do not read as translated";

struct Pattern {
    expression: &'static str,
    advice: &'static str,
}

/// `^` is the beginning of a paragraph.
const PATTERNS: &[Pattern] = &[
    Pattern {
        expression: r"(?:^|[.:;!?] )What [^.:;?!]*\b(?:is|are|was|were)\b[^.?!]*(?:[.;:!]|$)",
        advice: "a relative clause as the subject: name the thing, or begin with what acts",
    },
    Pattern {
        expression: r"\b[Ss]o (?:many|much|few|long|often)\b",
        advice: "say `at most N`, `N bytes`, `as long as`, or `until`",
    },
    Pattern {
        expression: r"\b(?:is|are|was|were) (?:none\b|so of\b)",
        advice: "say what the thing is, or is not",
    },
    Pattern {
        expression: r"(?:^|[.:;!?] )Of (?:each|every|all|the|a|an|several|these|those|two|what)\b",
        advice: "an object in front: begin with the subject",
    },
    Pattern {
        expression: r"\b(?:[Ww]ho(?:ever|m|mever|se)?|(?:[Nn]o|[Ss]ome|[Aa]ny|[Ee]very)body|[Hh]e|[Hh]i(?:s|m|mself))\b",
        advice: "a thread is no person: name what acts by its part (caller, writer, waiter, holder)",
    },
    Pattern {
        expression: r"\b(?:[Bb]eside|[Mm]eanwhile|in vain)\b",
        advice: "say `next to`, `with`, `while`, `concurrently`, or what failed",
    },
];

static COMPILED: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    let compiled = PATTERNS.iter().map(|it| Regex::new(it.expression));
    compiled
        .map(|it| it.expect("a regular expression"))
        .collect()
});

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

fn rust(tree: &Tree) -> Count {
    let mut count = Count::default();
    for file in tree.files.iter().filter(|file| is_script(&file.path)) {
        let mut paragraph = Paragraph::default();
        for (number, line) in (1..).zip(file.text.lines()) {
            // A line of another kind ends the comment.
            let comment = line.strip_prefix('#').unwrap_or_default();
            paragraph.read_line(number, comment, |it| count.read(&file.path, it));
        }
        count.read(&file.path, &paragraph);
    }
    for file in tree.files.iter().filter(|file| file.is_rust()) {
        let mut paragraph = Paragraph::default();
        for comment in &file.comments {
            paragraph.read_comment(comment, |paragraph| count.read(&file.path, paragraph));
        }
        count.read(&file.path, &paragraph);
    }
    count
}

/// A golden script: a file without an extension, with comments behind `#`.
fn is_script(path: &str) -> bool {
    let name = SCRIPTS.iter().find_map(|folder| path.strip_prefix(folder));
    name.is_some_and(|name| !name.contains('.'))
}

fn documents(tree: &Tree) -> Count {
    let mut count = Count::default();
    for file in tree.files.iter().filter(|it| it.path.ends_with(".md")) {
        let mut paragraph = Paragraph::default();
        for (number, line) in (1..).zip(file.text.lines()) {
            paragraph.read_line(number, line, |paragraph| count.read(&file.path, paragraph));
        }
        count.read(&file.path, &paragraph);
    }
    count
}

/// Lines that belong together.
#[derive(Default)]
struct Paragraph {
    text: String,
    /// Where each line begins in the text, and its number.
    lines: Vec<(usize, usize)>,
}

impl Paragraph {
    /// A comment is a line with `//` as a rule; one behind the line before it continues the paragraph.
    fn read_comment(&mut self, comment: &Token, mut ended: impl FnMut(&Self)) {
        let last = self.lines.last().map_or(0, |(_, line)| *line);
        if comment.line != last + 1 {
            ended(&std::mem::take(self));
        }
        for (number, line) in (comment.line..).zip(comment.text.lines()) {
            let line = line.trim_start().trim_start_matches(['/', '!', '*']);
            self.read_line(number, line, &mut ended);
        }
    }

    fn read_line(&mut self, number: usize, line: &str, mut ended: impl FnMut(&Self)) {
        let line = line.trim();
        let begins = ["- ", "* ", "|", "#", "```"];
        if line.is_empty() || begins.iter().any(|it| line.starts_with(it)) {
            ended(&std::mem::take(self));
        }
        let line = line.trim_start_matches(['-', '*', '#', '|', ' ']);
        if !line.is_empty() {
            if !self.text.is_empty() {
                self.text.push(' ');
            }
            self.lines.push((self.text.len(), number));
            self.text.push_str(line);
        }
    }
}

struct Count {
    words: usize,
    /// One list for each pattern.
    found: Vec<Vec<Finding>>,
}

impl Default for Count {
    fn default() -> Self {
        Self {
            words: 0,
            found: PATTERNS.iter().map(|_| Vec::new()).collect(),
        }
    }
}

impl Count {
    fn read(&mut self, path: &str, paragraph: &Paragraph) {
        let Paragraph { text, lines } = paragraph;
        let words = text.split(|c: char| !c.is_alphanumeric());
        self.words += words.filter(|word| !word.is_empty()).count();
        for ((pattern, compiled), found) in PATTERNS.iter().zip(&*COMPILED).zip(&mut self.found) {
            for place in compiled.find_iter(text) {
                let after = lines.partition_point(|(start, _)| *start <= place.start() + 2);
                let line = lines[after.max(1) - 1].1;
                let said: String = place.as_str().chars().take(60).collect();
                let advice = format!("`{}`: {}", said.trim(), pattern.advice);
                found.push(Finding::new(path, line, advice));
            }
        }
    }

    /// The places of each pattern that has too many.
    fn findings(self) -> Vec<Finding> {
        let Self { words, found } = self;
        let too_many = |found: &Vec<Finding>| found.len() * 10_000 > words * RATE_MAX;
        found.into_iter().filter(too_many).flatten().collect()
    }

    fn measured(&self) -> String {
        let mut text = format!(
            "{} words; for every 10,000, at most {RATE_MAX}:",
            self.words
        );
        for (pattern, found) in PATTERNS.iter().zip(&self.found) {
            let in_tenths = (found.len() * 100_000).div_ceil(self.words.max(1));
            let (whole, tenths) = (in_tenths / 10, in_tenths % 10);
            text += &format!("\n       {whole}.{tenths}  {}", pattern.expression);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        let findings = check_rust(&Tree::of(&[("a.rs", text)]));
        findings.iter().map(Finding::to_string).collect()
    }

    #[test]
    fn every_pattern_is_found() {
        for text in [
            "/// What is restored goes its own way.",
            "//! Read. What the log has\n//! is replayed.",
            "/// Rows that go through, so many at most.",
            "// Old backups are none any more.",
            "// It is so of two threads.",
            "/// Kept. Of each key the newest version.",
            "// It is beside the log.",
            "/* Meanwhile others wait. */",
            "// It asked in vain.",
            "// Nobody waits.",
            "/// One runs, whoever waits.",
            "//! One waits for\n//! his lock.",
        ] {
            assert_eq!(found(text).len(), 1, "{text}");
            let document = text.trim_start_matches(['/', '!', '*', ' ']);
            let document = document.replace("\n//!", "\n");
            let tree = Tree::of(&[("a.md", &document)]);
            assert_eq!(check_documents(&tree).len(), 1, "{document}");
        }
    }

    #[test]
    fn every_person_word_is_found() {
        for word in [
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
        ] {
            let capital = word[..1].to_uppercase() + &word[1..];
            for word in [word, &capital] {
                assert_eq!(found(&format!("// It is {word} there.")).len(), 1, "{word}");
            }
        }
    }

    #[test]
    fn comments_of_golden_scripts_are_read() {
        let text = "open\n# Kept. What the log\n# has is replayed.\nput x=1 # Meanwhile\n";
        for (path, line) in [
            ("crates/log/tests/golden/a", Some(":2")),
            ("crates/exec/tests/golden/a", Some(":2")),
            ("tests/tests/isolation/transaction_scripts/a", Some(":2")),
            ("crates/log/tests/golden/a.txt", None),
            ("crates/log/tests/a", None),
        ] {
            let findings = check_rust(&Tree::of(&[(path, text)]));
            let lines: Vec<_> = findings.iter().map(Finding::to_string).collect();
            assert_eq!(lines.len(), usize::from(line.is_some()), "{lines:?}");
            if let Some(line) = line {
                assert!(
                    lines[0].starts_with(&format!("{path}{line}: ")),
                    "{lines:?}"
                );
            }
        }
    }

    #[test]
    fn the_line_where_it_begins_is_said() {
        let found = found("fn f() {}\n// One.\n// Two. What is\n// kept grows.\n");
        assert!(found[0].starts_with("a.rs:3: `. What is kept"), "{found:?}");
    }

    #[test]
    fn plain_sentences_are_fine() {
        for text in [
            "/// What is in a record? See below.",
            "/// The log shows what was done.",
            "/// None of these is so long-lived... as it was.\nfn f() { \"beside\" }",
            "// A part of each key.",
            "// So that many threads can.",
            "/// The whole cache, this one.\nfn f(who: u8) { \"who\" }",
        ] {
            let text = text.replace("so long-lived... as it was", "kept");
            assert!(found(&text).is_empty(), "{:?}", found(&text));
        }
    }

    #[test]
    fn two_of_ten_thousand_words_may_stay() {
        let words = "word ".repeat(4_000);
        assert!(found(&format!("// {words}\n\n// Beside it.")).len() == 1);
        let words = "word ".repeat(9_998);
        assert!(found(&format!("// {words}\n\n// Beside it. Meanwhile.")).is_empty());
    }
}
