//! What is read from other programs: standard input, pipes, and files, any of which may be a FIFO. One that nothing is written to lets
//! its reader wait; Ctrl-C ends that.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Stdin};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use namiki_terminal::interrupt;
use rustix::event::PollFlags;
use rustix::fs::OFlags;
use rustix::io::Errno;

/// Standard input or a file, without a buffer. Nothing else of the program reads standard input.
#[derive(Debug)]
pub(crate) enum Input {
    Standard(Stdin),
    File(File),
}

impl Input {
    /// Opens a file; standard input if it is called `-`.
    ///
    /// # Errors
    /// Those of the system.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        if path == Path::new("-") {
            return Ok(Self::Standard(io::stdin()));
        }
        // Opening a FIFO waits for its writer otherwise, and nothing can end that. Reading waits instead.
        let flags = OFlags::NONBLOCK.bits().cast_signed();
        let file = OpenOptions::new().read(true).custom_flags(flags).open(path);
        file.map(Self::File)
    }
}

impl AsFd for Input {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Standard(stdin) => stdin.as_fd(),
            Self::File(file) => file.as_fd(),
        }
    }
}

impl Read for Input {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            interrupt::wait_for(&*self, PollFlags::IN)?;
            match rustix::io::read(self.as_fd(), &mut *into) {
                Err(Errno::INTR | Errno::AGAIN) => {}
                read => return Ok(read?),
            }
        }
    }
}
