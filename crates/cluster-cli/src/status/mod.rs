//! `namiki cluster status`: the state of all nodes of a cluster, and whether it is healthy.
//!
//! | file | contents |
//! |---|---|
//! | `look.rs` | the nodes, and what they answer |
//! | `health.rs` | what is wrong |
//! | `table.rs`, `json.rs` | output for people and for programs |

mod health;
mod json;
mod look;
mod table;

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use namiki_client::ClientOptions;
use namiki_terminal::interrupt;

use self::health::{has_caught_up, problems};
use self::look::Seen;
pub(crate) use self::look::{Site, leader, look};
use self::table::table;
use crate::failure::{Failure, print};
use crate::local::{Cuts, LocalCluster};
use crate::node::{options_of, read_config};

/// Timeout of the answer of a node on another machine.
const REMOTE_TIMEOUT: Duration = Duration::from_secs(2);
/// Timeout of the answer of a node on this machine.
const LOCAL_TIMEOUT: Duration = Duration::from_millis(500);
/// Interval between two measurements, for the rate.
const INTERVAL: Duration = Duration::from_millis(1000);
const INTERVAL_ONCE: Duration = Duration::from_millis(300);
/// Time in which a node has to apply what was committed at its beginning. Otherwise it lags.
const LAG_TIMEOUT: Duration = Duration::from_secs(2);
/// Clears the terminal and moves the cursor to its top.
const CLEAR: &str = "\x1b[H\x1b[J";

const HELP: &str = "\
The exit status is 0 if the cluster is healthy: it has a leader, every member answers and votes, and each applies within
two seconds what was committed when the command began. Otherwise it is 1, and the problems are below the table.

  namiki cluster status                                        the cluster in the folder namiki-cluster
  namiki cluster status --config node.toml                     the members in any node's configuration
  namiki cluster status --endpoints 10.0.0.1:7500,10.0.0.2:7500,10.0.0.3:7500
  namiki cluster status --config node.toml --json              for a program

With certificates, --config is necessary, as it names them. With both, the nodes at the endpoints are asked.";

/// Arguments of `namiki cluster status`.
#[derive(Args, Debug)]
#[command(after_help = HELP)]
pub(crate) struct StatusArguments {
    /// For a cluster on several machines: the configuration of any node
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Addresses of all nodes for clients, with commas between them
    #[arg(long, value_name = "ADDRESSES", value_delimiter = ',')]
    endpoints: Option<Vec<String>>,
    /// Print one object in JSON instead of a table
    #[arg(long, conflicts_with = "watch")]
    json: bool,
    /// Refresh every second until Ctrl-C
    #[arg(long)]
    watch: bool,
}

/// The nodes that are asked.
enum Nodes {
    Local(LocalCluster),
    Remote {
        sites: Vec<Site>,
        options: ClientOptions,
    },
}

impl Nodes {
    fn of(arguments: &StatusArguments, dir: &Path) -> Result<Self, Failure> {
        let config = arguments.config.as_deref().map(read_config).transpose()?;
        let options = config.as_ref().map(options_of).transpose()?;
        let sites: Vec<Site> = match (&arguments.endpoints, &config) {
            (None, None) => return Ok(Self::Local(LocalCluster::open(dir)?)),
            (Some(endpoints), _) => endpoints.iter().map(|it| Site::at(it)).collect(),
            (None, Some(config)) => config.members.iter().map(Site::of).collect(),
        };
        Ok(Self::Remote {
            sites,
            options: ClientOptions {
                timeout: REMOTE_TIMEOUT,
                connect_timeout: REMOTE_TIMEOUT,
                ..options.unwrap_or_default()
            },
        })
    }

    fn look(&self) -> Result<Vec<Seen>, Failure> {
        Ok(match self {
            Self::Local(cluster) => look(cluster.sites()?, &cluster.within(LOCAL_TIMEOUT)),
            Self::Remote { sites, options } => look(sites.clone(), options),
        })
    }

    fn cuts(&self) -> Result<Cuts, Failure> {
        match self {
            Self::Local(cluster) => cluster.cuts(),
            Self::Remote { .. } => Ok(Cuts::new()),
        }
    }

    fn text(&self, before: &[Seen], now: &[Seen]) -> Result<String, Failure> {
        Ok(table(before, now, &problems(before, now), &self.cuts()?))
    }
}

/// Runs the command.
pub(crate) fn run(arguments: &StatusArguments, dir: &Path) -> Result<(), Failure> {
    let nodes = Nodes::of(arguments, dir)?;
    if arguments.watch {
        return watch(&nodes);
    }
    let (before, now) = look_twice(&nodes)?;
    if arguments.json {
        print(&json::text(&before, &now, &problems(&before, &now)))?;
    } else {
        print(&nodes.text(&before, &now)?)?;
    }
    match problems(&before, &now).len() {
        0 => Ok(()),
        problems => Err(Failure::NotHealthy { problems }),
    }
}

/// Prints the table of a cluster on this machine, healthy or not.
pub(crate) fn print_local(cluster: LocalCluster) -> Result<(), Failure> {
    let nodes = Nodes::Local(cluster);
    let (before, now) = look_twice(&nodes)?;
    print(&nodes.text(&before, &now)?)
}

/// Two looks, the second of which is late enough for nodes that do not lag.
fn look_twice(nodes: &Nodes) -> Result<(Vec<Seen>, Vec<Seen>), Failure> {
    let (begin, before) = (Instant::now(), nodes.look()?);
    loop {
        thread::sleep(INTERVAL_ONCE);
        let now = nodes.look()?;
        if has_caught_up(&before, &now) || begin.elapsed() >= LAG_TIMEOUT {
            return Ok((before, now));
        }
    }
}

/// Prints the table repeatedly until Ctrl-C.
fn watch(nodes: &Nodes) -> Result<(), Failure> {
    interrupt::listen_for_the_end();
    let terminal = std::io::stdout().is_terminal();
    let mut before = nodes.look()?;
    while interrupt::check().is_ok() {
        thread::sleep(INTERVAL);
        let now = nodes.look()?;
        let text = nodes.text(&before, &now)?;
        let clear = if terminal { CLEAR } else { "" };
        print(&format!("{clear}{text}\n"))?;
        before = now;
    }
    Ok(())
}
