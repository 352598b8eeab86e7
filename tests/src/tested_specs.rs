//! The protocols of a test: those of [`ProtocolSpec::tested`], some of them, or more.

use namiki::{ConcurrencyControl, ProtocolSpec};

/// The durable protocols that validate reads: another transaction can change what a transaction has
/// read, which then cannot commit. (Where reads are locked, the other waits.)
#[must_use]
pub fn optimistic() -> Vec<ProtocolSpec> {
    let locks = |spec: &ProtocolSpec| spec.concurrency == ConcurrencyControl::TwoPhase;
    ProtocolSpec::tested()
        .into_iter()
        .filter(|spec| !locks(spec))
        .collect()
}

/// The durable protocols, and each concurrency control without a log.
#[must_use]
pub fn with_and_without_log() -> Vec<ProtocolSpec> {
    add_unlogged(ProtocolSpec::tested())
}

/// The given protocols, and each concurrency control without a log.
///
/// # Panics
/// Never: the names are valid.
#[must_use]
pub fn add_unlogged(mut specs: Vec<ProtocolSpec>) -> Vec<ProtocolSpec> {
    let unlogged = ["TT(NLR)+NOLOG", "SILO(NLR)+NOLOG", "S2PL(NLR)+NOLOG"];
    specs.extend(unlogged.map(|spec| spec.parse::<ProtocolSpec>().expect("it is a protocol")));
    specs
}
