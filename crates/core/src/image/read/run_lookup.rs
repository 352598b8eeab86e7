//! Reads rows of a run by their keys, page by page: for views of a table that is not loaded. And those of a table that was
//! loaded into a segment, which is a run where keys are never cut.
//!
//! Every page is verified when it is read, so damaged rows are never returned. Properties of the
//! whole run, such as the number of its rows, are verified when it is loaded (`run_reader.rs`).

use std::borrow::Cow;
use std::cmp::Ordering;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use namiki_index::Direction;
use namiki_platform::disk::{AlignedBuf, Disk};
use namiki_segment::{
    Cursor, Found, LongReader, PAGE_BYTES, PageNo, PageRef, Pages, Segment, SegmentError, Value,
};

use crate::catalogue::image_list::ListedRun;
use crate::catalogue::segment_file::SegmentFile;
use crate::error::OpenError;
use crate::image::read::stored_keys::{complete_key, first_stored, last_stored};

/// The most pages that one read fetches.
const PAGES_AHEAD_MAX: usize = 64;
/// Read-ahead growth: how many times more pages each read fetches than the previous one.
const AHEAD_GROWTH: usize = 4;

/// A run that is open for reads by key.
pub(crate) struct RunLookup {
    table: String,
    segment: Segment,
    /// Whether long keys are cut (`stored_keys.rs`).
    cuts_keys: bool,
}

impl RunLookup {
    /// Opens a run of a table of the image of `database`.
    ///
    /// # Errors
    /// [`OpenError::Image`].
    pub(crate) fn open(
        disk: &Arc<dyn Disk>,
        dir: &Path,
        database: u128,
        table: String,
        listed: &ListedRun,
    ) -> Result<Self, OpenError> {
        let path = listed.segment.file.rows_path(dir);
        let opened = Segment::open(disk, &path, listed.segment.id(database));
        Self::of(opened, table, path, true)
    }

    /// Opens the rows of a table that was loaded into a segment.
    ///
    /// # Errors
    /// [`OpenError::Image`].
    pub(crate) fn open_segment(
        disk: &Arc<dyn Disk>,
        dir: &Path,
        database: u128,
        table: String,
        segment: &SegmentFile,
    ) -> Result<Self, OpenError> {
        let path = segment.file.path_of_named(&**disk, dir);
        let opened = Segment::open(disk, &path, segment.id(database));
        Self::of(opened, table, path, false)
    }

    fn of(
        opened: Result<Segment, SegmentError>,
        table: String,
        path: PathBuf,
        cuts_keys: bool,
    ) -> Result<Self, OpenError> {
        match opened {
            Ok(segment) => Ok(Self {
                table,
                segment,
                cuts_keys,
            }),
            Err(source) => Err(OpenError::Image {
                table,
                path,
                source: Box::new(source),
            }),
        }
    }

    /// The rows from a bound on, in this direction.
    pub(crate) fn rows(&self, from: Bound<&[u8]>, direction: Direction) -> RowsOfRun<'_> {
        RowsOfRun {
            run: self,
            direction,
            from: Some(from.map(<[u8]>::to_vec)),
            cursor: Cursor::default(),
            pages: PageWindow::default(),
            ahead: 1,
            key: Vec::new(),
            value: Vec::new(),
            value_from: 0,
        }
    }

    fn damaged(&self, source: SegmentError) -> OpenError {
        OpenError::Image {
            table: self.table.clone(),
            path: self.segment.path().to_owned(),
            source: Box::new(source),
        }
    }
}

/// Pages that lie side by side and were read at once.
#[derive(Default)]
struct PageWindow {
    first: u32,
    bytes: Option<AlignedBuf>,
}

impl PageWindow {
    /// Reads a page and its next neighbours in this direction.
    fn read(
        &mut self,
        segment: &Segment,
        page: PageNo,
        count: usize,
        direction: Direction,
    ) -> Result<(), SegmentError> {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        let (first, end) = match direction {
            Direction::Forward => (page.0, page.0.saturating_add(count)),
            Direction::Backward => ((page.0 + 1).saturating_sub(count), page.0 + 1),
        };
        let end = end.min(segment.data_pages()).max(page.0 + 1);
        self.bytes = Some(segment.read_pages(PageNo(first), (end - first) as usize)?);
        self.first = first;
        Ok(())
    }
}

impl Pages for PageWindow {
    fn page(&self, _segment: &Segment, page: PageNo) -> Option<PageRef<'_>> {
        let place = page.0.checked_sub(self.first)? as usize;
        let (pages, _) = self.bytes.as_ref()?.as_chunks::<PAGE_BYTES>();
        pages.get(place).map(PageRef::of_verified)
    }
}

/// Rows of one run, one after the other.
pub(crate) struct RowsOfRun<'r> {
    run: &'r RunLookup,
    direction: Direction,
    /// Where to begin, until a row was found.
    from: Option<Bound<Vec<u8>>>,
    cursor: Cursor,
    pages: PageWindow,
    ahead: usize,
    key: Vec<u8>,
    /// As it lies in the run.
    value: Vec<u8>,
    value_from: usize,
}

impl RowsOfRun<'_> {
    /// Advances to the next row. Returns false at the end.
    ///
    /// # Errors
    /// [`OpenError::Image`], [`OpenError::ImageRows`].
    pub(crate) fn advance(&mut self) -> Result<bool, OpenError> {
        let run = self.run;
        if let Some(from) = self.from.take() {
            let placed = self.place(&from);
            placed.map_err(|error| run.damaged(error))?;
            self.from = Some(from);
        }
        loop {
            let stepped = self.step();
            if !stepped.map_err(|error| run.damaged(error))? {
                return Ok(false);
            }
            if run.cuts_keys {
                let completed = complete_key(&mut self.key, &self.value);
                self.value_from = completed.map_err(|why| OpenError::ImageRows {
                    table: run.table.clone(),
                    path: run.segment.path().to_owned(),
                    why: why.to_owned(),
                })?;
            }
            if self.from.as_ref().is_none_or(|from| self.has_reached(from)) {
                self.from = None;
                return Ok(true);
            }
        }
    }

    /// The row's key.
    pub(crate) fn key(&self) -> &[u8] {
        &self.key
    }

    /// The row's value.
    pub(crate) fn value(&self) -> &[u8] {
        &self.value[self.value_from..]
    }

    /// Puts the cursor where no row is passed over.
    fn place(&mut self, from: &Bound<Vec<u8>>) -> Result<(), SegmentError> {
        let run = self.run;
        let segment = &run.segment;
        let (Bound::Included(key) | Bound::Excluded(key)) = from else {
            if self.direction == Direction::Backward {
                self.cursor = segment.end();
            }
            return Ok(());
        };
        let stored = match self.direction {
            _ if !run.cuts_keys => Cow::Borrowed(&**key),
            Direction::Forward => first_stored(key),
            Direction::Backward => last_stored(key),
        };
        let is_there = loop {
            match segment.position(&self.pages, &stored, &mut self.cursor) {
                Found::Is(is_there) => break is_there,
                Found::Fault(page) => self.read(page)?,
            }
        };
        // On the way back, the cursor has to be behind it.
        if is_there && self.direction == Direction::Backward {
            // Its page is here.
            let _ = segment.next(&self.pages, &mut self.cursor);
        }
        Ok(())
    }

    /// Reads a page that is not buffered. Read-ahead: each further read fetches more neighbours.
    fn read(&mut self, page: PageNo) -> Result<(), SegmentError> {
        let ahead = self.ahead;
        self.ahead = (ahead * AHEAD_GROWTH).min(PAGES_AHEAD_MAX);
        self.pages
            .read(&self.run.segment, page, ahead, self.direction)
    }

    /// Copies the next row of the segment.
    fn step(&mut self) -> Result<bool, SegmentError> {
        let run = self.run;
        let segment = &run.segment;
        let row = loop {
            let row = match self.direction {
                Direction::Forward => segment.next(&self.pages, &mut self.cursor),
                Direction::Backward => segment.prev(&self.pages, &mut self.cursor),
            };
            match row {
                Found::Is(row) => break row,
                Found::Fault(page) => self.read(page)?,
            }
        };
        let Some(row) = row else {
            return Ok(false);
        };
        self.key.clear();
        row.key.append_to(&mut self.key);
        self.value.clear();
        match row.value {
            Value::Inline(value) => self.value.extend_from_slice(value),
            Value::Long(long) => {
                let (mut reader, mut pages) = (LongReader::new(long), PageWindow::default());
                while let Found::Fault(page) =
                    reader.read_to_end(segment, &pages, &mut self.value)?
                {
                    let count = reader.pages_left().len().min(PAGES_AHEAD_MAX);
                    pages.read(segment, page, count, Direction::Forward)?;
                }
            }
        }
        Ok(true)
    }

    /// Whether the row is within the bound.
    fn has_reached(&self, from: &Bound<Vec<u8>>) -> bool {
        let (key, is_included) = match from {
            Bound::Unbounded => return true,
            Bound::Included(key) => (key, true),
            Bound::Excluded(key) => (key, false),
        };
        match (self.key.cmp(key), self.direction) {
            (Ordering::Equal, _) => is_included,
            (Ordering::Greater, Direction::Forward) | (Ordering::Less, Direction::Backward) => true,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use namiki_platform::Stamp;
    use namiki_platform::disk::SimDisk;
    use namiki_platform::seeded_random::Random;
    use namiki_segment::Writer;

    use super::*;
    use crate::catalogue::image_files::FileNumber;
    use crate::image::read::stored_keys::KeyCutter;

    /// Keys of all lengths, some beginning alike for longer than a segment's keys can.
    fn rows() -> BTreeMap<Vec<u8>, Vec<u8>> {
        let mut random = Random::seeded(7);
        let mut rows = BTreeMap::new();
        for number in 0..400_u32 {
            let len = match number % 8 {
                0 => 1532,
                1 => 1533,
                2 => 1540,
                3 => 3000,
                _ => random.below(20) as usize,
            };
            let mut key = vec![b'a' + (number % 3) as u8; len];
            for byte in key.iter_mut().rev().take(3) {
                *byte = random.below(4) as u8 + b'a';
            }
            let value =
                vec![number as u8; random.below([10, 300, 20_000][number as usize % 3]) as usize];
            rows.insert(key, value);
        }
        rows
    }

    fn run(rows: &BTreeMap<Vec<u8>, Vec<u8>>) -> RunLookup {
        let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
        let mut listed = ListedRun {
            from: Vec::new(),
            segment: SegmentFile {
                file: FileNumber(1),
                identity: format!("{:016x}", 7),
                pages: 0,
            },
            rows: rows.len() as u64,
            bytes: 0,
            stamp: Stamp(1),
        };
        let (dir, mut cutter) = (Path::new("/db"), KeyCutter::default());
        let path = listed.segment.file.rows_path(dir);
        disk.create_dir_all(path.parent().unwrap()).unwrap();
        let mut writer = Writer::create(&disk, &path, listed.segment.id(3)).unwrap();
        for (key, value) in rows {
            let (key, value) = cutter.cut(key, value);
            writer.push(key, value, Stamp(1)).unwrap();
        }
        listed.segment.pages = writer.finish().unwrap().pages;
        RunLookup::open(&disk, dir, 3, "t".to_owned(), &listed).unwrap()
    }

    #[test]
    fn rows_follow_each_other_from_every_bound() {
        let rows = rows();
        let run = run(&rows);
        let mut bounds = vec![Bound::Unbounded];
        for key in rows.keys() {
            let beside = [&key[..], b"a"].concat();
            let before = key[..key.len() - key.len().min(1)].to_vec();
            for key in [key.clone(), beside, before] {
                bounds.extend([Bound::Included(key.clone()), Bound::Excluded(key)]);
            }
        }
        for bound in bounds {
            let bound = bound.as_ref().map(|key| &key[..]);
            let above = rows.range::<[u8], _>((bound, Bound::Unbounded));
            let below = rows.range::<[u8], _>((Bound::Unbounded, bound)).rev();
            let mut found = run.rows(bound, Direction::Forward);
            for (key, value) in above.take(20) {
                assert!(found.advance().unwrap());
                assert_eq!((found.key(), found.value()), (&key[..], &value[..]));
            }
            let mut found = run.rows(bound, Direction::Backward);
            for (key, value) in below.take(20) {
                assert!(found.advance().unwrap());
                assert_eq!((found.key(), found.value()), (&key[..], &value[..]));
            }
        }
        for direction in [Direction::Forward, Direction::Backward] {
            let mut found = run.rows(Bound::Unbounded, direction);
            let mut count = 0;
            while found.advance().unwrap() {
                count += 1;
            }
            assert_eq!(count, rows.len());
        }
    }
}
