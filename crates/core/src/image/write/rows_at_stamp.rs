//! The source of a table's rows for a checkpoint.

use std::ops::{Bound, ControlFlow};

use namiki_platform::Stamp;

use crate::error::Error;

/// The keys from one bound to another.
pub(crate) type KeyBounds<'k> = (Bound<&'k [u8]>, Bound<&'k [u8]>);

/// Visits a row: its key, its value, and the stamp of the commit that wrote it. Returns whether to
/// continue.
pub(crate) type VisitRow<'v> = dyn FnMut(&[u8], &[u8], Stamp) -> ControlFlow<()> + 'v;

/// The rows of one table as of one stamp S, the same at every visit.
pub(crate) trait RowsAtStamp {
    /// Visits the rows with keys in these bounds in the order of keys, until they end or `visit`
    /// stops.
    ///
    /// `visit` copies rows without blocking, and ends a visit after about a megabyte: so locks that
    /// the source holds during a visit are held only briefly.
    ///
    /// # Errors
    /// The error that prevents the visit. The checkpoint fails then.
    fn visit(&mut self, bounds: KeyBounds<'_>, visit: &mut VisitRow<'_>) -> Result<(), Error>;

    /// Whether a commit with a stamp above `since` and not above S may have changed or deleted any key in these bounds.
    /// If not, the rows are what they were as of `since`.
    ///
    /// # Errors
    /// As [`RowsAtStamp::visit`].
    fn changed_since(&mut self, bounds: KeyBounds<'_>, since: Stamp) -> Result<bool, Error>;

    /// No key up to this one will be read again; without a key, none of the table.
    fn written_through(&mut self, key: Option<&[u8]>) {
        let _ = key;
    }
}
