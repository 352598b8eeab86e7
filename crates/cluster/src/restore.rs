//! A new cluster from a backup: each of its nodes begins with the same image.
//!
//! A backup is a replica's directory, with the image of one entry. The nodes of the new cluster begin behind one entry more, which
//! they all have: it makes them the members, and ends the sessions, since clients of the old cluster are not those of the new.

use std::num::NonZeroU128;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use namiki::replica::{ImageCopy, ImageCopyError, PinnedImage, Replica};
use namiki::{Database, Error, Stamp};
use namiki_platform::disk::Disk;

use crate::config::NodeConfig;
use crate::image::rows::{ImageHead, ImageRowsError, put_rows, read_rows};
use crate::membership::Membership;
use crate::network::NodeId;
use crate::storage::{NodeIdentity, NodeStore, StoreError};

/// Bytes that are read from the backup at once.
const STRETCH_BYTES: usize = 1 << 20;

/// What a restored node begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restored {
    /// The last entry that the backup has.
    pub through: u64,
    /// Bytes that were copied.
    pub bytes: u64,
}

/// Why a node was not restored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RestoreError {
    /// A problem of the node's directory.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The directory has no backup.
    #[error(
        "{dir} has no backup of a cluster: name a directory that `namiki cluster backup` has written"
    )]
    NoBackup {
        /// The directory.
        dir: PathBuf,
    },
    /// The backup cannot be read.
    #[error("the backup in {dir} cannot be read")]
    Unreadable {
        /// The directory.
        dir: PathBuf,
        /// The cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// It cannot be copied.
    #[error("the backup cannot be copied: remove the node's directory, and try again")]
    Copy(#[from] ImageCopyError),
    /// The copy cannot be made a node's tables.
    #[error("the copy of the backup cannot be opened: remove the node's directory, and try again")]
    Tables(#[from] namiki::OpenError),
    /// The rows of the new cluster cannot be written into the copy.
    #[error("the copy of the backup cannot be written: remove the node's directory, and try again")]
    Image(#[from] Error),
    /// The rows of the old cluster in the copy are not valid.
    #[error(transparent)]
    Rows(RestoredRows),
    /// The number of the new cluster is one that the backup's cluster has, or one had before it. Its nodes may have votes and
    /// entries that the backup lacks. No copy of the backup is left.
    #[error(
        "the backup is of a cluster that has, or had, the number {cluster:032x}: choose a new one (openssl rand -hex 16), make it \
         `cluster` in the configurations of all nodes, remove the node's directory, and try again; to return a node that has lost \
         its directory to a cluster that runs, use namiki node init --replacement"
    )]
    SameCluster {
        /// The number.
        cluster: u128,
    },
}

/// The rows of the cluster's own in a backup are not valid.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct RestoredRows(#[from] ImageRowsError);

/// Creates the directory of a node of a new cluster, with the state of a backup. Every node of it has to be created from the same
/// one; the new cluster has a number of its own, which none of the clusters before it had.
///
/// # Errors
/// [`RestoreError`]. The node's directory is to be removed then; the backup is as it was.
pub fn restore_directory(
    config: &NodeConfig,
    backup: (&Arc<dyn Disk>, &Path),
    disk: Arc<dyn Disk>,
    mut on_progress: impl FnMut(u64, u64),
) -> Result<Restored, RestoreError> {
    let (from, dir) = backup;
    let unreadable = |source: Box<dyn std::error::Error + Send + Sync>| RestoreError::Unreadable {
        dir: dir.to_owned(),
        source,
    };
    let image = match PinnedImage::of_directory(from, dir) {
        Ok(Some(image)) => image,
        Ok(None) => {
            return Err(RestoreError::NoBackup {
                dir: dir.to_owned(),
            });
        }
        Err(error) => return Err(unreadable(Box::new(error))),
    };
    let identity = NodeIdentity {
        cluster: config.cluster,
        node: NodeId::first(config.node.number()),
        workers: config.workers,
    };
    let voters: Vec<NodeId> = config.members.iter().map(|member| member.id).collect();
    let mut bytes = 0;
    let fill = |disk: &Arc<dyn Disk>, tables: &Path| {
        let mut copy = ImageCopy::begin(Arc::clone(disk), tables, image.id())?;
        while let Some((file, offset)) = copy.wanted() {
            let read = image.read(file, offset, STRETCH_BYTES);
            let read = read.map_err(|error| unreadable(Box::new(error)))?;
            let file_bytes = image.file_bytes(file).unwrap_or(0);
            if !copy.put((file, offset), file_bytes, &read)? {
                let why = format!("file {file} ends at byte {offset}");
                return Err(unreadable(why.into()));
            }
            bytes += read.len() as u64;
            on_progress(bytes, image.len_bytes());
        }
        copy.finish()?;
        let restored = become_first_image(disk, tables, (&identity, &voters));
        if let Err(RestoreError::SameCluster { .. }) = restored {
            ImageCopy::remove_all(&**disk, tables)?;
        }
        restored
    };
    let backup = NonZeroU128::new(image.id());
    NodeStore::create_with_tables(disk, &config.directory, &identity, &voters, backup, fill)?;
    Ok(Restored {
        through: image.stamp().0,
        bytes,
    })
}

/// The entry behind the backup: these are the members, and there are no sessions.
fn become_first_image(
    disk: &Arc<dyn Disk>,
    tables: &Path,
    (identity, voters): (&NodeIdentity, &[NodeId]),
) -> Result<(), RestoreError> {
    let builder = Database::builder().disk(Arc::clone(disk));
    let replica = Replica::open(builder, tables)?;
    let rows = read_rows(&replica).map_err(|error| RestoreError::Rows(error.into()))?;
    let Some(mut state) = rows else {
        let dir = tables.to_owned();
        return Err(RestoreError::NoBackup { dir });
    };
    let cluster = identity.cluster;
    let clusters = state.head.clusters().clone().restored_to(cluster);
    let clusters = clusters.ok_or(RestoreError::SameCluster { cluster })?;
    state.sessions.close_all();
    let head = ImageHead::new(
        clusters,
        state.head.term + 1,
        Membership::new(voters),
        state.head.commands,
    );
    let next = Stamp(replica.applied_through().0 + 1);
    if let Err(error) = replica.pass(next) {
        unreachable!("it follows the last one: {error}");
    }
    put_rows(&replica, &head, &mut state.sessions);
    // The cluster of the backup goes on with that.
    replica.begin_history(identity.log_identity());
    replica.write_image(replica.view_for_image()?, |_| true)?;
    Ok(())
}
