//! Which protocols a test is about.

use namiki::{ConcurrencyControl, ProtocolSpec};

/// The durable ones under which others can change what a transaction has read, which then cannot commit. (Where
/// reads are locked, the others wait.)
#[must_use]
pub fn optimistic() -> Vec<ProtocolSpec> {
    let locks = |spec: &ProtocolSpec| spec.concurrency == ConcurrencyControl::TwoPhase;
    ProtocolSpec::all_durable()
        .into_iter()
        .filter(|spec| !locks(spec))
        .collect()
}
