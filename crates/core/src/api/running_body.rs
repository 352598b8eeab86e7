//! Nested transactions are refused: a thread that runs the body of a transaction runs no other body of the same database.
//!
//! The outer body is run again after a conflict, and would commit the inner transaction each time.
//! And the inner one may wait for the locks or the commit priority of the outer one, which nothing
//! on this thread can release: a deadlock. Bodies of two databases may nest, a body may begin a
//! transaction of its own ([`Database::begin`](crate::Database::begin)), and other threads are not
//! restricted.
//!
//! The check is for the thread, not for the code that runs on it. If a body lets its thread run
//! other code, for example by waiting in a work-stealing executor (`rayon::join`), a body in that
//! code is a nested one; it could wait for the outer one's locks, too. With coroutines, bodies of
//! several databases on one thread need not end in the reverse order of their beginnings. Each ends
//! on the thread on which it began.
//!
//! A body costs two reads and two writes of a word that belongs to the thread.
//!
//! # Invariants
//! - N1. A thread runs at most one body of a database: so a database stands for its body.
//! - N2. `INNERMOST` is empty only if `OUTER` is.

use std::cell::{Cell, RefCell};

use crate::error::Error;
use crate::table::raw_table::Owner;

thread_local! {
    /// The database of the body that this thread has begun last, of those that have not ended.
    static INNERMOST: Cell<Option<Owner>> = const { Cell::new(None) };
    /// The databases of the others, in the order in which they have begun.
    static OUTER: RefCell<Vec<Owner>> = const { RefCell::new(Vec::new()) };
}

/// A body that this thread runs until this is dropped.
pub(crate) struct RunningBody {
    owner: Owner,
    /// Whether it began inside of another one.
    is_inner: bool,
}

impl RunningBody {
    /// Begins a body of a database.
    ///
    /// # Errors
    /// As [`check_not_nested`].
    #[inline]
    pub(crate) fn begin(owner: Owner) -> Result<Self, Error> {
        let outer = INNERMOST.get();
        if let Some(outer) = outer {
            begin_inside(owner, outer)?;
        }
        INNERMOST.set(Some(owner));
        Ok(Self {
            owner,
            is_inner: outer.is_some(),
        })
    }
}

impl Drop for RunningBody {
    #[inline]
    fn drop(&mut self) {
        if !self.is_inner && INNERMOST.get() == Some(self.owner) {
            // It began first, so those around it would have ended by now.
            INNERMOST.set(None);
        } else {
            end_among_others(self.owner);
        }
    }
}

/// Whether this thread may run a body of a database.
///
/// # Errors
/// [`Error::NestedTransaction`] if it runs one already.
pub(crate) fn check_not_nested(owner: Owner) -> Result<(), Error> {
    let is_outer = |outer: &RefCell<Vec<Owner>>| outer.borrow().contains(&owner);
    let is_nested = INNERMOST.get() == Some(owner) || OUTER.try_with(is_outer).unwrap_or(false);
    if is_nested {
        return Err(Error::NestedTransaction);
    }
    Ok(())
}

#[cold]
fn begin_inside(owner: Owner, outer: Owner) -> Result<(), Error> {
    check_not_nested(owner)?;
    let _ = OUTER.try_with(|all| all.borrow_mut().push(outer));
    Ok(())
}

/// Ends a body, whichever began last.
#[cold]
fn end_among_others(owner: Owner) {
    // While the thread ends, the list no longer exists.
    let _ = OUTER.try_with(|all| {
        let mut all = all.borrow_mut();
        if INNERMOST.get() == Some(owner) {
            INNERMOST.set(all.pop());
        } else {
            all.retain(|other| *other != owner);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_free(owner: Owner) -> bool {
        check_not_nested(owner).is_ok()
    }

    /// As coroutines end them: three bodies of three databases, in every order.
    #[test]
    fn bodies_may_end_in_any_order() {
        let owners = [Owner::new(), Owner::new(), Owner::new()];
        for order in [
            [0, 1, 2],
            [0, 2, 1],
            [1, 0, 2],
            [1, 2, 0],
            [2, 0, 1],
            [2, 1, 0],
        ] {
            let mut bodies = owners.map(|owner| RunningBody::begin(owner).ok());
            for (ended, place) in order.into_iter().enumerate() {
                bodies[place] = None;
                for (at, owner) in owners.into_iter().enumerate() {
                    let has_ended = order[..=ended].contains(&at);
                    assert_eq!(is_free(owner), has_ended, "{order:?}, {place}, {at}");
                }
            }
            assert!(INNERMOST.get().is_none() && OUTER.with_borrow(Vec::is_empty));
        }
    }
}
