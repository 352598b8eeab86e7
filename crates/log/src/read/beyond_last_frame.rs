//! What lies beyond the last frame of a stream: what a crash leaves there, or damage.
//!
//! One frame of a stream is in flight at a time, and a device keeps or loses whole sectors of it.
//! So behind the last whole frame of a generation without a seal there may be, and nothing else:
//! - *One torn frame*, where the next would be: here, or at the beginning of the next log file if
//!   the rest of this one is too short for it, or if one of the two was made for one frame: other
//!   frames may not use the rest of such a file. Where the lengths of log files differ, one may end
//!   before it is full. Its first sector is lost, or is that of the next
//!   frame. If blocks are shorter than a header, the second one may be lost instead. In log files
//!   that were created zeroed all else is zero, so other bytes are damage.
//! - *Log files that were made ready*, with their headers and no frames. The last of them may be
//!   without its header: then it is zero, or an old one that is to be written again.
//! - *A first log file that was given up*: it has the header of the next, whose name was lost, and
//!   none of its frames. Its own are not looked for.
//! - *In recycled log files and regions, old bytes.* A later frame of this generation among them is
//!   damage; in a region, a frame whose sequence is two or more above the last: its predecessor's
//!   head was durable first.
//!
//! Holes are zeros and are not read, however long they are.

use std::ops::Range;
use std::path::PathBuf;

use namiki_platform::bytes::is_zero;
use namiki_platform::disk::SECTOR_BYTES;

use super::file_window::STRIDE_BYTES;
use super::{ReadError, StreamReader};
use crate::format::frame::{FRAME_HEADER_BYTES, peek};

/// Behind the end of a region; elsewhere, what is wrong with the frame before them is said, too.
const LATER: &str = "later frames are intact";
const NO_FRAME: &str = "the header of a frame is damaged, and not as a crash does it";
const TOO_MUCH: &str = "more follows than the one frame that a crash can tear";

impl StreamReader {
    /// Looks at the rest of the generation's files, from where the next frame should be.
    ///
    /// # Errors
    /// [`ReadError::Damaged`] if something is there that no crash leaves.
    pub(super) fn look_on(&mut self) -> Result<(), ReadError> {
        let (first, mut place) = (self.index, self.place());
        let mut later = self.what_is_wrong().before_others;
        let mut left_before = None;
        let (mut torn, mut torn_frame) = (false, false);
        while let Some(extent) = &self.here {
            if extent.lost_name.is_some() {
                if !self.enter(self.index + 1)? {
                    break;
                }
                continue;
            }
            let left = extent.end.saturating_sub(self.at);
            let (is_zeroed, has_header) = (extent.is_zeroed, extent.has_header);
            let is_oversize = extent.is_oversize;
            // Nothing was ever written there: then it is the next log file's beginning that is
            // missing.
            if self.index == first + 1 && !torn {
                let (file, at) = self.place();
                place = (file, if has_header { at } else { 0 });
                later = self.what_is_wrong().before_others;
            }
            let may_be_torn = self.index <= first + 1 && has_header && !torn_frame;
            let allowed = if may_be_torn && is_zeroed {
                self.torn_frame_bytes(left_before)?
            } else {
                Some(0)
            };
            let Some(allowed) = allowed else {
                return Err(ReadError::damaged(&place.0, place.1, NO_FRAME));
            };
            let legal = self.at..self.at + allowed.min(left);
            let found = self.look_through(&place, later, is_zeroed.then_some(legal))?;
            torn |= found;
            torn_frame |= found && is_zeroed;
            let is_used_up = !is_oversize && self.info.first_file_bytes.is_none();
            left_before = is_used_up.then_some(left);
            if !self.enter(self.index + 1)? {
                break;
            }
        }
        self.end.torn = torn;
        Ok(())
    }

    /// How many bytes the frame that should be here can have left, if it was torn: all of it if its
    /// first sector tells, and otherwise as many as any frame can have. `None` if no frame's first
    /// sector can look like this one.
    fn torn_frame_bytes(&mut self, left_before: Option<u64>) -> Result<Option<u64>, ReadError> {
        let Some(extent) = &self.here else {
            return Ok(Some(0));
        };
        let left = extent.end.saturating_sub(self.at);
        let longest = extent.frame_bytes_max.min(left);
        // A frame comes here only if the log file before had no room for it, or if one of the two
        // was made for one frame.
        let left_before = left_before.filter(|_| !extent.is_oversize);
        let fits = |bytes: u64| bytes <= longest && left_before.is_none_or(|it| bytes > it);
        // Memory that writes shorter blocks keeps or loses those.
        let sector_bytes = SECTOR_BYTES.min(extent.block_bytes) as u64;
        let head_bytes = (FRAME_HEADER_BYTES as u64).next_multiple_of(sector_bytes);
        let head = self
            .window
            .get(self.at, head_bytes.min(left) as usize)
            .map_err(|source| ReadError::device(&extent.path, source))?;
        let (sector, behind) = head.split_at(head.len().min(sector_bytes as usize));
        if is_zero(sector) {
            return Ok(Some(if fits(longest) { longest } else { 0 }));
        }
        // The generation and the worker are in the header's last bytes.
        let lacks_end = sector.len() < FRAME_HEADER_BYTES && is_zero(behind);
        let header = head.get(..FRAME_HEADER_BYTES).and_then(peek);
        let bytes = header
            .filter(|header| lacks_end || self.is_ours(header))
            .filter(|header| self.expected.is_none_or(|it| it == header.sequence))
            .map(|header| self.padded(&header));
        Ok(bytes.filter(|bytes| fits(*bytes)))
    }

    /// Looks at the rest of the extent that is here: whether anything but zeros is there. If only a
    /// range may have that, what is outside is damage at `place`, and a later frame always is:
    /// `later_frames` says so.
    fn look_through(
        &mut self,
        place: &(PathBuf, u64),
        later_frames: &'static str,
        legal: Option<Range<u64>>,
    ) -> Result<bool, ReadError> {
        let damaged = |what| Err(ReadError::damaged(&place.0, place.1, what));
        let mut at = self.at;
        // Up to here there may be data.
        let mut known = at;
        let mut found = false;
        while let Some(extent) = &self.here
            && at < extent.end
        {
            let step = extent.block_bytes as u64;
            if at >= known {
                let next = extent.file.next_data(at);
                match next.map_err(|source| ReadError::device(&extent.path, source))? {
                    Some(data) if data < extent.end => at = at.max(data / step * step),
                    _ => break,
                }
                known = at + STRIDE_BYTES;
            }
            if let Some((header, _)) = self.look(at)? {
                let later = self.expected.is_none_or(|it| header.sequence >= it);
                if self.is_ours(&header) && later {
                    return damaged(later_frames);
                }
            }
            if !self.is_zero_at(at, step as usize)? {
                found = true;
                if legal.as_ref().is_some_and(|legal| !legal.contains(&at)) {
                    return damaged(TOO_MUCH);
                }
            }
            at += step;
        }
        Ok(found)
    }

    /// Looks behind the end of a region for a frame that should be before it: the head that said so
    /// would be gone. As far as two frames reach, and the ring: then comes what is kept.
    ///
    /// # Errors
    /// [`ReadError::Damaged`] if there is one.
    pub(super) fn look_beyond(&mut self) -> Result<(), ReadError> {
        let Some(extent) = &mut self.here else {
            return Ok(());
        };
        let (end, step) = (extent.end, extent.block_bytes);
        let reach = (end + 2 * extent.frame_bytes_max).min(extent.beyond);
        extent.end = reach.max(end);
        self.go_to_extent();
        for at in (end..reach).step_by(step) {
            if let Some((header, _)) = self.look(at)?
                && self.is_ours(&header)
                && header.sequence > self.end.last_sequence + 1
            {
                self.at = end;
                let (file, at) = self.place();
                return Err(ReadError::damaged(&file, at, LATER));
            }
        }
        Ok(())
    }

    fn is_zero_at(&mut self, at: u64, len: usize) -> Result<bool, ReadError> {
        let Some(extent) = &self.here else {
            return Ok(true);
        };
        let bytes = self.window.get(at, len);
        bytes
            .map(is_zero)
            .map_err(|source| ReadError::device(&extent.path, source))
    }
}
