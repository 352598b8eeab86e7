//! A bucket under its lock: its home line and the overflow lines that follow it.
//!
//! Only the first overflow line has free slots: the hole that a removed key leaves is filled with
//! the last key of that line. So a bucket has no more lines than its keys need.

use std::alloc::{Layout, handle_alloc_error};

use super::line::{Control, Line, SLOTS};
use super::overflow_line_pool::Overflow;

/// The lowest slot that is not used.
#[inline]
const fn free_slot(used: u8) -> Option<usize> {
    let slot = (!used).trailing_zeros() as usize;
    if slot < SLOTS { Some(slot) } else { None }
}

/// The slots that are used.
#[inline]
pub(super) fn slots(used: u8) -> impl Iterator<Item = usize> {
    (0..SLOTS).filter(move |slot| used & 1 << slot != 0)
}

/// A place in a bucket.
#[derive(Clone, Copy)]
pub(super) struct At<'a> {
    line: &'a Line,
    /// `None`: the home line.
    overflow: Option<u64>,
    slot: usize,
}

impl At<'_> {
    #[inline]
    pub(super) fn payload(&self) -> u64 {
        self.line.payload(self.slot)
    }

    #[inline]
    pub(super) fn word(&self) -> u64 {
        self.line.word(self.slot)
    }

    #[inline]
    pub(super) fn set_payload(&self, payload: u64) {
        self.line.set_payload(self.slot, payload);
    }
}

/// A bucket that the caller has locked, or that no other thread can see yet. The caller ends it
/// with [`keep`](Self::keep), [`change`](Self::change), [`activate`](Self::activate) or
/// [`deactivate`](Self::deactivate).
#[must_use = "a bucket that is locked is to be unlocked"]
pub(super) struct Bucket<'a> {
    overflow: &'a Overflow,
    pub(super) place: u64,
    home: &'a Line,
    before: Control,
    used: u8,
}

impl<'a> Bucket<'a> {
    /// The bucket at a place, which was locked in the state `before`.
    #[inline]
    pub(super) fn locked(
        overflow: &'a Overflow,
        place: u64,
        home: &'a Line,
        before: Control,
    ) -> Self {
        Self {
            overflow,
            place,
            home,
            before,
            used: before.used(),
        }
    }

    /// The dead bucket at a place that is about to become live; its parent is locked (`line.rs`,
    /// L1).
    pub(super) fn inactive(overflow: &'a Overflow, place: u64, home: &'a Line) -> Self {
        let before = home.control();
        assert!(before.is_inactive(), "a live bucket is activated again");
        home.set_further(None);
        Self {
            overflow,
            place,
            home,
            before,
            used: 0,
        }
    }

    #[inline]
    pub(super) fn depth(&self) -> u32 {
        self.before.depth()
    }

    /// All keys, by their words, and payloads.
    pub(super) fn entries(&self) -> Vec<(u64, u64)> {
        let mut entries = Vec::with_capacity(4 * SLOTS);
        let mut add = |line: &Line, used| {
            entries.extend(slots(used).map(|slot| (line.word(slot), line.payload(slot))));
        };
        add(self.home, self.used);
        let mut further = self.home.further();
        while let Some(number) = further {
            let line = self.overflow.line(number);
            add(line, line.control().used());
            further = line.further();
        }
        entries
    }

    /// The position of the first key with a word that passes the test.
    #[inline]
    pub(super) fn find(&self, is: impl Fn(u64) -> bool) -> Option<At<'a>> {
        let in_line = |line: &'a Line, overflow, used| {
            let slot = slots(used).find(|slot| is(line.word(*slot)))?;
            Some(At {
                line,
                overflow,
                slot,
            })
        };
        let mut found = in_line(self.home, None, self.used);
        let mut further = self.home.further();
        while found.is_none()
            && let Some(number) = further
        {
            let line = self.overflow.line(number);
            found = in_line(line, further, line.control().used());
            further = line.further();
        }
        found
    }

    /// Adds a key that is absent.
    #[inline]
    pub(super) fn add(&mut self, word: u64, payload: u64) {
        if let Some(slot) = free_slot(self.used) {
            self.home.set(slot, word, payload);
            self.used |= 1 << slot;
            return;
        }
        let first = self.home.further();
        if let Some(number) = first {
            let line = self.overflow.line(number);
            let used = line.control().used();
            if let Some(slot) = free_slot(used) {
                line.set(slot, word, payload);
                line.set_control(Control::active(0, used | 1 << slot, 0));
                return;
            }
        }
        let Some(number) = self.overflow.take(self.place) else {
            handle_alloc_error(Layout::new::<Line>())
        };
        let line = self.overflow.line(number);
        line.set(0, word, payload);
        line.set_control(Control::active(0, 1, 0));
        line.set_further(first);
        self.home.set_further(Some(number));
    }

    /// Removes a key.
    #[inline]
    pub(super) fn remove(&mut self, at: At<'_>) {
        let Some(first) = self.home.further() else {
            self.used &= !(1 << at.slot);
            return;
        };
        let line = self.overflow.line(first);
        let used = line.control().used();
        let last = used.ilog2() as usize;
        if at.overflow != Some(first) || at.slot != last {
            at.line.set(at.slot, line.word(last), line.payload(last));
        }
        let used = used & !(1 << last);
        line.set_control(Control::active(0, used, 0));
        if used == 0 {
            self.home.set_further(line.further());
            self.overflow.give_back(first);
        }
    }

    /// Removes all keys.
    pub(super) fn clear(&mut self) {
        self.used = 0;
        let mut further = self.home.further();
        self.home.set_further(None);
        while let Some(number) = further {
            further = self.overflow.line(number).further();
            self.overflow.give_back(number);
        }
    }

    /// Unlocks the unchanged bucket.
    #[inline]
    pub(super) fn keep(self) {
        self.home.set_control(self.before);
    }

    /// Unlocks the bucket in its new state.
    #[inline]
    pub(super) fn change(self) {
        let depth = self.before.depth();
        self.change_depth(depth);
    }

    /// The same, and with another depth.
    #[inline]
    pub(super) fn change_depth(self, depth: u32) {
        self.home.set_control(self.before.changed(depth, self.used));
    }

    /// Makes a dead bucket live, unlocked. All its versions are from `floor` on (L2).
    pub(super) fn activate(self, depth: u32, floor: u64) {
        self.home
            .set_control(Control::active(depth, self.used, floor));
    }

    /// Makes the empty bucket dead, and returns a version above all of its versions.
    pub(super) fn deactivate(self) -> u64 {
        assert!(self.used == 0 && self.home.further().is_none());
        let deactivated = self.before.deactivated();
        self.home.set_control(deactivated);
        deactivated.version() + 1
    }
}
