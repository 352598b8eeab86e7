//! Breaks the leader again and again, and mends it.

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::local_cluster::LocalCluster;
use crate::args::seconds;
use crate::error::BenchError;

/// How often the end of the run is looked for.
const INTERVAL: Duration = Duration::from_millis(10);

/// What happens to the leader, and how often.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Fault {
    None,
    /// SIGKILL; it is started again later.
    Kill(Duration),
    /// SIGSTOP; it goes on later.
    Stop(Duration),
    /// Its links to all others are cut; they heal later.
    Cut(Duration),
}

impl FromStr for Fault {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "none" {
            return Ok(Self::None);
        }
        let example = "write none, or kill-leader:5s, stop-leader:5s, cut-leader:5s";
        let (what, every) = text.split_once(':').ok_or(example)?;
        let every = seconds(every.strip_suffix('s').unwrap_or(every))?;
        if every < Duration::from_secs(1) {
            return Err("faults come a second apart at least".to_owned());
        }
        match what {
            "kill-leader" => Ok(Self::Kill(every)),
            "stop-leader" => Ok(Self::Stop(every)),
            "cut-leader" => Ok(Self::Cut(every)),
            _ => Err(example.to_owned()),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, every) = match self {
            Self::None => return f.write_str("none"),
            Self::Kill(every) => ("kill", every),
            Self::Stop(every) => ("stop", every),
            Self::Cut(every) => ("cut", every),
        };
        write!(f, "{what}-leader:{}s", every.as_secs_f64())
    }
}

impl Fault {
    fn every(self) -> Option<Duration> {
        match self {
            Self::None => None,
            Self::Kill(every) | Self::Stop(every) | Self::Cut(every) => Some(every),
        }
    }

    fn begin(self, cluster: &LocalCluster, leader: u64) -> Result<(), BenchError> {
        let node = leader.to_string();
        match self {
            Self::None => Ok(()),
            Self::Kill(_) => cluster.run(["kill", &node]),
            Self::Stop(_) => cluster.run(["pause", &node]),
            Self::Cut(_) => {
                let mut others = cluster.nodes.iter().filter(|other| other.id != leader);
                others.try_for_each(|other| cluster.run(["cut", &format!("{leader}-{}", other.id)]))
            }
        }
    }

    fn end(self, cluster: &LocalCluster, leader: u64) -> Result<(), BenchError> {
        let node = leader.to_string();
        match self {
            Self::None => Ok(()),
            Self::Kill(_) => cluster.run(["restart", &node]),
            Self::Stop(_) => cluster.run(["resume", &node]),
            Self::Cut(_) => cluster.run(["heal"]),
        }
    }

    /// Breaks the leader every so often until the run ends, and mends it half-way to the next time. Returns when that was.
    pub(super) fn run(
        self,
        cluster: &LocalCluster,
        is_over: &AtomicBool,
    ) -> Result<Vec<Instant>, BenchError> {
        let mut faults = Vec::new();
        let Some(every) = self.every() else {
            return Ok(faults);
        };
        let begin = Instant::now();
        let wait_until = |at: Instant| {
            while Instant::now() < at && !is_over.load(Ordering::Relaxed) {
                std::thread::sleep(INTERVAL);
            }
            !is_over.load(Ordering::Relaxed)
        };
        for round in 1.. {
            if !wait_until(begin + every * round) {
                break;
            }
            // Without a leader there is nothing to break.
            let Some(leader) = cluster.leader() else {
                continue;
            };
            faults.push(Instant::now());
            let broken = self.begin(cluster, leader);
            wait_until(begin + every * round + every / 2);
            self.end(cluster, leader)?;
            broken?;
        }
        Ok(faults)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_come_back_as_they_went() {
        for text in [
            "none",
            "kill-leader:5s",
            "stop-leader:1.5s",
            "cut-leader:2s",
        ] {
            assert_eq!(text.parse::<Fault>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "kill",
            "kill-leader:0s",
            "drop-leader:5s",
            "kill-leader:x",
        ] {
            assert!(text.parse::<Fault>().is_err(), "{text}");
        }
    }
}
