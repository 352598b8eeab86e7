//! The links of documents lead somewhere: to a file or a folder of the repository, and to a heading in it.
//!
//! A heading's anchor is GitHub's: lower case, without punctuation, with hyphens in the place of spaces.

use std::collections::{HashMap, HashSet};

use super::Finding;
use crate::repository_files::Tree;

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let paths: HashSet<&str> = tree.files.iter().map(|file| file.path.as_str()).collect();
    let folders: HashSet<&str> = paths
        .iter()
        .flat_map(|path| path.match_indices('/').map(|(at, _)| &path[..at]))
        .collect();
    let documents = || tree.files.iter().filter(|file| file.path.ends_with(".md"));
    let anchors: HashMap<&str, HashSet<String>> = documents()
        .map(|file| (file.path.as_str(), anchors(&file.text)))
        .collect();
    let mut findings = Vec::new();
    for file in documents() {
        for (line, text) in lines(&file.text) {
            for link in links(text) {
                let (to, anchor) = link.split_once('#').unwrap_or((link, ""));
                let path = joined(&file.path, to);
                if !paths.contains(&*path) && !folders.contains(&*path) {
                    let advice = format!("`{link}` leads to no file");
                    findings.push(Finding::new(&file.path, line, advice));
                } else if let Some(anchors) = anchors.get(&*path)
                    && !anchor.is_empty()
                    && !anchors.contains(anchor)
                {
                    let advice = format!("`{link}` leads to no heading of {path}");
                    findings.push(Finding::new(&file.path, line, advice));
                }
            }
        }
    }
    findings
}

/// The lines that are not in a block of code, with their numbers.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_code = false;
    (1..).zip(text.lines()).filter(move |(_, line)| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    })
}

/// The targets of a line's links into the repository.
fn links(line: &str) -> impl Iterator<Item = &str> {
    line.match_indices("](").filter_map(|(at, _)| {
        let link = line[at + 2..].split([')', ' ']).next()?;
        let is_outside = link.contains("://") || link.starts_with("mailto:");
        (!is_outside && !link.is_empty()).then_some(link)
    })
}

/// The path of a link in the document `from`.
fn joined(from: &str, to: &str) -> String {
    if to.is_empty() {
        return from.to_owned();
    }
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in to.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// The anchors of a document's headings.
fn anchors(text: &str) -> HashSet<String> {
    let headings = lines(text).filter_map(|(_, line)| {
        let title = line.trim_start_matches('#');
        (title.len() < line.len()).then_some(title.strip_prefix(' ')?)
    });
    let of_title = |title: &str| {
        let kept = title.trim().chars();
        let kept = kept.filter(|it| it.is_alphanumeric() || "-_ ".contains(*it));
        let lower = kept.flat_map(char::to_lowercase);
        lower.map(|it| if it == ' ' { '-' } else { it }).collect()
    };
    headings.map(of_title).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(text: &str) -> Vec<String> {
        let other = "# A guide\n## Backup, and `restore`\n";
        let found = check(&Tree::of(&[
            ("docs/a.md", text),
            ("docs/sub/b.md", other),
            ("LICENSE", ""),
        ]));
        found.iter().map(Finding::to_string).collect()
    }

    #[test]
    fn links_that_lead_nowhere_are_found() {
        let found = findings("# Here\n[x](sub/c.md) [y](sub/b.md#restore)\n[z](#there)");
        assert_eq!(
            found,
            [
                "docs/a.md:2: `sub/c.md` leads to no file",
                "docs/a.md:2: `sub/b.md#restore` leads to no heading of docs/sub/b.md",
                "docs/a.md:3: `#there` leads to no heading of docs/a.md"
            ]
        );
    }

    #[test]
    fn links_that_lead_somewhere_are_not() {
        let text = "# Here it is\n[a](sub/b.md#backup-and-restore) [b](../LICENSE) [c](sub/)\n[d](#here-it-is) [e](https://x.org/#y)";
        assert_eq!(findings(text), [""; 0]);
        let code = "```rust\n[a](none.md)\n```\n";
        assert_eq!(findings(code), [""; 0]);
    }
}
