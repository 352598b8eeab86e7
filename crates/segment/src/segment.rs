//! An open segment: its footer and the index of its leaves in memory, everything else on the disk.

use std::ops::{Bound, Range};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use namiki_platform::Stamp;
use namiki_platform::disk::{AlignedBuf, Disk, DiskFile};

use crate::error::{Damage, SegmentError};
use crate::format::footer::{self, Footer, Peeked};
use crate::format::leaf::Leaf;
use crate::format::{self, PAGE_BYTES, Page, PageKind, Seal, VERSION, value_page};
use crate::identity::{PageNo, SegmentId};
use crate::leaf_directory::{BadIndex, LeafDirectory, pages_of};
use crate::resident_page::PageRef;
use crate::summary::Summary;

/// Index pages are read in pieces of this size.
const INDEX_READ_BYTES: usize = 1 << 20;

/// A segment that is open for reading. Shared by threads behind an [`Arc`].
#[derive(Debug)]
pub struct Segment {
    path: PathBuf,
    file: Arc<dyn DiskFile>,
    seal: Seal,
    footer: Footer,
    directory: LeafDirectory,
}

impl Segment {
    /// Opens the segment at `path`, which has to be `id`: reads its footer and its index, about 0.4
    /// % of it, and checks them. Waits for the disk.
    ///
    /// # Errors
    /// [`SegmentError::Device`] if there is no such file, or it cannot be read;
    /// [`SegmentError::NotASegment`] if it is not whole; [`SegmentError::OtherVersion`],
    /// [`SegmentError::Foreign`], [`SegmentError::Damaged`].
    pub fn open(disk: &Arc<dyn Disk>, path: &Path, id: SegmentId) -> Result<Self, SegmentError> {
        let opening = |source| SegmentError::device("opening", path, source);
        let file = disk.open(path).map_err(opening)?;
        let len_bytes = file.len_bytes();
        let pages = len_bytes / PAGE_BYTES as u64;
        if pages == 0 || !len_bytes.is_multiple_of(PAGE_BYTES as u64) || pages > 1 << 32 {
            let why = format!("{len_bytes} bytes are not a number of pages");
            return Err(SegmentError::not_a_segment(path, why));
        }
        let last = PageNo((pages - 1) as u32);
        let buffer = read_pages(&*file, path, last, 1)?;
        let footer = read_footer(path, id, &pages_of(&buffer)[0], last, pages)?;
        let seal = Seal::of(id);
        let first_index = footer.first_index_page;
        let index_pages = footer.pages - 1 - first_index;
        // Entries of the index are found by 32-bit offsets.
        if index_pages as usize > (u32::MAX as usize) / PAGE_BYTES {
            return Err(SegmentError::TooLarge {
                path: path.to_owned(),
            });
        }
        let index = read_pages(&*file, path, PageNo(first_index), index_pages as usize)?;
        for (number, page) in pages_of(&index).iter().enumerate() {
            let no = PageNo(first_index + number as u32);
            seal.check(no, page)
                .and_then(|()| expect_kind(page, PageKind::Index))
                .map_err(|damage| SegmentError::damaged(path, no, damage))?;
        }
        let directory = LeafDirectory::read(index, footer.leaves, first_index);
        let directory = directory.map_err(|BadIndex { page, damage }| {
            SegmentError::damaged(path, PageNo(first_index + page as u32), damage)
        })?;
        Ok(Self {
            path: path.to_owned(),
            file,
            seal,
            footer,
            directory,
        })
    }

    /// The path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The identity of the segment.
    #[must_use]
    pub fn id(&self) -> SegmentId {
        self.footer.id
    }

    /// The summary that the writer stored at its end.
    #[must_use]
    pub fn summary(&self) -> Summary {
        Summary::of(&self.footer)
    }

    /// Number of rows.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.footer.rows
    }

    /// Number of pages, with index and footer.
    #[must_use]
    pub fn pages(&self) -> u32 {
        self.footer.pages
    }

    /// Number of pages with rows or long values. They come first.
    #[must_use]
    pub fn data_pages(&self) -> u32 {
        self.footer.first_index_page
    }

    /// Number of leaves.
    #[must_use]
    pub fn leaves(&self) -> u32 {
        self.directory.len()
    }

    /// The smallest key; empty where there are no rows.
    #[must_use]
    pub fn first_key(&self) -> &[u8] {
        &self.footer.first_key
    }

    /// The largest key; empty where there are no rows.
    #[must_use]
    pub fn last_key(&self) -> &[u8] {
        &self.footer.last_key
    }

    /// The largest stamp of a row; 0 where there are no rows.
    #[must_use]
    pub fn stamp_max(&self) -> Stamp {
        Stamp(self.footer.stamp_max)
    }

    /// The size of the pinned index in memory, in bytes.
    #[must_use]
    pub fn pinned_bytes(&self) -> usize {
        self.directory.bytes()
    }

    /// The file, to read pages from.
    #[must_use]
    pub fn file(&self) -> &Arc<dyn DiskFile> {
        &self.file
    }

    /// The offset of a page in the file, in bytes.
    #[must_use]
    pub fn page_offset(page: PageNo) -> u64 {
        u64::from(page.0) * PAGE_BYTES as u64
    }

    /// The page of the leaf that holds `key`, if any row has it. Known without a read. `None` where
    /// there are no rows.
    #[must_use]
    pub fn leaf_of(&self, key: &[u8]) -> Option<PageNo> {
        (self.directory.len() > 0).then(|| self.directory.page_of(self.directory.leaf_of(key)))
    }

    pub(crate) fn footer(&self) -> &Footer {
        &self.footer
    }

    /// Whether a page is a leaf, and not a page of long values or of the index. Known without a
    /// read.
    #[must_use]
    #[inline]
    pub fn is_leaf(&self, page: PageNo) -> bool {
        self.directory.leaf_in(page).is_some()
    }

    pub(crate) fn directory(&self) -> &LeafDirectory {
        &self.directory
    }

    /// The pages with the rows of a range of keys and their long values, side by side, for scans
    /// that read ahead. The range may be empty where the keys cannot be there; no row of the range
    /// is elsewhere.
    #[must_use]
    pub fn key_range_pages(&self, lower: Bound<&[u8]>, upper: Bound<&[u8]>) -> Range<u32> {
        if self.directory.len() == 0 {
            return 0..0;
        }
        let first = match lower {
            Bound::Unbounded => 0,
            Bound::Included(key) | Bound::Excluded(key) => self.directory.leaf_of(key),
        };
        let last = match upper {
            Bound::Unbounded => self.directory.len() - 1,
            Bound::Included(key) | Bound::Excluded(key) => self.directory.leaf_of(key),
        };
        if first > last {
            return 0..0;
        }
        self.directory.pages_between(first, last)
    }

    /// Whether `bytes` are what was written to `page`: its checksum, its structure, and that it is
    /// where the index says. To be called once for every page that was read, before anything looks
    /// into it.
    ///
    /// # Errors
    /// [`SegmentError::Damaged`], with what is wrong.
    pub fn verify_page(&self, page: PageNo, bytes: &[u8]) -> Result<(), SegmentError> {
        let checked = match bytes.as_array::<PAGE_BYTES>() {
            Some(bytes) => self.check_page(page, bytes),
            None => Err(Damage::Short { bytes: bytes.len() }),
        };
        checked.map_err(|damage| SegmentError::damaged(&self.path, page, damage))
    }

    fn check_page(&self, no: PageNo, page: &Page) -> Result<(), Damage> {
        self.seal.check(no, page)?;
        if no.0 >= self.footer.first_index_page {
            let kind = if no.0 + 1 == self.footer.pages {
                PageKind::Footer
            } else {
                PageKind::Index
            };
            return expect_kind(page, kind);
        }
        let Some(number) = self.directory.leaf_in(no) else {
            expect_kind(page, PageKind::Value)?;
            return value_page::check(page);
        };
        expect_kind(page, PageKind::Leaf)?;
        self.check_fences(number, &Leaf::check(no, page)?)
    }

    /// A leaf's fences are its separators in the index.
    fn check_fences(&self, number: u32, leaf: &Leaf<'_>) -> Result<(), Damage> {
        let is_last = number + 1 == self.directory.len();
        let agrees = leaf.is_last() == is_last
            && self.directory.is_fence(number, leaf.lower_fence())
            && (is_last
                || leaf
                    .upper_fence()
                    .is_some_and(|fence| self.directory.is_fence(number + 1, fence)));
        if agrees {
            Ok(())
        } else {
            Err(Damage::Contents("its fences are not those of the index"))
        }
    }

    /// The bytes of a value page.
    pub(crate) fn value_bytes<'p>(
        &self,
        no: PageNo,
        page: PageRef<'p>,
    ) -> Result<&'p [u8], SegmentError> {
        let page = page.bytes();
        match expect_kind(page, PageKind::Value) {
            Ok(()) => Ok(value_page::bytes(page)),
            Err(damage) => Err(SegmentError::damaged(&self.path, no, damage)),
        }
    }

    #[cold]
    pub(crate) fn value_ends_early(&self, no: PageNo) -> SegmentError {
        let damage = Damage::Contents("it holds less of a long value than its row says");
        SegmentError::damaged(&self.path, no, damage)
    }

    /// Reads pages that lie side by side and verifies them. Waits for the disk.
    ///
    /// # Errors
    /// [`SegmentError::Device`], [`SegmentError::Damaged`].
    pub fn read_pages(&self, first: PageNo, count: usize) -> Result<AlignedBuf, SegmentError> {
        let buffer = read_pages(&*self.file, &self.path, first, count)?;
        for (page, no) in pages_of(&buffer).iter().zip(first.0..) {
            self.verify_page(PageNo(no), page)?;
        }
        Ok(buffer)
    }
}

fn expect_kind(page: &Page, kind: PageKind) -> Result<(), Damage> {
    if format::kind_of(page) == Some(kind) {
        return Ok(());
    }
    Err(Damage::Contents(match kind {
        PageKind::Leaf => "not a leaf, where the index has one",
        PageKind::Value => "not a value page, where only values can be",
        PageKind::Index => "not an index page",
        PageKind::Footer => "not a footer",
    }))
}

/// Reads pages that lie side by side, unchecked.
pub(crate) fn read_pages(
    file: &dyn DiskFile,
    path: &Path,
    first: PageNo,
    count: usize,
) -> Result<AlignedBuf, SegmentError> {
    let mut buffer = AlignedBuf::zeroed(count * PAGE_BYTES);
    let mut done = 0;
    while done < count * PAGE_BYTES {
        let end = (count * PAGE_BYTES).min(done + INDEX_READ_BYTES);
        let at = Segment::page_offset(first) + done as u64;
        let read = file.read_at(at, &mut buffer[done..end]);
        let read = read.map_err(|error| SegmentError::reading(path, error))?;
        if read < end - done {
            let page = PageNo(first.0 + ((done + read) / PAGE_BYTES) as u32);
            let bytes = read % PAGE_BYTES;
            return Err(SegmentError::damaged(path, page, Damage::Short { bytes }));
        }
        done = end;
    }
    Ok(buffer)
}

fn read_footer(
    path: &Path,
    id: SegmentId,
    page: &Page,
    no: PageNo,
    file_pages: u64,
) -> Result<Footer, SegmentError> {
    let found = match footer::peek(page) {
        Peeked::Of(found) => found,
        Peeked::Version(version) if version > 0 => {
            return Err(SegmentError::OtherVersion {
                path: path.to_owned(),
                version,
                known: VERSION,
            });
        }
        Peeked::Version(_) | Peeked::Nothing => {
            return Err(SegmentError::not_a_segment(
                path,
                "the header of its last page, the footer, is damaged or missing",
            ));
        }
    };
    // The identity in the footer decides the expected checksum; then it may still be another
    // segment.
    let checked = Seal::of(found).check(no, page);
    checked.map_err(|damage| SegmentError::damaged(path, no, damage))?;
    if found != id {
        return Err(SegmentError::Foreign {
            path: path.to_owned(),
            found,
            expected: id,
        });
    }
    Footer::read(page, file_pages).map_err(|damage| SegmentError::damaged(path, no, damage))
}
