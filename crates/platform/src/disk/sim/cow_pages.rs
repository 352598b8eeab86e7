//! Contents of a simulated file: pages shared between all images until one writes.

use std::sync::Arc;

const PAGE_BYTES: usize = 4096;
type Page = [u8; PAGE_BYTES];

/// A file's bytes. Cloning costs one reference count; a page never written costs nothing.
#[derive(Clone, Debug)]
pub(super) struct Pages {
    len_bytes: u64,
    pages: Arc<Vec<Option<Arc<Page>>>>,
}

impl Pages {
    pub(super) fn zeroed(len_bytes: u64) -> Self {
        let count = len_bytes.div_ceil(PAGE_BYTES as u64) as usize;
        Self {
            len_bytes,
            pages: Arc::new(vec![None; count]),
        }
    }

    /// Makes the file longer, with a hole.
    pub(super) fn grow(&mut self, len_bytes: u64) {
        let count = len_bytes.div_ceil(PAGE_BYTES as u64) as usize;
        Arc::make_mut(&mut self.pages).resize(count, None);
        self.len_bytes = len_bytes;
    }

    pub(super) fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    /// The range lies within the file, established by the caller.
    pub(super) fn write(&mut self, offset: u64, bytes: &[u8]) {
        let pages = Arc::make_mut(&mut self.pages);
        for (number, within, part) in parts(offset, bytes.len()) {
            let page = pages[number].get_or_insert_with(|| Arc::new([0; PAGE_BYTES]));
            Arc::make_mut(page)[within..within + part.len()].copy_from_slice(&bytes[part]);
        }
    }

    /// The first byte from `offset` on that lies in a page that was written.
    pub(super) fn next_data(&self, offset: u64) -> Option<u64> {
        let first = usize::try_from(offset / PAGE_BYTES as u64).ok()?;
        let written = self.pages.iter().skip(first).position(Option::is_some)?;
        let page = (first + written) as u64 * PAGE_BYTES as u64;
        Some(offset.max(page)).filter(|data| *data < self.len_bytes)
    }

    /// Fills `into` as far as the file reaches; returns how far that is.
    pub(super) fn read(&self, offset: u64, into: &mut [u8]) -> usize {
        let left = self.len_bytes.saturating_sub(offset);
        let len = into.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        for (number, within, part) in parts(offset, len) {
            match &self.pages[number] {
                Some(page) => {
                    let within = within..within + part.len();
                    into[part].copy_from_slice(&page[within]);
                }
                None => into[part].fill(0),
            }
        }
        len
    }
}

/// Cuts a range of a file at page boundaries: page number, offset in the page, part of the range.
fn parts(offset: u64, len: usize) -> impl Iterator<Item = (usize, usize, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        if done >= len {
            return None;
        }
        let at = offset + done as u64;
        let (number, within) = (at / PAGE_BYTES as u64, (at % PAGE_BYTES as u64) as usize);
        let part = done..len.min(done + PAGE_BYTES - within);
        done = part.end;
        Some((number as usize, within, part))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_that_were_never_written_are_holes() {
        let mut pages = Pages::zeroed(20_000);
        assert_eq!(pages.next_data(0), None);
        pages.write(9000, &[1]);
        pages.write(19_999, &[1]);
        assert_eq!(pages.next_data(0), Some(8192));
        assert_eq!(pages.next_data(9001), Some(9001));
        assert_eq!(pages.next_data(3 * 4096), Some(4 * 4096));
        assert_eq!(pages.next_data(20_000), None);
        assert_eq!(pages.next_data(u64::MAX), None);
    }

    #[test]
    fn a_clone_does_not_see_later_writes() {
        let mut pages = Pages::zeroed(10_000);
        pages.write(4000, &[1; 300]);
        let before = pages.clone();
        pages.write(4090, &[2; 20]);
        let mut seen = [9; 400];
        assert_eq!(before.read(3950, &mut seen), 400);
        assert_eq!(&seen[..50], [0; 50]);
        assert_eq!(&seen[50..350], [1; 300]);
        assert_eq!(&seen[350..], [0; 50]);
        assert_eq!(pages.read(3950, &mut seen), 400);
        assert_eq!(&seen[140..160], [2; 20]);
        assert_eq!(pages.read(9990, &mut seen), 10);
        assert_eq!(pages.read(20_000, &mut seen), 0);
    }
}
