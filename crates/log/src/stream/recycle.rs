//! What of a stream an image has made superfluous.

use std::io;
use std::path::PathBuf;

use super::Stream;
use crate::config::GroupResource;
use crate::log_target::{Beginning, LogTarget, Superfluous};
use crate::sync::Ordering;

impl<H: GroupResource> Stream<H> {
    /// The bytes of files, or of the region, that hold frames.
    pub(crate) fn kept_bytes(&self) -> u64 {
        self.kept_bytes.load(Ordering::Relaxed)
    }

    /// Whether the disk has no room for the next segment.
    pub(crate) fn is_short_of_room(&self) -> bool {
        let state = self.state.lock();
        matches!(&state.target, LogTarget::Segments(target) if target.is_short_of_room)
    }

    /// Where the stream may begin; nothing in a region. The log is not poisoned: an error of this stream is set under its
    /// lock, so what is not in flight then is hardened.
    pub(crate) fn beginning(&self, superfluous: Superfluous) -> Option<Beginning> {
        let state = self.state.lock();
        let LogTarget::Segments(target) = &state.target else {
            return None;
        };
        let in_doubt = state.in_flight.is_some() || self.shared.poison.get().is_some();
        let hardened = state.sequence - u64::from(in_doubt && state.sequence > 0);
        Some(target.beginning(superfluous, hardened))
    }

    /// Gives up the segments before this one, and removes those that are not to be written again: see
    /// [`SegmentTarget::recycle_before`](crate::log_target::SegmentTarget::recycle_before). What could not be removed is
    /// said.
    pub(crate) fn recycle_before(
        &self,
        segment: u64,
        reuse_bytes: &mut u64,
        mut removed: impl FnMut(u64, Result<(), (PathBuf, io::Error)>),
    ) {
        let Some(maker) = &self.maker else {
            return;
        };
        let given_up = {
            let mut state = self.state.lock();
            let LogTarget::Segments(target) = &mut state.target else {
                return;
            };
            let given_up = target.recycle_before(segment, maker.segment_bytes, reuse_bytes);
            self.kept_bytes
                .store(target.kept_bytes(), Ordering::Relaxed);
            given_up
        };
        for (number, bytes) in given_up {
            removed(bytes, maker.remove(number));
        }
    }
}
