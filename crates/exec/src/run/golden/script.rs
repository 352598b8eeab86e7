//! The text form of a script.
//!
//! ```text
//! # Comment.
//! table NAME rows N step N of N pad BYTES resident PAGE …
//! threads N
//! degree N
//! plan JSON, up to the end of the input
//! ---
//! output
//! ```

use std::num::NonZeroUsize;

use crate::plan::Plan;

/// A table of `rows` rows with `pad_bytes` of text. The column `next` of a row is `id * step`, modulo
/// `of`.
pub(super) struct TableOfScript {
    pub(super) name: String,
    pub(super) rows: i64,
    pub(super) step: i64,
    pub(super) of: i64,
    pub(super) pad_bytes: usize,
    /// Pages in the cache.
    pub(super) resident: Vec<u32>,
}

/// See the module.
pub(super) struct Script {
    /// Everything before the line of dashes.
    pub(super) input: String,
    /// Everything behind it.
    pub(super) output: String,
    pub(super) tables: Vec<TableOfScript>,
    pub(super) threads: NonZeroUsize,
    pub(super) degree: usize,
    pub(super) plan: Plan,
}

impl Script {
    pub(super) fn parse(text: &str) -> Self {
        let (input, output) = text.split_once("---\n").unwrap_or((text, ""));
        let (head, plan) = input.split_once("\nplan ").unwrap();
        let mut script = Self {
            input: input.to_owned(),
            output: output.to_owned(),
            tables: Vec::new(),
            threads: NonZeroUsize::MIN,
            degree: 1,
            plan: plan.parse().unwrap(),
        };
        for line in head.lines().filter(|line| !line.starts_with('#')) {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                [] => {}
                ["threads", threads] => script.threads = threads.parse().unwrap(),
                ["degree", degree] => script.degree = degree.parse().unwrap(),
                [
                    "table",
                    name,
                    "rows",
                    rows,
                    "step",
                    step,
                    "of",
                    of,
                    "pad",
                    pad,
                    "resident",
                    ref pages @ ..,
                ] => {
                    script.tables.push(TableOfScript {
                        name: name.to_owned(),
                        rows: rows.parse().unwrap(),
                        step: step.parse().unwrap(),
                        of: of.parse().unwrap(),
                        pad_bytes: pad.parse().unwrap(),
                        resident: pages.iter().map(|page| page.parse().unwrap()).collect(),
                    });
                }
                _ => panic!("{line}"),
            }
        }
        script
    }
}
