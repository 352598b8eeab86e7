//! Writes a segment: rows in, pages out, in one pass and with one sync.
//!
//! A leaf is written when the next row does not fit it, because only then its upper fence is known.
//! Long values go to value pages as they come, so they lie in front of their leaf. The index is
//! kept until the end: about 0.4 % of what is written.
//!
//! # Invariants
//! - W1. The footer is written last, and the file has its name only when all of it is durable: an
//!   interrupted writing leaves no file, or one without a footer, and
//!   [`Segment::open`](crate::Segment::open) refuses both.
//! - W2. After an error the writer takes nothing more: a segment has all the rows it was given, or
//!   is not there.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use namiki_platform::Stamp;
use namiki_platform::disk::{Appender, Disk};

use crate::error::{KeyBytes, SegmentError};
use crate::format::footer::Footer;
use crate::format::index_page::IndexBuilder;
use crate::format::leaf::builder::{LeafBuilder, ValueBytes, ValueLen};
use crate::format::value_page;
use crate::format::{KEY_BYTES_MAX, PAGE_BYTES, Page, Seal, VALUE_BYTES_INLINE_MAX, common_prefix};
use crate::identity::{PageNo, SegmentId};
use crate::long_value::{LongValue, VALUE_PAGE_BYTES};
use crate::summary::Summary;

/// Pages are handed to the disk in pieces of this size.
const OUTPUT_BYTES: usize = 256 << 10;

/// Writes one segment. Dropped before it is finished, it leaves nothing.
pub struct Writer {
    path: PathBuf,
    output: Output,
    leaf: LeafBuilder,
    /// Number of bytes of the leaf's first key that are its lower fence.
    fence_len: usize,
    /// Bytes of long values that are in no page yet.
    values: Vec<u8>,
    index: IndexBuilder,
    footer: Footer,
    has_failed: bool,
}

impl Writer {
    /// Begins the segment `id` at `path`.
    ///
    /// # Errors
    /// [`SegmentError::Device`], [`SegmentError::DiskFull`].
    pub fn create(disk: &Arc<dyn Disk>, path: &Path, id: SegmentId) -> Result<Self, SegmentError> {
        let appender = disk
            .append(path)
            .map_err(|error| SegmentError::writing(path, error))?;
        Ok(Self {
            path: path.to_owned(),
            output: Output {
                appender,
                seal: Seal::of(id),
                pages: 0,
                buffer: Vec::with_capacity(OUTPUT_BYTES),
            },
            leaf: LeafBuilder::default(),
            fence_len: 0,
            values: Vec::new(),
            index: IndexBuilder::default(),
            footer: Footer {
                id,
                pages: 0,
                rows: 0,
                leaves: 0,
                first_index_page: 0,
                value_pages: 0,
                stamp_min: u64::MAX,
                stamp_max: 0,
                long_bytes: 0,
                first_key: Vec::new(),
                last_key: Vec::new(),
            },
            has_failed: false,
        })
    }

    /// Adds a row. Its key has to come after that of the row before.
    ///
    /// # Errors
    /// [`SegmentError::KeysOutOfOrder`], [`SegmentError::KeyTooLong`],
    /// [`SegmentError::StampTooLarge`], [`SegmentError::TooLarge`]; [`SegmentError::DiskFull`] and
    /// [`SegmentError::Device`], for rows before this one, too. Then everything that follows is
    /// refused.
    pub fn push(&mut self, key: &[u8], value: &[u8], stamp: Stamp) -> Result<(), SegmentError> {
        let pushed = self
            .expect_sound()
            .and_then(|()| self.try_push(key, value, stamp));
        self.has_failed |= pushed.is_err();
        pushed
    }

    fn expect_sound(&self) -> Result<(), SegmentError> {
        if self.has_failed {
            return Err(SegmentError::Unfinished {
                path: self.path.clone(),
            });
        }
        Ok(())
    }

    fn try_push(&mut self, key: &[u8], value: &[u8], stamp: Stamp) -> Result<(), SegmentError> {
        let last = self.leaf.last_key();
        if !self.leaf.is_empty() && last >= key {
            return Err(SegmentError::KeysOutOfOrder {
                path: self.path.clone(),
                previous: KeyBytes::of(last),
                key: KeyBytes::of(key),
            });
        }
        if key.len() > KEY_BYTES_MAX {
            return Err(SegmentError::KeyTooLong {
                path: self.path.clone(),
                key: KeyBytes::of(key),
                bytes: key.len(),
                bytes_max: KEY_BYTES_MAX,
            });
        }
        if stamp > Stamp::MAX {
            return Err(SegmentError::StampTooLarge {
                path: self.path.clone(),
                stamp: stamp.0,
            });
        }
        if self.footer.rows == 0 {
            self.footer.first_key = key.to_vec();
        }
        let is_long = value.len() > VALUE_BYTES_INLINE_MAX;
        let len = if is_long {
            ValueLen::Long
        } else {
            ValueLen::Inline(value.len())
        };
        let plan = match self.leaf.plan(key, len, stamp) {
            Some(plan) => plan,
            None => {
                self.write_leaf(Some(key))?;
                let plan = self.leaf.plan(key, len, stamp);
                plan.expect("one row of any length fits an empty leaf")
            }
        };
        let value = if is_long {
            ValueBytes::Long(self.write_long(value)?)
        } else {
            ValueBytes::Inline(value)
        };
        self.leaf.push(plan, key, value);
        self.footer.rows += 1;
        self.footer.stamp_min = self.footer.stamp_min.min(stamp.0);
        self.footer.stamp_max = self.footer.stamp_max.max(stamp.0);
        Ok(())
    }

    /// The bytes of the pages made, of which the last are not at the disk yet.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        u64::from(self.output.pages) * PAGE_BYTES as u64
    }

    /// Writes the leaf and the value pages in front of it. `next` is the key of the row after it,
    /// if there is one.
    fn write_leaf(&mut self, next: Option<&[u8]>) -> Result<(), SegmentError> {
        self.write_value_page()?;
        let no = PageNo(self.output.pages);
        let first_fence = &self.leaf.first_key()[..self.fence_len];
        self.index.push(first_fence, no);
        let next_len = next.map_or(0, |next| common_prefix(self.leaf.last_key(), next) + 1);
        if next.is_none() {
            self.footer.last_key = self.leaf.last_key().to_vec();
        }
        let (leaf, fence_len) = (&mut self.leaf, self.fence_len);
        let fill = |page: &mut Page| leaf.finish(fence_len, next, page);
        self.output.push(&self.path, fill)?;
        self.fence_len = next_len;
        Ok(())
    }

    /// Puts a long value into value pages. The last one stays open, for the next value.
    fn write_long(&mut self, value: &[u8]) -> Result<LongValue, SegmentError> {
        let first = PageNo(self.output.pages);
        let offset = self.values.len() as u16;
        let mut rest = value;
        while !rest.is_empty() {
            let room = VALUE_PAGE_BYTES - self.values.len();
            let (now, later) = rest.split_at(room.min(rest.len()));
            self.values.extend_from_slice(now);
            if self.values.len() == VALUE_PAGE_BYTES {
                self.write_value_page()?;
            }
            rest = later;
        }
        let len = value.len() as u64;
        self.footer.long_bytes += len;
        Ok(LongValue::new(first, offset, len))
    }

    fn write_value_page(&mut self) -> Result<(), SegmentError> {
        if self.values.is_empty() {
            return Ok(());
        }
        let values = &self.values;
        self.output
            .push(&self.path, |page| value_page::write(values, page))?;
        self.values.clear();
        self.footer.value_pages += 1;
        Ok(())
    }

    /// Writes what is left, the index and the footer, and syncs. The segment's name is durable
    /// after a [`Disk::sync_dir`] of its directory, which is the caller's: several segments need
    /// one.
    ///
    /// # Errors
    /// [`SegmentError::DiskFull`], [`SegmentError::Device`], [`SegmentError::TooLarge`];
    /// [`SegmentError::Unfinished`] after an earlier error. There is no segment then.
    pub fn finish(mut self) -> Result<Summary, SegmentError> {
        self.expect_sound()?;
        if self.footer.rows == 0 {
            self.footer.stamp_min = 0;
        } else {
            self.write_leaf(None)?;
        }
        self.footer.leaves = self.index.leaves() as u32;
        self.footer.first_index_page = self.output.pages;
        let mut entry = 0;
        while entry < self.index.leaves() {
            let index = &self.index;
            self.output
                .push(&self.path, |page| entry = index.write_page(entry, page))?;
        }
        self.footer.pages = self.output.pages + 1;
        let footer = &self.footer;
        self.output.push(&self.path, |page| footer.write(page))?;
        let writing = |error| SegmentError::writing(&self.path, error);
        self.output.finish().map_err(writing)?;
        Ok(Summary::of(&self.footer))
    }
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (rows, pages) = (self.footer.rows, self.output.pages);
        write!(
            f,
            "Writer({rows} rows, {pages} pages of {})",
            self.path.display()
        )
    }
}

/// Pages on their way to the disk.
struct Output {
    appender: Box<dyn Appender>,
    seal: Seal,
    /// How many there were.
    pages: u32,
    buffer: Vec<u8>,
}

impl Output {
    /// Adds a page: `fill` writes all of it but the checksum.
    fn push(&mut self, path: &Path, fill: impl FnOnce(&mut Page)) -> Result<(), SegmentError> {
        let no = PageNo(self.pages);
        // The last number is left free, so that the number of pages is one, too.
        let Some(pages) = self.pages.checked_add(1) else {
            return Err(SegmentError::TooLarge {
                path: path.to_owned(),
            });
        };
        let mut page = [0; PAGE_BYTES];
        fill(&mut page);
        self.seal.close(no, &mut page);
        self.buffer.extend_from_slice(&page);
        self.pages = pages;
        if self.buffer.len() >= OUTPUT_BYTES {
            self.flush()
                .map_err(|error| SegmentError::writing(path, error))?;
        }
        Ok(())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.appender.append(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }

    fn finish(mut self) -> std::io::Result<u64> {
        self.flush()?;
        self.appender.finish()
    }
}
