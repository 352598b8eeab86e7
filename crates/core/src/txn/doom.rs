//! Why a transaction must not commit.
//!
//! A call that fails leaves the transaction's reads or writes incomplete. The body may ignore the
//! error and continue: the transaction records it, takes no further lock, and its commit fails with
//! it.
//!
//! # Invariants
//! - The first error stays, so the transaction fails with the first conflict. A table that is not
//!   loaded has precedence: the attempt is repeated once the table is loaded.

use crate::error::Error;

/// The error that the transaction fails with; none as long as it may commit.
#[derive(Default)]
pub(super) struct Doom(Option<Error>);

impl Doom {
    /// Fails with the error that the transaction has failed with.
    #[inline]
    pub(super) fn check(&self) -> Result<(), Error> {
        match &self.0 {
            None => Ok(()),
            Some(error) => Err(error.clone()),
        }
    }

    /// The transaction must not commit. Returns the error that it fails with: this one, or one that came before.
    pub(super) fn keep_first(&mut self, error: Error) -> Error {
        self.0.get_or_insert(error).clone()
    }

    /// The attempt fails with this error, whatever came before.
    pub(super) fn replace(&mut self, error: Error) {
        self.0 = Some(error);
    }

    /// The conflict that the transaction has met, if that is what it fails with.
    pub(super) fn conflict(&self) -> Option<Error> {
        self.0
            .clone()
            .filter(|error| matches!(error, Error::Conflict(_)))
    }

    /// Whether the log had no room on the disk.
    pub(super) fn is_for_want_of_room(&self) -> bool {
        matches!(self.0, Some(Error::DiskFull(_)))
    }
}
