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

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::Arc;

    use namiki_log::LogError;

    use crate::error::{Error, OpenError};

    /// What a program prints whose `main` returns the error.
    #[test]
    fn what_main_prints_is_a_sentence_with_the_remedy() {
        let source = io::Error::new(io::ErrorKind::StorageFull, "no space left on device");
        let full = Error::DiskFull(LogError::DiskFull {
            path: "/data/wal/0000/000001-00000002.seg".into(),
            source: Arc::new(source),
        });
        assert_eq!(
            format!("Error: {full:?}"),
            "Error: no room for the log; nothing was changed: free some room, and run it again: no space left on the disk \
             for log segment /data/wal/0000/000001-00000002.seg: no space left on device"
        );
        let in_use = OpenError::InUse {
            dir: "/data".into(),
        };
        assert_eq!(
            format!("Error: {in_use:?}"),
            "Error: /data is in use by another process or handle; close it first"
        );
        let large = Error::TransactionTooLarge {
            len_bytes: 9,
            max_bytes: 8,
        };
        assert!(format!("{large:#?}").contains("Builder::buffer_bytes"));
    }
}
