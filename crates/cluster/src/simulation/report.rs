//! Counts of a simulation.

/// Counts of a simulation in which all checks held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SimReport {
    /// Leaders that were elected.
    pub leaders: usize,
    /// Commands with outcomes that were acknowledged to clients.
    pub acknowledged: usize,
    /// Reads that were answered.
    pub reads: usize,
    /// Scans and counts that were answered.
    pub scans: usize,
    /// Reads that nodes have answered from their images, before their tables were in memory.
    pub reads_from_image: usize,
    /// Rows that were deleted.
    pub deletions: usize,
    /// Tables that were dropped.
    pub drops: usize,
    /// Entries with rows of a table that was dropped before.
    pub after_drop: usize,
    /// Sessions that another client has resumed.
    pub resumed: usize,
    /// Earlier groups that it has asked for.
    pub fates: usize,
    /// Sessions that were not opened, for lack of room.
    pub sessions_refused: usize,
    /// Sessions that were closed.
    pub sessions_closed: usize,
    /// Crashes and starts of nodes.
    pub crashes: usize,
    /// Disks that were full for a while.
    pub full_disks: usize,
    /// Attempts of writers that waited for room.
    pub waits_for_room: usize,
    /// Ticks in which a leader accepted only a part of the commands for lack of room, and in which it accepted none.
    pub slowed_ticks: [usize; 2],
    /// Nodes that have replaced lost ones, and vote.
    pub replacements: usize,
    /// Images that nodes have written.
    pub images: usize,
    /// Images of other nodes that were installed.
    pub installs: usize,
    /// Disks that went back to an earlier state.
    pub went_back: usize,
    /// Payloads that were damaged on a disk.
    pub damaged_payloads: usize,
    /// Damaged payloads that a running node has found.
    pub found_payloads: usize,
    /// Damaged files of images that a running node has found.
    pub found_files: usize,
    /// Times that stream 0 was damaged.
    pub damaged_raft_logs: usize,
    /// Starts of nodes that may have forgotten promises.
    pub forgetful_starts: usize,
    /// Starts of nodes with a damaged image.
    pub tables_lost: usize,
    /// Nodes that were added.
    pub additions: usize,
    /// Nodes that were removed, and not replaced.
    pub removals: usize,
    /// Entries of the log.
    pub entries: u64,
    /// Virtual time, in milliseconds.
    pub simulated_ms: u64,
    /// A hash of all events and their times: the same seed gives the same hash.
    pub trace: u64,
}

impl SimReport {
    /// Whether the run was substantial: a change of leader, and a hundred commands.
    #[must_use]
    pub fn counts(&self) -> bool {
        self.leaders >= 2 && self.acknowledged >= 100
    }

    /// Adds the counts of another run.
    #[cfg(test)]
    pub(super) fn add(&mut self, other: &Self) {
        let sums = [
            (&mut self.leaders, other.leaders),
            (&mut self.acknowledged, other.acknowledged),
            (&mut self.reads, other.reads),
            (&mut self.scans, other.scans),
            (&mut self.reads_from_image, other.reads_from_image),
            (&mut self.deletions, other.deletions),
            (&mut self.drops, other.drops),
            (&mut self.after_drop, other.after_drop),
            (&mut self.resumed, other.resumed),
            (&mut self.fates, other.fates),
            (&mut self.sessions_refused, other.sessions_refused),
            (&mut self.sessions_closed, other.sessions_closed),
            (&mut self.crashes, other.crashes),
            (&mut self.full_disks, other.full_disks),
            (&mut self.waits_for_room, other.waits_for_room),
            (&mut self.replacements, other.replacements),
            (&mut self.images, other.images),
            (&mut self.installs, other.installs),
            (&mut self.went_back, other.went_back),
            (&mut self.damaged_payloads, other.damaged_payloads),
            (&mut self.found_payloads, other.found_payloads),
            (&mut self.found_files, other.found_files),
            (&mut self.damaged_raft_logs, other.damaged_raft_logs),
            (&mut self.forgetful_starts, other.forgetful_starts),
            (&mut self.tables_lost, other.tables_lost),
            (&mut self.additions, other.additions),
            (&mut self.removals, other.removals),
        ];
        for (sum, count) in sums {
            *sum += count;
        }
        for (sum, count) in self.slowed_ticks.iter_mut().zip(other.slowed_ticks) {
            *sum += count;
        }
        self.entries += other.entries;
        self.simulated_ms += other.simulated_ms;
    }
}
