//! Copies the log: the part of each generation that the destination lacks.

use namiki_log::{CopiedThrough, GenerationInfo, LogPlace, copy_stream};
use namiki_platform::WorkerId;

use crate::backup::copy::backup_directory::{BackupBefore, Destination};
use crate::backup::copy::go_on::GoOn;
use crate::backup::copy::source::Source;
use crate::backup::error::BackupError;
use crate::catalogue::backup_mark::{CopiedLog, EndedLog};

/// The end of the log in a backup.
#[derive(Default)]
pub(super) struct LogCopied {
    /// The last generation.
    pub(super) last: Option<CopiedLog>,
    /// Those before it.
    pub(super) ended: Vec<EndedLog>,
}

/// Copies the frames that the destination does not have. All are durable then.
pub(super) fn copy_log(
    source: &Source<'_>,
    to: &Destination<'_>,
    go_on: &mut GoOn<'_>,
) -> Result<LogCopied, BackupError> {
    let (from_wal, to_wal) = (source.wal(), to.dir.join("wal"));
    let from = LogPlace {
        disk: source.disk,
        wal: &from_wal,
    };
    let to_place = LogPlace {
        disk: to.disk,
        wal: &to_wal,
    };
    let mut copied = LogCopied::default();
    for info in &source.manifest.generations {
        let Some(has) = Has::of(info, to.before.as_ref()) else {
            let before = to.before.as_ref().map(|before| &before.mark);
            let generation = info.generation;
            if let Some(last_files) = before.and_then(|mark| mark.last_files(generation)) {
                copied.ended.push(EndedLog {
                    generation,
                    last_files,
                });
            }
            continue;
        };
        let mut streams = Vec::with_capacity(info.streams.into());
        for worker in (0..info.streams).map(WorkerId) {
            let mut on_bytes = |bytes| go_on.copied_log(bytes);
            let identity = source.manifest.identity();
            let has = has.stream(worker);
            let through = copy_stream::<BackupError>(
                from,
                to_place,
                identity,
                info,
                worker,
                has,
                &mut on_bytes,
            );
            streams.push(through?);
        }
        let log = CopiedLog {
            generation: info.generation,
            streams,
        };
        if let Some(ended) = copied.last.replace(log) {
            copied.ended.push(EndedLog {
                generation: ended.generation,
                last_files: ended.last_files(),
            });
        }
    }
    Ok(copied)
}

/// The part of a generation that the destination has, if the generation may have more.
struct Has<'a>(&'a [CopiedThrough]);

impl<'a> Has<'a> {
    /// `None` if the destination has all of it: it had ended before the last generation of the
    /// previous backup.
    fn of(info: &GenerationInfo, before: Option<&'a BackupBefore>) -> Option<Self> {
        let log = before.and_then(|before| before.mark.log.as_ref());
        match log {
            Some(log) if log.generation == info.generation => Some(Self(&log.streams)),
            Some(log) if log.generation > info.generation => None,
            _ => Some(Self(&[])),
        }
    }

    fn stream(&self, worker: WorkerId) -> CopiedThrough {
        let stream = self.0.get(usize::from(worker.0));
        stream.copied().unwrap_or_default()
    }
}
