//! The nesting limit for values of types that contain themselves, in boxes or in lists.
//!
//! Each level takes stack space, and damaged bytes could claim millions of levels. So each level is
//! entered here, and refused above the limit.

use std::cell::Cell;

/// The most levels of boxes and lists.
pub(super) const NESTED_MAX: u32 = 200;

thread_local! {
    static NESTED: Cell<u32> = const { Cell::new(0) };
}

/// Leaves a level, also if the code inside it panics.
struct Level;

impl Drop for Level {
    fn drop(&mut self) {
        NESTED.set(NESTED.get() - 1);
    }
}

/// Runs this one level deeper, unless that is too deep.
pub(super) fn nested<R>(run: impl FnOnce() -> R) -> Option<R> {
    if NESTED.get() >= NESTED_MAX {
        return None;
    }
    NESTED.set(NESTED.get() + 1);
    let _level = Level;
    Some(run())
}
