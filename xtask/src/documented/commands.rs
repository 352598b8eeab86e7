//! Finds the commands that a document names: in its code blocks, and in the `code` of its
//! sentences.
//!
//! ```text
//!  namiki check DIR                  verify every checksum        two blanks end a command, an explanation follows
//!  $ namiki cluster stop                                          a prompt does not belong to it
//!  namiki-bench index --tree bwtree \                             continued in the next line
//!      --mix write=100
//! ```

use crate::repository_files::SourceFile;

/// Programs that can start a command.
const PROGRAMS: &[&str] = &[
    "cargo",
    "namiki",
    "namiki-bench",
    "target/release/namiki",
    "target/release/namiki-bench",
];

/// A command that a document names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Documented {
    /// The path of the document.
    pub(super) file: String,
    /// The line at which it starts, from 1.
    pub(super) line: usize,
    /// The command in one line.
    pub(super) text: String,
    /// Whether it is in a code block, and not in a sentence.
    pub(super) is_in_block: bool,
}

/// The commands of a document, in order.
pub(super) fn of(document: &SourceFile) -> Vec<Documented> {
    let mut found = Vec::new();
    let mut lines = document.text.lines().enumerate();
    let mut prose = Prose::default();
    while let Some((at, line)) = lines.next() {
        let Some(fence) = line.trim_start().strip_prefix("```") else {
            prose.add(at, line);
            continue;
        };
        prose.end(&document.path, &mut found);
        let is_program = matches!(fence.trim(), "toml" | "json")
            || fence.starts_with("rust") && !fence.trim().is_empty();
        while let Some((at, line)) = lines.next() {
            if line.trim_start().starts_with("```") {
                break;
            }
            let mut command = without_explanation(line).to_owned();
            while let Some(begun) = command.strip_suffix('\\') {
                let next = lines.next().map_or("", |(_, next)| next.trim());
                command = format!("{begun}{}", without_explanation(next));
            }
            if !is_program && is_command(&command) {
                found.push(Documented {
                    file: document.path.clone(),
                    line: at + 1,
                    text: command,
                    is_in_block: true,
                });
            }
        }
    }
    prose.end(&document.path, &mut found);
    found
}

/// The text between two code blocks, in which inline code may continue in the next line.
#[derive(Default)]
struct Prose {
    text: String,
    /// The start of each line in the text, with its line number.
    lines: Vec<(usize, usize)>,
}

impl Prose {
    fn add(&mut self, at: usize, line: &str) {
        // An empty line ends unclosed inline code.
        if line.trim().is_empty() && self.text.matches('`').count() % 2 == 1 {
            self.text.push('`');
        }
        self.lines.push((self.text.len(), at));
        self.text.push_str(line);
        self.text.push('\n');
    }

    fn end(&mut self, file: &str, found: &mut Vec<Documented>) {
        let Self { text, lines } = std::mem::take(self);
        let mut at = 0;
        for (number, piece) in text.split('`').enumerate() {
            let words: Vec<&str> = piece.split_whitespace().collect();
            let command = words.join(" ");
            if number % 2 == 1 && is_command(&command) {
                let before = lines.partition_point(|(start, _)| *start <= at);
                found.push(Documented {
                    file: file.to_owned(),
                    line: lines[before - 1].1 + 1,
                    text: command,
                    is_in_block: false,
                });
            }
            at += piece.len() + 1;
        }
    }
}

/// The part of a code block's line before the first two blanks, without its prompt.
fn without_explanation(line: &str) -> &str {
    let line = line.trim();
    let line = line.strip_prefix("$ ").unwrap_or(line);
    line.split("  ").next().unwrap_or(line).trim_end()
}

/// Whether the text starts with a program and has arguments.
fn is_command(text: &str) -> bool {
    let mut words = text.split(' ');
    let program = words.next().unwrap_or_default();
    let first = words.next().unwrap_or_default();
    // `namiki = { … }` is a dependency.
    PROGRAMS.contains(&program) && !first.is_empty() && first != "="
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<(usize, String)> {
        let commands = of(&SourceFile::new("a.md", text));
        commands.into_iter().map(|it| (it.line, it.text)).collect()
    }

    #[test]
    fn commands_are_found_in_blocks_and_in_sentences() {
        let text = "\
A `namiki check DIR` and a `Database`; also `namiki-bench txn
--workload u1` over two lines, `namiki = \"0.1\"` and `namiki`.

```text
namiki tables DIR                 which there are
  a table of numbers
namiki-bench index --tree all \\
    --mix write=100
namiki-manifest 2 crc32c=1a2b3c4d
```

```console
$ target/release/namiki cluster stop
stopped
```

```toml
namiki = { path = \"a\" }
```

`cargo test`
";
        let expected = [
            (1, "namiki check DIR"),
            (1, "namiki-bench txn --workload u1"),
            (5, "namiki tables DIR"),
            (7, "namiki-bench index --tree all --mix write=100"),
            (13, "target/release/namiki cluster stop"),
            (21, "cargo test"),
        ];
        let expected = expected.map(|(line, text)| (line, text.to_owned()));
        assert_eq!(found(text), expected);
    }

    #[test]
    fn code_that_is_not_closed_ends_with_its_paragraph() {
        assert_eq!(
            found("a `b\n\n`namiki check DIR`\n"),
            [(3, "namiki check DIR".to_owned())]
        );
    }
}
