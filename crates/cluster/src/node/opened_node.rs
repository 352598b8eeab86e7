//! A node's directory, opened: the tables of its last image, and the log behind that.

use std::path::Path;
use std::sync::Arc;

use namiki::replica::Replica;
use namiki_platform::disk::Disk;

use crate::failure::NodeFailure;
use crate::image::rows::{ImageState, read_rows};
use crate::storage::{
    LogPosition, NodeDir, NodeStore, Recovered, Snapshot, StoreError, StoreOptions,
};

/// What was found in a node's directory, to [start](super::Node::start) it from.
#[derive(Debug)]
pub struct OpenedNode {
    pub(crate) store: NodeStore,
    pub(crate) recovered: Recovered,
    pub(crate) replica: Replica,
    /// What its image says of the cluster; `None` without one.
    pub(crate) image: Option<ImageState>,
}

/// Why a node's directory cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// A problem of the directory or its log.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A problem of the tables.
    #[error(transparent)]
    Tables(#[from] NodeFailure),
}

impl OpenedNode {
    /// Opens a directory: first the image of the tables, then the log above its entry S.
    ///
    /// # Errors
    /// [`OpenError`]. Nothing that the node has is lost.
    pub fn open(disk: Arc<dyn Disk>, dir: &Path, options: StoreOptions) -> Result<Self, OpenError> {
        let of_tables = |error| NodeFailure::database("opening its tables", error);
        let node_dir = NodeDir::lock(disk, dir)?;
        let replica = node_dir.open_replica(&options).map_err(of_tables)?;
        let image = read_rows(&replica)
            .map_err(|error| NodeFailure::database("opening its tables", error))?;
        let snapshot = image.as_ref().map(|image| Snapshot {
            position: LogPosition {
                index: replica.applied_through().0,
                term: image.head.term,
            },
            members: image.head.members.encode(),
        });
        let options = StoreOptions {
            snapshot: snapshot.unwrap_or_default(),
            ..options
        };
        node_dir
            .remove_superseded_tables()
            .map_err(|error| NodeFailure::database("removing superseded tables", error))?;
        let (store, recovered) = node_dir.open_log(options)?;
        Ok(Self {
            store,
            recovered,
            replica,
            image,
        })
    }

    /// What the log has.
    #[must_use]
    pub fn recovered(&self) -> &Recovered {
        &self.recovered
    }
}
