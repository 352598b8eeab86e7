//! What deleted keys still take in memory.

use crate::api::database::Database;
use crate::commit::removed_keys::Taken;
use crate::commit::view_opening::OpenView;
use crate::concurrency::cc::NoFaults;
use crate::error::Error;

/// So many are taken out between two looks whether any are left.
const AT_ONCE: usize = 1024;

impl Database {
    /// Takes deleted keys out of the indexes now, so that their memory serves other keys; returns how many are left: those
    /// that a view may still see, or that are locked. The database does so by itself, with the next transactions or a
    /// moment later.
    ///
    /// # Errors
    /// As [`Database::view`](crate::Database::view).
    #[doc(hidden)]
    pub fn take_out_deleted_keys(&self) -> Result<usize, Error> {
        let engine = &self.shared.engine;
        if engine.removed_keys.waiting(Taken::All) > 0 {
            // Closes the current epoch, and waits until it is durable.
            drop(OpenView::open::<NoFaults>(engine, false)?);
            while engine.take_out_removed(AT_ONCE, Taken::All) > 0 {}
        }
        Ok(engine.removed_keys.waiting(Taken::All))
    }
}
