//! A thread's share of its query's page frames: what it may have on its way, or in the hands of its tasks, at a time.
//!
//! # Invariants
//! - F1. Frames of extents and of single pages are counted apart: an extent's rows may lead to single pages, so that it
//!   gives its frames back only after these have come.
//! - F2. One read fits, whatever its kind: extents and runs are no longer than the share of their kind.
//! - F3. Frames of single pages are held by nothing but reads on their way and pages for which the cache has no room yet. So they
//!   come back while no task goes on; those of extents do not.

use crate::run::options::Options;

/// Frames of a kind: how many there are, and how many there may be.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Kind {
    held: usize,
    held_max: usize,
}

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FrameShare {
    pages: Kind,
    extents: Kind,
}

/// The longest extent of a driver's range: 256 KiB.
pub(crate) const EXTENT_PAGES_MAX: usize = 64;

/// Extents that a thread has on their way at a time, if its degree allows for it.
pub(crate) const EXTENTS_IN_FLIGHT: usize = 8;

/// Pages of a request of a window, at most.
pub(crate) const RUN_PAGES_MAX: usize = 32;

/// Reads that a thread's queue can have in flight.
pub(crate) const QUEUE_DEPTH: usize = 1024;

/// Frames of a driver that never waits for one: those on their way, and as many that have arrived.
const EXTENT_FRAMES: usize = EXTENT_PAGES_MAX * 2 * EXTENTS_IN_FLIGHT;

/// Frames of single pages, or of the runs of a window, with as many on their way as the options allow for.
fn page_frames(options: &Options) -> usize {
    let reads = options.degree_max().min(QUEUE_DEPTH);
    if options.window_tasks > 0 {
        reads * RUN_PAGES_MAX
    } else {
        reads
    }
}

impl FrameShare {
    /// What a thread could use.
    pub(crate) fn wanted(options: &Options) -> usize {
        page_frames(options) + EXTENT_FRAMES
    }

    /// The share of a thread that has so many frames, at least two.
    pub(crate) fn new(options: &Options, frames: usize) -> Self {
        let for_extents = (frames / 2).clamp(1, EXTENT_FRAMES);
        let for_pages = page_frames(options)
            .min(frames.saturating_sub(for_extents))
            .max(1);
        Self {
            pages: Kind::new(for_pages),
            extents: Kind::new(frames.saturating_sub(for_pages).max(1)),
        }
    }

    /// The longest extent.
    pub(crate) fn extent_pages_max(&self) -> usize {
        self.extents.held_max.min(EXTENT_PAGES_MAX)
    }

    /// The longest run of a window.
    pub(crate) fn run_pages_max(&self) -> usize {
        self.pages.held_max.min(RUN_PAGES_MAX)
    }

    /// Whether there is room for so many frames of single pages more.
    #[inline]
    pub(crate) fn has_room_for_pages(&self, pages: usize) -> bool {
        self.pages.has_room(pages)
    }

    /// Whether there is room for an extent of so many frames.
    pub(crate) fn has_room_for_extent(&self, pages: usize) -> bool {
        self.extents.has_room(pages)
    }

    /// Whether extents have frames.
    pub(crate) fn has_extents(&self) -> bool {
        self.extents.held > 0
    }

    /// Counts frames of single pages that were taken.
    #[inline]
    pub(crate) fn take_pages(&mut self, pages: usize) {
        self.pages.held += pages;
    }

    /// Counts frames of single pages that went into the cache, or back to their pool.
    #[inline]
    pub(crate) fn return_pages(&mut self, pages: usize) {
        self.pages.held -= pages;
    }

    /// Counts frames of an extent that is to be read.
    pub(crate) fn take_extent(&mut self, pages: usize) {
        self.extents.held += pages;
    }

    /// Counts frames of an extent that went into the cache, or back to their pool.
    pub(crate) fn return_extent(&mut self, pages: usize) {
        self.extents.held -= pages;
    }

    /// All tasks and reads have ended.
    pub(crate) fn return_all(&mut self) {
        (self.pages.held, self.extents.held) = (0, 0);
    }
}

impl Kind {
    fn new(held_max: usize) -> Self {
        Self { held: 0, held_max }
    }

    #[inline]
    fn has_room(&self, frames: usize) -> bool {
        self.held + frames <= self.held_max
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
                for frames in [2, 3, 17, 100, 1_000, FrameShare::wanted(&options)] {
                    let share = FrameShare::new(&options, frames);
                    assert!(share.has_room_for_extent(share.extent_pages_max()));
                    assert!(share.has_room_for_pages(share.run_pages_max()));
                    let both = share.pages.held_max + share.extents.held_max;
                    assert!(both <= frames.max(2), "{frames}: {share:?}");
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
        let share = FrameShare::new(&options, FrameShare::wanted(&options));
        assert_eq!(share.extent_pages_max(), EXTENT_PAGES_MAX);
        assert!(share.has_room_for_pages(64) && share.has_room_for_extent(EXTENT_FRAMES));
    }
}
