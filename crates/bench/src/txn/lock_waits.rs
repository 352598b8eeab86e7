//! Lock waits under strict two-phase locking: the wait policy, and its counters in a row.
//!
//! The other protocols lock at commit only, and do not count their waits; their rows omit these
//! counters.
//!
//! Paper: pwal §5.4

use clap::ValueEnum;
use namiki::{ConcurrencyControl, LockCounters, ProtocolSpec, WaitPolicy};
use serde::Serialize;

/// The reaction of a transaction to a lock that another one holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Waiting {
    /// Wound-wait: it waits, or wounds a younger holder that is itself waiting.
    WoundWait,
    /// No-wait: it aborts immediately.
    NoWait,
}

impl Waiting {
    /// The engine's name for it.
    pub(crate) fn policy(self) -> WaitPolicy {
        match self {
            Self::WoundWait => WaitPolicy::WoundWait,
            Self::NoWait => WaitPolicy::NoWait,
        }
    }

    /// The flag's name for it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::WoundWait => "wound-wait",
            Self::NoWait => "no-wait",
        }
    }
}

/// The columns that only strict two-phase locking has.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct LockWaits {
    wait_policy: &'static str,
    /// Number of times that a transaction parked for a lock.
    lock_waits: u64,
    /// Number of transactions wounded by an older one.
    lock_wounds: u64,
    /// Number of transactions promoted because of a long wait: all others give way to these.
    lock_promotions: u64,
    /// Number of transactions delayed before their first lock by admission control: others had to
    /// give up their locks, and enough transactions held some.
    #[serde(rename = "lock_held_back")]
    lock_admission_waits: u64,
    /// The longest lock wait since the database was opened. Load and warm-up are included, because
    /// the engine keeps the maximum without its time. 0 without waits.
    lock_wait_us_max: f64,
}

impl LockWaits {
    /// The difference of two counter readings; `None` for a protocol that does not lock reads.
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
