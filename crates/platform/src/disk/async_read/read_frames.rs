//! A read into frames by a thread that waits for it.

use std::io::{self, IoSliceMut};
use std::os::fd::BorrowedFd;

use super::{Frame, Frames, PAGE_BYTES};
use crate::disk::DiskFile;

/// Fails with `InvalidInput` unless a request is one that every queue takes.
pub(in crate::disk) fn check_request(
    file: &dyn DiskFile,
    at: u64,
    frames: &[Frame],
) -> io::Result<()> {
    let block = file.block_bytes();
    let end = at.checked_add((frames.len() * PAGE_BYTES) as u64);
    if at.is_multiple_of(block as u64) && frames.len() <= Frames::MAX && end.is_some() {
        return Ok(());
    }
    Err(io::Error::new(
        io::ErrorKind::InvalidInput,
        format!(
            "a read of {} pages at offset {at} is none of at most {} pages from a multiple of {block} on",
            frames.len(),
            Frames::MAX
        ),
    ))
}

/// Fills the frames from offset `at` on as far as the file reaches; returns how many bytes that is.
pub(in crate::disk) fn read_frames(
    file: &dyn DiskFile,
    at: u64,
    frames: &mut [Frame],
) -> io::Result<usize> {
    check_request(file, at, frames)?;
    let done = match file.os_file() {
        Some(os_file) if frames.len() > 1 => read_vectored(os_file, at, frames)?,
        _ => 0,
    };
    complete(file, at, frames, done)
}

/// Reads on where a read has stopped after `done` bytes, though neither the frames nor the file end
/// there.
pub(in crate::disk) fn complete(
    file: &dyn DiskFile,
    at: u64,
    frames: &mut [Frame],
    done: usize,
) -> io::Result<usize> {
    if done as u64 >= file.len_bytes().saturating_sub(at) {
        return Ok(done);
    }
    // A direct read continues at a block boundary; each frame begins at one.
    for (number, frame) in frames.iter_mut().enumerate().skip(done / PAGE_BYTES) {
        let start = number * PAGE_BYTES;
        let read = file.read_at(at + start as u64, &mut frame[..])?;
        if read < PAGE_BYTES {
            return Ok(start + read);
        }
    }
    Ok(frames.len() * PAGE_BYTES)
}

fn read_vectored(file: BorrowedFd<'_>, at: u64, frames: &mut [Frame]) -> io::Result<usize> {
    let mut pieces: Vec<IoSliceMut<'_>> = frames
        .iter_mut()
        .map(|frame| IoSliceMut::new(&mut frame[..]))
        .collect();
    loop {
        match rustix::io::preadv(file, &mut pieces, at) {
            Err(rustix::io::Errno::INTR) => {}
            other => return Ok(other?),
        }
    }
}
