//! A node's directory, opened: the tables of its last image, and the log behind that.

use std::path::Path;
use std::sync::Arc;

use namiki::Error;
use namiki::replica::Replica;
use namiki_platform::disk::Disk;

use crate::failure::NodeFailure;
use crate::image::rows::{ImageRowsError, ImageState, read_rows};
use crate::membership::Membership;
use crate::storage::{
    LogPosition, NodeDir, NodeStore, Recovered, Snapshot, StoreError, StoreOptions, TablesFound,
};

/// What was found in a node's directory, to [start](super::Node::start) it from.
#[derive(Debug)]
pub struct OpenedNode {
    pub(crate) store: NodeStore,
    pub(crate) recovered: Recovered,
    pub(crate) replica: Replica,
    /// What its image says of the cluster; `None` without one.
    pub(crate) image: Option<ImageState>,
    /// Why the tables of the directory cannot be used, if so.
    pub(crate) damage: Option<Box<OpenError>>,
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
    /// If the image is damaged, the node starts without tables: the log is whole behind the last truncation. It votes and
    /// acknowledges, and installs an image of another node.
    ///
    /// # Errors
    /// [`OpenError`]. Nothing that the node has is lost.
    pub fn open(disk: Arc<dyn Disk>, dir: &Path, options: StoreOptions) -> Result<Self, OpenError> {
        let node_dir = NodeDir::lock(disk, dir)?;
        let (tables, mut damage) = match open_tables(&node_dir, &options) {
            Ok(tables) => (Some(tables), None),
            Err(TablesError::Damaged(error)) => (None, Some(Box::new(OpenError::Tables(error)))),
            Err(TablesError::Other(error)) => return Err(error.into()),
        };
        let snapshot = match &tables {
            Some((replica, Some(image))) => Snapshot {
                position: LogPosition {
                    index: replica.applied_through().0,
                    term: image.head.term,
                },
                members: image.head.members.encode(),
            },
            _ => Snapshot::default(),
        };
        let found = match tables {
            Some(_) => TablesFound::PerhapsOld,
            None => TablesFound::Lost,
        };
        let position = snapshot.position;
        let options = StoreOptions {
            snapshot,
            ..options
        };
        node_dir
            .remove_superseded_tables()
            .map_err(|error| NodeFailure::database("removing superseded tables", error))?;
        let (store, recovered) = node_dir.open_log(options, found)?;
        let is_alone = Membership::is_alone(
            (&recovered.snapshot.members, &recovered.founders),
            (recovered.commit, &recovered.entries),
        );
        if is_alone && !recovered.missing.is_empty() {
            let count = recovered.missing.len();
            return Err(NodeFailure::PayloadsLost { count }.into());
        }
        let (replica, image) = match tables {
            Some(tables) if !recovered.tables_lost => tables,
            _ => {
                let why = damage.take().unwrap_or_else(|| {
                    let lost = StoreError::SnapshotLost {
                        dir: dir.to_owned(),
                        needed: recovered.snapshot.position,
                        found: position,
                    };
                    Box::new(OpenError::Store(lost))
                });
                if is_alone {
                    return Err(*why);
                }
                damage = Some(why);
                let empty = Replica::in_memory();
                let failed = |error| NodeFailure::database("starting without tables", error);
                (empty.map_err(failed)?, None)
            }
        };
        Ok(Self {
            store,
            recovered,
            replica,
            image,
            damage,
        })
    }

    /// What the log has.
    #[must_use]
    pub fn recovered(&self) -> &Recovered {
        &self.recovered
    }
}

enum TablesError {
    /// Another node's image can take their place.
    Damaged(NodeFailure),
    Other(NodeFailure),
}

/// Opens the tables, and reads what their image says of the cluster.
fn open_tables(
    node_dir: &NodeDir,
    options: &StoreOptions,
) -> Result<(Replica, Option<ImageState>), TablesError> {
    let replica = node_dir.open_replica(options).map_err(|error| {
        let is_damaged = error.is_damaged_image();
        TablesError::of(
            is_damaged,
            NodeFailure::database("opening its tables", error),
        )
    })?;
    let image = read_rows(&replica).map_err(|error| {
        let is_damaged = matches!(error, ImageRowsError::Read(Error::TableNotLoaded { .. }));
        TablesError::of(
            is_damaged,
            NodeFailure::database("opening its tables", error),
        )
    })?;
    let identity = node_dir.identity();
    // An image of another node may have been installed.
    replica.begin_history(identity.log_identity());
    if let Some(image) = &image {
        let (found, expected) = (image.head.clusters().now(), identity.cluster);
        if found != expected {
            let error = ImageRowsError::OtherCluster { found, expected };
            let failure = NodeFailure::database("opening its tables", error);
            return Err(TablesError::Other(failure));
        }
    }
    Ok((replica, image))
}

impl TablesError {
    fn of(is_damaged: bool, failure: NodeFailure) -> Self {
        if is_damaged {
            Self::Damaged(failure)
        } else {
            Self::Other(failure)
        }
    }
}
