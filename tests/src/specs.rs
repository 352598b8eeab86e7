//! Which protocols a test is about.

use namiki::{ConcurrencyControl, Spec};

/// The durable ones under which others can change what a transaction has read, which then cannot commit. (Where
/// reads are locked, the others wait.)
#[must_use]
pub fn optimistic() -> Vec<Spec> {
    let locks = |spec: &Spec| spec.concurrency == ConcurrencyControl::TwoPhase;
    Spec::all_durable()
        .into_iter()
        .filter(|spec| !locks(spec))
        .collect()
}
