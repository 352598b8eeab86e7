//! The k-way merge of all streams by LSN.
//!
//! Each stream is in the order of its LSNs, so the smallest of the streams' next records is next of
//! all. Under early lock release a commit may depend on any with a smaller LSN; so, from the first
//! LSN that must be there, the merge stops at the first that is missing. Under normal release it
//! depends on nothing that is not hardened, and a missing LSN means nothing.
//!
//! Paper: pwal §4.3.3, Algorithm 4

use namiki_platform::{Lsn, Stamp};

use super::{ReadError, StreamEnd, StreamReader};
use crate::format::frame::{FrameHeader, LogRecord, record};

/// A merge in progress.
#[derive(Debug)]
pub struct Merge {
    heads: Vec<Head>,
    /// No LSN from this one on may be missing; it moves up with the merge.
    expected: Lsn,
    last: Option<Lsn>,
    /// Some may be missing.
    gaps: bool,
    /// The stream to read on from, and the LSN up to which it is alone.
    run: Option<(usize, u64)>,
    stopped: bool,
    records: u64,
    started: bool,
}

#[derive(Debug)]
struct Head {
    reader: StreamReader,
    frame: Option<(FrameHeader, u64)>,
    /// The position of the next record in the frame's records.
    at: usize,
    /// LSN of the next record; `u64::MAX` at the end.
    lsn: u64,
}

/// The result of a merge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MergeEnd {
    /// The last LSN that counts: every one up to it was there, unless some may be missing.
    pub last_lsn: Lsn,
    /// Records given out.
    pub records: u64,
    /// Hardened records that do not count, because one before them is missing.
    pub dropped: u64,
    /// The largest stamp in all streams, dropped records included.
    pub max_stamp: Stamp,
    /// Each stream's end.
    pub streams: Vec<StreamEnd>,
}

impl Head {
    fn next_frame(&mut self) -> Result<(), ReadError> {
        self.at = 0;
        self.frame = self.reader.advance()?;
        self.look();
        if self.frame.is_some() && self.lsn == u64::MAX {
            return self.next_frame();
        }
        Ok(())
    }

    fn look(&mut self) {
        self.lsn = self.record().map_or(u64::MAX, |(record, _)| record.lsn.0);
    }

    fn record(&self) -> Option<(LogRecord<'_>, usize)> {
        let (header, at) = self.frame?;
        let frame = self.reader.frame_at(header, at);
        record(frame.bytes_from(self.at))
    }
}

impl Merge {
    /// Merges `streams`, all of one generation. From `first` on no LSN may be missing; `last`, of a
    /// sealed generation, is where it ends.
    #[must_use]
    pub fn by_lsn(streams: Vec<StreamReader>, first: Lsn, last: Option<Lsn>) -> Self {
        Self::new(streams, first, last, false)
    }

    /// Merges all that is in `streams`, of one generation, whichever LSNs are missing.
    #[must_use]
    pub fn by_lsn_with_gaps(streams: Vec<StreamReader>) -> Self {
        Self::new(streams, Lsn(1), None, true)
    }

    fn new(streams: Vec<StreamReader>, first: Lsn, last: Option<Lsn>, gaps: bool) -> Self {
        let heads = streams.into_iter().map(|reader| Head {
            reader,
            frame: None,
            at: 0,
            lsn: u64::MAX,
        });
        Self {
            heads: heads.collect(),
            expected: first,
            last,
            gaps,
            run: None,
            stopped: false,
            records: 0,
            started: false,
        }
    }

    /// The record with the next LSN; `None` at the first that is missing, or at the end.
    ///
    /// # Errors
    /// [`ReadError`]; nothing that was given out should be kept then.
    pub fn next_record(&mut self) -> Result<Option<LogRecord<'_>>, ReadError> {
        if self.stopped {
            return Ok(None);
        }
        match self.select() {
            Ok(Some(selected)) => {
                let head = &self.heads[selected];
                Ok(head.record().map(|(record, _)| record))
            }
            Ok(None) => {
                self.stopped = true;
                Ok(None)
            }
            Err(error) => {
                self.stopped = true;
                Err(error)
            }
        }
    }

    fn select(&mut self) -> Result<Option<usize>, ReadError> {
        self.step_over()?;
        let selected = match self.run {
            Some((stream, alone)) if self.heads[stream].lsn < alone => stream,
            _ => {
                let (mut least, mut second, mut selected) = (u64::MAX, u64::MAX, 0);
                for (stream, head) in self.heads.iter().enumerate() {
                    if head.lsn < least {
                        second = least;
                        least = head.lsn;
                        selected = stream;
                    } else {
                        second = second.min(head.lsn);
                    }
                }
                self.run = Some((selected, second));
                selected
            }
        };
        let lsn = self.heads.get(selected).map_or(u64::MAX, |head| head.lsn);
        let is_beyond = lsn > self.expected.0 && !self.gaps;
        if lsn == u64::MAX || is_beyond || self.last.is_some_and(|last| lsn > last.0) {
            self.run = None;
            return Ok(None);
        }
        self.expected = self.expected.max(Lsn(lsn).next());
        self.records += 1;
        Ok(Some(selected))
    }

    /// Leaves the record that was given out last.
    fn step_over(&mut self) -> Result<(), ReadError> {
        if !self.started {
            self.started = true;
            for head in &mut self.heads {
                head.next_frame()?;
            }
            return Ok(());
        }
        let Some((stream, _)) = self.run else {
            return Ok(());
        };
        let head = &mut self.heads[stream];
        if let Some((_, bytes)) = head.record() {
            head.at += bytes;
            head.look();
        }
        if head.lsn == u64::MAX {
            head.next_frame()?;
        }
        Ok(())
    }

    /// Reads what is left of every stream and says what the merge came to. If records are left to
    /// be merged they count as dropped.
    ///
    /// # Errors
    /// [`ReadError::HardenedMissing`] if the LSN at which the merge stopped is below a horizon that
    /// some frame recorded; other errors from what is read here.
    pub fn finish(self) -> Result<MergeEnd, ReadError> {
        let on_read = |_: u64| Ok::<_, ReadError>(());
        self.finish_with(on_read)
    }

    /// The same; `on_read` gets the length of every payload that is merged here and of every
    /// frame behind the merge, and its error ends the reading.
    ///
    /// # Errors
    /// As [`Merge::finish`], or what `on_read` returns.
    pub fn finish_with<E: From<ReadError>>(
        mut self,
        mut on_read: impl FnMut(u64) -> Result<(), E>,
    ) -> Result<MergeEnd, E> {
        // Merging on is the way to know what counts.
        while let Some(record) = self.next_record()? {
            on_read(record.payload.len() as u64)?;
        }
        let mut end = MergeEnd {
            last_lsn: Lsn(self.expected.0 - 1),
            records: self.records,
            dropped: 0,
            max_stamp: Stamp(0),
            streams: Vec::with_capacity(self.heads.len()),
        };
        let mut horizon = Lsn(0);
        let mut all = 0;
        for head in &mut self.heads {
            while let Some((header, _)) = head.reader.advance()? {
                on_read(u64::from(header.length))?;
            }
            let stream = head.reader.end();
            all += stream.records;
            end.max_stamp = end.max_stamp.max(stream.max_stamp);
            horizon = horizon.max(stream.horizon);
            end.streams.push(stream);
        }
        end.dropped = all - self.records;
        // A frame of a copy may say that more was hardened than the copy has.
        let horizon = self.last.map_or(horizon, |last| horizon.min(last.next()));
        if horizon > self.expected && !self.gaps {
            let lsn = self.expected;
            return Err(E::from(ReadError::HardenedMissing { lsn, horizon }));
        }
        Ok(end)
    }
}
