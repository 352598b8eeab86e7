//! The manifest of a node's directory: its identity, and its logs.
//!
//! One small file, `NODE`, replaced as a whole at every opening and orderly closing:
//!
//! ```text
//! namiki-node 4 crc32c=1a2b3c4d
//! { "cluster": "…", "node": 2, "incarnation": 1, "workers": 4, "voters": [1, 2, 3], "generations": [ … ], … }
//! ```
//! Its name differs from that of a database's manifest: a node is not opened as a database.

use std::io;
use std::num::NonZeroU128;
use std::path::{Path, PathBuf};

use namiki_log::{GenerationInfo, Layout, Placement, generations_contradiction};
use namiki_platform::Generation;
use namiki_platform::checked_text::{self, HeadError};
use namiki_platform::disk::Disk;
use serde::{Deserialize, Serialize};

use super::error::StoreError;
use super::node_identity::NodeIdentity;
use super::tables_folder::TablesFolder;
use crate::network::NodeId;

const KIND: &str = "namiki-node";
/// The format that this release writes, and the latest that it reads.
const FORMAT: u32 = 4;

/// The contents of the manifest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Manifest {
    /// In hexadecimal.
    cluster: String,
    /// Its number.
    node: u64,
    incarnation: u64,
    workers: u16,
    /// The backup that the cluster began with, in hexadecimal; empty: none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    backup: String,
    /// The voters that the cluster began with. Later changes are in the log.
    pub(super) voters: Vec<NodeId>,
    /// Where the tables are.
    #[serde(default)]
    pub(super) tables: TablesFolder,
    /// The logs, oldest first. All but the last are sealed.
    pub(super) generations: Vec<GenerationInfo>,
    /// The number that the next log gets.
    pub(super) next_generation: Generation,
    /// What the log has lost of votes and acknowledgements that the node may have given, as a sentence. A start does not go
    /// on without the answers of all other voters until what they know is back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) forgotten: Option<String>,
}

impl Manifest {
    /// The manifest of a new node.
    pub(super) fn new(
        identity: &NodeIdentity,
        voters: &[NodeId],
        backup: Option<NonZeroU128>,
    ) -> Self {
        Self {
            backup: backup.map_or_else(String::new, |backup| format!("{backup:032x}")),
            cluster: format!("{:032x}", identity.cluster),
            node: identity.node.number(),
            incarnation: identity.node.incarnation(),
            workers: identity.workers,
            voters: voters.to_vec(),
            tables: TablesFolder::default(),
            generations: Vec::new(),
            next_generation: Generation(1),
            forgotten: None,
        }
    }

    pub(super) fn path(dir: &Path) -> PathBuf {
        dir.join("NODE")
    }

    pub(super) fn identity(&self) -> NodeIdentity {
        let cluster = u128::from_str_radix(&self.cluster, 16);
        NodeIdentity {
            cluster: cluster.expect("checked when it was read"),
            node: NodeId::new(self.node, self.incarnation),
            workers: self.workers,
        }
    }

    /// The backup that the node's cluster began with.
    pub(super) fn backup(&self) -> Option<NonZeroU128> {
        let backup = u128::from_str_radix(&self.backup, 16);
        backup.ok().and_then(NonZeroU128::new)
    }

    /// Reads the manifest of a directory; `None` if it has none.
    pub(super) fn read(disk: &dyn Disk, dir: &Path) -> Result<Option<Self>, StoreError> {
        let path = Self::path(dir);
        match disk.read(&path) {
            Ok(bytes) => Self::decode(&bytes, &path).map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(StoreError::device("reading", &path, error)),
        }
    }

    /// Replaces the directory's manifest by this one, durably.
    pub(super) fn write(&self, disk: &dyn Disk, dir: &Path) -> Result<(), StoreError> {
        let path = Self::path(dir);
        let text = serde_json::to_string_pretty(self).expect("a manifest has only string keys");
        let text = checked_text::encode(KIND, FORMAT, &text);
        disk.replace(&path, text.as_bytes())
            .map_err(|source| StoreError::device("replacing", &path, source))
    }

    fn decode(bytes: &[u8], path: &Path) -> Result<Self, StoreError> {
        let damaged = |why: String| StoreError::DamagedManifest {
            path: path.to_owned(),
            why,
        };
        let text = match checked_text::decode(bytes, KIND, FORMAT) {
            Ok(text) => text,
            Err(error @ HeadError::Damaged { .. }) => return Err(damaged(error.to_string())),
            Err(HeadError::OtherFormat { found }) => {
                return Err(StoreError::OtherFormat {
                    path: path.to_owned(),
                    found,
                    known: FORMAT,
                });
            }
        };
        let manifest: Self =
            serde_json::from_str(text).map_err(|error| damaged(error.to_string()))?;
        match manifest.contradiction() {
            Some(why) => Err(damaged(why)),
            None => Ok(manifest),
        }
    }

    /// Inconsistencies that the checksum does not detect: a reason, or `None` if the contents are
    /// valid.
    fn contradiction(&self) -> Option<String> {
        if u128::from_str_radix(&self.cluster, 16).is_err() {
            return Some("its cluster is not a number".to_owned());
        }
        if !self.backup.is_empty() && self.backup().is_none() {
            return Some("its backup is not a number".to_owned());
        }
        if self.node > NodeId::MAX || !(1..=NodeId::MAX).contains(&self.incarnation) {
            let (node, incarnation) = (self.node, self.incarnation);
            return Some(format!("it is of node {node}, incarnation {incarnation}"));
        }
        if self.workers == 0 || self.workers == u16::MAX {
            return Some(format!("it has {} workers", self.workers));
        }
        for info in &self.generations {
            let generation = info.generation;
            if info.layout != Layout::PerWorker || info.streams != self.workers + 1 {
                return Some(format!(
                    "{generation} has {} streams for {} workers",
                    info.streams, self.workers
                ));
            }
            match info.placement {
                Placement::Files { log_file_bytes } if log_file_bytes <= u32::MAX.into() => {}
                _ => return Some(format!("{generation} is not in log files below 4 GiB")),
            }
        }
        generations_contradiction(&self.generations, self.next_generation)
    }
}

#[cfg(test)]
mod tests {
    use namiki_log::{CutRule, LogConfig};

    use super::*;

    const IDENTITY: NodeIdentity = NodeIdentity {
        cluster: 0xabc,
        node: NodeId::new(2, 3),
        workers: 2,
    };

    fn manifest() -> Manifest {
        let config = LogConfig {
            streams: 3.try_into().unwrap(),
            ..LogConfig::new(7, Generation(1))
        };
        Manifest {
            generations: vec![config.generation_info(CutRule::Stamp)],
            next_generation: Generation(2),
            ..Manifest::new(
                &IDENTITY,
                &[NodeId::first(1), NodeId::first(2)],
                NonZeroU128::new(7),
            )
        }
    }

    fn decode(manifest: &Manifest) -> Result<Manifest, StoreError> {
        let text = serde_json::to_string(manifest).unwrap();
        let text = checked_text::encode(KIND, FORMAT, &text);
        Manifest::decode(text.as_bytes(), Path::new("NODE"))
    }

    #[test]
    fn a_manifest_comes_back_with_its_identity() {
        let found = decode(&manifest()).unwrap();
        assert_eq!(found, manifest());
        assert_eq!(found.identity(), IDENTITY);
        assert_eq!(found.backup(), NonZeroU128::new(7));
    }

    #[test]
    fn senseless_manifests_are_damage_with_a_good_checksum() {
        type Spoil<'a> = &'a dyn Fn(&mut Manifest);
        let spoiled: &[(&str, Spoil<'_>)] = &[
            ("not a number", &|it| it.cluster = "x".to_owned()),
            ("its backup is not", &|it| it.backup = "0".to_owned()),
            ("incarnation 0", &|it| it.incarnation = 0),
            ("node 4294967296", &|it| it.node = 1 << 32),
            ("0 workers", &|it| it.workers = 0),
            ("65535 workers", &|it| it.workers = u16::MAX),
            ("3 streams for 3", &|it| it.workers = 3),
            ("3 streams for 2", &|it| {
                it.generations[0].layout = Layout::Single;
            }),
            ("below 4 GiB", &|it| {
                it.generations[0].placement = Placement::Files {
                    log_file_bytes: 1 << 32,
                };
            }),
            ("is to be next", &|it| it.next_generation = Generation(1)),
        ];
        for (expected, spoil) in spoiled {
            let mut manifest = manifest();
            spoil(&mut manifest);
            match decode(&manifest) {
                Err(StoreError::DamagedManifest { why, .. }) => {
                    assert!(why.contains(expected), "{expected}: {why}");
                }
                other => panic!("{expected}: {other:?}"),
            }
        }
    }
}
