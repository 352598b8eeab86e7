//! `namiki cluster add`, `remove`, `move` and `replace`: members join a cluster that serves, leave it, get other addresses, or take
//! the place of a lost one. Here for nodes on other machines; `local/` makes their directories on this one.
//!
//! ```text
//! new directory ──> the node runs ──> the leader admits it as a learner ──> it catches up ──> it votes
//! ```
//! Every step can be repeated, so the same command completes an interrupted change.
//!
//! | file | contents |
//! |---|---|
//! | `add.rs`, `remove.rs`, `relocate.rs` | members that join, leave and move |
//! | `replace.rs` | a member that has lost its directory |
//! | `promotion.rs` | a new member on its way to its vote |

mod add;
mod promotion;
mod relocate;
mod remove;
mod replace;

use std::path::Path;
use std::time::Duration;

use namiki_client::ClientOptions;
use namiki_client::protocol::NodeAddresses;
use namiki_cluster::config::NodeConfig;

pub(crate) use self::add::add;
pub(crate) use self::promotion::add_and_wait;
pub(crate) use self::relocate::relocate;
pub(crate) use self::remove::{remove, remove_member};
pub(crate) use self::replace::replace;
use crate::failure::Failure;
use crate::node::{options_of, read_config};

/// Timeout of a status request to a node.
const TIMEOUT: Duration = Duration::from_secs(2);

/// A configuration, and the options of a client with its certificate.
fn configured(path: &Path) -> Result<(NodeConfig, ClientOptions), Failure> {
    let config = read_config(path)?;
    let options = ClientOptions {
        timeout: TIMEOUT,
        ..options_of(&config)?
    };
    Ok((config, options))
}

/// The addresses of a node in a configuration.
pub(crate) fn addresses_of(config: &NodeConfig, number: u64) -> Result<NodeAddresses, Failure> {
    let mut members = config.members.iter();
    let member = members.find(|it| it.id.number() == number);
    let member = member.ok_or(Failure::NotListed { node: number })?;
    Ok(member.addresses())
}
