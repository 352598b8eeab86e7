//! Processor time of nodes and clients.

use std::collections::HashMap;
use std::time::Duration;

use super::local_cluster::{LocalCluster, cpu_seconds_of};
use crate::run_stages::quotient;

/// The processor time of the processes.
pub(super) struct CpuUse {
    began: HashMap<u32, f64>,
    last: HashMap<u32, f64>,
    own_began: f64,
    own_last: f64,
    wall: Duration,
    leader: Option<u32>,
    leader_seconds: PerSecond,
}

/// The processor time of a process in each second.
#[derive(Default)]
struct PerSecond {
    /// The time of the previous sample, and the processor time used until then.
    last: (Duration, f64),
    shares: Vec<f64>,
}

impl PerSecond {
    const SECOND: Duration = Duration::from_secs(1);

    /// Takes a sample, once each second is over.
    fn look(&mut self, wall: Duration, used: f64) {
        let (since, before) = self.last;
        let seconds = u32::try_from(self.shares.len()).unwrap_or(u32::MAX);
        if wall < Self::SECOND * seconds.saturating_add(1) {
            return;
        }
        let share = quotient(used - before, (wall - since).as_secs_f64());
        // A late sample fills the seconds that it missed.
        while (self.shares.len() as u64) < wall.as_secs() {
            self.shares.push(share.unwrap_or(0.0));
        }
        self.last = (wall, used);
    }
}

impl CpuUse {
    pub(super) fn begin(cluster: &LocalCluster, leader: Option<u32>) -> Self {
        let began = cluster.cpu_seconds();
        let own = cpu_seconds_of("self").unwrap_or(0.0);
        Self {
            leader,
            leader_seconds: PerSecond::default(),
            last: began.clone(),
            began,
            own_began: own,
            own_last: own,
            wall: Duration::ZERO,
        }
    }

    pub(super) fn look(&mut self, cluster: &LocalCluster, wall: Duration) {
        // A killed process keeps its last sample.
        self.last.extend(cluster.cpu_seconds());
        self.own_last = cpu_seconds_of("self").unwrap_or(self.own_last);
        self.wall = wall;
        let used = self.leader.and_then(|pid| self.used(pid));
        if let Some(used) = used {
            self.leader_seconds.look(wall, used);
        }
    }

    fn used(&self, pid: u32) -> Option<f64> {
        Some(self.last.get(&pid)? - self.began.get(&pid)?)
    }

    /// Use of all processors in each second, in percent, by the leader's node.
    pub(super) fn leader_percent(&self, cores: f64) -> Vec<f64> {
        let shares = self.leader_seconds.shares.iter();
        shares.map(|share| 100.0 * share / cores).collect()
    }

    /// Use of all processors, in percent: by the nodes, and by the clients.
    pub(super) fn percent(&self, cores: f64) -> (Option<f64>, Option<f64>) {
        let used = self.last.iter();
        let used = used.map(|(pid, last)| last - self.began.get(pid).unwrap_or(&0.0));
        let all = self.wall.as_secs_f64() * cores;
        let own = self.own_last - self.own_began;
        (
            quotient(100.0 * used.sum::<f64>(), all),
            quotient(100.0 * own, all),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_second_has_the_share_used_in_it() {
        let mut seconds = PerSecond::default();
        for (ms, used) in [
            (400, 0.1),
            (1000, 0.5),
            (1500, 0.6),
            (2020, 1.52),
            (4020, 3.52),
        ] {
            seconds.look(Duration::from_millis(ms), used);
        }
        let shares: Vec<f64> = seconds.shares.iter().map(|it| it * 100.0).collect();
        assert_eq!(
            shares.iter().map(|it| it.round()).collect::<Vec<_>>(),
            [50.0, 100.0, 100.0, 100.0]
        );
    }
}
