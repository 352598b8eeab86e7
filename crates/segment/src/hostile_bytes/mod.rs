//! For tests with hostile bytes, in this crate and outside of it: pages that were changed get the
//! right checksums, so that what is behind the checksum is reached, and whatever is accepted is
//! used in every way.

#[cfg(test)]
mod fuzz;

use std::collections::BTreeMap;
use std::ops::Bound;

use crate::format::{PAGE_BYTES, Page, Seal};
use crate::{Cursor, Found, LongReader, PageNo, PageRef, Pages, Segment, SegmentId, Value};

/// Gives all whole pages of a segment's file the checksum of what they hold now.
pub fn mend_checksums(id: SegmentId, file: &mut [u8]) {
    for (no, page) in (0..).zip(file.as_chunks_mut().0) {
        Seal::of(id).close(PageNo(no), page);
    }
}

/// The pages that were accepted.
struct Accepted(BTreeMap<u32, Box<Page>>);

impl Pages for Accepted {
    fn page(&self, _: &Segment, page: PageNo) -> Option<PageRef<'_>> {
        self.0.get(&page.0).map(|page| PageRef::of_verified(page))
    }
}

/// Does with the accepted pages of a segment that has opened whatever can be done. `draw` chooses a
/// number below its argument.
///
/// # Panics
/// If a page is refused by an error that does not name it, keys do not rise, or more is found than
/// the file has.
pub fn use_all(segment: &Segment, file: &[u8], mut draw: impl FnMut(usize) -> usize) {
    let mut accepted = Accepted(BTreeMap::new());
    let data_pages = file.as_chunks::<PAGE_BYTES>().0.iter();
    for (no, page) in (0..segment.data_pages()).zip(data_pages) {
        match segment.verify_page(PageNo(no), page) {
            Ok(()) => {
                accepted.0.insert(no, Box::new(*page));
            }
            Err(error) => assert!(
                error.to_string().contains(&format!("page {no} ")),
                "{error}"
            ),
        }
    }
    let mut keys = vec![Vec::new(), vec![255; 9]];
    let mut cursor = Cursor::default();
    while let Found::Is(Some(row)) = segment.next(&accepted, &mut cursor) {
        let key = row.key.to_vec();
        // Fences are those of the index, so keys rise also from leaf to leaf.
        assert!(keys.len() == 2 || keys.last().is_some_and(|last| *last < key));
        keys.push(key);
        if let Value::Long(long) = row.value {
            let mut value = Vec::new();
            let read = LongReader::new(long).read_to_end(segment, &accepted, &mut value);
            if let Ok(Found::Is(())) = read {
                assert_eq!(value.len() as u64, long.len_bytes());
            }
            assert!(value.len() <= file.len());
        }
    }
    while let Found::Is(Some(row)) = segment.prev(&accepted, &mut cursor) {
        keys.push(row.key.to_vec());
    }
    for _ in 0..8 {
        let mut key = keys[draw(keys.len())].clone();
        if draw(2) == 0 {
            key.push(0);
        }
        let _ = segment.get(&accepted, &key);
        let _ = segment.seek(&accepted, &key, &mut cursor);
        let mut range = segment.range(Bound::Excluded(&key[..]), Bound::Unbounded);
        let _ = range.next(segment, &accepted);
        assert!(range.pages_left(segment).len() <= segment.pages() as usize);
    }
    segment.get_many(&accepted, &keys, |_, _| (), |_| ());
}
