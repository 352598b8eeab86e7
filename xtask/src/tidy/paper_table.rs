//! The "paper → code" table of ARCHITECTURE.md is correct: every row points to a file, and the file
//! has the same reference.
//!
//! ```text
//! | paper | what | where |
//! |---|---|---|
//! | `pwal` §4.3.3 | merge of the logs at recovery | `crates/log/src/read/merge.rs` |
//! ```
//! and in that file a comment line `Paper: pwal §4.3.3, Algorithm 4`. A row may name several
//! sections and several files; every file has every section, or one above or below it (§4.2 and
//! §4.2.1).

use super::Finding;
use crate::repository_files::{SourceFile, Tree};

const TABLE: &str = "ARCHITECTURE.md";
const SLUGS: &[&str] = &["pwal", "tictoc-pwal", "bwtree", "oode", "raft-pwal"];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = unknown_slugs(tree);
    let Some(file) = tree.get(TABLE) else {
        findings.push(Finding::new(
            TABLE,
            0,
            "there is no such file: write it, with the table",
        ));
        return findings;
    };
    let rows = rows(file);
    if rows.is_empty() {
        let advice = "has no row of a paper -> code table; its format is in \
                      xtask/src/tidy/paper_table.rs";
        findings.push(Finding::new(TABLE, 0, advice));
    }
    for row in rows {
        findings.extend(row.check(tree));
    }
    findings
}

/// One line of the table.
struct Row {
    line: usize,
    slug: String,
    sections: Vec<String>,
    paths: Vec<String>,
}

/// The table rows that start with the short name of a paper.
fn rows(file: &SourceFile) -> Vec<Row> {
    let mut rows = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        let cells: Vec<&str> = line
            .trim()
            .trim_matches('|')
            .split('|')
            .map(str::trim)
            .collect();
        let (true, [first, .., last]) = (line.trim_start().starts_with('|'), &cells[..]) else {
            continue;
        };
        let plain = first.replace('`', "");
        let slug = plain.split([' ', '§', ',']).next().unwrap_or_default();
        if SLUGS.contains(&slug) && cells.len() == 3 {
            rows.push(Row {
                line: index + 1,
                slug: slug.to_owned(),
                sections: sections(&plain),
                paths: paths(last),
            });
        }
    }
    rows
}

/// The paths of a cell, in backquotes, in links or bare.
fn paths(cell: &str) -> Vec<String> {
    let words = cell.split(|c: char| c.is_whitespace() || "`,()[]<>".contains(c));
    let mut paths: Vec<String> = words
        .filter(|word| word.contains('/') && word.contains('.'))
        .map(|word| word.trim_start_matches("./").to_owned())
        .collect();
    paths.dedup();
    paths
}

/// The numbers after every `§`: `["3", "4.2"]` in `§3, §4.2`.
fn sections(text: &str) -> Vec<String> {
    let number = |part: &str| {
        let end = part
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(part.len());
        part[..end].trim_end_matches('.').to_owned()
    };
    text.split('§')
        .skip(1)
        .map(|part| number(part.trim_start()))
        .collect()
}

/// §4.2 covers §4.2.1, and the other way round.
fn is_about(one: &str, other: &str) -> bool {
    let below = |lower: &str, upper: &str| {
        lower
            .strip_prefix(upper)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    below(one, other) || below(other, one)
}

impl Row {
    fn check(&self, tree: &Tree) -> Vec<Finding> {
        let at = |advice| Finding::new(TABLE, self.line, advice);
        if self.paths.is_empty() {
            return vec![at("the last cell names no file".to_owned())];
        }
        let mut findings = Vec::new();
        for path in &self.paths {
            let Some(file) = tree.get(path) else {
                findings.push(at(format!("`{path}` does not exist")));
                continue;
            };
            let slug = &self.slug;
            let tags: Vec<Tag> = tags(file)
                .into_iter()
                .filter(|tag| tag.slug == *slug)
                .collect();
            if tags.is_empty() {
                let advice = format!("`{path}` carries no tag `Paper: {slug}`: add it there");
                findings.push(at(advice));
                continue;
            }
            for section in &self.sections {
                let mut tagged = tags.iter().flat_map(|tag| &tag.sections);
                if !tagged.any(|tagged| is_about(tagged, section)) {
                    let advice = format!(
                        "`{path}` carries no tag `Paper: {slug} §{section}`, only other sections"
                    );
                    findings.push(at(advice));
                }
            }
        }
        findings
    }
}

/// One paper of a comment line like `Paper: pwal §4.3, figure 4; tictoc-pwal §3`.
struct Tag {
    line: usize,
    slug: String,
    sections: Vec<String>,
}

fn tags(file: &SourceFile) -> Vec<Tag> {
    let mut tags: Vec<Tag> = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        let comment = line.trim_start();
        let Some(said) = comment
            .strip_prefix("//")
            .or_else(|| comment.strip_prefix('#'))
        else {
            continue;
        };
        let said = said.trim_start_matches(['/', '!']).trim_start();
        let Some(said) = said.strip_prefix("Paper:") else {
            continue;
        };
        let words = said.split(|c: char| c.is_whitespace() || ",;()`".contains(c));
        // The first word must be a paper; later words may be papers, or "figure".
        for (place, word) in words.filter(|word| !word.is_empty()).enumerate() {
            if place == 0 || SLUGS.contains(&word) {
                let (slug, sections) = (word.to_owned(), Vec::new());
                tags.push(Tag {
                    line: index + 1,
                    slug,
                    sections,
                });
            } else if let Some(tag) = tags.last_mut() {
                tag.sections.extend(sections(word));
            }
        }
    }
    tags
}

fn unknown_slugs(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.files.iter().filter(|file| file.is_rust()) {
        for tag in tags(file)
            .iter()
            .filter(|tag| !SLUGS.contains(&tag.slug.as_str()))
        {
            let advice = format!(
                "no paper is called `{}`; there are {}",
                tag.slug,
                SLUGS.join(", ")
            );
            findings.push(Finding::new(&file.path, tag.line, advice));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODE: &str = "crates/log/src/merge.rs";

    fn findings(row: &str, code: &str) -> Vec<String> {
        let table = format!("# Paper -> code\n\n| paper | what | where |\n|---|---|---|\n{row}\n");
        let found = check(&Tree::of(&[(TABLE, &table), (CODE, code)]));
        found.iter().map(Finding::to_string).collect()
    }

    const ROW: &str = "| `pwal` §4.3 | merge | `crates/log/src/merge.rs` |";

    #[test]
    fn a_true_row_is_fine() {
        for tag in [
            "//! Paper: pwal §4.3",
            "  /// Paper: pwal §2, §4.3.3, Algorithm 4",
            "// Paper: pwal §4",
        ] {
            assert!(
                findings(ROW, tag).is_empty(),
                "{tag}: {:?}",
                findings(ROW, tag)
            );
        }
        for tag in [
            "//! Paper: bwtree §3; pwal §4.3",
            "//! Paper: tictoc-pwal §2.1 (stamps), pwal §4.3 (LSN)",
            "//! Paper: pwal §4.2, figure 3; §4.3, figure 4",
        ] {
            assert!(
                findings(ROW, tag).is_empty(),
                "{tag}: {:?}",
                findings(ROW, tag)
            );
        }
        let link = "| pwal §4.3 | merge | [merge](crates/log/src/merge.rs) |";
        assert!(findings(link, "//! Paper: bwtree §3; pwal §4.3").is_empty());
        let whole_paper = "| `pwal` | everything | `crates/log/src/merge.rs` |";
        assert!(findings(whole_paper, "//! Paper: pwal").is_empty());
    }

    #[test]
    fn a_row_to_nowhere_is_found() {
        let found = findings("| `pwal` §4.3 | merge | `crates/log/src/gone.rs` |", "");
        assert_eq!(
            found,
            ["ARCHITECTURE.md:5: `crates/log/src/gone.rs` does not exist"]
        );
        assert!(findings("| `pwal` §4.3 | merge | later |", "")[0].contains("names no file"));
    }

    #[test]
    fn a_file_that_does_not_say_so_is_found() {
        assert!(findings(ROW, "fn f() {}")[0].contains("carries no tag `Paper: pwal`"));
        assert!(findings(ROW, "//! Paper: tictoc-pwal §4.3")[0].contains("carries no tag"));
        assert!(findings(ROW, "let a = \"Paper: pwal §4.3\";")[0].contains("carries no tag"));
    }

    #[test]
    fn the_section_has_to_agree() {
        for tag in [
            "//! Paper: pwal §5",
            "//! Paper: pwal §5, tictoc-pwal §4.3",
            "//! Paper: pwal §4.30",
            "//! Paper: pwal",
        ] {
            let found = findings(ROW, tag);
            assert!(
                found[0].contains("no tag `Paper: pwal §4.3`"),
                "{tag}: {found:?}"
            );
        }
    }

    #[test]
    fn a_misspelt_paper_is_found() {
        let found = findings(ROW, "//! Paper: pwal §4.3\n//! Paper: bw-tree §3");
        assert!(found[0].starts_with("crates/log/src/merge.rs:2: no paper is called `bw-tree`"));
    }

    #[test]
    fn a_missing_table_is_found() {
        assert!(check(&Tree::of(&[]))[0].advice.contains("no such file"));
        assert!(
            check(&Tree::of(&[(TABLE, "# Empty")]))[0]
                .advice
                .contains("no row")
        );
    }
}
