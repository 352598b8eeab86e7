//! A table or an index with its rows in the pages of segments.

use std::ops::Bound;
use std::sync::Arc;

use namiki_data::columns::Schema;
use namiki_segment::{Found, LongReader, PageNo, PageRef, Pages, Segment, Value};

use super::{RowBatch, Source, SourceError};

/// Rows in segments. The executor reads their pages asynchronously; [`Source::scan`], which reads
/// page by page and waits for each, is for the plain evaluator and other callers that have time.
#[derive(Clone, Debug)]
pub struct SegmentTable {
    schema: Schema,
    segments: Vec<Arc<Segment>>,
}

/// Segments do not make one table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the keys of {later} do not all come after those of {earlier}: segments of a table are given in key order"
)]
pub struct SegmentsOverlap {
    earlier: String,
    later: String,
}

impl SegmentTable {
    /// The rows of these segments, each of which has keys behind those of the one before. Segments
    /// without rows are left out.
    ///
    /// # Errors
    /// [`SegmentsOverlap`] if the keys are in another order.
    pub fn new(schema: Schema, segments: Vec<Arc<Segment>>) -> Result<Self, SegmentsOverlap> {
        let segments: Vec<Arc<Segment>> = segments
            .into_iter()
            .filter(|segment| segment.rows() > 0)
            .collect();
        for pair in segments.windows(2) {
            if pair[0].last_key() >= pair[1].first_key() {
                return Err(SegmentsOverlap {
                    earlier: pair[0].path().display().to_string(),
                    later: pair[1].path().display().to_string(),
                });
            }
        }
        Ok(Self { schema, segments })
    }
}

impl Source for SegmentTable {
    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn rows(&self) -> u64 {
        self.segments.iter().map(|segment| segment.rows()).sum()
    }

    fn segments(&self) -> Option<&[Arc<Segment>]> {
        Some(&self.segments)
    }

    fn scan(
        &self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        rows_max: usize,
        into: &mut RowBatch,
    ) -> Result<(), SourceError> {
        let rows_end = into.len().saturating_add(rows_max);
        for segment in &self.segments {
            let mut range = segment.range(from, to);
            let mut page = ReadPage::default();
            let mut key = Vec::new();
            while into.len() < rows_end && !into.is_full() {
                match range.next(segment, &page) {
                    Found::Is(None) => break,
                    Found::Fault(no) => page.read(segment, no)?,
                    Found::Is(Some(row)) => {
                        key.clear();
                        row.key.append_to(&mut key);
                        match row.value {
                            Value::Inline(value) => into.push(&key, value),
                            Value::Long(long) => {
                                let mut bytes = Vec::new();
                                let mut reader = LongReader::new(long);
                                let mut own = ReadPage::default();
                                while let Found::Fault(no) =
                                    reader.read_to_end(segment, &own, &mut bytes)?
                                {
                                    own.read(segment, no)?;
                                }
                                into.push(&key, &bytes);
                            }
                        }
                    }
                }
            }
        }
        Ok(())
    }
}

/// The page that was read last.
#[derive(Default)]
struct ReadPage(Option<(PageNo, namiki_platform::disk::AlignedBuf)>);

impl ReadPage {
    fn read(&mut self, segment: &Segment, no: PageNo) -> Result<(), SourceError> {
        self.0 = Some((no, segment.read_pages(no, 1)?));
        Ok(())
    }
}

impl Pages for ReadPage {
    fn page(&self, _: &Segment, page: PageNo) -> Option<PageRef<'_>> {
        let (no, bytes) = self.0.as_ref()?;
        let bytes = bytes.first_chunk::<{ namiki_segment::PAGE_BYTES }>()?;
        (*no == page).then(|| PageRef::of_verified(bytes))
    }
}
