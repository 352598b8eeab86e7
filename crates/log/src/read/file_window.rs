//! A moving window over the files of a stream: few large reads, made ahead, and next to no copies.
//!
//! A file is read in pieces that follow each other. The part of a frame in the piece before is
//! copied in front of the next one, where room is left for it; all else stays where it was read to.
//! A position that could not be foreseen costs a read that is waited for.
//!
//! # Invariants
//! - W1. `buf[base..base + len]` are the bytes of the file `number` from `start` on.

use std::io;
use std::sync::Arc;

use namiki_platform::disk::{AlignedBuf, DiskFile};

use super::readahead::{AHEAD, Ahead, Wanted};
use crate::format::BLOCK_BYTES_MAX;

/// Length of a read, unless frames are long.
const READ_BYTES: usize = 1 << 20;

/// Number of bytes to read before the next search for a hole.
pub(super) const STRIDE_BYTES: u64 = READ_BYTES as u64;

/// Longest read for several frames at a time. A longer frame is read by itself, into memory of its
/// own that is not kept for the next.
const READ_BYTES_MAX: usize = 4 << 20;

/// Room before a piece for the beginning of a frame, unless frames are longer.
const ROOM_BYTES: usize = 64 << 10;

/// A file of the stream.
#[derive(Clone)]
struct Whole {
    number: usize,
    file: Arc<dyn DiskFile>,
    /// Nothing is wanted from here on.
    end: u64,
}

/// The bytes in memory of a file.
struct HeldBytes {
    number: usize,
    buf: AlignedBuf,
    /// The position in `buf` of the first byte held.
    base: usize,
    /// Offset in the file of the first byte held.
    start: u64,
    /// Bytes held.
    len: usize,
}

pub(super) struct Window {
    here: Option<Whole>,
    /// The file that will be wanted after this one.
    following: Option<Whole>,
    held: HeldBytes,
    /// The bytes of another file: a reader that looks into the next one may come back.
    aside: HeldBytes,
    ahead: Ahead,
    /// Pieces that were taken.
    taken: u64,
    /// The longest stretch that was asked for.
    longest: usize,
}

impl HeldBytes {
    fn nothing() -> Self {
        Self {
            number: usize::MAX,
            buf: AlignedBuf::default(),
            base: 0,
            start: 0,
            len: 0,
        }
    }

    fn end(&self) -> u64 {
        self.start + self.len as u64
    }

    /// Whether it is a single long frame.
    fn is_long(&self) -> bool {
        self.len > 2 * READ_BYTES_MAX
    }

    fn bytes(&self, offset: u64, len: usize) -> &[u8] {
        let Some(from) = offset.checked_sub(self.start) else {
            return &[];
        };
        let from = (from as usize).min(self.len);
        let to = (from + len).min(self.len);
        &self.buf[self.base + from..self.base + to]
    }
}

impl Window {
    pub(super) fn new() -> Self {
        Self {
            here: None,
            following: None,
            held: HeldBytes::nothing(),
            aside: HeldBytes::nothing(),
            ahead: Ahead::default(),
            taken: 0,
            longest: 0,
        }
    }

    /// Goes to a file of the stream, from which nothing is wanted at or behind `end`.
    pub(super) fn go_to(&mut self, number: usize, file: Arc<dyn DiskFile>, end: u64) {
        self.here = Some(Whole { number, file, end });
        self.following = None;
        if self.held.number != number {
            std::mem::swap(&mut self.held, &mut self.aside);
            if self.aside.is_long() {
                self.aside = HeldBytes::nothing();
            }
        }
    }

    /// Says which file will be wanted, from its beginning on, after the one that is here.
    pub(super) fn follow_with(&mut self, number: usize, file: Arc<dyn DiskFile>, end: u64) {
        self.following = Some(Whole { number, file, end });
    }

    /// The bytes from `offset`, `len` of them or what the file still has.
    pub(super) fn get(&mut self, offset: u64, len: usize) -> io::Result<&[u8]> {
        if let Some(here) = &self.here {
            let end = (offset + len as u64).min(here.end);
            let held = &self.held;
            let is_held = held.number == here.number && held.start <= offset && end <= held.end();
            if offset < end && !is_held {
                self.fetch(offset, end)?;
            }
        }
        Ok(self.held(offset, len))
    }

    /// Bytes that [`Window::get`] has fetched and nothing has displaced since.
    pub(super) fn held(&self, offset: u64, len: usize) -> &[u8] {
        match &self.here {
            Some(here) if here.number == self.held.number => self.held.bytes(offset, len),
            _ => &[],
        }
    }

    fn fetch(&mut self, offset: u64, end: u64) -> io::Result<()> {
        let Some(here) = self.here.clone() else {
            return Ok(());
        };
        if end - offset > READ_BYTES_MAX as u64 {
            return self.fetch_long(&here, offset, end);
        }
        self.longest = self.longest.max((end - offset) as usize);
        loop {
            let held = &self.held;
            let goes_on = held.number == here.number
                && (held.start..held.end()).contains(&offset)
                && held.end().is_multiple_of(BLOCK_BYTES_MAX as u64);
            let block = BLOCK_BYTES_MAX as u64;
            let (kept, next) = if goes_on {
                ((held.end() - offset) as usize, held.end())
            } else {
                (0, offset / block * block)
            };
            let got = self.take(&here, next, end, kept)?;
            let ended = got == 0 || !got.is_multiple_of(BLOCK_BYTES_MAX);
            if self.held.end() >= end || ended {
                break;
            }
        }
        self.look_ahead(&here);
        Ok(())
    }

    /// Reads a long stretch. The held bytes are freed first, so that only one long stretch is in
    /// memory.
    fn fetch_long(&mut self, here: &Whole, offset: u64, end: u64) -> io::Result<()> {
        self.replace_held(HeldBytes::nothing());
        let block = BLOCK_BYTES_MAX as u64;
        let start = offset / block * block;
        let mut buf = AlignedBuf::zeroed((end - start).next_multiple_of(block) as usize);
        let mut len = 0;
        for piece in buf.chunks_mut(READ_BYTES_MAX) {
            let got = here.file.read_at(start + len as u64, piece)?;
            len += got;
            if got < piece.len() {
                break;
            }
        }
        self.held = HeldBytes {
            number: here.number,
            buf,
            base: 0,
            start,
            len,
        };
        Ok(())
    }

    fn replace_held(&mut self, held: HeldBytes) {
        let old = std::mem::replace(&mut self.held, held);
        if !old.is_long() {
            self.ahead.give_back(old.buf);
        }
    }

    /// Takes the piece that begins at `next`, with the last `kept` bytes of what is held before it.
    /// Returns how many bytes it has.
    fn take(&mut self, here: &Whole, next: u64, end: u64, kept: usize) -> io::Result<usize> {
        while let Some(first) = self.ahead.first() {
            let reaches = first.start + first.bytes as u64;
            let fits = first.number == here.number
                && first.start == next
                && (reaches >= end || first.bytes >= self.piece_bytes(here.end, next));
            if fits {
                break;
            }
            self.ahead.pass_over();
        }
        if self.ahead.first().is_none() {
            let wanted = self.wanted(here, next);
            self.ahead.ask(wanted);
        }
        let Some(piece) = self.ahead.take() else {
            return Ok(0);
        };
        let piece = piece?;
        self.taken += 1;
        let from = self.held.base + self.held.len - kept;
        let before = &self.held.buf[from..from + kept];
        let (mut buf, mut room) = (piece.buf, piece.room);
        if kept > room {
            // The first of the long frames. From now on there will be room.
            room = kept.next_multiple_of(BLOCK_BYTES_MAX);
            let mut larger = AlignedBuf::zeroed(room + piece.len);
            larger[room..].copy_from_slice(&buf[piece.room..piece.room + piece.len]);
            self.ahead.give_back(std::mem::replace(&mut buf, larger));
        }
        buf[room - kept..room].copy_from_slice(before);
        let held = HeldBytes {
            number: here.number,
            buf,
            base: room - kept,
            start: next - kept as u64,
            len: kept + piece.len,
        };
        self.replace_held(held);
        Ok(piece.len)
    }

    /// Asks for what will be wanted next.
    fn look_ahead(&mut self, here: &Whole) {
        if self.taken < 2 {
            return;
        }
        while self.ahead.len() < AHEAD {
            let (number, next) = match self.ahead.last() {
                Some(last) => (last.number, last.start + last.bytes as u64),
                None => (here.number, self.held.end()),
            };
            let file = match &self.following {
                Some(following) if number == following.number => following,
                _ if number == here.number => here,
                _ => return,
            };
            let wanted = match (next < file.end, &self.following) {
                (true, _) => self.wanted(file, next),
                (false, Some(following)) if following.number != number && following.end > 0 => {
                    self.wanted(following, 0)
                }
                (false, _) => return,
            };
            self.ahead.start();
            self.ahead.ask(wanted);
        }
    }

    fn wanted(&self, from: &Whole, start: u64) -> Wanted {
        Wanted {
            file: Arc::clone(&from.file),
            number: from.number,
            start,
            bytes: self.piece_bytes(from.end, start),
            room: self
                .longest
                .next_multiple_of(BLOCK_BYTES_MAX)
                .max(ROOM_BYTES),
        }
    }

    /// Several long frames at a time, because otherwise much would be copied.
    fn piece_bytes(&self, end: u64, start: u64) -> usize {
        let several = (self.longest * 4).min(READ_BYTES_MAX);
        let bytes = READ_BYTES.max(several).max(self.longest);
        let left = end.saturating_sub(start);
        // Whole blocks, also at the end of a file that has not.
        (bytes as u64)
            .min(left)
            .next_multiple_of(BLOCK_BYTES_MAX as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;
    use std::os::fd::BorrowedFd;
    use std::path::Path;
    use std::sync::Mutex;
    use std::sync::mpsc::{Sender, channel};
    use std::time::Duration;

    use namiki_platform::disk::sim::{Fault, SimDisk, Step};
    use namiki_platform::disk::{Disk, FileLayer};
    use namiki_platform::seeded_random::Random;
    use namiki_platform::threads::with_limit;

    use super::*;

    const BLOCK: usize = BLOCK_BYTES_MAX;

    /// A file of this length, whose bytes tell their offsets.
    fn file(disk: &SimDisk, number: usize, bytes: usize) -> (Arc<dyn DiskFile>, Vec<u8>) {
        let words = (0..bytes as u64 / 8).map(|at| (at ^ (number as u64) << 40).to_le_bytes());
        let contents: Vec<u8> = words.flatten().collect();
        let path = format!("/{number}");
        let file = disk.create(Path::new(&path), bytes as u64).unwrap();
        let mut buf = AlignedBuf::with_capacity(bytes);
        buf.extend_from_slice(&contents);
        file.write_durable(0, &buf).unwrap();
        (file, contents)
    }

    /// Goes to a file, and says which comes then.
    fn go_to(window: &mut Window, files: &[(Arc<dyn DiskFile>, Vec<u8>)], number: usize) {
        let (file, contents) = &files[number];
        window.go_to(number, Arc::clone(file), contents.len() as u64);
        if let Some((next, _)) = files.get(number + 1) {
            window.follow_with(number + 1, Arc::clone(next), next.len_bytes());
        }
    }

    #[test]
    fn reads_in_any_order_return_the_files_bytes() {
        let disk = SimDisk::new();
        let lengths = [3 << 20, 512, 5 * READ_BYTES / 2 + 512, READ_BYTES, 6 << 20];
        let files: Vec<_> = (0..)
            .zip(lengths)
            .map(|(number, bytes)| file(&disk, number, bytes))
            .collect();
        for seed in 0..30 {
            let mut random = Random::seeded(seed);
            let mut window = Window::new();
            let (mut number, mut at) = (0, 0);
            go_to(&mut window, &files, 0);
            for step in 0..300 {
                let len = match random.below(20) {
                    0 => random.below(3 << 20),
                    1..4 => random.below(300 << 10),
                    _ => random.below(50 << 10),
                } as usize;
                let contents = &files[number].1;
                let from = at.min(contents.len());
                let to = (at + len).min(contents.len());
                let got = window.get(at as u64, len).unwrap();
                assert!(got == &contents[from..to], "seed {seed}, step {step}");
                assert!(
                    window.held(at as u64, len) == &contents[from..to],
                    "seed {seed}"
                );
                at += len;
                match random.below(60) {
                    0 => at = random.below(contents.len() as u64) as usize,
                    1 => number = random.below(files.len() as u64) as usize,
                    2 if number > 0 => number -= 1,
                    _ if at < contents.len() => continue,
                    _ => {
                        number = (number + 1) % files.len();
                        at = 0;
                    }
                }
                go_to(&mut window, &files, number);
            }
        }
    }

    /// The caller reads each piece when it wants it.
    #[test]
    fn files_are_read_where_no_thread_is_allowed() {
        let disk = SimDisk::new();
        let (tell, told) = channel();
        let files: Vec<_> = (0..3)
            .map(|number| {
                let (file, contents) = file(&disk, number, 3 * READ_BYTES + BLOCK);
                let told = Told(file, Mutex::new(tell.clone()));
                (Arc::new(told) as Arc<dyn DiskFile>, contents)
            })
            .collect();
        with_limit(0, || {
            let mut window = Window::new();
            for (number, (_, contents)) in files.iter().enumerate() {
                go_to(&mut window, &files, number);
                for at in (0..contents.len()).step_by(BLOCK) {
                    let got = window.get(at as u64, BLOCK).unwrap();
                    assert!(got == &contents[at..at + BLOCK], "{number} {at}");
                    let read = told.try_iter().count();
                    assert!(read <= 1, "{number} {at}: {read} reads for one piece");
                }
            }
        });
    }

    #[test]
    fn a_failed_read_fails_only_its_own_piece() {
        let pieces = 6;
        for failing in 0..pieces {
            let disk = SimDisk::new();
            let files = [file(&disk, 0, pieces * READ_BYTES)];
            for stop in 0..=pieces {
                disk.inject(Fault::once(Step::Read, failing as u64, ErrorKind::Other));
                let mut window = Window::new();
                go_to(&mut window, &files, 0);
                let block = |piece: usize| (piece * READ_BYTES) as u64;
                let good = (0..stop).take_while(|piece| window.get(block(*piece), BLOCK).is_ok());
                assert_eq!(good.count(), stop.min(failing), "{failing} {stop}");
                drop(window);
                disk.heal();
            }
        }
    }

    /// Tells of every read.
    #[derive(Debug)]
    struct Told(Arc<dyn DiskFile>, Mutex<Sender<u64>>);

    impl FileLayer for Told {
        fn inner(&self) -> &Arc<dyn DiskFile> {
            &self.0
        }

        fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
            self.1.lock().unwrap().send(offset).unwrap();
            self.0.read_at(offset, into)
        }

        fn os_file(&self) -> Option<BorrowedFd<'_>> {
            None
        }
    }

    #[test]
    fn at_most_two_pieces_are_read_ahead() {
        let disk = SimDisk::new();
        let (tell, told) = channel();
        let files: Vec<_> = (0..3)
            .map(|number| {
                let (file, contents) = file(&disk, number, 2 * READ_BYTES);
                let told = Told(file, Mutex::new(tell.clone()));
                (Arc::new(told) as Arc<dyn DiskFile>, contents)
            })
            .collect();
        let mut window = Window::new();
        go_to(&mut window, &files, 0);
        let second = READ_BYTES as u64;
        window.get(0, BLOCK).unwrap();
        assert_eq!(
            told.try_iter().collect::<Vec<_>>(),
            [0],
            "one piece is enough"
        );
        window.get(second, BLOCK).unwrap();
        // The offsets of the next file.
        let expected = [second, 0, second];
        let watchdog = Duration::from_secs(60);
        let read: Vec<_> = (0..3)
            .map(|_| told.recv_timeout(watchdog).unwrap())
            .collect();
        assert_eq!(read, expected);
        go_to(&mut window, &files, 1);
        window.get(0, BLOCK).unwrap();
        assert_eq!(
            told.recv_timeout(watchdog),
            Ok(0),
            "the file after the next"
        );
        drop(window);
        assert_eq!(told.try_iter().count(), 0);
    }
}
