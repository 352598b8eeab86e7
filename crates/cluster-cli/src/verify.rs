//! `namiki cluster verify`: compares the rows and sessions of all nodes at one entry, while they serve.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use clap::Args;
use namiki_client::{ClientOptions, StatesAtEntry, states_at_one_entry};
use namiki_terminal::number_format::grouped;

use crate::chosen_cluster::ChosenCluster;
use crate::failure::{Failure, print};
use crate::status::{Seen, Site, look_at_members};

/// Timeout of a status request.
const STATUS_TIMEOUT: Duration = Duration::from_secs(2);

const HELP: &str = "\
Each node hashes its rows and sessions as they are after one entry of the log, which is chosen a little ahead. Commands go on
meanwhile; a hash reads every row. The exit status is 0 if all nodes have the same, and otherwise 1, as when a member does not answer.

  namiki cluster verify                                        the cluster in the folder namiki-cluster
  namiki cluster verify --config node.toml                     the members, found by any node's configuration
  namiki cluster verify --endpoints 10.0.0.1:7500,10.0.0.2:7500,10.0.0.3:7500";

/// Arguments of `namiki cluster verify`.
#[derive(Args, Debug)]
#[command(after_help = HELP)]
pub(crate) struct VerifyArguments {
    #[command(flatten)]
    cluster: ChosenCluster,
    /// Give up after this time, in seconds
    #[arg(long, default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..))]
    timeout: u64,
}

/// Runs the command. `local` finds the nodes of the cluster on this machine.
pub(crate) fn run(
    arguments: &VerifyArguments,
    local: impl FnOnce() -> Result<(Vec<Site>, ClientOptions), Failure>,
) -> Result<(), Failure> {
    let (sites, options) = arguments.cluster.find(local)?;
    let briefly = ClientOptions {
        timeout: STATUS_TIMEOUT,
        connect_timeout: STATUS_TIMEOUT,
        ..options.clone()
    };
    let mut addresses = Vec::new();
    for seen in look_at_members(sites, &briefly) {
        addresses.push(address_of(seen)?);
    }
    let options = ClientOptions {
        timeout: Duration::from_secs(arguments.timeout),
        ..options
    };
    let states = states_at_one_entry(&addresses, &options)?;
    print(&table(&states))?;
    match differing(states.nodes.iter().map(|it| (it.node, it.hash))) {
        None => Ok(()),
        Some(nodes) => Err(Failure::NodesDiffer {
            lsn: states.lsn,
            nodes,
        }),
    }
}

fn address_of(seen: Seen) -> Result<String, Failure> {
    let name = seen.name();
    match seen.answer {
        Ok(_) => Ok(seen.site.address),
        Err(why) => Err(Failure::NotCompared { name, why }),
    }
}

fn table(states: &StatesAtEntry) -> String {
    let mut text = format!("entry {}\n", grouped(states.lsn));
    for it in &states.nodes {
        // Writing to a string does not fail.
        let _ = writeln!(text, "node {}  {:032x}", it.node, it.hash);
    }
    if states.are_equal() {
        let nodes = states.nodes.len();
        let _ = writeln!(
            text,
            "the nodes have the same rows and sessions, {nodes} in all"
        );
    }
    text
}

/// The nodes that differ from most others, in words; `None` if all are the same. `nodes`: numbers and hashes.
fn differing(nodes: impl IntoIterator<Item = (u64, u128)>) -> Option<String> {
    let mut by_hash = BTreeMap::<u128, Vec<u64>>::new();
    for (node, hash) in nodes {
        by_hash.entry(hash).or_default().push(node);
    }
    if by_hash.len() < 2 {
        return None;
    }
    let all: usize = by_hash.values().map(Vec::len).sum();
    let Some(most) = by_hash.values().find(|nodes| 2 * nodes.len() > all) else {
        return Some("no majority of the nodes has the same".to_owned());
    };
    let others = by_hash.values().filter(|nodes| *nodes != most);
    let mut others: Vec<u64> = others.flatten().copied().collect();
    others.sort_unstable();
    let names: Vec<String> = others.iter().map(|node| format!("node {node}")).collect();
    let verb = if names.len() == 1 {
        "differs"
    } else {
        "differ"
    };
    Some(format!("{} {verb} from most", names.join(" and ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nodes_that_differ_are_named() {
        let of = |hashes: &[u128]| differing((1..).zip(hashes.iter().copied()));
        assert_eq!(of(&[7]), None);
        assert_eq!(of(&[7, 7, 7]), None);
        assert_eq!(of(&[7, 8, 7]).unwrap(), "node 2 differs from most");
        let two = of(&[9, 7, 7, 8, 7]).unwrap();
        assert_eq!(two, "node 1 and node 4 differ from most");
        let none = of(&[7, 8]).unwrap();
        assert_eq!(none, "no majority of the nodes has the same");
    }
}
