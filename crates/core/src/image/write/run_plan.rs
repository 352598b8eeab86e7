//! The plan of an image: the runs of the previous image that are kept, and the key ranges that are
//! rewritten.
//!
//! A run is kept if no key of its range has changed. Ranges that are written anew and follow each
//! other are written as one, which is how small runs are merged. A small unchanged run next to a
//! changed one is written with it; otherwise deletions would leave small runs that are never
//! merged.

use std::ops::Bound;

use crate::catalogue::image_list::ListedRun;
use crate::image::write::rows_at_stamp::KeyBounds;

/// A part of a table's keys. The parts follow each other, and cover all keys.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Part<'l> {
    /// The rows are those of this run.
    Kept(&'l ListedRun),
    /// The rows from one key up to another are rewritten.
    Rewritten(Keys<'l>),
}

/// The keys from `from` on, and below the upper bound if there is one. An empty `from` means from
/// the first key on; other bounds are keys that the table can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Keys<'l> {
    pub(crate) from: &'l [u8],
    pub(crate) end: Option<&'l [u8]>,
}

impl<'l> Keys<'l> {
    pub(crate) fn bounds(self) -> KeyBounds<'l> {
        let is_first = self.from.is_empty();
        let lower = if is_first {
            Bound::Unbounded
        } else {
            Bound::Included(self.from)
        };
        (lower, self.upper())
    }

    /// The same without those up to `last`.
    pub(crate) fn bounds_after<'k>(self, last: &'k [u8]) -> KeyBounds<'k>
    where
        'l: 'k,
    {
        (Bound::Excluded(last), self.upper())
    }

    fn upper(self) -> Bound<&'l [u8]> {
        self.end.map_or(Bound::Unbounded, Bound::Excluded)
    }
}

/// The parts of a table that had these runs, where `has_changed` says so of some. A run of fewer than `small_bytes` that
/// has not changed is rewritten with a changed neighbour that is as long at least, so at most twice as much is written as has to be.
pub(crate) fn plan<E>(
    runs: &[ListedRun],
    small_bytes: u64,
    mut has_changed: impl FnMut(&ListedRun, Keys<'_>) -> Result<bool, E>,
) -> Result<Vec<Part<'_>>, E> {
    if runs.is_empty() {
        return Ok(vec![Part::Rewritten(Keys {
            from: &[],
            end: None,
        })]);
    }
    let keys = |number: usize| Keys {
        from: &runs[number].from,
        end: runs.get(number + 1).map(|next| &*next.from),
    };
    let mut changed = Vec::with_capacity(runs.len());
    for (number, run) in runs.iter().enumerate() {
        changed.push(has_changed(run, keys(number))?);
    }
    let rewritten = with_small_neighbours(runs, &changed, small_bytes);
    let mut parts: Vec<Part<'_>> = Vec::new();
    for (number, run) in runs.iter().enumerate() {
        match parts.last_mut() {
            _ if !rewritten[number] => parts.push(Part::Kept(run)),
            Some(Part::Rewritten(before)) => before.end = keys(number).end,
            _ => parts.push(Part::Rewritten(keys(number))),
        }
    }
    Ok(parts)
}

fn with_small_neighbours(runs: &[ListedRun], changed: &[bool], small_bytes: u64) -> Vec<bool> {
    let mut rewritten = changed.to_vec();
    for (number, run) in runs.iter().enumerate() {
        if changed[number] || run.bytes >= small_bytes {
            continue;
        }
        let before = number.checked_sub(1);
        let mut beside = before.into_iter().chain([number + 1]);
        rewritten[number] = beside
            .any(|beside| changed.get(beside) == Some(&true) && runs[beside].bytes >= run.bytes);
    }
    rewritten
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use namiki_platform::Stamp;

    use super::*;
    use crate::catalogue::image_files::FileNumber;
    use crate::catalogue::segment_file::SegmentFile;

    /// Runs from "", "b", "c" and so on, with these numbers of bytes.
    fn runs(bytes: &[u64]) -> Vec<ListedRun> {
        let runs = (1..).zip(bytes).map(|(file, bytes)| ListedRun {
            from: if file == 1 {
                Vec::new()
            } else {
                vec![b'a' + file as u8 - 1]
            },
            segment: SegmentFile {
                file: FileNumber(file),
                identity: format!("{file:016x}"),
                pages: 3,
            },
            rows: 1,
            bytes: *bytes,
            stamp: Stamp(1),
        });
        runs.collect()
    }

    /// The plan as text: a kept run is its number, what is rewritten its bounds.
    fn planned(bytes: &[u64], changed: &str) -> String {
        let runs = runs(bytes);
        let mut answers = changed.bytes();
        let plan = plan(&runs, 25, |_, _| {
            Ok::<_, Infallible>(answers.next() == Some(b'!'))
        });
        let parts = plan.unwrap().into_iter().map(|part| match part {
            Part::Kept(run) => run.segment.file.0.to_string(),
            Part::Rewritten(Keys { from, end }) => {
                let text = |key: &[u8]| String::from_utf8(key.to_vec()).unwrap();
                format!("[{}-{}]", text(from), end.map(text).unwrap_or_default())
            }
        });
        parts.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn unchanged_runs_are_kept_and_changed_ones_written_as_one() {
        assert_eq!(planned(&[], ""), "[-]");
        assert_eq!(planned(&[100, 100, 100], "..."), "1 2 3");
        assert_eq!(planned(&[100, 100, 100], "!.."), "[-b] 2 3");
        assert_eq!(planned(&[100, 100, 100], "..!"), "1 2 [c-]");
        assert_eq!(planned(&[100, 100, 100, 100], ".!!."), "1 [b-d] 4");
        assert_eq!(planned(&[100, 100, 100, 100], "!.!!"), "[-b] 2 [c-]");
        assert_eq!(planned(&[100, 100], "!!"), "[-]");
    }

    #[test]
    fn small_runs_are_merged_into_changed_neighbours() {
        assert_eq!(planned(&[100, 24, 100], "!.."), "[-c] 3");
        assert_eq!(planned(&[100, 24, 100], "..!"), "1 [b-]");
        assert_eq!(planned(&[100, 25, 100], "..!"), "1 2 [c-]");
        // Not into one that is shorter still, and not without one.
        assert_eq!(planned(&[10, 24, 100], "!.."), "[-b] 2 3");
        assert_eq!(planned(&[1, 2, 3], "..."), "1 2 3");
        assert_eq!(planned(&[100, 20, 20, 100], "!..."), "[-c] 3 4");
    }

    #[test]
    fn every_range_is_asked_for_with_its_bounds() {
        let runs = runs(&[9, 9, 9]);
        let mut asked = Vec::new();
        let planned = plan(&runs, 0, |_, keys| {
            asked.push((keys.from.to_vec(), keys.end.map(<[u8]>::to_vec)));
            Ok::<_, Infallible>(false)
        });
        assert_eq!(planned.unwrap().len(), 3);
        let end = |key: &[u8]| Some(key.to_vec());
        let expected = [
            (b"".to_vec(), end(b"b")),
            (b"b".to_vec(), end(b"c")),
            (b"c".to_vec(), None),
        ];
        assert_eq!(asked, expected);
    }
}
