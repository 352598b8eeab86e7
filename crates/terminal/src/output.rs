//! Standard output. A write to a pipe that is not read blocks; Ctrl-C interrupts it.

use std::io::{self, Stdout, Write};
use std::os::fd::AsFd;

use rustix::event::PollFlags;
use rustix::io::Errno;

use crate::command_failure::CommandFailure;
use crate::interrupt;

/// Bytes that a ready pipe takes without blocking (`PIPE_BUF`).
const BYTES_AT_ONCE: usize = 4096;

/// Standard output, without a buffer.
#[derive(Debug)]
pub struct Output(Stdout);

/// Standard output. No other part of the program writes there.
#[must_use]
pub fn standard_output() -> Output {
    Output(io::stdout())
}

/// Writes a text to standard output.
///
/// # Errors
/// [`CommandFailure::output`].
pub fn print(text: &str) -> Result<(), CommandFailure> {
    let written = standard_output().write_all(text.as_bytes());
    written.map_err(CommandFailure::output)
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let bytes = &bytes[..bytes.len().min(BYTES_AT_ONCE)];
        loop {
            interrupt::wait_for(&self.0, PollFlags::OUT)?;
            match rustix::io::write(self.0.as_fd(), bytes) {
                // Another program may have made it non-blocking.
                Err(Errno::INTR | Errno::AGAIN) => {}
                written => return Ok(written?),
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
