//! Reads all of a segment and verifies what no look-up could: that pages fit together.

use std::path::Path;
use std::sync::Arc;

use namiki_platform::Stamp;
use namiki_platform::disk::Disk;

use crate::error::{Damage, SegmentError};
use crate::format::Page;
use crate::format::leaf::Leaf;
use crate::format::value_page;
use crate::identity::{PageNo, SegmentId};
use crate::leaf_directory::pages_of;
use crate::long_value::{LongValue, VALUE_PAGE_BYTES};
use crate::row::{Row, Value};
use crate::segment::Segment;
use crate::summary::Summary;

/// The number of pages of one read.
const PIECE_PAGES: u32 = 256;

/// The result of a check that found nothing wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckReport {
    /// The segment's summary of itself, verified.
    pub summary: Summary,
    /// Number of pages with rows.
    pub leaves: u32,
    /// Number of pages with long values.
    pub value_pages: u32,
    /// Fill level of the leaves: bytes that are not zeros at the end, over all leaves.
    pub leaf_bytes_used: u64,
}

/// The progress of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckProgress {
    /// Pages that were verified.
    pub pages_done: u32,
    /// Pages there are.
    pub pages: u32,
}

/// Called by a check on its way. Errors end it.
pub trait CheckVisitor {
    /// The error that ends the check, including damage.
    type Error: From<SegmentError>;

    /// About every megabyte.
    ///
    /// # Errors
    /// Whatever is to end the check.
    fn on_progress(&mut self, progress: CheckProgress) -> Result<(), Self::Error> {
        let _ = progress;
        Ok(())
    }

    /// Whether [`CheckVisitor::on_row`] is to be called.
    fn wants_rows(&self) -> bool {
        false
    }

    /// Every row, in the order of keys, with its whole value and the stamp of the commit that wrote
    /// it.
    ///
    /// # Errors
    /// Whatever is to end the check.
    fn on_row(&mut self, key: &[u8], value: &[u8], stamp: Stamp) -> Result<(), Self::Error> {
        let _ = (key, value, stamp);
        Ok(())
    }
}

/// Visits nothing.
struct Quiet;

impl CheckVisitor for Quiet {
    type Error = SegmentError;
}

/// Verifies the segment `id` at `path`: reads every page once, in the order of the file, and
/// compares counts, fences, stamps and long values with each other. Waits for the disk.
///
/// # Errors
/// As [`Segment::open`]; [`SegmentError::Damaged`] with the first page that is wrong.
pub fn check(
    disk: &Arc<dyn Disk>,
    path: &Path,
    id: SegmentId,
) -> Result<CheckReport, SegmentError> {
    check_with(disk, path, id, &mut Quiet)
}

/// [`check`], with a visitor.
///
/// # Errors
/// As [`check`]; what the visitor says.
pub fn check_with<V: CheckVisitor>(
    disk: &Arc<dyn Disk>,
    path: &Path,
    id: SegmentId,
    visitor: &mut V,
) -> Result<CheckReport, V::Error> {
    let segment = Segment::open(disk, path, id)?;
    let mut totals = Totals::default();
    let pages = segment.pages();
    let mut done = 0;
    let mut key = Vec::new();
    while done < segment.data_pages() {
        let end = segment.data_pages().min(done + PIECE_PAGES);
        let piece = segment.read_pages(PageNo(done), (end - done) as usize)?;
        for (page, no) in pages_of(&piece).iter().zip(done..) {
            if segment.directory().leaf_in(PageNo(no)).is_none() {
                totals.add_value_page(PageNo(no), page);
                continue;
            }
            let leaf = Leaf::of_bytes(page);
            let values = totals.add_leaf(&leaf);
            let values =
                values.map_err(|damage| SegmentError::damaged(path, PageNo(no), damage))?;
            if visitor.wants_rows() {
                for number in 0..leaf.len() {
                    let row = leaf.row(number);
                    key.clear();
                    row.key.append_to(&mut key);
                    visitor.on_row(&key, values.value(&row), row.stamp)?;
                }
            }
        }
        done = end;
        visitor.on_progress(CheckProgress {
            pages_done: done,
            pages,
        })?;
    }
    totals.compare(&segment).map_err(|damage| {
        let footer = PageNo(segment.pages() - 1);
        SegmentError::damaged(path, footer, damage)
    })?;
    // Index and footer were verified when it was opened.
    visitor.on_progress(CheckProgress {
        pages_done: pages,
        pages,
    })?;
    Ok(CheckReport {
        summary: segment.summary(),
        leaves: segment.leaves(),
        value_pages: totals.value_pages,
        leaf_bytes_used: totals.leaf_bytes_used,
    })
}

/// The value pages in front of a leaf.
#[derive(Default)]
struct LongValues {
    first: PageNo,
    /// The bytes in use in each page.
    used: Vec<usize>,
    /// The bytes of all pages.
    bytes: Vec<u8>,
}

impl LongValues {
    /// The position of a value's beginning among the bytes, if all pages before its own are full.
    fn begin(&self, long: LongValue) -> u64 {
        let page = u64::from(long.first_page().0.wrapping_sub(self.first.0));
        page * VALUE_PAGE_BYTES as u64 + u64::from(long.offset())
    }

    /// The value of a row of their leaf, which was verified.
    fn value<'v>(&'v self, row: &Row<'v>) -> &'v [u8] {
        match row.value {
            Value::Inline(bytes) => bytes,
            Value::Long(long) => {
                let begin = self.begin(long) as usize;
                &self.bytes[begin..begin + long.len_bytes() as usize]
            }
        }
    }

    /// The long values of their leaf fill them, one after the other. Returns how many bytes those
    /// are.
    fn verify(&self, leaf: &Leaf<'_>) -> Result<u64, Damage> {
        let mut end: u64 = 0;
        for number in 0..leaf.len() {
            let Value::Long(long) = leaf.row(number).value else {
                continue;
            };
            if self.begin(long) != end {
                return Err(Damage::Contents("its long values do not follow each other"));
            }
            end = end.saturating_add(long.len_bytes());
        }
        let is_full = |(page, used): (usize, &usize)| {
            let before = (page * VALUE_PAGE_BYTES) as u64;
            *used as u64 == end.saturating_sub(before).min(VALUE_PAGE_BYTES as u64)
        };
        let room = (self.used.len() * VALUE_PAGE_BYTES) as u64;
        if end > room || !self.used.iter().enumerate().all(is_full) {
            return Err(Damage::Contents(
                "its long values do not fill the pages in front of it",
            ));
        }
        Ok(end)
    }
}

/// Sums over the pages checked.
#[derive(Default)]
struct Totals {
    rows: u64,
    value_pages: u32,
    leaf_bytes_used: u64,
    stamps: Option<(u64, u64)>,
    long_bytes: u64,
    first_key: Vec<u8>,
    last_key: Vec<u8>,
    /// The value pages in front of the next leaf, if there were any.
    values: Option<LongValues>,
}

impl Totals {
    fn add_value_page(&mut self, no: PageNo, page: &Page) {
        self.value_pages += 1;
        let values = self.values.get_or_insert_with(|| LongValues {
            first: no,
            ..LongValues::default()
        });
        let bytes = value_page::bytes(page);
        values.used.push(bytes.len());
        values.bytes.extend_from_slice(bytes);
    }

    /// Verifies a leaf, and returns the values in front of it.
    fn add_leaf(&mut self, leaf: &Leaf<'_>) -> Result<LongValues, Damage> {
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
        let values = self.values.take().unwrap_or_default();
        let long_bytes = values.verify(leaf)?;
        self.long_bytes = self.long_bytes.saturating_add(long_bytes);
        Ok(values)
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
