//! Frame shares: how many page frames a thread may have for reads in flight and for its tasks.
//!
//! # Invariants
//! - F1. Extents and single pages have separate shares. The rows of an extent may need single
//!   pages, so an extent returns its frames only after those pages have been read.
//! - F2. One read always fits: extents and runs are no longer than the share of their kind.
//! - F3. Frames of single pages belong to reads in flight and to pages that wait for room in the
//!   cache. They return without any task running; frames of extents do not.

use super::options::Options;

/// Longest extent of a driver's range: 256 KiB.
pub(crate) const EXTENT_PAGES_MAX: usize = 64;

/// Extents that a thread reads at a time, if its degree allows for it.
pub(crate) const EXTENTS_IN_FLIGHT: usize = 8;

/// Longest request of a window, in pages.
pub(crate) const RUN_PAGES_MAX: usize = 32;

/// Depth of a thread's read queue.
pub(crate) const QUEUE_DEPTH: usize = 1024;

/// Frames with which a driver never waits for one: extents in flight, and as many that have
/// arrived.
const EXTENT_FRAMES: usize = EXTENT_PAGES_MAX * 2 * EXTENTS_IN_FLIGHT;

/// Frames of one kind of read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FrameShare {
    held: usize,
    held_max: usize,
}

/// Frames for all reads of a query's thread, if it gets as many as it could use.
pub(crate) fn frames_wanted(options: &Options) -> usize {
    page_frames_wanted(options) + EXTENT_FRAMES
}

/// Frames of single pages, or of the runs of a window, with as many reads as the options allow.
fn page_frames_wanted(options: &Options) -> usize {
    let reads = options.degree_max().min(QUEUE_DEPTH);
    if options.window_tasks > 0 {
        reads * RUN_PAGES_MAX
    } else {
        reads
    }
}

impl FrameShare {
    /// Divides the frames of a thread, at least two, between single pages and extents.
    pub(crate) fn of_pages_and_extents(options: &Options, frames: usize) -> (Self, Self) {
        let for_extents = (frames / 2).clamp(1, EXTENT_FRAMES);
        let for_pages = page_frames_wanted(options)
            .min(frames.saturating_sub(for_extents))
            .max(1);
        let extents = frames.saturating_sub(for_pages).max(1);
        (Self::new(for_pages), Self::new(extents))
    }

    fn new(held_max: usize) -> Self {
        Self { held: 0, held_max }
    }

    /// Length of the longest read for which there is a frame for each page, at most `pages`.
    pub(crate) fn read_pages_max(&self, pages: usize) -> usize {
        self.held_max.min(pages)
    }

    /// Whether `frames` more may be taken.
    #[inline]
    pub(crate) fn has_room(&self, frames: usize) -> bool {
        self.held + frames <= self.held_max
    }

    /// Whether no frame is in use.
    pub(crate) fn is_unused(&self) -> bool {
        self.held == 0
    }

    /// Counts frames for a read.
    #[inline]
    pub(crate) fn take(&mut self, frames: usize) {
        self.held += frames;
    }

    /// Counts frames that moved into the cache, or back to their pool.
    #[inline]
    pub(crate) fn put_back(&mut self, frames: usize) {
        self.held -= frames;
    }

    /// Counts all frames as returned: no read and no task is left.
    pub(crate) fn put_back_all(&mut self) {
        self.held = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::options::Degree;

    #[test]
    fn one_read_of_each_kind_fits_the_least_share() {
        for degree in [Degree::Fixed(1), Degree::Fixed(64), Degree::Adaptive] {
            for window_tasks in [0, 1_000] {
                let options = Options {
                    degree,
                    window_tasks,
                    ..Options::default()
                };
                for frames in [2, 3, 17, 100, 1_000, frames_wanted(&options)] {
                    let (pages, extents) = FrameShare::of_pages_and_extents(&options, frames);
                    assert!(extents.has_room(extents.read_pages_max(EXTENT_PAGES_MAX)));
                    assert!(extents.has_room(1) && pages.has_room(1));
                    assert!(pages.has_room(pages.read_pages_max(RUN_PAGES_MAX)));
                    let both = pages.held_max + extents.held_max;
                    assert!(both <= frames.max(2), "{frames}: {pages:?}, {extents:?}");
                }
            }
        }
    }

    #[test]
    fn a_full_share_keeps_the_whole_degree() {
        let options = Options {
            degree: Degree::Fixed(64),
            ..Options::default()
        };
        let frames = frames_wanted(&options);
        let (pages, extents) = FrameShare::of_pages_and_extents(&options, frames);
        assert_eq!(extents.read_pages_max(EXTENT_PAGES_MAX), EXTENT_PAGES_MAX);
        assert!(pages.has_room(64) && extents.has_room(EXTENT_FRAMES));
    }
}
