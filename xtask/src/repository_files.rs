//! The files of the repository, which are read once and passed to every check.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::rust_lexer::{self, Token};

/// One text file.
pub(crate) struct SourceFile {
    /// The path from the root, with `/` between folders.
    pub(crate) path: String,
    pub(crate) text: String,
    /// The tokens of a Rust file without comments and literals; empty for all others.
    pub(crate) tokens: Vec<Token>,
    /// Its comments; empty for all other files.
    pub(crate) comments: Vec<Token>,
}

impl SourceFile {
    pub(crate) fn new(path: &str, text: &str) -> Self {
        let (tokens, comments) = if path.ends_with(".rs") {
            rust_lexer::code_and_comments(text)
        } else {
            Default::default()
        };
        Self {
            path: path.to_owned(),
            text: text.to_owned(),
            tokens,
            comments,
        }
    }

    pub(crate) fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }
}

/// All text files that are in the repository, or about to be.
pub(crate) struct Tree {
    /// Its location, unless a test created it.
    pub(crate) root: Option<PathBuf>,
    pub(crate) files: Vec<SourceFile>,
}

impl Tree {
    /// Reads the tree at `root`, without ignored files and without binary files.
    pub(crate) fn read(root: &Path) -> Result<Self, String> {
        let mut paths = match listed_by_git(root) {
            Some(paths) => paths,
            None => found_on_disk(root)?,
        };
        paths.sort();
        let mut files = Vec::new();
        for path in paths {
            // A file that was deleted but not yet committed is listed, but absent.
            let path_on_disk = root.join(&path);
            // The target of a link is listed under its own name.
            if path_on_disk.is_symlink() {
                continue;
            }
            let Ok(bytes) = fs::read(path_on_disk) else {
                continue;
            };
            if let Ok(text) = String::from_utf8(bytes) {
                files.push(SourceFile::new(&path, &text));
            }
        }
        Ok(Self {
            root: Some(root.to_owned()),
            files,
        })
    }

    pub(crate) fn get(&self, path: &str) -> Option<&SourceFile> {
        self.files.iter().find(|file| file.path == path)
    }

    /// A synthetic tree for the tests of the checks.
    #[cfg(test)]
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        Self {
            root: None,
            files: files
                .iter()
                .map(|(path, text)| SourceFile::new(path, text))
                .collect(),
        }
    }
}

fn listed_by_git(root: &Path) -> Option<Vec<String>> {
    let listing = Command::new("git")
        .args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ])
        .current_dir(root)
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    let listing = String::from_utf8(listing.stdout).ok()?;
    let mut paths: Vec<String> = listing
        .split('\0')
        .filter(|path| !path.is_empty())
        .map(str::to_owned)
        .collect();
    paths.sort();
    paths.dedup();
    Some(paths)
}

/// For a copy of the tree that is not a checkout: everything except builds and hidden repositories.
fn found_on_disk(root: &Path) -> Result<Vec<String>, String> {
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        let here = root.join(&folder);
        let cannot = |error| format!("cannot list {}: {error}", here.display());
        for entry in fs::read_dir(&here).map_err(cannot)? {
            let entry = entry.map_err(cannot)?;
            let path = folder.join(entry.file_name());
            let kind = entry.file_type().map_err(cannot)?;
            if kind.is_dir() {
                if entry.file_name() != "target" && entry.file_name() != ".git" {
                    folders.push(path);
                }
            } else if let Some(path) = path.to_str() {
                found.push(path.replace('\\', "/"));
            }
        }
    }
    Ok(found)
}
