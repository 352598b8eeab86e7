//! The end of a program: the report of a failure, and the exit status.

use std::error::Error;
use std::process::ExitCode;

use namiki_platform::ErrorSentence;

use crate::command_failure::{CommandFailure, Ending};
use crate::interrupt;

/// Ends `program`: reports on standard error why its command failed, if it did, with all causes in
/// one sentence. Returns the exit status.
pub fn finish<F: Error>(
    program: &str,
    done: Result<(), F>,
    ending_of: impl FnOnce(&F) -> Ending,
) -> ExitCode {
    let (ending, sentence) = match done {
        Ok(()) if interrupt::is_unexpected() => {
            let late = CommandFailure::InterruptedAtTheEnd;
            (late.ending(), late.to_string())
        }
        Ok(()) => return ExitCode::SUCCESS,
        Err(failure) => match ending_of(&failure) {
            // The reader has gone by the same Ctrl-C.
            Ending::OutputClosed if interrupt::is_unexpected() => {
                let interrupted = CommandFailure::Interrupted;
                (interrupted.ending(), interrupted.to_string())
            }
            Ending::OutputClosed => return ExitCode::SUCCESS,
            ending => (ending, ErrorSentence(&failure).to_string()),
        },
    };
    eprintln!("{program}: {sentence}");
    ending.exit_code()
}
