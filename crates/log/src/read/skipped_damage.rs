//! Reading on behind damage, for a log that other nodes have, too.
//!
//! A reader that [skips damage](StreamReader::open_skipping_damage) treats what it cannot read as absent. At a place without
//! the next frame it looks for a later one, from block to block, in this log file and in those behind it:
//!
//! ```text
//!   │ 7 │ 8 │ damaged │ 10 │ 11 │        expected 9 ──> 10 is whole and later: it goes on there
//! ```
//! A frame is taken only if it is whole, of this stream and generation, and later than the last one. Its checksum is salted
//! with the log's identity, the number of its file and its offset, so neither old bytes nor bytes inside of a payload
//! resemble one. A generation without a seal ends behind the last frame that is found: damage there cannot be told from
//! a torn write.
//!
//! A log file with a damaged header has its frames nevertheless; they are searched at every place. A stretch that the device
//! cannot read counts as damaged.

use namiki_platform::disk::DiskFile;

use super::damage_notes::SkippedDamage;
use super::file_window::STRIDE_BYTES;
use super::stream_files::Extent;
use super::{ReadError, StreamReader};
use crate::format::BLOCK_BYTES_MIN;

impl StreamReader {
    /// The damage that was skipped so far; `None`: there was none. Complete when the reader has come to the end.
    #[must_use]
    pub fn take_skipped_damage(&mut self) -> Option<SkippedDamage> {
        let notes = self.damage.as_mut()?;
        let first = notes.first.take()?;
        let frames = std::mem::take(&mut notes.frames);
        Some(SkippedDamage { first, frames })
    }

    /// Notes damage here, and returns whether it is to be skipped. Otherwise the error is to be returned.
    pub(super) fn skips(&mut self, error: ReadError) -> Result<(), ReadError> {
        match &mut self.damage {
            Some(notes) => {
                notes.note(error);
                Ok(())
            }
            None => Err(error),
        }
    }

    /// Goes to the next frame that is whole, if damage is skipped and there is one.
    pub(super) fn skip_damage(&mut self, sealed: Option<u64>) -> Result<bool, ReadError> {
        if self.damage.is_none() || !self.source.may_be_torn() {
            return Ok(false);
        }
        let what = self.what_is_wrong().before_others;
        let error = self.damaged(what);
        let before = (self.index, self.at);
        let mut first = None;
        loop {
            if let Some((at, sequence)) = self.find_later(sealed)? {
                if let Some(extent) = &mut self.here {
                    extent.has_header = true;
                }
                let lost = sequence - self.expected.unwrap_or(sequence);
                if let Some(notes) = &mut self.damage
                    && lost > 0
                {
                    notes.note(error);
                    notes.frames += lost;
                }
                self.at = at;
                self.expected = Some(sequence);
                return Ok(true);
            }
            let here = self.here.take();
            if first.is_none() {
                first = here;
            }
            if !self.enter(self.index + 1)? {
                break;
            }
        }
        (self.index, self.at) = before;
        self.here = first;
        self.go_to_extent();
        Ok(false)
    }

    /// The sound frame that comes next in this extent, from here on, and its sequence.
    fn find_later(&mut self, sealed: Option<u64>) -> Result<Option<(u64, u64)>, ReadError> {
        let mut at = self.at;
        // Up to here there may be data.
        let mut known = at;
        while let Some(extent) = &self.here
            && at < extent.end
        {
            let step = extent.block_bytes as u64;
            if at >= known {
                match extent.file.next_data(at) {
                    Ok(Some(data)) if data < extent.end => at = at.max(data / step * step),
                    Ok(_) => break,
                    Err(_) => {}
                }
                known = at + STRIDE_BYTES;
            }
            if let Some(notes) = &mut self.damage {
                notes.is_unreadable = false;
            }
            if let Some((header, _)) = self.look(at)?
                && self.is_ours(&header)
                && self.expected.is_none_or(|it| header.sequence >= it)
                && sealed.is_none_or(|last| header.sequence <= last)
            {
                return Ok(Some((at, header.sequence)));
            }
            at = if (self.damage.as_ref()).is_some_and(|notes| notes.is_unreadable) {
                // The window reads so much at once.
                (at + 1).next_multiple_of(STRIDE_BYTES)
            } else {
                at + step
            };
        }
        Ok(None)
    }

    /// The end of a stream with skipped damage: frames that a seal tells of, or the beginning, are lost.
    pub(super) fn finish_skipping(&mut self, sealed: Option<u64>) {
        let start = self.info.start(self.worker());
        let before = start.sequence.saturating_sub(1);
        self.end.last_sequence = self.end.last_sequence.max(before);
        let lost = sealed.map_or(0, |last| last.saturating_sub(self.end.last_sequence));
        let is_lost = lost > 0 || self.end.frames == 0 && !start.is_first();
        if is_lost {
            let error = self.damaged("frames at the end of the stream are missing or damaged");
            if let Some(notes) = &mut self.damage {
                notes.note(error);
                notes.frames += lost;
            }
        }
    }

    /// What is known of a log file with a damaged header.
    pub(super) fn without_header(
        file: std::sync::Arc<dyn DiskFile>,
        path: std::path::PathBuf,
        file_number: u64,
    ) -> Extent {
        Extent {
            path,
            file_number,
            start: BLOCK_BYTES_MIN as u64,
            end: file.len_bytes(),
            block_bytes: BLOCK_BYTES_MIN,
            has_header: true,
            lost_name: None,
            is_zeroed: false,
            is_oversize: false,
            frame_bytes_max: 0,
            beyond: 0,
            ring: None,
            file,
        }
    }
}
