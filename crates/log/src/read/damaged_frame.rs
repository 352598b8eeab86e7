//! What to call the damage where a frame should be.
//!
//! One checksum covers a frame's header and its records, so which of the two has changed is
//! concluded: a header that is just what the next frame's would be is taken for sound, and the
//! checksum is what does not match. The answer is words for a person and decides nothing.

use super::StreamReader;
use crate::format::frame::{FRAME_HEADER_BYTES, peek};
use namiki_platform::bytes::is_zero;

/// The texts of an error message about a frame: alone, and with intact later frames.
pub(super) struct Words {
    pub(super) alone: &'static str,
    pub(super) before_others: &'static str,
}

const MISSING: Words = Words {
    alone: "a frame that was hardened is missing: there are zeros in its place",
    before_others: "a frame is missing, there are zeros in its place, and later frames are intact",
};
const HEADER: Words = Words {
    alone: "the header of a frame is damaged",
    before_others: "the header of a frame is damaged, and later frames are intact",
};
const CHECKSUM: Words = Words {
    alone: "the checksum of a frame does not match its contents",
    before_others: "the checksum of a frame does not match its contents, and later frames are intact",
};

impl StreamReader {
    /// The damage at the position of the next frame.
    pub(super) fn what_is_wrong(&mut self) -> &'static Words {
        let Some(extent) = &self.here else {
            return &MISSING;
        };
        let left = extent.end.saturating_sub(self.at);
        let wanted = left.min(FRAME_HEADER_BYTES as u64) as usize;
        // An unreadable sector has been reported already.
        let Ok(bytes) = self.window.get(self.at, wanted) else {
            return &MISSING;
        };
        if is_zero(bytes) {
            return &MISSING;
        }
        match peek(bytes) {
            Some(header)
                if self.is_ours(&header)
                    && self.expected.is_none_or(|it| it == header.sequence)
                    && u64::from(header.length) <= left =>
            {
                &CHECKSUM
            }
            _ => &HEADER,
        }
    }
}
