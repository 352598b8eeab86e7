//! Injects faults into nodes repeatedly, and repairs them.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, Instant};

use namiki_platform::seeded_random::Random;

use super::away::be_away;
use super::fault_context::{FaultContext, FaultEvent, FaultReport};
use super::full_disk::wait_for_waiting_node;
use super::harmed_directory::{Part, damage, put_back};
use super::local_cluster::LocalCluster;
use super::namespaces::Namespaces;
use super::payload_frames::{choose, damage_frame, read_frames};
use super::rolling_restart;
use super::slow_disk::SlowDisk;
use super::small_disk::SmallDisk;
use crate::args::seconds;
use crate::error::BenchError;

/// Interval between looks at the leader.
const INTERVAL: Duration = Duration::from_millis(10);
/// Time limit for the election of a leader when the run is over.
const ELECTION_WAIT: Duration = Duration::from_secs(10);
/// Time before a follower goes away, and between two absences.
const AWAY_PAUSE: Duration = Duration::from_secs(1);

const EXAMPLE: &str = "write none, or one of kill-leader, stop-leader, cut-leader, kill-follower, stop-follower, cut-follower, \
                       break-leader, mixed, drop-leader, lose-follower, kill-and-lose, damage, damage-everywhere, put-back, grow, \
                       everything, restart-all, rolling-restart, away, slow-disk, full-disk, and how often: kill-leader:5s";

/// The kind of a fault, and its period.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Fault {
    pub(super) kind: Kind,
    every: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    None,
    /// One kind of harm to one node.
    Node(Harm, Victim),
    /// Any harm to the leader.
    BreakLeader,
    /// Any harm to any node.
    Mixed,
    /// The leader is killed, or another node loses its directory.
    KillAndLose,
    /// Data of any node is damaged: payloads, the image, or Raft's part of the log.
    Damage,
    /// Payloads are damaged on all nodes, each of them whole on some node.
    DamageEverywhere,
    /// A node is added, and removed later.
    Grow,
    /// Any of these: kill, stop, cut, lose, damage, put back, grow.
    Everything,
    /// Messages from the leader, to it, or both, are dropped.
    DropLeader,
    /// SIGKILL of all nodes at once, followed by a restart of all.
    RestartAll,
    /// One node after the other is stopped in good order and started.
    RollingRestart,
    /// A follower is down for as long as the period says.
    Away,
    /// The leader's disk is limited to a few writes per second.
    SlowDisk,
    /// The disk of the last node is full.
    FullDisk,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Harm {
    /// SIGKILL; the node is restarted later.
    Kill,
    /// SIGSTOP; the node is continued later.
    Stop,
    /// Its links to all others are cut; they are restored later.
    Cut,
    /// It is killed and its directory removed; a replacement takes its place later.
    Lose,
    /// It is killed and data in its directory damaged; it is restarted later.
    Damage(Part),
    /// It is killed and its directory replaced by an earlier copy; it is restarted later.
    PutBack,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Victim {
    Leader,
    Follower,
    Any,
}

/// The current fault.
enum Broken {
    Node(Harm, u64),
    All,
    AllDamaged,
    Links,
    SlowDisk(SlowDisk, u64),
    FullDisk(u64),
    Grown(u64),
}

const KINDS: [(&str, Kind); 21] = [
    ("kill-leader", Kind::Node(Harm::Kill, Victim::Leader)),
    ("stop-leader", Kind::Node(Harm::Stop, Victim::Leader)),
    ("cut-leader", Kind::Node(Harm::Cut, Victim::Leader)),
    ("kill-follower", Kind::Node(Harm::Kill, Victim::Follower)),
    ("stop-follower", Kind::Node(Harm::Stop, Victim::Follower)),
    ("cut-follower", Kind::Node(Harm::Cut, Victim::Follower)),
    ("break-leader", Kind::BreakLeader),
    ("mixed", Kind::Mixed),
    ("drop-leader", Kind::DropLeader),
    ("lose-follower", Kind::Node(Harm::Lose, Victim::Follower)),
    ("kill-and-lose", Kind::KillAndLose),
    ("damage", Kind::Damage),
    ("damage-everywhere", Kind::DamageEverywhere),
    ("put-back", Kind::Node(Harm::PutBack, Victim::Any)),
    ("grow", Kind::Grow),
    ("everything", Kind::Everything),
    ("restart-all", Kind::RestartAll),
    ("rolling-restart", Kind::RollingRestart),
    ("away", Kind::Away),
    ("slow-disk", Kind::SlowDisk),
    ("full-disk", Kind::FullDisk),
];

impl FromStr for Fault {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "none" {
            return Ok(Self::NONE);
        }
        let (what, every) = text.split_once(':').ok_or(EXAMPLE)?;
        let every = seconds(every.strip_suffix('s').unwrap_or(every))?;
        if every < Duration::from_secs(1) {
            return Err("faults come a second apart at least".to_owned());
        }
        let kind = KINDS.iter().find(|(name, _)| *name == what);
        let (_, kind) = *kind.ok_or(EXAMPLE)?;
        Ok(Self { kind, every })
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match KINDS.iter().find(|(_, kind)| *kind == self.kind) {
            Some((name, _)) => write!(f, "{name}:{}s", self.every.as_secs_f64()),
            None => f.write_str("none"),
        }
    }
}

impl Harm {
    fn name(self) -> &'static str {
        match self {
            Self::Kill => "kill",
            Self::Stop => "stop",
            Self::Cut => "cut",
            Self::Lose => "lose",
            Self::Damage(part) => part.name(),
            Self::PutBack => "put-back",
        }
    }

    fn begin(
        self,
        cluster: &LocalCluster,
        node: u64,
        random: &mut Random,
    ) -> Result<(), BenchError> {
        match self {
            Self::Kill => cluster.run(["kill", &node.to_string()]),
            Self::Stop => cluster.run(["pause", &node.to_string()]),
            Self::Lose => cluster.lose(node),
            Self::Damage(part) => {
                cluster.run(["kill", &node.to_string()])?;
                damage(&cluster.directory_of(node)?, part, random)
            }
            Self::PutBack => {
                cluster.run(["kill", &node.to_string()])?;
                put_back(&cluster.directory_of(node)?, &cluster.copy_of(node))
            }
            Self::Cut => {
                let mut others = cluster.nodes.iter().filter(|other| other.id != node);
                others.try_for_each(|other| cluster.run(["cut", &format!("{node}-{}", other.id)]))
            }
        }
    }

    fn end(self, cluster: &LocalCluster, node: u64) -> Result<&'static str, BenchError> {
        match self {
            Self::Kill => cluster.restart(node).map(|()| "restart"),
            // It heals while it serves.
            Self::Damage(_) | Self::PutBack => {
                cluster.restart(node)?;
                cluster.wait_until_whole(node).map(|()| "heal")
            }
            Self::Stop => cluster
                .run(["resume", &node.to_string()])
                .map(|()| "resume"),
            Self::Cut => cluster.run(["heal"]).map(|()| "heal"),
            Self::Lose => (cluster.run(["replace", &node.to_string()])).map(|()| "replace"),
        }
    }
}

impl Fault {
    pub(super) const NONE: Self = Self {
        kind: Kind::None,
        every: Duration::ZERO,
    };

    /// Injects a fault periodically until the run is over, and repairs it half-way to the next one.
    pub(super) fn run(
        self,
        context: FaultContext<'_>,
        seed: u64,
    ) -> Result<FaultReport, BenchError> {
        let mut report = FaultReport::default();
        if self.kind == Kind::None {
            return Ok(report);
        }
        let cluster = context.cluster;
        let mut random = Random::stream(seed, u64::MAX);
        let begin = Instant::now();
        // The last fault, and the term before it.
        let mut last: Option<(usize, u64)> = None;
        for round in 1.. {
            let due = match self.kind {
                Kind::Away => Instant::now() + AWAY_PAUSE,
                _ => begin + self.every * round,
            };
            if !context.sleep_until(due) {
                break;
            }
            if due.elapsed() > self.every {
                // The last repair has taken longer than a period.
                continue;
            }
            // Without a leader there is no target.
            let Some((leader, term)) = cluster.leader_and_term() else {
                continue;
            };
            note_election(&mut report.events, last, term);
            let before = report.events.len();
            let broken = self.begin(context, leader, &mut random, &mut report)?;
            // A rolling restart has several, and that of the leader is the last.
            let breaks = report.events.iter().rposition(|event| event.breaks);
            last = breaks.filter(|at| *at >= before).map(|at| (at, term));
            context.sleep_until(due + self.every / 2);
            end(broken, context, &mut report)?;
            if self.kind == Kind::Everything {
                // The next one may take another node.
                let mut nodes = cluster.nodes.iter();
                nodes.try_for_each(|node| cluster.wait_until_whole(node.id))?;
            }
        }
        let begin = Instant::now();
        while last.is_some() && begin.elapsed() < ELECTION_WAIT {
            if let Some((_, term)) = cluster.leader_and_term() {
                note_election(&mut report.events, last, term);
                break;
            }
            std::thread::sleep(INTERVAL);
        }
        Ok(report)
    }

    /// Selects the victims and the harm, and injects the fault.
    fn begin(
        self,
        context: FaultContext<'_>,
        leader: u64,
        random: &mut Random,
        report: &mut FaultReport,
    ) -> Result<Option<Broken>, BenchError> {
        let cluster = context.cluster;
        let all: Vec<u64> = cluster.nodes.iter().map(|node| node.id).collect();
        let any = |of: &[u64], random: &mut Random| of[random.below(of.len() as u64) as usize];
        let others: Vec<u64> = all.iter().copied().filter(|id| *id != leader).collect();
        let (harm, node) = match self.kind {
            Kind::None => return Ok(None),
            Kind::Node(harm, Victim::Leader) => (harm, leader),
            // A cluster of one has no followers.
            Kind::Node(_, Victim::Follower) if others.is_empty() => return Ok(None),
            Kind::Node(harm, Victim::Follower) => (harm, any(&others, random)),
            Kind::Node(harm, Victim::Any) => (harm, any(&all, random)),
            Kind::Damage => (Harm::Damage(Part::any(random)), any(&all, random)),
            Kind::Everything if !random.chance(0.1) => {
                let harm = match random.below(8) {
                    0 if !others.is_empty() => Harm::Lose,
                    0..3 => any_harm(random),
                    3..6 => Harm::Damage(Part::any(random)),
                    _ => Harm::PutBack,
                };
                (harm, any(&all, random))
            }
            Kind::Grow | Kind::Everything => {
                let new = all.last().copied().unwrap_or_default() + 1;
                report.note("add", &[new], true);
                cluster.run(["add", &new.to_string()])?;
                return Ok(Some(Broken::Grown(new)));
            }
            Kind::BreakLeader => (any_harm(random), leader),
            Kind::Mixed => (any_harm(random), any(&all, random)),
            Kind::KillAndLose if random.chance(0.5) || others.is_empty() => (Harm::Kill, leader),
            Kind::KillAndLose => (Harm::Lose, any(&others, random)),
            Kind::DropLeader => {
                let ways = [(true, false), (false, true), (true, true)];
                let (from, to) = ways[random.below(3) as usize];
                let what = match (from, to) {
                    (true, false) => "drop-from",
                    (false, _) => "drop-to",
                    _ => "drop-both",
                };
                report.note(what, &[leader], true);
                if let Some(namespaces) = &cluster.namespaces {
                    for other in others {
                        if from {
                            namespaces.drop_link(leader, other)?;
                        }
                        if to {
                            namespaces.drop_link(other, leader)?;
                        }
                    }
                }
                return Ok(Some(Broken::Links));
            }
            Kind::RestartAll => {
                report.note("kill", &all, true);
                cluster.kill_all()?;
                return Ok(Some(Broken::All));
            }
            Kind::DamageEverywhere => {
                report.note("damage-everywhere", &all, true);
                cluster.kill_all()?;
                report.frames_damaged += damage_everywhere(cluster, random)?;
                return Ok(Some(Broken::AllDamaged));
            }
            Kind::RollingRestart => {
                rolling_restart::go_round(context, report)?;
                return Ok(None);
            }
            Kind::Away if others.is_empty() => return Ok(None),
            Kind::Away => {
                let node = any(&others, random);
                be_away(context, node, leader, self.every, report)?;
                return Ok(None);
            }
            Kind::SlowDisk => {
                let process = cluster.process_of(leader).ok_or_else(|| {
                    let why = format!("node {leader} has no process, whose disk could be slow");
                    BenchError::Cluster(why)
                })?;
                let slow = SlowDisk::prepare(&cluster.dir)?;
                report.note("slow-disk", &[leader], true);
                slow.slow_down(process)?;
                return Ok(Some(Broken::SlowDisk(slow, leader)));
            }
            Kind::FullDisk => {
                let last = all.last().copied().unwrap_or_default();
                report.note("full-disk", &[last], true);
                context.small_disk.map_or(Ok(()), SmallDisk::fill)?;
                return Ok(Some(Broken::FullDisk(last)));
            }
        };
        report.note(harm.name(), &[node], true);
        harm.begin(cluster, node, random)?;
        Ok(Some(Broken::Node(harm, node)))
    }
}

/// A term after that of a fault means that a leader was elected because of it.
fn note_election(events: &mut [FaultEvent], last: Option<(usize, u64)>, term: u64) {
    if let Some((index, before)) = last
        && let Some(event) = events.get_mut(index)
    {
        event.elected = term > before;
    }
}

fn any_harm(random: &mut Random) -> Harm {
    [Harm::Kill, Harm::Stop, Harm::Cut][random.below(3) as usize]
}

/// Repairs the current fault.
fn end(
    broken: Option<Broken>,
    context: FaultContext<'_>,
    report: &mut FaultReport,
) -> Result<(), BenchError> {
    let cluster = context.cluster;
    let all = || cluster.nodes.iter().map(|node| node.id);
    match broken {
        None => Ok(()),
        Some(Broken::Node(harm, node)) => {
            let what = harm.end(cluster, node)?;
            report.note(what, &[node], false);
            Ok(())
        }
        Some(Broken::Grown(node)) => {
            cluster.run(["remove", &node.to_string()])?;
            report.note("remove", &[node], false);
            Ok(())
        }
        Some(Broken::All) => {
            cluster.start_all()?;
            report.note("start", &all().collect::<Vec<_>>(), false);
            Ok(())
        }
        Some(Broken::AllDamaged) => {
            cluster.start_all()?;
            all().try_for_each(|node| cluster.wait_until_whole(node))?;
            report.note("heal", &all().collect::<Vec<_>>(), false);
            Ok(())
        }
        Some(Broken::Links) => {
            cluster
                .namespaces
                .as_ref()
                .map_or(Ok(()), Namespaces::heal)?;
            report.note("heal", &[], false);
            Ok(())
        }
        Some(Broken::SlowDisk(slow, node)) => {
            slow.restore()?;
            report.note("fast-disk", &[node], false);
            Ok(())
        }
        Some(Broken::FullDisk(node)) => {
            report.waits_for_room += u64::from(wait_for_waiting_node(context, node)?);
            context.small_disk.map_or(Ok(()), SmallDisk::make_room)?;
            cluster.wait_until_whole(node)?;
            report.note("room", &[node], false);
            Ok(())
        }
    }
}

/// Damages payloads in the directories of all nodes, which are down. Returns the number of frames.
fn damage_everywhere(cluster: &LocalCluster, random: &mut Random) -> Result<u64, BenchError> {
    let (mut directories, mut frames) = (Vec::new(), Vec::new());
    for node in &cluster.nodes {
        let directory = cluster.directory_of(node.id)?;
        let read = read_frames(&directory).map_err(BenchError::file("read", &directory))?;
        frames.push(read);
        directories.push(directory);
    }
    let chosen = choose(&frames, random);
    for ((directory, frames), chosen) in directories.iter().zip(&frames).zip(&chosen) {
        for at in chosen {
            let damaged = damage_frame(&frames[*at], random);
            damaged.map_err(BenchError::file("damage", directory))?;
        }
    }
    let counts: Vec<usize> = chosen.iter().map(Vec::len).collect();
    eprintln!("frames damaged, by node: {counts:?}");
    Ok(counts.iter().map(|count| *count as u64).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_come_back_as_they_went() {
        assert_eq!("none".parse(), Ok(Fault::NONE));
        assert_eq!(Fault::NONE.to_string(), "none");
        for (name, _) in KINDS {
            for every in ["5s", "1.5s"] {
                let text = format!("{name}:{every}");
                assert_eq!(text.parse::<Fault>().unwrap().to_string(), text);
            }
        }
        for text in [
            "",
            "kill",
            "kill-leader",
            "kill-leader:0s",
            "shoot-leader:5s",
            "kill-leader:x",
        ] {
            assert!(text.parse::<Fault>().is_err(), "{text}");
        }
    }
}
