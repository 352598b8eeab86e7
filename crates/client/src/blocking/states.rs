//! The states of several nodes at one entry, to compare them while they serve.

use std::thread;
use std::time::{Duration, Instant};

use super::one_node::{HashAt, state_hash_at, status};
use crate::error::ClientError;
use crate::options::ClientOptions;

/// Timeout of a status request.
const STATUS_TIMEOUT: Duration = Duration::from_secs(2);
/// Time in which entries are counted, to choose one ahead.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// How far ahead that is, in these intervals: enough for the requests to arrive before.
const INTERVALS_AHEAD: u64 = 4;
/// Pause before another entry is tried, at first and at most.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// The states of nodes at one entry of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StatesAtEntry {
    /// The entry's LSN.
    pub lsn: u64,
    /// One for each node, in the order of the addresses.
    pub nodes: Vec<NodeState>,
}

/// The hash of a node's rows and sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeState {
    /// The node's number.
    pub node: u64,
    /// The hash.
    pub hash: u128,
}

impl StatesAtEntry {
    /// Whether all are the same.
    #[must_use]
    pub fn are_equal(&self) -> bool {
        (self.nodes.iter()).all(|it| it.hash == self.nodes[0].hash)
    }
}

/// Hashes the rows and sessions of the nodes at these addresses, all at the same entry, which all of them have to reach. Commands go on
/// meanwhile. A node takes one such hash at a time, and rests for nine times as long: `options.timeout` is for all attempts.
///
/// # Errors
/// [`ClientError::Node`] if one of them does not answer, or does not reach an entry of the others in time;
/// [`ClientError::OtherCluster`]; [`ClientError::NoAddress`].
pub fn states_at_one_entry(
    addresses: &[String],
    options: &ClientOptions,
) -> Result<StatesAtEntry, ClientError> {
    let deadline = Instant::now() + options.timeout;
    let mut pause = PAUSE_MIN;
    loop {
        let lsn = entry_ahead(addresses, options)?;
        let missed = match states_at(addresses, lsn, options, deadline)? {
            Ok(states) => return Ok(states),
            Err(missed) => missed,
        };
        if Instant::now() + pause >= deadline {
            return Err(missed);
        }
        thread::sleep(pause);
        pause = (2 * pause).min(PAUSE_MAX);
    }
}

/// An entry that no node has passed when a request arrives, and that all reach soon: if nothing is written, the last one.
fn entry_ahead(addresses: &[String], options: &ClientOptions) -> Result<u64, ClientError> {
    let options = ClientOptions {
        timeout: STATUS_TIMEOUT.min(options.timeout),
        ..options.clone()
    };
    let applied = || -> Result<u64, ClientError> {
        let statuses = of_each(addresses, |address| status(address, &options));
        let applied = statuses.into_iter().map(|it| Ok(it?.applied_lsn));
        let applied: Result<Vec<u64>, ClientError> = applied.collect();
        applied?.into_iter().max().ok_or(ClientError::NoAddress)
    };
    let before = applied()?;
    thread::sleep(LOOK_INTERVAL);
    let now = applied()?;
    Ok(now + INTERVALS_AHEAD * now.saturating_sub(before))
}

/// The states at this entry; or why one is missing: another entry may do then.
fn states_at(
    addresses: &[String],
    lsn: u64,
    options: &ClientOptions,
    deadline: Instant,
) -> Result<Result<StatesAtEntry, ClientError>, ClientError> {
    let options = ClientOptions {
        timeout: deadline.saturating_duration_since(Instant::now()),
        ..options.clone()
    };
    let answers = of_each(addresses, |address| state_hash_at(address, lsn, &options));
    let mut nodes = Vec::new();
    for (address, answer) in addresses.iter().zip(answers) {
        let missed = |why: String| {
            let address = address.clone();
            Ok(Err(ClientError::Node { address, why }))
        };
        match answer? {
            HashAt::Entry { node, hash } => nodes.push(NodeState { node, hash }),
            HashAt::Passed { applied } => {
                return missed(format!(
                    "it has applied entry {applied}, after the entry {lsn} that is compared"
                ));
            }
            HashAt::Behind { applied } => {
                return missed(format!(
                    "it has applied entry {applied}, and not yet the entry {lsn} that is compared"
                ));
            }
        }
    }
    Ok(Ok(StatesAtEntry { lsn, nodes }))
}

/// Asks each node in a thread of its own.
fn of_each<T: Send>(
    addresses: &[String],
    ask: impl Fn(&str) -> Result<T, ClientError> + Sync,
) -> Vec<Result<T, ClientError>> {
    thread::scope(|scope| {
        let asked: Vec<_> = (addresses.iter())
            .map(|address| scope.spawn(|| ask(address)))
            .collect();
        let answers = asked.into_iter().zip(addresses);
        let answers = answers.map(|(asked, address)| {
            asked.join().unwrap_or_else(|_| {
                let address = address.clone();
                let why = "the thread that asks it has panicked".to_owned();
                Err(ClientError::Node { address, why })
            })
        });
        answers.collect()
    })
}
