//! The nodes of a cluster, and what they answer.

use std::thread;
use std::time::Instant;

use namiki_client::protocol::{NodeStatus, Role};
use namiki_client::{ClientOptions, status};
use namiki_cluster::config::Member;
use namiki_cluster::transport::City;

/// State of a node's process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProcessState {
    Down,
    Running(u32),
    /// Stopped by a signal.
    Paused(u32),
}

impl ProcessState {
    pub(crate) fn pid(self) -> Option<u32> {
        match self {
            Self::Down => None,
            Self::Running(pid) | Self::Paused(pid) => Some(pid),
        }
    }
}

/// A node that is asked.
#[derive(Clone, Debug)]
pub(crate) struct Site {
    /// Its number, if it is known before it answers.
    pub(crate) number: Option<u64>,
    pub(crate) city: Option<City>,
    /// Its address for clients.
    pub(crate) address: String,
    /// Its process, if it is on this machine.
    pub(crate) process: Option<ProcessState>,
}

impl Site {
    /// The node at an address.
    pub(crate) fn at(address: &str) -> Self {
        Self {
            number: None,
            city: None,
            address: address.to_owned(),
            process: None,
        }
    }

    /// A member.
    pub(crate) fn of(member: &Member) -> Self {
        Self {
            number: Some(member.id.number()),
            city: member.city,
            address: member.client.clone(),
            process: None,
        }
    }
}

/// The observed state of a node at one time.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) site: Site,
    /// Its answer, or the reason for which it has not answered.
    pub(crate) answer: Result<NodeStatus, String>,
    pub(crate) at: Instant,
}

impl Seen {
    pub(crate) fn status(&self) -> Option<&NodeStatus> {
        self.answer.as_ref().ok()
    }

    /// Its number, if it is known.
    pub(crate) fn number(&self) -> Option<u64> {
        let answered = self.status().map(|status| status.node);
        self.site.number.or(answered)
    }

    pub(crate) fn is_leader(&self) -> bool {
        let status = self.status();
        status.is_some_and(|status| status.role == Role::Leader)
    }

    /// Its name in a sentence.
    pub(crate) fn name(&self) -> String {
        match self.number() {
            Some(number) => format!("node {number}"),
            None => format!("the node at {}", self.site.address),
        }
    }
}

/// Requests the state of all nodes at the same time.
pub(crate) fn look(sites: Vec<Site>, options: &ClientOptions) -> Vec<Seen> {
    let mut seen: Vec<Seen> = sites
        .into_iter()
        .map(|site| Seen {
            answer: match site.process {
                Some(ProcessState::Down) => Err("it does not run".to_owned()),
                Some(ProcessState::Paused(_)) => Err("it is paused".to_owned()),
                Some(ProcessState::Running(_)) | None => Err(String::new()),
            },
            site,
            at: Instant::now(),
        })
        .collect();
    thread::scope(|scope| {
        for seen in &mut seen {
            if matches!(seen.site.process, None | Some(ProcessState::Running(_))) {
                scope.spawn(move || {
                    seen.answer = ask(&seen.site, options);
                    seen.at = Instant::now();
                });
            }
        }
    });
    seen
}

/// Requests the state of these nodes, and of members that only the log knows, or at other addresses. Nodes that were removed are left
/// out, unless they answer.
pub(crate) fn look_at_members(sites: Vec<Site>, options: &ClientOptions) -> Vec<Seen> {
    let mut seen = look(sites, options);
    let Some(status) = latest(&seen).cloned() else {
        return seen;
    };
    let mut elsewhere = Vec::new();
    for member in status.members {
        let Some(addresses) = member.addresses else {
            continue;
        };
        // An address that is asked already leads to another node, or to none.
        let is_asked = seen.iter().any(|it| it.site.address == addresses.client);
        let of_node = seen.iter().position(|it| it.number() == Some(member.node));
        let answers = of_node.is_some_and(|at| seen[at].answer.is_ok());
        if is_asked || answers {
            continue;
        }
        let city = of_node.and_then(|at| seen.remove(at).site.city);
        elsewhere.push(Site {
            number: Some(member.node),
            city,
            ..Site::at(&addresses.client)
        });
    }
    let removed: Vec<u64> = status.removed.iter().map(|(number, _)| *number).collect();
    let is_removed = |seen: &Seen| seen.number().is_some_and(|it| removed.contains(&it));
    seen.retain(|seen| seen.answer.is_ok() || !is_removed(seen));
    seen.extend(look(elsewhere, options));
    seen.sort_by_key(Seen::number);
    seen
}

/// What was seen of the same node before: by its number, or by its address if one of the two did not answer. Nodes are added
/// and removed between two looks.
pub(super) fn earlier<'a>(before: &'a [Seen], seen: &Seen) -> Option<&'a Seen> {
    let number = seen.number();
    let is_same = |it: &&Seen| number.is_some() && it.number() == number;
    let is_there = |it: &&Seen| {
        let is_one_unknown = number.is_none() || it.number().is_none();
        is_one_unknown && it.site.address == seen.site.address
    };
    let by_number = before.iter().find(is_same);
    by_number.or_else(|| before.iter().find(is_there))
}

/// What the leader says, or else the node with the most recent log.
pub(crate) fn latest(seen: &[Seen]) -> Option<&NodeStatus> {
    let statuses = seen.iter().filter_map(Seen::status);
    leader(seen).or_else(|| statuses.max_by_key(|status| status.applied_lsn))
}

fn ask(site: &Site, options: &ClientOptions) -> Result<NodeStatus, String> {
    let answer = status(&site.address, options).map_err(|error| error.to_string())?;
    match site.number {
        Some(expected) if answer.node != expected => Err(format!(
            "node {} runs at {}; compare the key `client` of [[member]] with the machines",
            answer.node, site.address
        )),
        _ => Ok(answer),
    }
}

/// The leader, if there is one; among several, that of the latest term.
pub(crate) fn leader(seen: &[Seen]) -> Option<&NodeStatus> {
    let leaders = seen.iter().filter(|seen| seen.is_leader());
    leaders
        .filter_map(Seen::status)
        .max_by_key(|status| status.term)
}
