//! Errors as sentences: `fn main() -> Result<(), ClientError>` prints the `Debug` form of the error
//! that it ends with.
//!
//! The same as `namiki_platform::error_sentence`, for this crate and the client's, which depend on
//! no platform.

use std::error::Error;
use std::fmt;

/// Writes the error and its causes, each after a colon. A cause that the text already contains is
/// left out.
///
/// # Errors
/// Those of the formatter.
pub fn sentence(error: &dyn Error, f: &mut fmt::Formatter<'_>) -> fmt::Result {
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
#[doc(hidden)]
#[macro_export]
macro_rules! debug_as_sentence {
    ($($error:ty),*) => {$(
        impl std::fmt::Debug for $error {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                $crate::error_sentence::sentence(self, f)
            }
        }
    )*};
}
