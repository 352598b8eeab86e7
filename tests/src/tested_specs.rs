//! Which protocols a test is about: those of [`ProtocolSpec::tested`], or some of them, or more.

use namiki::{ConcurrencyControl, ProtocolSpec};

/// The durable ones under which others can change what a transaction has read, which then cannot commit. (Where
/// reads are locked, the others wait.)
#[must_use]
pub fn optimistic() -> Vec<ProtocolSpec> {
    let locks = |spec: &ProtocolSpec| spec.concurrency == ConcurrencyControl::TwoPhase;
    ProtocolSpec::tested()
        .into_iter()
        .filter(|spec| !locks(spec))
        .collect()
}

/// The durable ones, and each concurrency control without a log.
#[must_use]
pub fn with_and_without_log() -> Vec<ProtocolSpec> {
    add_unlogged(ProtocolSpec::tested())
}

/// These, and each concurrency control without a log.
///
/// # Panics
/// Never: the names are right.
#[must_use]
pub fn add_unlogged(mut specs: Vec<ProtocolSpec>) -> Vec<ProtocolSpec> {
    let unlogged = ["TT(NLR)+NOLOG", "SILO(NLR)+NOLOG", "S2PL(NLR)+NOLOG"];
    specs.extend(unlogged.map(|spec| spec.parse::<ProtocolSpec>().expect("it is a protocol")));
    specs
}
