//! The history of a database: the openings that have written it, and the final position of each.
//! With it, a backup recognises whether a database continues it, or is another continuation of a
//! copied one.
//!
//! A directory can be copied while the database is closed, after a crash, or as a snapshot, and
//! both can be opened then. Their stamps, generations, file numbers and tables rise alike, so none
//! of those distinguishes them. Each opening that may write therefore draws a random identifier,
//! which becomes durable with the generation of the log that it announces: before its first frame,
//! and before any other change. And each opening has a *position*, which rises with everything that
//! becomes durable:
//!
//! ```text
//!   position = frames of its generation of the log + changes of its catalogue: of the manifest, and of the journal beside it
//! ```
//!
//! # Invariants
//! - H1. No two openings have the same identifier, so two directories that have one in common have all before it in common.
//! - H2. Positions of one opening never fall. Two states of one opening with the same position are the same state.
//! - H3. The last [`KEPT`] openings before the present one are known, each with its final position:
//!   that of its close, or the one that was found after a crash.
//! - H4. The position that is written into a backup counts all frames that had been *begun* when it
//!   was taken, and they are durable before the backup is there. So a snapshot from before the
//!   backup has a lower position, or all that the backup has; and the position that is found after
//!   a crash is never below it. No backup is taken while a change of the catalogue is in doubt,
//!   that is, it failed but may be on the disk: the manifest is written again first.
//!
//! So a database continues a backup if it knows the opening in which that was taken, and did not end it at a lower position.
//! See docs/decisions/0059-a-backup-knows-the-history-that-it-is-of.md.

use std::fmt::Write as _;

use namiki_platform::Generation;
use serde::{Deserialize, Serialize};

use crate::catalogue::random_number::random_number;
use crate::table::raw_table::TableId;

/// The number of earlier openings that are known.
pub(crate) const KEPT: usize = 1024;
/// No database is opened more often than this: it allows a thousand openings a second, for nine
/// thousand years.
const OPENINGS_MAX: u64 = 1 << 48;

/// The openings that have written a database.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct History {
    /// Their number, including the present one.
    openings: u64,
    /// The identifier of the last one.
    id: OpeningId,
    /// Its generation of the log; 0 if it has none.
    generation: Generation,
    /// How often it had changed the manifest or the journal since it was announced, when it wrote this manifest.
    revision: u64,
    /// The number of the next table then: tables from that one on are in the journal.
    tables: TableId,
    /// The frames of its generation, once it has ended in order; and in a backup.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    frames: Option<u64>,
    /// Those before it, oldest first.
    #[serde(default, skip_serializing_if = "EndedOpenings::is_empty")]
    before: EndedOpenings,
}

/// The random identifier of an opening.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
struct OpeningId(u32);

/// An opening that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct EndedOpening {
    id: OpeningId,
    /// Its last position.
    end: u64,
}

/// One line of text, because people read the manifest, too.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
struct EndedOpenings(Vec<EndedOpening>);

impl History {
    /// That of a new database, and of one that was restored.
    pub(crate) fn new() -> Self {
        let mut history = Self::default();
        history.begin(0, Generation(0), TableId(0));
        history
    }

    /// Begins an opening with this generation of the log and this number of the next table. `end`: the position at which the one
    /// before has ended.
    pub(crate) fn begin(&mut self, end: u64, generation: Generation, tables: TableId) {
        let before = &mut self.before.0;
        if self.openings > 0 {
            before.push(EndedOpening { id: self.id, end });
            before.drain(..before.len().saturating_sub(KEPT));
        }
        self.openings += 1;
        self.id = OpeningId(random_number() as u32);
        self.generation = generation;
        (self.revision, self.tables) = (0, tables);
        self.frames = None;
    }

    /// A manifest with this number of the next table is about to be written, as the opening's change of this number.
    pub(crate) fn revise(&mut self, revision: u64, tables: TableId) {
        (self.revision, self.tables) = (revision, tables);
    }

    /// All frames that the opening has begun are counted: it writes no further ones, or a backup is taken.
    pub(crate) fn end_with_frames(&mut self, frames: u64) {
        self.frames = Some(frames);
    }

    /// The position of the last opening, for a manifest with this number of the next table. `seal`
    /// returns the frames of a sealed generation of the log.
    pub(super) fn position(
        &self,
        next_table: TableId,
        seal: impl Fn(Generation) -> Option<u64>,
    ) -> u64 {
        let frames = self.frames.or_else(|| seal(self.generation)).unwrap_or(0);
        let in_journal = next_table.0.saturating_sub(self.tables.0);
        frames
            .saturating_add(self.revision)
            .saturating_add(in_journal.into())
    }

    /// Whether the last opening of `then`, at this position, is an ancestor of this history, with
    /// its last opening at `now`. `None` if that cannot be decided.
    pub(super) fn has_had(&self, now: u64, then: &Self, position: u64) -> Option<bool> {
        let Some(openings_since) = self.openings.checked_sub(then.openings) else {
            return Some(false);
        };
        let known = match openings_since {
            0 => EndedOpening {
                id: self.id,
                end: now,
            },
            since => {
                let before = &self.before.0;
                let since = usize::try_from(since).ok()?;
                before[before.len().checked_sub(since)?]
            }
        };
        Some(known.id == then.id && position <= known.end)
    }

    /// The contradiction in it, if it has one.
    pub(crate) fn contradiction(&self) -> Option<String> {
        let (before, openings) = (self.before.0.len() as u64, self.openings);
        if openings == 0 || openings > OPENINGS_MAX {
            return Some(format!("its history has {openings} openings"));
        }
        (before > openings.saturating_sub(1)).then(|| {
            format!("its history has {openings} openings, and {before} before the last one")
        })
    }
}

impl EndedOpenings {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl From<OpeningId> for String {
    fn from(id: OpeningId) -> Self {
        format!("{:08x}", id.0)
    }
}

impl TryFrom<String> for OpeningId {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let number = u32::from_str_radix(&text, 16);
        number
            .map(Self)
            .map_err(|_| format!("an opening's identifier is {text:?}, which is no number"))
    }
}

impl From<EndedOpenings> for String {
    /// `1b2c3d4e:27 5f607182:4`
    fn from(openings: EndedOpenings) -> Self {
        let mut text = Self::new();
        for EndedOpening { id, end } in openings.0 {
            let space = if text.is_empty() { "" } else { " " };
            let _ = write!(text, "{space}{:08x}:{end}", id.0);
        }
        text
    }
}

impl TryFrom<String> for EndedOpenings {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let opening = |text: &str| {
            let wrong = || format!("an opening of its history is {text:?}");
            let (id, end) = text.split_once(':').ok_or_else(wrong)?;
            Ok(EndedOpening {
                id: id.to_owned().try_into()?,
                end: end.parse().map_err(|_| wrong())?,
            })
        };
        text.split_whitespace()
            .map(opening)
            .collect::<Result<_, String>>()
            .map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_is_no_history_is_refused() {
        for text in ["1b2c3d4e", "x:1", "1b2c3d4e:x", "1b2c3d4e:1:2"] {
            assert!(EndedOpenings::try_from(text.to_owned()).is_err(), "{text}");
        }
        assert!(OpeningId::try_from("123456789".to_owned()).is_err());
    }
}
