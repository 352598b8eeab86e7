//! Data segments: immutable sorted runs of 4 KiB pages, written once and never in place.
//!
//! A [`Writer`] takes rows in the order of their keys and appends pages; one sync makes them
//! durable. A [`Segment`] keeps the index of its leaves in memory, so that the leaf of any key is
//! known without a read: every look-up needs at most one page from the disk.
//!
//! ```text
//!   file:   | value pages, leaf | value pages, leaf | …  | index pages | footer |
//!             in the order of keys, as rows came            pinned at open
//! ```
//!
//! Nothing here waits for a disk once a segment is open. A look-up asks [`Pages`] for the page it
//! needs; if that is not resident, it returns [`Found::Fault`] with the page's number, and the
//! caller reads it, has it checked ([`Segment::verify_page`]), makes it resident, and repeats the
//! call. So a caller may have thousands of look-ups in flight in one thread: that is what
//! out-of-order execution needs.
//!
//! ```
//! use std::path::Path;
//! use std::sync::Arc;
//! use namiki_platform::Stamp;
//! use namiki_platform::disk::{Disk, PAGE_BYTES, SimDisk};
//! use namiki_segment::{Found, PageCache, Segment, SegmentId, Writer};
//!
//! let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
//! let (path, id) = (Path::new("/1.run"), SegmentId::new(7, 1));
//! let mut writer = Writer::create(&disk, path, id)?;
//! for n in 0..1000_u64 {
//!     writer.push(&n.to_be_bytes(), b"a value", Stamp(1))?;
//! }
//! writer.finish()?;
//!
//! let segment = Segment::open(&disk, path, id)?;
//! let cache = PageCache::<Box<[u8; PAGE_BYTES]>>::new(1 << 20);
//! let reader = cache.reader();
//! let row = loop {
//!     match segment.get(&reader, &500_u64.to_be_bytes()) {
//!         Found::Is(row) => break row,
//!         Found::Fault(page) => {
//!             // An executor reads it asynchronously, and runs other look-ups.
//!             let bytes = segment.read_pages(page, 1)?;
//!             let mut frame = Box::new([0; PAGE_BYTES]);
//!             frame.copy_from_slice(&bytes);
//!             reader.insert(&segment, page, frame)?;
//!         }
//!     }
//! };
//! assert_eq!(row.and_then(|row| row.value.inline()), Some(&b"a value"[..]));
//! # Ok::<(), namiki_segment::SegmentError>(())
//! ```
//!
//! A page carries a checksum over its bytes, its number and the segment's identity: a page that was
//! damaged or moved is found when it is loaded, and never looked into, and so is one of another
//! segment, but for a chance of 2⁻³². The bytes are drawn in `docs/on-disk-format.md`.
//!
//! Paper: oode §1, §2

mod cache;
mod check;
mod error;
mod format;
#[cfg(any(test, feature = "hostile-bytes"))]
#[cfg(not(loom))]
#[doc(hidden)]
pub mod hostile_bytes;
mod identity;
mod key_head;
mod key_range;
mod leaf_directory;
mod long_value;
mod pages;
mod read;
mod resident_page;
mod row;
mod segment;
mod summary;
mod writer;

pub use cache::{CacheCounters, Inserted, PageCache, PageFrame, PageReader, ReaderCounters};
pub use check::{CheckProgress, CheckReport, CheckVisitor, check, check_with};
pub use error::{Damage, KeyBytes, SegmentError};
pub use format::{KEY_BYTES_MAX, PAGE_BYTES, VALUE_BYTES_INLINE_MAX, leaf::Leaf};
pub use identity::{PageNo, SegmentId};
pub use key_range::KeyRange;
pub use long_value::LongValue;
pub use pages::Pages;
pub use read::cursor::Cursor;
pub use read::long_reader::LongReader;
pub use read::lookup::LeafKeys;
pub use read::memory_pages::MemoryPages;
pub use resident_page::{Found, PageRef};
pub use row::{Key, Row, Value};
pub use segment::Segment;
pub use summary::Summary;
pub use writer::Writer;
