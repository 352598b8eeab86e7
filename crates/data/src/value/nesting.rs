//! How deep values of a type that contains itself may be nested.
//!
//! Such a type has itself in a box or in a list. Each level takes some of the thread's stack, and damaged bytes could say
//! that there are millions. So a level is entered here, and refused when there are too many.

use std::cell::Cell;

/// The most boxes and lists inside each other.
pub(super) const NESTED_MAX: u32 = 200;

thread_local! {
    static NESTED: Cell<u32> = const { Cell::new(0) };
}

/// Leaves a level, also if the code inside of it panics.
struct Level;

impl Drop for Level {
    fn drop(&mut self) {
        NESTED.set(NESTED.get() - 1);
    }
}

/// Does this one level deeper. Nothing is done if that is too deep.
pub(super) fn nested<R>(run: impl FnOnce() -> R) -> Option<R> {
    if NESTED.get() >= NESTED_MAX {
        return None;
    }
    NESTED.set(NESTED.get() + 1);
    let _level = Level;
    Some(run())
}
