//! Appending to a simulated file: every call is an event, and so is the sync.
//!
//! ```text
//!  event   1             2          3          4         5          6
//!        create x.tmp  append 1   append 2   sync   rename to x   sync_dir
//!                                 ^ a crash here: of both appends any subset of the sectors, in x.tmp
//! ```
//! Nothing waits in memory, as it does on a real disk, so a crash can come between any two calls.

use std::io;
use std::path::{Path, PathBuf};

use super::contents::{FileId, NameChange};
use super::fault::{Failure, Step};
use super::trace::Event;
use super::{SimDisk, not_found};
use crate::disk::Appender;
use crate::disk::file_names::{already_exists, temporary_path};

/// A simulated file that is being written.
pub(super) struct SimAppender {
    disk: SimDisk,
    file: FileId,
    path: PathBuf,
    /// Its name until it is finished.
    temporary: PathBuf,
    len_bytes: u64,
    failed: bool,
    finished: bool,
}

impl SimAppender {
    pub(super) fn new(disk: SimDisk, path: &Path) -> io::Result<Self> {
        disk.step(Step::Create)?;
        let temporary = temporary_path(path);
        let file = {
            let mut state = disk.0.state.lock();
            if state.live.names.contains_key(path) || state.live.dirs.contains(path) {
                return Err(already_exists(path));
            }
            if state.live.names.contains_key(&*temporary) {
                state.change(NameChange::Remove((*temporary).into()));
            }
            state.add(&temporary, 0)?
        };
        Ok(Self {
            disk,
            file,
            path: path.to_owned(),
            temporary,
            len_bytes: 0,
            failed: false,
            finished: false,
        })
    }

    fn require_sound(&self) -> io::Result<()> {
        if self.failed {
            let path = self.path.display();
            return Err(io::Error::other(format!(
                "an earlier write of {path} has failed: begin the file again"
            )));
        }
        Ok(())
    }

    /// One write that waits for the sync.
    fn write(&self, bytes: &[u8]) -> Result<(), Failure> {
        let mut state = self.disk.0.state.lock();
        state
            .require_room(bytes.len() as u64)
            .map_err(Failure::plain)?;
        let failure = state.faults.meet(Step::Append).err();
        let (write, file, offset) = (state.writes_ever, self.file, self.len_bytes);
        state.writes_ever += 1;
        let len_bytes = offset + bytes.len() as u64;
        state.live.grow(file, len_bytes);
        state.trace.push(Event::Grow(file, len_bytes));
        state.trace.push(Event::Begin {
            write,
            file,
            offset,
            bytes: bytes.into(),
        });
        match failure {
            None => {
                state.live.write(file, offset, bytes);
                Ok(())
            }
            Some(failure) => {
                state.trace.push(Event::Fail(write));
                Err(failure)
            }
        }
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.step(Step::Sync)?;
        let mut state = self.disk.0.state.lock();
        state.trace.push(Event::Sync(self.file));
        Ok(())
    }

    /// Gives the file its own name.
    fn give_name(&self) -> io::Result<()> {
        self.disk.step_of_names(Step::Rename, |state| {
            if state.live.names.contains_key(&*self.path) {
                return Err(already_exists(&self.path));
            }
            let here = state.live.names.get(&*self.temporary) == Some(&self.file);
            if !here {
                return Err(not_found(&self.temporary));
            }
            let (from, to) = ((*self.temporary).into(), (*self.path).into());
            state.change(NameChange::Rename(from, to));
            Ok(())
        })
    }
}

impl Appender for SimAppender {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.require_sound()?;
        if bytes.is_empty() {
            return Ok(());
        }
        self.failed = true;
        self.write(bytes).map_err(Failure::into_error)?;
        self.failed = false;
        self.len_bytes += bytes.len() as u64;
        Ok(())
    }

    fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    fn finish(mut self: Box<Self>) -> io::Result<u64> {
        self.require_sound()?;
        self.sync()?;
        self.give_name()?;
        self.finished = true;
        Ok(self.len_bytes)
    }
}

impl Drop for SimAppender {
    fn drop(&mut self) {
        if self.finished {
            return;
        }
        let mut state = self.disk.0.state.lock();
        let here = state.live.names.get(&*self.temporary) == Some(&self.file);
        // A failure leaves the temporary name, as on a real disk.
        if here && state.faults.meet(Step::Remove).is_ok() {
            state.change(NameChange::Remove((*self.temporary).into()));
        }
    }
}
