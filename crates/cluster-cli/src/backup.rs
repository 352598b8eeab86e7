//! `namiki cluster backup`: copies an image of one node, as of now, into a directory.

use std::collections::BTreeSet;
use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use namiki_client::protocol::Role;
use namiki_client::{BackupSource, ClientOptions};
use namiki_cluster::{ImageCopy, ImageCopyError};
use namiki_platform::disk::{Disk, open_best};
use namiki_terminal::interrupt;
use namiki_terminal::number_format::{bytes, grouped};

use crate::failure::{Failure, device, print};
use crate::node::{options_of, read_config};
use crate::status::{Site, look};

/// Timeout of a status request.
const STATUS_TIMEOUT: Duration = Duration::from_secs(2);
/// Timeout of an answer of the node: it writes an image first.
const TIMEOUT: Duration = Duration::from_secs(600);

const HELP: &str = "\
The backup has everything that its node knew to be committed when the command began. That is the node of --node, or else the
follower that lags least. Commands go on during that time. Into the directory of an earlier backup of the same node, only changed
parts are copied, and the earlier backup stays until the new one is whole; without --node, that node is found. To keep an earlier
one, copy its directory by hard links before (cp -al): the files of a backup never change. A node begins the next backup when nine
times as long has passed as its image took: a command that comes earlier waits.

Read it as a database: namiki check BACKUP, namiki tables BACKUP, namiki scan BACKUP TABLE, namiki export BACKUP ...
Restore it into a new cluster, with a new number as `cluster` in its configurations (openssl rand -hex 16):
namiki node init --config FILE --backup BACKUP for every node, each with the same backup; then start them.

  namiki cluster backup /backup/bank                                    the cluster in the folder namiki-cluster
  namiki cluster backup /backup/bank --config node.toml                 the members in any node's configuration
  namiki cluster backup /backup/bank --endpoints 10.0.0.1:7500,10.0.0.2:7500 --node 2";

/// Arguments of `namiki cluster backup`.
#[derive(Args, Debug)]
#[command(after_help = HELP)]
pub(crate) struct BackupArguments {
    /// The directory of the backup: a new one, or that of an earlier backup
    #[arg(value_name = "BACKUP")]
    backup: PathBuf,
    /// For a cluster on several machines: the configuration of any node
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Addresses of nodes for clients, with commas between them
    #[arg(long, value_name = "ADDRESSES", value_delimiter = ',')]
    endpoints: Option<Vec<String>>,
    /// The number of the node to copy
    #[arg(long, value_name = "N")]
    node: Option<u64>,
}

/// Runs the command. `local` finds the nodes of the cluster on this machine.
pub(crate) fn run(
    arguments: &BackupArguments,
    local: impl FnOnce() -> Result<(Vec<Site>, ClientOptions), Failure>,
) -> Result<(), Failure> {
    interrupt::listen();
    let config = arguments.config.as_deref().map(read_config).transpose()?;
    let options = config.as_ref().map(options_of).transpose()?;
    let (sites, options) = match (&arguments.endpoints, &config) {
        (None, None) => local()?,
        (Some(endpoints), _) => {
            let sites = endpoints.iter().map(|it| Site::at(it));
            (sites.collect(), options.unwrap_or_default())
        }
        (None, Some(config)) => {
            let sites = config.members.iter().map(Site::of);
            (sites.collect(), options.unwrap_or_default())
        }
    };
    let nodes = choose(arguments.node, sites, &options)?;
    let (disk, _) = {
        let parent = arguments.backup.parent();
        let parent = parent.filter(|it| !it.as_os_str().is_empty());
        open_best(parent.unwrap_or(std::path::Path::new(".")))
            .map_err(device("write to", &arguments.backup))?
    };
    let options = ClientOptions {
        timeout: TIMEOUT,
        ..options
    };
    let mut outcome = Err(Failure::NoNodeAnswers);
    for (node, address) in nodes {
        let source = BackupSource::begin(&address, &options)?;
        outcome = copy(source, node, arguments, Arc::clone(&disk));
        // The earlier backup may be of the next one.
        if !matches!(&outcome, Err(Failure::NotBackedUp(error)) if matches!(**error, ImageCopyError::OtherNode { .. }))
        {
            break;
        }
    }
    outcome
}

/// The nodes to copy from: the one that was asked for; or all that answer, the follower first that lags least, and the leader last.
fn choose(
    wanted: Option<u64>,
    sites: Vec<Site>,
    options: &ClientOptions,
) -> Result<Vec<(u64, String)>, Failure> {
    let options = ClientOptions {
        timeout: STATUS_TIMEOUT,
        connect_timeout: STATUS_TIMEOUT,
        ..options.clone()
    };
    let addresses: Vec<String> = sites.iter().map(|it| it.address.clone()).collect();
    let answers = look(sites, &options).into_iter().zip(addresses);
    let answers: Vec<_> = answers
        .filter_map(|(seen, address)| Some((seen.answer.ok()?, address)))
        .collect();
    let running: BTreeSet<u64> = answers.iter().map(|(status, _)| status.node).collect();
    let mut nodes = answers;
    nodes.retain(|(status, _)| wanted.is_none_or(|wanted| status.node == wanted));
    nodes.sort_by_key(|(status, _)| {
        let lag = u64::MAX - status.applied_lsn;
        (status.role != Role::Follower, lag, status.node)
    });
    match wanted {
        _ if !nodes.is_empty() => {
            let nodes = nodes.into_iter();
            Ok(nodes
                .map(|(status, address)| (status.node, address))
                .collect())
        }
        Some(wanted) if !running.is_empty() => Err(Failure::NoNode(wanted.to_string())),
        _ => Err(Failure::NoNodeAnswers),
    }
}

fn copy(
    mut source: BackupSource,
    node: u64,
    arguments: &BackupArguments,
    disk: Arc<dyn Disk>,
) -> Result<(), Failure> {
    let not_copied = |error: ImageCopyError| Failure::NotBackedUp(Box::new(error));
    let dir = std::path::absolute(&arguments.backup).map_err(device("find", &arguments.backup))?;
    let mut copy = ImageCopy::begin_beside(disk, &dir, source.image()).map_err(not_copied)?;
    let says = std::io::stderr().is_terminal();
    let mut copied = 0;
    while let Some((file, offset)) = copy.wanted() {
        interrupt::check()?;
        let (file_bytes, part) = source.read(file, offset)?;
        copied += part.len() as u64;
        let taken = copy
            .put((file, offset), file_bytes, &part)
            .map_err(not_copied)?;
        if !taken {
            return Err(Failure::BackupEnds { file, offset });
        }
        if says {
            eprint!("\r{} of at most {}  ", bytes(copied), bytes(source.bytes()));
        }
    }
    if says {
        eprintln!();
    }
    copy.finish().map_err(not_copied)?;
    print(&format!(
        "{} has the tables of node {node} through entry {}: {} copied of {}\n",
        dir.display(),
        grouped(source.lsn()),
        bytes(copied),
        bytes(source.bytes())
    ))
}
