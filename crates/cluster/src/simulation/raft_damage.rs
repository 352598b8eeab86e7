//! Damage to stream 0: what its disk has lost, a node may have promised.
//!
//! It is like a disk that goes back, except that the node is not told: it has to find the damage, and to remember it over its
//! starts. So it counts as one of the minority of disks that went back, until it has caught up.

use namiki_platform::disk::Disk;

use super::node::dir;
use super::world::World;
use crate::fault_injection::Fault;

/// Frames begin at multiples of this.
const BLOCK: usize = 512;
/// Frames at the end of a file that are not damaged. The last one cannot be told from a torn write, and may be one.
const SPARED: usize = 2;

impl World {
    /// Whether disks damage stream 0 in this run.
    pub(super) fn damages_raft_log(&self) -> bool {
        self.damages() || self.options.planted == Some(Fault::GoOnAfterDamage)
    }

    /// Whether stream 0 of a running node may be damaged: all nodes vote, and a minority has forgotten something.
    pub(super) fn can_forget(&self, node: usize) -> bool {
        let nodes = &self.nodes[..self.options.nodes];
        let others = nodes.iter().filter(|it| it.has_lost_promises()).count();
        let is_whole = !self.nodes[node].has_lost_promises() && !self.has_damaged_image();
        self.has_faults && is_whole && others < self.options.nodes / 2 && self.all_vote()
    }

    /// Damages a frame of stream 0 of a node that is down; `recent`: one of the last. Returns whether it did.
    pub(super) fn damage_raft_log(&mut self, node: usize, recent: bool) -> bool {
        let disk = &self.nodes[node].disk;
        let mut frames = Vec::new();
        for file in disk.list(&dir().join("log/0000")).unwrap_or_default() {
            let Ok(bytes) = disk.read(&file.path) else {
                continue;
            };
            let blocks = (0..bytes.len()).step_by(BLOCK);
            let found: Vec<usize> = blocks
                .filter(|at| bytes[*at..].starts_with(b"NLF1"))
                .collect();
            let damaged = found.iter().rev().skip(SPARED).rev();
            frames.extend(damaged.map(|at| (file.path.clone(), *at as u64)));
        }
        if recent {
            frames.drain(..frames.len().saturating_sub(4));
        }
        if frames.is_empty() {
            return false;
        }
        let (path, at) = &frames[self.damage.random.index(frames.len())];
        // In the header or behind it.
        let at = at + 4 + self.damage.random.below(80);
        let is_damaged = self.nodes[node].damage(path, at);
        if is_damaged {
            self.nodes[node].has_forgotten = true;
            self.report.damaged_raft_logs += 1;
        }
        is_damaged
    }
}
