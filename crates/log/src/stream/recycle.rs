//! Recycling of a stream: the frames that an image has made superfluous.

use std::io;
use std::path::PathBuf;

use namiki_platform::Generation;
use namiki_platform::sync::{AtomicU64, Ordering};

use super::Stream;
use crate::config::GroupResource;
use crate::generation::log_start::StreamStart;
use crate::log_target::log_room::{LogFiles, RestrictedFile};
use crate::log_target::region_use::RegionUse;
use crate::log_target::{Beginning, LogTarget, Superfluous};

/// The bytes of files, or of the region, that hold frames. Written under the stream's lock, read
/// without it.
pub(super) struct KeptBytes {
    bytes: AtomicU64,
    /// The length of the region's ring, if its frames may be recycled.
    ring_bytes: Option<u64>,
}

impl KeptBytes {
    pub(super) fn of(target: &LogTarget) -> Self {
        Self {
            bytes: AtomicU64::new(target.kept_bytes()),
            ring_bytes: target.ring_bytes(),
        }
    }

    fn bytes(&self) -> u64 {
        // Relaxed: a number by itself.
        self.bytes.load(Ordering::Relaxed)
    }

    /// Frames were placed or given up.
    pub(super) fn note(&self, target: &LogTarget) {
        self.bytes.store(target.kept_bytes(), Ordering::Relaxed);
    }
}

impl<H: GroupResource> Stream<H> {
    /// The bytes of files, or of the region, that hold frames.
    pub(crate) fn kept_bytes(&self) -> u64 {
        self.kept.bytes()
    }

    /// The fill level of the region; `None` for log files, or if no frame may be recycled.
    pub(crate) fn region_use(&self) -> Option<RegionUse> {
        Some(RegionUse {
            kept_bytes: self.kept_bytes(),
            bytes: self.kept.ring_bytes?,
        })
    }

    /// Whether there is no room for the next log file, or for the next frame in the region.
    pub(crate) fn is_short_of_room(&self) -> bool {
        self.state.lock().target.is_short_of_room()
    }

    /// Nothing was refused since room was sought last.
    pub(crate) fn forget_refusals(&self) {
        self.state.lock().target.forget_refusals();
    }

    /// Where the stream may begin. The log is not poisoned: an error of this stream is set under
    /// its lock, so what is not in flight then is hardened.
    pub(crate) fn beginning(&self, superfluous: Superfluous) -> Beginning {
        let state = self.state.lock();
        let is_failed = self.shared.poison.get().is_some();
        let hardened = state.batches.last_hardened(is_failed);
        state.target.beginning(superfluous, hardened)
    }

    /// The beginning of the stream without the log files before `file_number`.
    pub(crate) fn beginning_at(&self, file_number: u64) -> StreamStart {
        let state = self.state.lock();
        let is_failed = self.shared.poison.get().is_some();
        let hardened = state.batches.last_hardened(is_failed);
        state.target.beginning_at(file_number, hardened)
    }

    /// An image is durable that has made this superfluous.
    pub(crate) fn imaged(&self, superfluous: Superfluous) {
        if let LogTarget::Files(target) = &mut self.state.lock().target {
            target.imaged(superfluous);
        }
    }

    /// Adds the files that frames can be written to.
    pub(crate) fn count_files(&self, into: &mut LogFiles) {
        let state = self.state.lock();
        if let (Some(maker), LogTarget::Files(target)) = (&self.maker, &state.target) {
            target.count(maker.log_file_bytes, into);
            into.unwritten_bytes += state.batches.bytes_under_way();
        }
    }

    /// The files that take deletions alone, and could take other commits.
    pub(crate) fn restricted(&self) -> Vec<RestrictedFile> {
        let LogTarget::Files(target) = &self.state.lock().target else {
            return Vec::new();
        };
        let files = target.restricted_for_many();
        let files = files.map(|(number, unwritten_bytes)| RestrictedFile {
            unwritten_bytes,
            has_refused: target.is_short_of_room,
            stream: self.index,
            number,
        });
        files.collect()
    }

    /// A file takes any commit from now on.
    pub(crate) fn accept_all(&self, file: &RestrictedFile) {
        if let LogTarget::Files(target) = &mut self.state.lock().target {
            target.accept_all(file);
        }
        self.prepared.notify_all();
    }

    /// Gives up what is before `start`, and of a region the generations before `oldest`. Removes
    /// log files that are not to be written again: see
    /// [`LogFileTarget::recycle_before`](crate::log_target::LogFileTarget::recycle_before).
    /// `removed` is called for failures, too.
    pub(crate) fn recycle_before(
        &self,
        start: &StreamStart,
        oldest: Generation,
        reuse_bytes: &mut u64,
        mut removed: impl FnMut(u64, Result<(), (PathBuf, io::Error)>),
    ) {
        let log_file_bytes = self.maker.as_ref().map_or(0, |maker| maker.log_file_bytes);
        let given_up = {
            let mut state = self.state.lock();
            let given_up = match &mut state.target {
                LogTarget::Files(target) => {
                    target.recycle_before(start.file_number, log_file_bytes, reuse_bytes)
                }
                LogTarget::Region(target) => {
                    target.recycle_before(start.offset, oldest);
                    Vec::new()
                }
            };
            self.kept.note(&state.target);
            given_up
        };
        for (number, bytes) in given_up {
            if let Some(maker) = &self.maker {
                removed(bytes, maker.remove(number));
            }
        }
    }
}
