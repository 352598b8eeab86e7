//! The rows of the cluster's own in an image: what its entry leaves beside the clients' tables.
//!
//! ```text
//!   key                    value
//!   0                      format, clusters, term of the entry, members, commands so far
//!   1 | session, 8 bytes   one for each session, see `session.rs`
//! ```
//! Values are in the encoding of entries (postcard), numbers in keys big-endian. Rows are written when a view for an image is
//! opened: those that have changed since the last time.
//!
//! The clusters are those that this state was in, by number: a cluster that begins with a backup is another one than the backup's.

use namiki::Error;
use namiki::replica::{Replica, ReplicaView};
use namiki_client::protocol::SessionId;
use serde::{Deserialize, Serialize};

use crate::clusters::Clusters;
use crate::membership::Membership;
use crate::session::{Session, SessionTable};

const HEAD: &[u8] = &[0];
const SESSION: u8 = 1;
/// The format that this release writes, and the only one that it reads.
const FORMAT: u32 = 3;

/// What an image says of its entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ImageHead {
    format: u32,
    clusters: Clusters,
    /// The term of the entry.
    pub(crate) term: u64,
    /// The members after it.
    pub(crate) members: Membership,
    /// Commands in the entries through it.
    pub(crate) commands: u64,
}

/// The state of the cluster's own in an image.
#[derive(Debug)]
pub(crate) struct ImageState {
    pub(crate) head: ImageHead,
    pub(crate) sessions: SessionTable,
}

/// Why the rows of an image cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ImageRowsError {
    /// The rows cannot be read.
    #[error("cannot read the cluster's rows in the node's tables")]
    Read(#[from] Error),
    /// The image is another cluster's: a directory was put together from two.
    #[error(
        "the tables are those of cluster {found:032x}, and the node is of cluster {expected:032x}: replace the node"
    )]
    OtherCluster {
        /// The image's.
        found: u128,
        /// The node's.
        expected: u128,
    },
    /// A row is missing or makes no sense.
    #[error("the cluster's rows in the node's tables are not valid ({what}): replace the node")]
    Invalid {
        /// Which.
        what: &'static str,
    },
}

impl ImageHead {
    pub(crate) fn new(clusters: Clusters, term: u64, members: Membership, commands: u64) -> Self {
        Self {
            format: FORMAT,
            clusters,
            term,
            members,
            commands,
        }
    }

    /// The clusters that its state was in.
    pub(crate) fn clusters(&self) -> &Clusters {
        &self.clusters
    }
}

/// Writes the rows that have changed since the last call. Between two entries, and behind one at least.
pub(crate) fn put_rows(replica: &Replica, head: &ImageHead, sessions: &mut SessionTable) {
    let encoded = postcard::to_stdvec(head).expect("a head has no type that cannot be encoded");
    let changed = sessions.take_changed();
    let rows: Vec<(Vec<u8>, Option<Vec<u8>>)> = (changed.into_iter())
        .map(|(id, row)| (key_of(id), row))
        .collect();
    let rows = rows.iter().map(|(key, value)| (&key[..], value.as_deref()));
    let head = [(HEAD, Some(&encoded[..]))];
    replica.put_reserved(head.into_iter().chain(rows));
}

/// Reads the rows; `None` if the replica has no image.
///
/// # Errors
/// [`ImageRowsError`]
pub(crate) fn read_rows(replica: &Replica) -> Result<Option<ImageState>, ImageRowsError> {
    let at = replica.applied_through().0;
    if at == 0 {
        return Ok(None);
    }
    let view: ReplicaView = replica.view()?;
    let (mut head, mut invalid) = (None, None);
    let mut sessions = SessionTable::default();
    view.reserved(|key, value| match (key, key.split_first()) {
        (HEAD, _) => head = postcard::from_bytes::<ImageHead>(value).ok(),
        (_, Some((&SESSION, id))) => {
            let id = id.try_into().map(u64::from_be_bytes);
            match (id, Session::decode(value)) {
                (Ok(id), Some(row)) => sessions.put(SessionId(id), row),
                _ => invalid = Some("a session"),
            }
        }
        _ => invalid = Some("an unknown key"),
    })?;
    sessions.note_written(at);
    if let Some(what) = invalid {
        return Err(ImageRowsError::Invalid { what });
    }
    let head = head.filter(|head| head.format == FORMAT && head.members.is_sound());
    let head = head.ok_or(ImageRowsError::Invalid { what: "the head" })?;
    Ok(Some(ImageState { head, sessions }))
}

fn key_of(id: SessionId) -> Vec<u8> {
    let mut key = vec![SESSION];
    key.extend(id.0.to_be_bytes());
    key
}
