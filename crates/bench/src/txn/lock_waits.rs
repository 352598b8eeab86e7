//! Waits for locks under strict two-phase locking: which policy is asked for, and what a row says of them.
//!
//! The other protocols lock at the commit only, and do not count how they wait: their rows say nothing here.
//!
//! Paper: pwal §5.4

use clap::ValueEnum;
use namiki::{ConcurrencyControl, LockCounters, ProtocolSpec, WaitPolicy};
use serde::Serialize;

/// What a transaction does when it wants a lock that another one has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Waiting {
    /// It waits, unless the other one is younger and waits, too: then that one is wounded.
    WoundWait,
    /// It aborts at once.
    NoWait,
}

impl Waiting {
    /// The engine's word for it.
    pub(crate) fn policy(self) -> WaitPolicy {
        match self {
            Self::WoundWait => WaitPolicy::WoundWait,
            Self::NoWait => WaitPolicy::NoWait,
        }
    }

    /// The flag's word for it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::WoundWait => "wound-wait",
            Self::NoWait => "no-wait",
        }
    }
}

/// The part of a row that only strict two-phase locking has.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct LockWaits {
    wait_policy: &'static str,
    /// How often a transaction parked for a lock.
    lock_waits: u64,
    /// How often one gave way to an older one.
    lock_wounds: u64,
    /// How often one had waited for so long that all others gave way to it.
    lock_promotions: u64,
    /// How often one waited before its first lock, because others had to give theirs up and enough had some.
    #[serde(rename = "lock_held_back")]
    lock_admission_waits: u64,
    /// The longest wait for a lock since the database was opened: load and warm-up are in it, as the engine
    /// keeps a maximum and not when it was. 0 without waits.
    lock_wait_us_max: f64,
}

impl LockWaits {
    /// What was counted between two looks; nothing of a protocol that does not lock what it reads.
    pub(crate) fn between(
        spec: ProtocolSpec,
        waiting: Waiting,
        before: &LockCounters,
        after: &LockCounters,
    ) -> Option<Self> {
        (spec.concurrency == ConcurrencyControl::TwoPhase).then(|| Self {
            wait_policy: waiting.name(),
            lock_waits: after.waits - before.waits,
            lock_wounds: after.wounds - before.wounds,
            lock_promotions: after.promotions - before.promotions,
            lock_admission_waits: after.admission_waits - before.admission_waits,
            lock_wait_us_max: after.longest_ns as f64 / 1e3,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_named_as_on_the_command_line() {
        for waiting in Waiting::value_variants() {
            let flag = waiting.to_possible_value().unwrap();
            assert_eq!(flag.get_name(), waiting.name());
        }
        assert_eq!(Waiting::WoundWait.policy(), WaitPolicy::default());
        assert_eq!(Waiting::NoWait.policy(), WaitPolicy::NoWait);
    }

    #[test]
    fn waits_are_of_the_run_and_the_longest_of_all() {
        let counters = |n: u64, longest_ns| LockCounters {
            waits: 5 * n,
            wounds: 4 * n,
            promotions: 3 * n,
            admission_waits: 2 * n,
            longest_ns,
            ..LockCounters::default()
        };
        let between = |spec: &str| {
            let (before, after) = (counters(1, 7_000), counters(3, 7_500));
            LockWaits::between(spec.parse().unwrap(), Waiting::NoWait, &before, &after)
        };
        let expected = LockWaits {
            wait_policy: "no-wait",
            lock_waits: 10,
            lock_wounds: 8,
            lock_promotions: 6,
            lock_admission_waits: 4,
            lock_wait_us_max: 7.5,
        };
        assert_eq!(between("S2PL(ELR)+PWAL(16)"), Some(expected));
        assert_eq!(between("SILO(ELR)+PWAL(16)"), None);
        assert_eq!(between("TT(NLR)+NOLOG"), None);
    }
}
