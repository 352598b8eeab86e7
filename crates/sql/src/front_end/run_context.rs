//! What a run of a plan reads from.

use std::sync::Arc;

use datafusion::catalog::Session;

use crate::cancel::Cancelled;
use crate::catalogue::Catalogue;
use crate::error::{SqlError, SqlResult};
use crate::program::Environment;
use crate::row_counts::RowCounts;
use crate::storage::ReadHandle;

/// What a run of a plan reads from.
#[derive(Clone, Debug)]
pub(super) struct RunContext {
    pub(super) handle: ReadHandle,
    pub(super) environment: Environment,
    pub(super) cancelled: Cancelled,
    /// The most rows that a transaction may remember.
    pub(super) rows_max: usize,
    /// Where tables of the catalogue find their rows.
    pub(super) catalogue: Arc<Catalogue>,
    pub(super) row_counts: Arc<RowCounts>,
    /// The role of the session.
    pub(super) user: String,
}

/// The reader of a run.
///
/// # Errors
/// XX000 if the plan is run without one.
pub(super) fn run_context(state: &dyn Session) -> SqlResult<Arc<RunContext>> {
    state.config().get_extension::<RunContext>().ok_or_else(|| {
        SqlError::new(
            crate::sqlstate::INTERNAL_ERROR,
            "a plan was run without a reader",
        )
    })
}
