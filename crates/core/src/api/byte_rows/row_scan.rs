//! The rest of a range that is scanned in parts.
//!
//! A key is copied once for each part, at its end, and not for each row.

use std::ops::{Bound, ControlFlow};

use namiki_data::KeyBytes;
use namiki_index::{Direction, ScanRange};

use crate::error::Error;

/// A scan of a table by bytes that can be resumed: the part of its range that was not visited yet.
///
/// It belongs to no transaction and no view. Parts that are read in different ones see the table at
/// different moments. See [`Transaction::resume_scan`](crate::Transaction::resume_scan) and
/// [`View::resume_scan`](crate::View::resume_scan).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowScan {
    /// `None`: nothing is left.
    rest: Option<(Bound<KeyBytes>, Bound<KeyBytes>)>,
    direction: Direction,
}

/// The visitor that [`RowScan::resume`] hands to the scan of a part.
type PartVisitor<'v, B> = &'v mut dyn FnMut(&[u8], &[u8]) -> ControlFlow<B>;

impl RowScan {
    /// A scan of the whole range.
    #[must_use]
    pub fn new(range: ScanRange<'_>) -> Self {
        let copied = |bound: Bound<&[u8]>| bound.map(KeyBytes::from_slice);
        Self {
            rest: Some((copied(range.start), copied(range.end))),
            direction: range.direction,
        }
    }

    /// A scan of the part of the range that comes after `key`, a key in the range, in the range's
    /// direction.
    #[must_use]
    pub fn after(range: ScanRange<'_>, key: &[u8]) -> Self {
        let mut scan = Self::new(range);
        scan.skip_through(KeyBytes::from_slice(key));
        scan
    }

    /// Whether the end of the range was reached. (If the visitor broke off at the last key,
    /// that is known only after the next part.)
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.rest.is_none()
    }

    /// Leaves only the part after `key`.
    fn skip_through(&mut self, key: KeyBytes) {
        if let Some((start, end)) = &mut self.rest {
            let bound = match self.direction {
                Direction::Forward => start,
                Direction::Backward => end,
            };
            *bound = Bound::Excluded(key);
        }
    }

    /// Scans what is left by `scan_part`, until `visit` breaks off.
    pub(super) fn resume<B>(
        &mut self,
        scan_part: impl FnOnce(ScanRange<'_>, PartVisitor<'_, B>) -> Result<Option<B>, Error>,
        mut visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<B>,
    ) -> Result<Option<B>, Error> {
        let Some((start, end)) = &self.rest else {
            return Ok(None);
        };
        let slice = |bound| Bound::map(bound, |bytes: &KeyBytes| &bytes[..]);
        let range = ScanRange {
            start: slice(start.as_ref()),
            end: slice(end.as_ref()),
            direction: self.direction,
        };
        let mut last = None;
        let broke_with = scan_part(range, &mut |key, row| {
            let step = visit(key, row);
            if step.is_break() {
                last = Some(KeyBytes::from_slice(key));
            }
            step
        })?;
        match last {
            Some(key) => self.skip_through(key),
            None => self.rest = None,
        }
        Ok(broke_with)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bound(scan: &RowScan) -> Option<(Bound<&[u8]>, Bound<&[u8]>)> {
        let (start, end) = scan.rest.as_ref()?;
        let slice = |bound| Bound::map(bound, |bytes: &KeyBytes| &bytes[..]);
        Some((slice(start.as_ref()), slice(end.as_ref())))
    }

    #[test]
    fn the_rest_begins_behind_the_last_key() {
        let range = ScanRange::forward(Bound::Included(b"b"), Bound::Excluded(b"x"));
        let mut scan = RowScan::new(range);
        let at = |key: &'static [u8]| {
            move |_: ScanRange<'_>, visit: PartVisitor<'_, u8>| Ok(visit(key, b"").break_value())
        };
        assert_eq!(
            scan.resume(at(b"c"), |_, _| ControlFlow::Break(7)).unwrap(),
            Some(7)
        );
        let rest = (Bound::Excluded(&b"c"[..]), Bound::Excluded(&b"x"[..]));
        assert_eq!(bound(&scan), Some(rest));
        assert_eq!(scan, RowScan::after(range, b"c"));
        assert_eq!(
            scan.resume(at(b"d"), |_, _| ControlFlow::Continue(()))
                .unwrap(),
            None
        );
        assert!(scan.is_finished());
        let backward = ScanRange::backward(Bound::Included(b"b"), Bound::Unbounded);
        let rest = (Bound::Included(&b"b"[..]), Bound::Excluded(&b"k"[..]));
        assert_eq!(bound(&RowScan::after(backward, b"k")), Some(rest));
    }

    #[test]
    fn a_part_that_fails_is_repeated() {
        let mut scan = RowScan::new(ScanRange::all());
        let failed = scan.resume(
            |_, visit: PartVisitor<'_, ()>| {
                let _ = visit(b"a", b"");
                Err(Error::Closed)
            },
            |_, _| ControlFlow::Break(()),
        );
        assert!(failed.is_err() && scan == RowScan::new(ScanRange::all()));
    }
}
