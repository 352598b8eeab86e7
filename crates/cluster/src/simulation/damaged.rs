//! What disks have damaged.

use std::collections::BTreeSet;
use std::path::PathBuf;

use namiki_platform::seeded_random::Random;

/// A frame: its file, and its offset there.
pub(super) type Frame = (PathBuf, usize);

/// What was damaged.
pub(super) struct Damage {
    pub(super) random: Random,
    /// Frames of payloads that were damaged, by node.
    pub(super) frames: BTreeSet<(usize, Frame)>,
    /// The node with the image that was damaged last, and its life then.
    pub(super) image: Option<(usize, u64)>,
}

impl Damage {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            random: Random::stream(seed, 3),
            frames: BTreeSet::new(),
            image: None,
        }
    }
}
