//! Input from other programs: standard input, pipes, and files, any of which may be a FIFO. A read
//! from a FIFO without data blocks; Ctrl-C interrupts it.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Stdin};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use namiki_terminal::interrupt;
use rustix::event::PollFlags;
use rustix::fs::OFlags;
use rustix::io::Errno;

/// Standard input or a file, unbuffered. No other part of the program reads standard input.
#[derive(Debug)]
pub(crate) enum Input {
    Standard(Stdin),
    File(File),
}

impl Input {
    /// Opens a file; `-` is standard input.
    ///
    /// # Errors
    /// Those of the system.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        if path == Path::new("-") {
            return Ok(Self::Standard(io::stdin()));
        }
        // Otherwise opening a FIFO would wait for its writer, uninterruptibly. Now reads wait
        // instead.
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
