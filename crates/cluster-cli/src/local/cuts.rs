//! Cut links. A node keeps its cut links only in memory, so they are also recorded in a file, and a
//! restarted node is told.

use std::time::Duration;

use namiki_client::cut_links;

use super::layout::{LocalCluster, read, write};
use crate::failure::Failure;
use crate::status::{Links, ProcessState};

const TIMEOUT: Duration = Duration::from_secs(2);

/// A link between two nodes.
pub(super) fn link(one: u64, other: u64) -> (u64, u64) {
    (one.min(other), one.max(other))
}

impl LocalCluster {
    pub(super) fn cuts(&self) -> Result<Links, Failure> {
        let text = read(&self.cuts_path())?;
        let links = text.lines().filter_map(|line| {
            let (one, other) = line.split_once('-')?;
            Some(link(one.parse().ok()?, other.parse().ok()?))
        });
        Ok(links.collect())
    }

    /// Tells nodes that have started of the cut links, if there are any: they have none. (One that installs an image starts again,
    /// and may not answer now.)
    pub(super) fn repeat_cuts(&self) -> Result<(), Failure> {
        let cuts = self.cuts()?;
        if cuts.is_empty() {
            return Ok(());
        }
        self.set_cuts(&cuts)
    }

    /// Records the cut links, and tells the running nodes.
    pub(super) fn set_cuts(&self, cuts: &Links) -> Result<(), Failure> {
        let lines = cuts.iter().map(|(one, other)| format!("{one}-{other}\n"));
        write(&self.cuts_path(), &lines.collect::<String>())?;
        let mut failure = None;
        for node in &self.nodes {
            // A paused or stopped node is told later.
            if !matches!(node.process()?, ProcessState::Running(_)) {
                continue;
            }
            let others = cuts.iter().filter_map(|&(one, other)| match node.id {
                id if id == one => Some(other),
                id if id == other => Some(one),
                _ => None,
            });
            let told = cut_links(node.address(), others.collect(), &self.within(TIMEOUT));
            failure = failure.or(told.err());
        }
        failure.map_or(Ok(()), |failure| Err(failure.into()))
    }
}
