//! Nested transactions are refused: a thread that runs the body of a transaction runs no other body of the same database.
//!
//! The outer body is run again after a conflict, and would commit the inner transaction each time. And the inner one may wait
//! for what the outer one holds, its locks or its commit priority, which nothing on this thread can release meanwhile. Bodies of
//! two databases may nest, a body may begin a transaction of its own ([`Database::begin`](crate::Database::begin)), and other
//! threads are free.
//!
//! A body costs two reads and two writes of a word that belongs to the thread.

use std::cell::{Cell, RefCell};

use crate::error::Error;
use crate::table::raw_table::Owner;

thread_local! {
    /// The database of the body that this thread runs, of the innermost one if several are nested.
    static INNERMOST: Cell<Option<Owner>> = const { Cell::new(None) };
    /// The databases of the bodies around that.
    static OUTER: RefCell<Vec<Owner>> = const { RefCell::new(Vec::new()) };
}

/// A body that this thread runs until this is dropped.
pub(super) struct RunningBody {
    outer: Option<Owner>,
}

impl RunningBody {
    /// Begins a body of a database.
    ///
    /// # Errors
    /// As [`check_not_nested`].
    #[inline]
    pub(super) fn begin(owner: Owner) -> Result<Self, Error> {
        let outer = INNERMOST.get();
        if let Some(outer) = outer {
            begin_inside(owner, outer)?;
        }
        INNERMOST.set(Some(owner));
        Ok(Self { outer })
    }
}

impl Drop for RunningBody {
    #[inline]
    fn drop(&mut self) {
        INNERMOST.set(self.outer);
        if self.outer.is_some() {
            // Where the thread is ending, they are gone.
            let _ = OUTER.try_with(|outer| outer.borrow_mut().pop());
        }
    }
}

/// Whether this thread may run a body of a database.
///
/// # Errors
/// [`Error::NestedTransaction`] if it runs one already.
pub(super) fn check_not_nested(owner: Owner) -> Result<(), Error> {
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
