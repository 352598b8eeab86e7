//! The clients of a run: tasks of one thread, each with a session and several groups in flight.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::time::{Duration, Instant};

use namiki_client::protocol::{Command, Outcome};
use namiki_client::{AsyncSession, ClientError, Group};
use namiki_platform::seeded_random::Random;

use super::fault_context::FaultEvent;
use super::gaps::Gaps;
use super::history::Recorder;
use super::image_times::CommandCounts;
use super::witness::Witness;
use super::workload::Plan;
use crate::error::BenchError;
use crate::latency::Latencies;

/// Time limit for a client, at the end of a run, to learn the outcomes that it does not know.
pub(super) const RESOLVE_TIMEOUT: Duration = Duration::from_secs(60);
/// Interval between checks for the end of the run.
pub(super) const INTERVAL: Duration = Duration::from_millis(50);

/// The shared state of a run's clients.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) plan: Plan,
    pub(super) witness: Witness,
    pub(super) gaps: Gaps,
    pub(super) counts: CommandCounts,
    /// Latencies of commands acknowledged in the timed part.
    pub(super) latencies: Latencies,
    pub(super) latency_sum: Duration,
    pub(super) groups_timed: u64,
    pub(super) commands_timed: u64,
    /// The start and end of the timed part.
    pub(super) timed_from: Option<Instant>,
    pub(super) timed_to: Option<Instant>,
    /// Whether clients must send nothing new.
    pub(super) is_over: bool,
    /// Interval between two groups of a client, if the rate is limited.
    pub(super) pace: Option<Duration>,
    /// The recorded operations of the workload `register`. The recorder outlives the clients, even
    /// failed ones.
    pub(super) recorder: Rc<RefCell<Recorder>>,
}

impl Shared {
    /// The longest time without any acknowledgement in the timed part, except around faults.
    pub(super) fn longest_gap_ms(&self, faults: &[FaultEvent]) -> f64 {
        let faults: Vec<Instant> = faults.iter().map(|fault| fault.at).collect();
        let timed = self.timed_from.zip(self.timed_to);
        let longest = timed.map(|timed| self.gaps.longest(timed, &faults));
        longest.unwrap_or_default().as_secs_f64() * 1e3
    }

    /// Records the answer to a group that was started at `begun`.
    pub(super) fn acknowledged(
        &mut self,
        commands: &[Command],
        outcomes: &[Outcome],
        begun: Instant,
    ) {
        let now = Instant::now();
        self.witness.acknowledge(commands, outcomes);
        self.gaps.acknowledged(now);
        self.counts.add(now, commands.len());
        if self.timed_from.is_some() && self.timed_to.is_none() {
            let latency = now.saturating_duration_since(begun);
            let ns = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
            self.latencies.add_ns(ns);
            self.latency_sum += latency;
            self.groups_timed += 1;
            self.commands_timed += commands.len() as u64;
        }
    }
}

/// A group in flight.
struct InFlight {
    slot: u32,
    commands: Vec<Command>,
    begun: Instant,
}

/// A client.
pub(super) struct Client {
    pub(super) number: u32,
    pub(super) session: AsyncSession,
    pub(super) shared: Rc<RefCell<Shared>>,
    pub(super) seed: u64,
}

impl Client {
    /// Sends groups until the run is over, and waits for the last answers.
    pub(super) async fn run(mut self) -> Result<(), BenchError> {
        let (pipeline, pace) = {
            let shared = self.shared.borrow();
            (shared.plan.pipeline, shared.pace)
        };
        let mut random = Random::stream(self.seed, u64::from(self.number));
        let mut free: Vec<u32> = (0..pipeline).rev().collect();
        let mut in_flight = HashMap::new();
        let mut version = 0;
        // A random delay, so that clients do not send at the same moment.
        let mut next = Instant::now() + pace.unwrap_or_default().mul_f64(random.unit());
        while !self.shared.borrow().is_over {
            let now = Instant::now();
            let (mut groups, mut kept) = (Vec::new(), Vec::new());
            while (pace.is_none() || now >= next)
                && let Some(slot) = free.pop()
            {
                // Under a rate limit, latency counts from the scheduled time, even if the command
                // is sent late.
                let begun = if pace.is_some() { next } else { now };
                next += pace.unwrap_or_default();
                version += 1;
                let plan = &self.shared.borrow().plan;
                let commands = plan.commands(self.number, slot, version, &mut random);
                groups.push(commands.clone());
                kept.push(InFlight {
                    slot,
                    commands,
                    begun,
                });
            }
            if !groups.is_empty() {
                let groups = self.session.submit_all(groups).await?;
                in_flight.extend(groups.into_iter().zip(kept));
                continue;
            }
            let until = now + INTERVAL;
            let until = if free.is_empty() || pace.is_none() {
                until
            } else {
                until.min(next)
            };
            if in_flight.is_empty() {
                tokio::time::sleep_until(until.into()).await;
            }
            let mut until = until;
            while let Some(group) = self.session.next_answered(until).await {
                free.push(self.take(group, &mut in_flight).await?);
                // Takes the answers that are available already.
                until = now;
            }
        }
        let give_up_at = Instant::now() + RESOLVE_TIMEOUT;
        while !in_flight.is_empty() {
            if let Some(group) = self.session.next_answered(give_up_at).await {
                self.take(group, &mut in_flight).await?;
            } else {
                let mut shared = self.shared.borrow_mut();
                for (_, group) in in_flight.drain() {
                    shared.witness.give_up(&group.commands);
                }
            }
        }
        Ok(())
    }

    /// Takes the results of an answered group. Returns its slot.
    async fn take(
        &mut self,
        group: Group,
        in_flight: &mut HashMap<Group, InFlight>,
    ) -> Result<u32, BenchError> {
        let outcomes = self.session.wait(group).await?;
        let Some(sent) = in_flight.remove(&group) else {
            return Err(ClientError::NoSuchGroup {
                group: group.number(),
            }
            .into());
        };
        let mut shared = self.shared.borrow_mut();
        shared.acknowledged(&sent.commands, &outcomes, sent.begun);
        Ok(sent.slot)
    }
}
