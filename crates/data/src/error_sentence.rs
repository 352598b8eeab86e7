//! Errors as sentences: `fn main() -> Result<(), ClientError>` prints the `Debug` form of the error that it ends with.
//!
//! The database's own errors do the same (`namiki_platform::error_sentence`); the client does not
//! depend on that crate.

use std::error::Error;
use std::fmt;

/// Writes the error and its causes, each after a colon; a cause that the preceding text contains is
/// omitted.
pub(crate) fn sentence(error: &dyn Error, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let said = error.to_string();
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        cause = error.source();
    }
    f.write_str(&text)
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
