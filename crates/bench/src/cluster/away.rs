//! A follower that is away for a while: how much it has missed, when it answers again, and how long it takes to come back.
//!
//! Its log of lines says when it began to copy an image, and when that took the place of its tables. A node copies none
//! if its log suffices.

use std::fs;
use std::ops::Range;
use std::path::Path;
use std::time::{Duration, Instant};

use super::fault_context::{Absence, FaultContext, FaultReport};
use super::local_cluster::LocalCluster;
use crate::error::BenchError;
use crate::run_stages::quotient;

/// Time limit for a node to come back, besides the time for which it was away.
const BACK_TIMEOUT: Duration = Duration::from_secs(600);
/// The lines of a node's log at the begin and the end of a copy.
const COPY_BEGINS: &str = "copies an image of another node";
const COPY_ENDS: &str = "the tables have been replaced by an image";
const MS_PER_DAY: u64 = 24 * 3600 * 1000;

/// Kills a follower, and starts it again after a time, or when the run is over.
pub(super) fn be_away(
    context: FaultContext<'_>,
    node: u64,
    leader: u64,
    time: Duration,
    report: &mut FaultReport,
) -> Result<(), BenchError> {
    let cluster = context.cluster;
    let before = commands_applied(cluster, leader);
    report.note("away", &[node], true);
    cluster.run(["kill", &node.to_string()])?;
    let gone = Instant::now();
    context.sleep_until(gone + time);
    let commands = commands_applied(cluster, leader).saturating_sub(before);
    let seconds = gone.elapsed().as_secs_f64();
    let log = cluster.log_of(node)?;
    let said_before = fs::metadata(&log).map_or(0, |it| it.len());
    let begin = Instant::now();
    let (start, back) = cluster.watched(node)?.watch(|| {
        cluster.restart(node)?;
        let timeout = BACK_TIMEOUT + time;
        let entry = cluster.wait_until_has(node, None, |it| it.persisted_lsn, timeout)?;
        let has_log = begin.elapsed();
        cluster.wait_until_has(node, Some(entry), |it| it.applied_lsn, timeout)?;
        Ok::<_, BenchError>([has_log, begin.elapsed()])
    });
    let [has_log_ms, back_ms] = back?.map(|it| it.as_secs_f64() * 1e3);
    report.note("back", &[node], false);
    let image_copy_ms = copy_ms(&said_since(&log, said_before)?);
    report.absences.push(Absence {
        commands,
        seconds,
        start,
        has_log_ms,
        back_ms,
        image_copy_ms,
        log_to_copy_ratio: image_copy_ms.and_then(|copy| quotient(has_log_ms, copy)),
        back_to_copy_ratio: image_copy_ms.and_then(|copy| quotient(back_ms, copy)),
    });
    Ok(())
}

/// Commands that a node has applied since it started; 0 if it does not answer.
fn commands_applied(cluster: &LocalCluster, node: u64) -> u64 {
    let mut statuses = cluster.statuses().into_iter();
    let status = statuses.find(|status| status.node == node);
    status.map_or(0, |status| status.commands_applied)
}

/// What was written to a log after its first bytes.
fn said_since(log: &Path, bytes: u64) -> Result<String, BenchError> {
    let all = fs::read(log).map_err(BenchError::file("read", log))?;
    let since = usize::try_from(bytes).ok().and_then(|from| all.get(from..));
    Ok(String::from_utf8_lossy(since.unwrap_or_default()).into_owned())
}

/// The time of all copies of images.
fn copy_ms(said: &str) -> Option<f64> {
    let (mut begun, mut sum) = (None, None);
    for line in said.lines() {
        if line.contains(COPY_BEGINS) {
            // An offer after a failure goes on with the files that are there.
            begun = begun.or(ms_of_day(line));
        } else if line.contains(COPY_ENDS)
            && let (Some(begin), Some(end)) = (begun.take(), ms_of_day(line))
        {
            let ms = (end + MS_PER_DAY - begin) % MS_PER_DAY;
            sum = Some(sum.unwrap_or(0.0) + ms as f64);
        }
    }
    sum
}

/// The time of day of a line, in milliseconds: `2026-03-01T09:30:00.123Z …`.
fn ms_of_day(line: &str) -> Option<u64> {
    let (_, time) = line.split_once('T')?;
    let number = |range: Range<usize>| time.get(range)?.parse::<u64>().ok();
    let seconds = number(0..2)? * 3600 + number(3..5)? * 60 + number(6..8)?;
    Some(seconds * 1000 + number(9..12)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_copy_ends_when_it_replaces_the_tables() {
        let said = "2026-03-01T23:59:58.900Z INFO the node runs node=1\n\
                    2026-03-01T23:59:59.900Z INFO copies an image of another node, which has what this one lacks node=2\n\
                    2026-03-02T00:00:00.100Z INFO copies an image of another node, which has what this one lacks node=3\n\
                    2026-03-02T00:00:01.250Z INFO the node starts again: the tables have been replaced by an image of another node\n";
        assert_eq!(copy_ms(said), Some(1350.0));
        assert_eq!(copy_ms("2026-03-01T23:59:58.900Z INFO the node runs"), None);
        let first = said.lines().take(3).collect::<Vec<_>>().join("\n");
        assert_eq!(copy_ms(&first), None, "it has not ended");
    }

    #[test]
    fn only_what_is_said_later_counts() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log.txt");
        fs::write(&log, "before\nafter\n").unwrap();
        assert_eq!(said_since(&log, 7).unwrap(), "after\n");
        assert_eq!(said_since(&log, 100).unwrap(), "");
    }
}
