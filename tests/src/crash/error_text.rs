//! Errors with their causes, for failures of a sweep.

use std::collections::BTreeSet;

/// The error's message, and those of its sources.
pub(super) fn with_sources(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut seen = BTreeSet::new();
    let mut source = error.source();
    while let Some(inner) = source {
        if seen.insert(inner.to_string()) {
            text = format!("{text}: {inner}");
        }
        source = inner.source();
    }
    text
}
