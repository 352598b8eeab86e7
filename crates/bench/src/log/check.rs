//! Reads back the log that a run left, and compares it with the commits that the workers appended.

use std::path::Path;
use std::sync::Arc;

use namiki::WorkerId;
use namiki_log::{GenerationInfo, StreamReader};
use namiki_platform::disk::Disk;

use crate::error::BenchError;

/// Length of the mark at the start of a commit's payload: the worker's number, and the commit's
/// number among the worker's, from 1.
pub(super) const MARK_BYTES: usize = 16;

/// The mark of a payload.
pub(super) fn mark(worker: usize, number: u64) -> [u8; MARK_BYTES] {
    let mut mark = [0; MARK_BYTES];
    mark[..8].copy_from_slice(&(worker as u64).to_le_bytes());
    mark[8..].copy_from_slice(&number.to_le_bytes());
    mark
}

fn unmark(payload: &[u8]) -> Option<(usize, u64)> {
    let (worker, rest) = payload.split_first_chunk()?;
    let (number, _) = rest.split_first_chunk()?;
    Some((
        u64::from_le_bytes(*worker) as usize,
        u64::from_le_bytes(*number),
    ))
}

/// Every stream's tail must consist of consecutive frames. In these, each worker's commits are
/// consecutive and end with its last one. `committed` has the workers' counts.
pub(super) fn check_tail(
    disk: &Arc<dyn Disk>,
    dir: &Path,
    identity: u128,
    info: &GenerationInfo,
    committed: &[u64],
) -> Result<(), BenchError> {
    let mut last = vec![None; committed.len()];
    for stream in 0..info.streams {
        let disk = Arc::clone(disk);
        let mut reader = StreamReader::open(disk, dir, identity, info, WorkerId(stream))?;
        let mut sequence = None;
        while let Some(frame) = reader.next_frame()? {
            let found = frame.header.sequence;
            if sequence.is_some_and(|before: u64| before + 1 != found) {
                return failed(format!("stream {stream} goes on with frame {found}"));
            }
            sequence = Some(found);
            for record in frame.records() {
                follow(&mut last, record.payload)?;
            }
        }
    }
    for (worker, (last, committed)) in last.iter().zip(committed).enumerate() {
        // The frames of a worker that committed long ago may all be recycled.
        if last.is_some_and(|last| last != *committed) {
            return failed(format!(
                "worker {worker} committed {committed} times and the log ends with {}",
                last.unwrap_or_default()
            ));
        }
    }
    Ok(())
}

fn follow(last: &mut [Option<u64>], payload: &[u8]) -> Result<(), BenchError> {
    let place = unmark(payload).and_then(|(worker, number)| Some((last.get_mut(worker)?, number)));
    let Some((last, number)) = place else {
        return failed("a commit has no mark of a worker".to_owned());
    };
    if last.is_some_and(|last| last + 1 != number) {
        return failed(format!(
            "commit {number} follows {}",
            last.unwrap_or_default()
        ));
    }
    *last = Some(number);
    Ok(())
}

fn failed<T>(why: String) -> Result<T, BenchError> {
    Err(BenchError::Check(why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_read_as_they_were_written() {
        assert_eq!(unmark(&mark(3, 7)), Some((3, 7)));
        assert_eq!(unmark(&mark(3, 7)[..15]), None);
    }

    #[test]
    fn commits_of_a_worker_must_be_consecutive() {
        let mut last = vec![None; 2];
        assert!(follow(&mut last, &mark(0, 5)).is_ok());
        assert!(follow(&mut last, &mark(1, 9)).is_ok());
        assert!(follow(&mut last, &mark(0, 6)).is_ok());
        assert!(follow(&mut last, &mark(0, 8)).is_err());
        assert!(follow(&mut last, &mark(2, 1)).is_err());
        assert!(follow(&mut last, b"short").is_err());
    }
}
