//! Errors as sentences.
//!
//! `fn main() -> Result<(), namiki::Error>` prints the `Debug` form of the error it ends with. So
//! that form is what a person wants to read: the error, what to do, and what has caused it, on one
//! line.

use std::error::Error;
use std::fmt;

/// Writes the error and its causes, each after a colon; a cause that the text before has in it is
/// not said again.
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

/// An error with all its causes, to be written.
#[derive(Clone, Copy)]
pub struct ErrorSentence<'e>(pub &'e dyn Error);

impl fmt::Display for ErrorSentence<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        sentence(self.0, f)
    }
}

/// `Debug` as a sentence, for the errors that a program may end with.
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

#[cfg(test)]
mod tests {
    use std::io;

    #[derive(thiserror::Error)]
    enum Refusal {
        #[error("cannot read a: {source}; put it there")]
        WithItsCause { source: io::Error },
        #[error("cannot read b")]
        Without { source: io::Error },
    }
    debug_as_sentence!(Refusal);

    /// As `main` prints it.
    #[test]
    fn an_error_is_a_sentence_with_each_cause_once() {
        let source = || io::Error::other("it is gone");
        assert_eq!(
            format!("{:?}", Refusal::WithItsCause { source: source() }),
            "cannot read a: it is gone; put it there"
        );
        assert_eq!(
            format!("{:?}", Refusal::Without { source: source() }),
            "cannot read b: it is gone"
        );
    }
}
