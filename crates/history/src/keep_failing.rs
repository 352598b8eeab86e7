//! For test suites: checks a run, and keeps its history when it fails.

use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use super::{History, HistoryFileError, Promise, Proof, check};

/// Checks `history` and returns the proof.
///
/// # Panics
/// If the promise is broken: with the story, the `note` (say which spec and seed), and the name of a
/// file from which [`History::load`] reads the run again.
pub fn require(history: &History, promise: Promise, note: &str) -> Proof {
    check(history, promise).unwrap_or_else(|violation| {
        let kept = match keep(
            history,
            &std::env::temp_dir().join("namiki-histories"),
            note,
        ) {
            Ok(path) => format!("kept in {}", path.display()),
            Err(error) => format!("could not be kept: {error}"),
        };
        panic!("{note}: {violation}\nThe history is {kept}")
    })
}

fn keep(history: &History, folder: &Path, note: &str) -> Result<PathBuf, HistoryFileError> {
    static KEPT: AtomicU32 = AtomicU32::new(0);
    fs::create_dir_all(folder)?;
    loop {
        let number = KEPT.fetch_add(1, Ordering::Relaxed);
        let path = folder.join(format!("{}-{number}.jsonl", std::process::id()));
        match File::create_new(&path) {
            Ok(file) => {
                history.dump(&mut BufWriter::new(file), note)?;
                return Ok(path);
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use super::*;
    use crate::Transaction;

    #[test]
    fn a_failing_run_is_kept_and_fails_again() {
        let mut history = History::new();
        let key = history.key(1, b"x");
        history.push(Transaction::new(1, 10).read(key, 0).write(key));
        assert_eq!(
            require(&history, Promise::Serializable, "seed 7").order,
            [1]
        );
        history.push(Transaction::new(2, 11).read(key, 0).write(key));

        let panic = std::panic::catch_unwind(|| {
            require(&history, Promise::Serializable, "seed 7");
        });
        let message = *panic.unwrap_err().downcast::<String>().unwrap();
        assert!(
            message.starts_with("seed 7: not serializable (lost update):"),
            "{message}"
        );

        let path = message.rsplit("kept in ").next().unwrap();
        let (again, note) = History::load(BufReader::new(File::open(path).unwrap())).unwrap();
        fs::remove_file(path).unwrap();
        assert_eq!(note, "seed 7");
        assert_eq!(
            check(&again, Promise::Serializable),
            check(&history, Promise::Serializable)
        );
    }
}
