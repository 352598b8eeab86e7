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
use namiki_platform::ErrorSentence;
use namiki_platform::disk::{Disk, open_best};
use namiki_terminal::interrupt;
use namiki_terminal::number_format::{bytes, grouped};

use crate::chosen_cluster::ChosenCluster;
use crate::failure::{Failure, device, print};
use crate::status::{Site, look};

/// Timeout of a status request.
const STATUS_TIMEOUT: Duration = Duration::from_secs(2);
/// Timeout of an answer of the node: it writes an image first.
const TIMEOUT: Duration = Duration::from_secs(600);

const HELP: &str = "\
The backup has everything that its node knew to be committed when the command began. That is the node of --node, or else the
follower that lags least; if it refuses or goes away, the next one. Commands go on during that time. Into the directory of an
earlier backup of the same node, only changed parts are copied, and the earlier backup stays until the new one is whole; without
--node, that node is found. To keep an earlier one, copy its directory by hard links before (cp -al): the files of a backup never
change. A node begins the next backup when nine times as long has passed as its image took: a command that comes earlier waits.

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
    #[command(flatten)]
    cluster: ChosenCluster,
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
    let (sites, options) = arguments.cluster.find(local)?;
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
    from_first(nodes, |(node, address)| {
        let source = BackupSource::begin(address, &options)?;
        copy(source, *node, arguments, Arc::clone(&disk))
    })
}

/// Backs up from the first node of which it succeeds. Failures that do not depend on the node are final.
fn from_first(
    nodes: Vec<(u64, String)>,
    mut back_up: impl FnMut(&(u64, String)) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut nodes = nodes.into_iter().peekable();
    while let Some(node) = nodes.next() {
        match (back_up(&node), nodes.peek()) {
            (Err(failure), Some((next, _))) if is_of_the_node(&failure) => {
                eprintln!(
                    "node {} was not backed up: {}; node {next} is tried",
                    node.0,
                    ErrorSentence(&failure)
                );
            }
            (outcome, _) => return outcome,
        }
    }
    Err(Failure::NoNodeAnswers)
}

/// Whether another node may be backed up nevertheless: this one refuses, has gone or sends a damaged image, or the earlier backup is
/// of another one.
fn is_of_the_node(failure: &Failure) -> bool {
    match failure {
        Failure::Client(_) | Failure::BackupEnds { .. } => true,
        Failure::NotBackedUp(error) => matches!(
            **error,
            ImageCopyError::OtherNode { .. }
                | ImageCopyError::NoImage { .. }
                | ImageCopyError::Damaged(_)
        ),
        _ => false,
    }
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

#[cfg(test)]
mod tests {
    use std::io;

    use namiki_client::ClientError;

    use super::*;

    fn gone() -> Failure {
        Failure::Client(ClientError::Node {
            address: "a:1".to_owned(),
            why: "the connection was closed".to_owned(),
        })
    }

    fn not_copied(error: ImageCopyError) -> Failure {
        Failure::NotBackedUp(Box::new(error))
    }

    /// Backs up with these failures of nodes 1, 2, and so on. Returns the nodes that were tried.
    fn tried(failures: Vec<Failure>, nodes: u64) -> (Vec<u64>, Result<(), Failure>) {
        let mut tried = Vec::new();
        let mut failures = failures.into_iter();
        let nodes = (1..=nodes).map(|node| (node, format!("a:{node}")));
        let outcome = from_first(nodes.collect(), |(node, _)| {
            tried.push(*node);
            failures.next().map_or(Ok(()), Err)
        });
        (tried, outcome)
    }

    #[test]
    fn the_next_node_is_tried_when_one_fails() {
        let dir = PathBuf::from("/backup");
        let other = not_copied(ImageCopyError::OtherNode { dir });
        let (nodes, outcome) = tried(vec![gone(), other], 3);
        assert_eq!(nodes, [1, 2, 3]);
        assert!(outcome.is_ok());
        let (nodes, outcome) = tried(vec![gone(), gone()], 2);
        assert_eq!(nodes, [1, 2]);
        assert!(matches!(outcome, Err(Failure::Client(_))));
        let (nodes, outcome) = tried(Vec::new(), 0);
        assert!(nodes.is_empty() && matches!(outcome, Err(Failure::NoNodeAnswers)));
    }

    #[test]
    fn a_failure_of_the_directory_is_final() {
        let path = || PathBuf::from("/backup");
        let source = io::Error::from(io::ErrorKind::StorageFull);
        for error in [
            ImageCopyError::InUse { dir: path() },
            ImageCopyError::Device {
                path: path(),
                source,
            },
        ] {
            let (nodes, outcome) = tried(vec![not_copied(error)], 3);
            assert_eq!(nodes, [1]);
            assert!(matches!(outcome, Err(Failure::NotBackedUp(_))));
        }
    }
}
