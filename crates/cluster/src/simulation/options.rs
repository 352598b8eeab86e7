//! Parameters of a simulation.

use namiki_platform::seeded_random::Random;

use super::small_logs::SmallLogs;
use crate::fault_injection::Fault;

/// Parameters of a simulation.
#[derive(Clone, Debug)]
pub struct SimOptions {
    /// Seed of all random decisions.
    pub seed: u64,
    /// Nodes.
    pub nodes: usize,
    /// Workers of each.
    pub workers: u16,
    /// Clients.
    pub clients: usize,
    /// Accounts: the fewer, the more conflicts.
    pub accounts: u64,
    /// Length of the phase with faults.
    pub faults_ms: u64,
    /// Logs have small limits: those of a minority, or all.
    pub small_logs: SmallLogs,
    /// Disks damage data at rest, and are not lost.
    pub damages: bool,
    /// Nodes join and leave: the cluster begins with one or three of them.
    pub changes_members: bool,
    /// Few sessions may be open, and some clients open and close them all the time.
    pub few_sessions: bool,
    /// Payloads become durable later than the records of their entries.
    pub slow_payloads: bool,
    /// An injected fault, to verify that it is found.
    pub planted: Option<Fault>,
}

impl SimOptions {
    /// The parameters that belong to a seed: 3 or 5 nodes, 1, 2 or 4 workers.
    #[must_use]
    pub fn of(seed: u64) -> Self {
        let mut random = Random::stream(seed, 1);
        Self {
            seed,
            nodes: 3 + 2 * random.index(2),
            workers: 1 << random.below(3),
            clients: 2 + random.index(4),
            accounts: 3 + random.below(12),
            faults_ms: 15_000,
            small_logs: SmallLogs::of(seed),
            damages: seed.is_multiple_of(3),
            changes_members: seed % 3 == 1,
            few_sessions: seed % 5 == 2,
            slow_payloads: false,
            planted: None,
        }
    }

    /// The same with an injected fault, and with the conditions alone under which it has an effect: others hide it.
    #[must_use]
    pub fn with_fault(self, fault: Fault) -> Self {
        let is_of_room = matches!(
            fault,
            Fault::PayloadsAheadFillLog | Fault::AcceptWithoutRoom
        );
        Self {
            damages: fault == Fault::ImagesFromLeaderOnly,
            small_logs: if is_of_room {
                SmallLogs::All
            } else {
                SmallLogs::None
            },
            few_sessions: matches!(fault, Fault::EvictSession | Fault::SessionsNotCounted),
            slow_payloads: fault == Fault::KeepPersisted,
            planted: Some(fault),
            ..self
        }
    }
}
