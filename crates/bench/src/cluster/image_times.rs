//! When nodes write images of their tables, by `/metrics`, and what clients get done in the meantime.

use std::io::{self, Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;

use super::local_cluster::LocalCluster;
use crate::run_stages::quotient;

/// Interval between looks at the nodes. Every 50 ms, they took five nodes 1 % of two processors.
const INTERVAL: Duration = Duration::from_millis(200);
/// Time limit for a node to show its metrics.
const TIMEOUT: Duration = Duration::from_millis(500);
/// Length of a part of the run: the commands in it are counted together.
const PART: Duration = Duration::from_millis(10);

/// Lines of a node's metrics.
const WRITES: &str = "namiki_cluster_image_in_progress 1";
const LEADS: &str = "namiki_cluster_role{role=\"leader\"} 1";

/// Which nodes write an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Writer {
    /// None does.
    None,
    /// The leader does, others may.
    Leader,
    /// Only followers do.
    Followers,
    /// No node, or no leader, shows its metrics.
    Unknown,
}

impl Writer {
    /// According to the metrics of the nodes that show them.
    fn of(pages: &[String]) -> Self {
        let has = |page: &String, line: &str| page.lines().any(|it| it == line);
        let mut leaders = pages.iter().filter(|page| has(page, LEADS)).peekable();
        if leaders.peek().is_none() {
            Self::Unknown
        } else if leaders.any(|page| has(page, WRITES)) {
            Self::Leader
        } else if pages.iter().any(|page| has(page, WRITES)) {
            Self::Followers
        } else {
            Self::None
        }
    }
}

/// The images of a run.
#[derive(Debug, Default)]
pub(super) struct ImageTimes(Mutex<Vec<(Instant, Writer)>>);

/// The throughput while the leader writes images.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct DuringImages {
    /// The time of the timed part in which the leader wrote an image.
    pub(super) leader_image_seconds: f64,
    /// Commands per second in that time, over those while no node wrote one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tps_during_images_ratio: Option<f64>,
}

impl ImageTimes {
    /// Looks at the nodes of a cluster until the run is over. Does nothing if they show no metrics.
    pub(super) fn watch(&self, cluster: &LocalCluster, is_over: &AtomicBool) {
        let nodes = cluster.nodes.iter();
        let addresses: Vec<&str> = nodes.filter_map(|node| node.metrics.as_deref()).collect();
        if addresses.is_empty() {
            return;
        }
        while !is_over.load(Ordering::Relaxed) {
            let pages = addresses.iter().filter_map(|address| page_of(address).ok());
            let writer = Writer::of(&pages.collect::<Vec<_>>());
            self.note(Instant::now(), writer);
            std::thread::sleep(INTERVAL);
        }
    }

    fn note(&self, at: Instant, writer: Writer) {
        let mut times = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if times.last().is_none_or(|(_, before)| *before != writer) {
            times.push((at, writer));
        }
    }

    /// The throughput while the leader wrote images in this part of the run. `None` if the nodes have shown no metrics.
    pub(super) fn during(
        &self,
        counts: &CommandCounts,
        (from, to): (Instant, Instant),
    ) -> Option<DuringImages> {
        let times = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if times.is_empty() {
            return None;
        }
        let (mut leader, mut none) = ((0, 0), (0, 0));
        let mut next = 0;
        for (at, commands) in counts.parts() {
            let middle = at + PART / 2;
            while times.get(next).is_some_and(|(at, _)| *at <= middle) {
                next += 1;
            }
            let writer = next.checked_sub(1).and_then(|last| times.get(last));
            let sum = match writer.map_or(Writer::Unknown, |(_, writer)| *writer) {
                Writer::Leader => &mut leader,
                Writer::None => &mut none,
                Writer::Followers | Writer::Unknown => continue,
            };
            if at >= from && at + PART <= to {
                *sum = (sum.0 + 1, sum.1 + u64::from(commands));
            }
        }
        let per_part = |(parts, commands): (u64, u64)| quotient(commands as f64, parts as f64);
        let ratio = per_part(leader).zip(per_part(none));
        Some(DuringImages {
            leader_image_seconds: leader.0 as f64 * PART.as_secs_f64(),
            tps_during_images_ratio: ratio.and_then(|(during, without)| quotient(during, without)),
        })
    }
}

/// The metrics of a node, with the head of the answer.
fn page_of(address: &str) -> io::Result<String> {
    let mut addresses = address.to_socket_addrs()?;
    let address = addresses.next().ok_or(io::ErrorKind::NotFound)?;
    let mut stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    let request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    stream.write_all(request.as_bytes())?;
    let mut page = String::new();
    stream.read_to_string(&mut page)?;
    Ok(page)
}

/// Acknowledged commands in each hundredth of a second.
#[derive(Debug)]
pub(super) struct CommandCounts {
    begin: Instant,
    counts: Vec<u32>,
}

impl CommandCounts {
    pub(super) fn new(begin: Instant) -> Self {
        Self {
            begin,
            counts: Vec::new(),
        }
    }

    /// Counts commands that were acknowledged now.
    pub(super) fn add(&mut self, now: Instant, commands: usize) {
        let since = now.saturating_duration_since(self.begin);
        let part = (since.as_nanos() / PART.as_nanos()) as usize;
        if self.counts.len() <= part {
            self.counts.resize(part + 1, 0);
        }
        let commands = u32::try_from(commands).unwrap_or(u32::MAX);
        self.counts[part] = self.counts[part].saturating_add(commands);
    }

    /// The begin of each part, and its commands.
    fn parts(&self) -> impl Iterator<Item = (Instant, u32)> {
        let begins = (0_u32..).map(|part| self.begin + PART * part);
        begins.zip(self.counts.iter().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn throughput_is_compared_with_the_time_without_images() {
        let begin = Instant::now();
        let ms = |ms| begin + Duration::from_millis(ms);
        let mut counts = CommandCounts::new(begin);
        // A command in each millisecond, but half of it while the leader writes, and none while a follower does.
        for at in 0..1000 {
            match at {
                200..400 => counts.add(ms(at), (at % 2) as usize),
                600..700 => {}
                _ => counts.add(ms(at), 1),
            }
        }
        let times = ImageTimes::default();
        assert_eq!(times.during(&counts, (ms(0), ms(1000))), None);
        for (at, writer) in [
            (0, Writer::None),
            (200, Writer::Leader),
            (300, Writer::Leader),
            (400, Writer::None),
            (600, Writer::Followers),
            (700, Writer::Unknown),
            (800, Writer::None),
        ] {
            times.note(ms(at), writer);
        }
        let found = times.during(&counts, (ms(0), ms(1000))).unwrap();
        assert_eq!(found.tps_during_images_ratio, Some(0.5));
        assert!((found.leader_image_seconds - 0.2).abs() < 1e-9);
        let none = times.during(&counts, (ms(400), ms(1000))).unwrap();
        assert_eq!(none.tps_during_images_ratio, None);
    }

    #[test]
    fn images_of_the_leader_are_told_from_those_of_followers() {
        let page = |leads: u8, writes: u8| {
            format!(
                "namiki_cluster_role{{role=\"leader\"}} {leads}\nnamiki_cluster_image_in_progress {writes}\n"
            )
        };
        for (pages, writer) in [
            (vec![page(1, 0), page(0, 0)], Writer::None),
            (vec![page(0, 1), page(1, 1)], Writer::Leader),
            (vec![page(0, 1), page(1, 0)], Writer::Followers),
            (vec![page(0, 1), page(0, 0)], Writer::Unknown),
            (vec![], Writer::Unknown),
        ] {
            assert_eq!(Writer::of(&pages), writer);
        }
    }
}
