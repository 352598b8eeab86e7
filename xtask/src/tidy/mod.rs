//! `cargo xtask tidy`: the project's rules that the compiler cannot check.
//!
//! Each rule is one file here, with its data at the top and with tests that violate it. A rule
//! examines the tree and returns its findings; nothing is ever changed.

mod commit_subjects;
mod core_module_layers;
mod crate_layers;
mod document_links;
mod error_messages;
mod file_lengths;
mod file_references;
mod import_cycles;
mod paper_table;
mod test_names;
mod test_only_features;
mod translated_sentences;
mod unfinished_marks;
mod unsafe_files;
mod vocabulary;

use std::fmt;
use std::path::Path;

use crate::repository_files::Tree;

/// A finding of a rule.
#[derive(Debug, PartialEq, Eq)]
struct Finding {
    path: String,
    /// The line, from 1; 0 for the whole file.
    line: usize,
    /// The problem and its remedy.
    advice: String,
}

impl Finding {
    fn new(path: &str, line: usize, advice: impl Into<String>) -> Self {
        Self {
            path: path.to_owned(),
            line,
            advice: advice.into(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path, self.advice),
            line => write!(f, "{}:{line}: {}", self.path, self.advice),
        }
    }
}

type Rule = fn(&Tree) -> Vec<Finding>;

/// The measurement of a rule, which is printed with or without findings.
type Measure = fn(&Tree) -> String;

const RULES: &[(&str, Rule)] = &[
    (
        "core's modules import only leftwards",
        core_module_layers::check,
    ),
    ("crates depend only downwards", crate_layers::check),
    ("unsafe code lives where it is listed", unsafe_files::check),
    ("the paper -> code table is true", paper_table::check),
    (
        "no files or folders import each other in a circle",
        import_cycles::check,
    ),
    (
        "features for tests stay out of programs",
        test_only_features::check,
    ),
    ("no file is too long", file_lengths::check),
    (
        "files and rules that comments name are there",
        file_references::check,
    ),
    ("links of documents lead somewhere", document_links::check),
    ("errors say their causes once", error_messages::check),
    (commit_subjects::RULE, commit_subjects::check),
    ("nothing unfinished is left behind", unfinished_marks::check),
    (
        "names of tests, and all others, are short",
        test_names::check,
    ),
    (
        translated_sentences::IN_RUST,
        translated_sentences::check_rust,
    ),
    (
        translated_sentences::IN_DOCUMENTS,
        translated_sentences::check_documents,
    ),
    ("names have the field's words", vocabulary::check),
];

/// Measurements, printed with the rule of the same name.
const MEASURED: &[(&str, Measure)] = &[
    (commit_subjects::RULE, commit_subjects::measure),
    (
        translated_sentences::IN_RUST,
        translated_sentences::measure_rust,
    ),
    (
        translated_sentences::IN_DOCUMENTS,
        translated_sentences::measure_documents,
    ),
];

/// Checks every rule, and prints the findings with their remedies.
pub(crate) fn run(root: &Path) -> Result<(), String> {
    let tree = Tree::read(root)?;
    let mut count = 0;
    for (rule, check) in RULES {
        let findings = check(&tree);
        let mark = if findings.is_empty() { "ok  " } else { "FAIL" };
        let measure = MEASURED.iter().find(|(measured, _)| measured == rule);
        let measured = measure.map(|(_, measure)| format!(": {}", measure(&tree)));
        println!("{mark} {rule}{}", measured.unwrap_or_default());
        for finding in &findings {
            println!("       {finding}");
        }
        count += findings.len();
    }
    match count {
        0 => {
            println!(
                "tidy: {} files, {} rules, nothing to do",
                tree.files.len(),
                RULES.len()
            );
            Ok(())
        }
        1 => Err("tidy: one thing to put right".to_owned()),
        _ => Err(format!("tidy: {count} things to put right")),
    }
}
