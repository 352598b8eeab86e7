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

use std::collections::BTreeSet;
use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use namiki_client::ClientOptions;
use namiki_terminal::interrupt;

use self::health::{is_settled, problems};
pub(crate) use self::look::{ProcessState, Seen, Site, leader, look, look_at_members};
pub(crate) use self::table::aligned;
use self::table::table;
use crate::failure::{Failure, print};
use crate::node::{options_of, read_config};

/// Timeout of the answer of a node on another machine.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Interval between two measurements, for the rate.
const INTERVAL: Duration = Duration::from_millis(1000);
const INTERVAL_ONCE: Duration = Duration::from_millis(300);
/// Time for an election, and for nodes to apply what was committed at its beginning. A node that
/// needs longer lags.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(2);
/// Clears the terminal and moves the cursor to its top.
const CLEAR: &str = "\x1b[H\x1b[J";

const HELP: &str = "\
The exit status is 0 if the cluster is healthy: within two seconds it has a leader that every node follows, every member
answers and votes, and each has applied what was committed when the command began. Otherwise it is 1, and the problems
are below the table.

  namiki cluster status                                        the cluster in the folder namiki-cluster
  namiki cluster status --config node.toml                     the members, found by any node's configuration
  namiki cluster status --endpoints 10.0.0.1:7500,10.0.0.2:7500,10.0.0.3:7500
  namiki cluster status --config node.toml --json              for a program

Members that were added later are asked, too: the nodes know where they are. With certificates, --config is necessary, as it
names them. With both, the nodes at the endpoints are asked.";

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

/// Links between nodes: pairs of numbers, the lower one first.
pub(crate) type Links = BTreeSet<(u64, u64)>;

/// The nodes of a cluster, to be asked.
pub(crate) trait Nodes {
    /// Requests the state of all nodes at the same time.
    fn look(&self) -> Result<Vec<Seen>, Failure>;

    /// The links that are cut on purpose.
    fn cut_links(&self) -> Result<Links, Failure>;
}

/// Nodes on other machines.
struct Remote {
    sites: Vec<Site>,
    options: ClientOptions,
}

impl Remote {
    /// The nodes that are named, if any are.
    fn of(arguments: &StatusArguments) -> Result<Option<Self>, Failure> {
        let config = arguments.config.as_deref().map(read_config).transpose()?;
        let options = config.as_ref().map(options_of).transpose()?;
        let sites = match (&arguments.endpoints, &config) {
            (None, None) => return Ok(None),
            (Some(endpoints), _) => endpoints.iter().map(|it| Site::at(it)).collect(),
            (None, Some(config)) => config.members.iter().map(Site::of).collect(),
        };
        Ok(Some(Self {
            sites,
            options: ClientOptions {
                timeout: TIMEOUT,
                connect_timeout: TIMEOUT,
                ..options.unwrap_or_default()
            },
        }))
    }
}

impl Nodes for Remote {
    fn look(&self) -> Result<Vec<Seen>, Failure> {
        Ok(look_at_members(self.sites.clone(), &self.options))
    }

    fn cut_links(&self) -> Result<Links, Failure> {
        Ok(Links::new())
    }
}

/// Runs the command. `local` opens the cluster on this machine.
pub(crate) fn run<N: Nodes>(
    arguments: &StatusArguments,
    local: impl FnOnce() -> Result<N, Failure>,
) -> Result<(), Failure> {
    match Remote::of(arguments)? {
        Some(remote) => show(arguments, &remote),
        None => show(arguments, &local()?),
    }
}

fn show(arguments: &StatusArguments, nodes: &dyn Nodes) -> Result<(), Failure> {
    if arguments.watch {
        return watch(nodes);
    }
    let (before, now) = look_twice(nodes)?;
    let problems = problems(&before, &now);
    if arguments.json {
        print(&json::text(&before, &now, &problems))?;
    } else {
        print(&table(&before, &now, &problems, &nodes.cut_links()?))?;
    }
    match problems.len() {
        0 => Ok(()),
        problems => Err(Failure::NotHealthy { problems }),
    }
}

/// Prints the table of a cluster, healthy or not.
pub(crate) fn print_once(nodes: &dyn Nodes) -> Result<(), Failure> {
    let (before, now) = look_twice(nodes)?;
    let problems = problems(&before, &now);
    print(&table(&before, &now, &problems, &nodes.cut_links()?))
}

/// Two looks, the second of which is late enough for nodes that do not lag, and for an election.
fn look_twice(nodes: &dyn Nodes) -> Result<(Vec<Seen>, Vec<Seen>), Failure> {
    let (begin, before) = (Instant::now(), nodes.look()?);
    loop {
        thread::sleep(INTERVAL_ONCE);
        let now = nodes.look()?;
        if is_settled(&before, &now) || begin.elapsed() >= SETTLE_TIMEOUT {
            return Ok((before, now));
        }
    }
}

/// Prints the table repeatedly until Ctrl-C.
fn watch(nodes: &dyn Nodes) -> Result<(), Failure> {
    interrupt::listen_for_the_end();
    let terminal = std::io::stdout().is_terminal();
    let mut before = nodes.look()?;
    while interrupt::check().is_ok() {
        thread::sleep(INTERVAL);
        let now = nodes.look()?;
        let problems = problems(&before, &now);
        let text = table(&before, &now, &problems, &nodes.cut_links()?);
        let clear = if terminal { CLEAR } else { "" };
        print(&format!("{clear}{text}\n"))?;
        before = now;
    }
    Ok(())
}
