//! Sources over other sources: a layer defines the calls that it changes, and forwards all others.

use std::ops::Bound;
use std::sync::Arc;

use namiki_data::columns::Schema;
use namiki_exec::source::{RowBatch, Source, SourceError};
use namiki_segment::Segment;

/// A [`Source`] over another one. Each method is the one of [`Source`], and by default that of
/// [`SourceLayer::inner`].
pub(crate) trait SourceLayer: Send + Sync {
    fn inner(&self) -> &dyn Source;

    fn scan(
        &self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        rows_max: usize,
        into: &mut RowBatch,
    ) -> Result<(), SourceError> {
        self.inner().scan(from, to, rows_max, into)
    }

    fn middle_key(
        &self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
    ) -> Result<Option<Vec<u8>>, SourceError> {
        self.inner().middle_key(from, to)
    }

    fn get_many(&self, keys: &[&[u8]], into: &mut RowBatch) -> Result<(), SourceError> {
        self.inner().get_many(keys, into)
    }
}

/// A layer as a source.
pub(crate) struct Layered<L>(pub(crate) L);

#[deny(clippy::missing_trait_methods)]
impl<L: SourceLayer> Source for Layered<L> {
    fn schema(&self) -> &Schema {
        self.0.inner().schema()
    }

    fn rows(&self) -> u64 {
        self.0.inner().rows()
    }

    fn segments(&self) -> Option<&[Arc<Segment>]> {
        self.0.inner().segments()
    }

    fn scan(
        &self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        rows_max: usize,
        into: &mut RowBatch,
    ) -> Result<(), SourceError> {
        self.0.scan(from, to, rows_max, into)
    }

    fn middle_key(
        &self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
    ) -> Result<Option<Vec<u8>>, SourceError> {
        self.0.middle_key(from, to)
    }

    fn get_many(&self, keys: &[&[u8]], into: &mut RowBatch) -> Result<(), SourceError> {
        self.0.get_many(keys, into)
    }
}
