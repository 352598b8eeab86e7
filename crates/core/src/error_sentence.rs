//! Errors as sentences.
//!
//! `fn main() -> Result<(), namiki::Error>` prints the `Debug` form of the error it ends with. So that form is what a
//! person wants to read: the error, what to do, and what has caused it, on one line.

use std::error::Error;
use std::fmt;

/// Writes the error and its causes, each after a colon.
pub(crate) fn sentence(error: &dyn Error, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    write!(f, "{error}")?;
    let mut cause = error.source();
    while let Some(error) = cause {
        write!(f, ": {error}")?;
        cause = error.source();
    }
    Ok(())
}

/// `Debug` as a sentence.
macro_rules! debug_as_sentence {
    ($($error:ty),*) => {$(
        impl std::fmt::Debug for $error {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                $crate::error_sentence::sentence(self, f)
            }
        }
    )*};
}
pub(crate) use debug_as_sentence;
