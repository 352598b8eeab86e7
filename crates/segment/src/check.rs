//! Reads all of a segment and verifies what no look-up could: that pages fit together.

use std::path::Path;
use std::sync::Arc;

use namiki_platform::disk::Disk;

use crate::error::{Damage, SegmentError};
use crate::format::Page;
use crate::format::leaf::Leaf;
use crate::format::value_page;
use crate::identity::{PageNo, SegmentId};
use crate::leaf_directory::pages_of;
use crate::long_value::VALUE_PAGE_BYTES;
use crate::row::Value;
use crate::segment::Segment;
use crate::summary::Summary;

/// Pages are read in pieces of so many.
const PIECE_PAGES: u32 = 256;

/// What a check has found: nothing wrong, and this.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckReport {
    /// What the segment says of itself, which is true.
    pub summary: Summary,
    /// How many pages hold rows.
    pub leaves: u32,
    /// How many pages hold long values.
    pub value_pages: u32,
    /// How full the leaves are: bytes that are not zeros at the end, in all of them together.
    pub leaf_bytes_used: u64,
}

/// How far a check has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckProgress {
    /// Pages that were verified.
    pub pages_done: u32,
    /// Pages there are.
    pub pages: u32,
}

/// Verifies the segment `id` at `path`: reads every page once, in the order of the file, and compares counts, fences,
/// stamps and long values with each other. Calls `progress` about every megabyte. Waits for the disk.
///
/// # Errors
/// As [`Segment::open`]; [`SegmentError::Damaged`] with the first page that is wrong.
pub fn check(
    disk: &Arc<dyn Disk>,
    path: &Path,
    id: SegmentId,
    mut progress: impl FnMut(CheckProgress),
) -> Result<CheckReport, SegmentError> {
    let segment = Segment::open(disk, path, id)?;
    let mut totals = Totals::default();
    let pages = segment.pages();
    let mut done = 0;
    while done < segment.data_pages() {
        let end = segment.data_pages().min(done + PIECE_PAGES);
        let piece = segment.read_pages(PageNo(done), (end - done) as usize)?;
        for (page, no) in pages_of(&piece).iter().zip(done..) {
            let added = totals.add(&segment, PageNo(no), page);
            added.map_err(|damage| SegmentError::damaged(path, PageNo(no), damage))?;
        }
        done = end;
        progress(CheckProgress {
            pages_done: done,
            pages,
        });
    }
    totals.compare(&segment).map_err(|damage| {
        let footer = PageNo(segment.pages() - 1);
        SegmentError::damaged(path, footer, damage)
    })?;
    // Index and footer were verified when it was opened.
    progress(CheckProgress {
        pages_done: pages,
        pages,
    });
    Ok(CheckReport {
        summary: segment.summary(),
        leaves: segment.leaves(),
        value_pages: totals.value_pages,
        leaf_bytes_used: totals.leaf_bytes_used,
    })
}

/// What was met so far.
#[derive(Default)]
struct Totals {
    rows: u64,
    value_pages: u32,
    leaf_bytes_used: u64,
    stamps: Option<(u64, u64)>,
    long_bytes: u64,
    first_key: Vec<u8>,
    last_key: Vec<u8>,
    /// The value pages in front of the next leaf: the first, and how many bytes each has in use.
    values: Option<(PageNo, Vec<usize>)>,
}

impl Totals {
    fn add(&mut self, segment: &Segment, no: PageNo, page: &Page) -> Result<(), Damage> {
        if segment.directory().leaf_in(no).is_none() {
            self.value_pages += 1;
            let (_, used) = self.values.get_or_insert_with(|| (no, Vec::new()));
            used.push(value_page::bytes(page).len());
            return Ok(());
        }
        let leaf = Leaf::of_bytes(page);
        let (first, last) = (leaf.row(0).key, leaf.row(leaf.len() - 1).key);
        // The fences are those of the index (verified), which rise; so leaf follows leaf.
        if self.rows == 0 {
            self.first_key = first.to_vec();
        }
        self.last_key = last.to_vec();
        if !leaf.is_padded() {
            return Err(Damage::Contents("bytes behind its last row"));
        }
        self.leaf_bytes_used += leaf.bytes_used() as u64;
        for number in 0..leaf.len() {
            let stamp = leaf.row(number).stamp.0;
            let (min, max) = self.stamps.unwrap_or((stamp, stamp));
            self.stamps = Some((min.min(stamp), max.max(stamp)));
        }
        self.rows += leaf.len() as u64;
        self.add_values(&leaf)
    }

    /// The long values of a leaf fill the value pages in front of it, one after the other.
    fn add_values(&mut self, leaf: &Leaf<'_>) -> Result<(), Damage> {
        let (first, used) = self.values.take().unwrap_or_default();
        let mut end: u64 = 0;
        for number in 0..leaf.len() {
            let Value::Long(long) = leaf.row(number).value else {
                continue;
            };
            let page = u64::from(long.first_page().0.wrapping_sub(first.0));
            let begin = page * VALUE_PAGE_BYTES as u64 + u64::from(long.offset());
            if begin != end {
                return Err(Damage::Contents("its long values do not follow each other"));
            }
            end = end.saturating_add(long.len_bytes());
            self.long_bytes = self.long_bytes.saturating_add(long.len_bytes());
        }
        let is_full = |(page, used): (usize, &usize)| {
            let before = (page * VALUE_PAGE_BYTES) as u64;
            *used as u64 == end.saturating_sub(before).min(VALUE_PAGE_BYTES as u64)
        };
        let room = (used.len() * VALUE_PAGE_BYTES) as u64;
        if end > room || !used.iter().enumerate().all(is_full) {
            return Err(Damage::Contents(
                "its long values do not fill the pages in front of it",
            ));
        }
        Ok(())
    }

    fn compare(&self, segment: &Segment) -> Result<(), Damage> {
        let footer = segment.footer();
        let (stamp_min, stamp_max) = self.stamps.unwrap_or_default();
        let wrong = [
            (
                self.rows != footer.rows,
                "there are not as many rows as it says",
            ),
            (
                self.value_pages != footer.value_pages || self.values.is_some(),
                "there are not as many value pages as it says",
            ),
            (
                self.long_bytes != footer.long_bytes,
                "long values are not as long as it says",
            ),
            (
                (stamp_min, stamp_max) != (footer.stamp_min, footer.stamp_max),
                "stamps are not those it says",
            ),
            (
                self.first_key != footer.first_key || self.last_key != footer.last_key,
                "the first and the last key are not those it says",
            ),
        ];
        match wrong.into_iter().find(|(is_wrong, _)| *is_wrong) {
            Some((_, what)) => Err(Damage::Contents(what)),
            None => Ok(()),
        }
    }
}
