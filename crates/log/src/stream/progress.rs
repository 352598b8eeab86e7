//! How far a stream is: how many entries were appended, and how many are hardened.
//!
//! Written under the stream's lock, read without it.
//!
//! # Invariants
//! - H1. `hardened` never exceeds `appended`, and neither decreases.
//! - H2. `hardened` is stored only after the frame is durable and what its group held is released
//!   (`stream/mod.rs`, S2).

use namiki_platform::sync::{AtomicU64, Ordering};

/// See the module.
pub(super) struct Progress {
    /// Entries that are in a buffer or beyond.
    appended: AtomicU64,
    /// Entries that are hardened.
    hardened: AtomicU64,
}

impl Progress {
    pub(super) fn new() -> Self {
        Self {
            appended: AtomicU64::new(0),
            hardened: AtomicU64::new(0),
        }
    }

    #[inline]
    pub(super) fn appended(&self) -> u64 {
        // Acquire pairs with the release in `note_appended`: the owner of a ticket sees its commit.
        self.appended.load(Ordering::Acquire)
    }

    #[inline]
    pub(super) fn hardened(&self) -> u64 {
        // Acquire pairs with the release in `note_hardened`: the frame is durable.
        self.hardened.load(Ordering::Acquire)
    }

    /// Whether anything is appended and not hardened.
    #[inline]
    pub(super) fn has_pending(&self) -> bool {
        // Read first, so that the two cannot look equal when something was pending throughout.
        let hardened = self.hardened();
        self.appended() != hardened
    }

    #[inline]
    pub(super) fn note_appended(&self, appended: u64) {
        // Release pairs with the acquire in `appended`.
        self.appended.store(appended, Ordering::Release);
    }

    pub(super) fn note_hardened(&self, hardened: u64) {
        // Release pairs with the acquire in `hardened`: the frame is durable (H2).
        self.hardened.store(hardened, Ordering::Release);
    }
}
