//! Rows back to back in two buffers, which are kept from batch to batch.

/// A batch of rows: the key bytes and the row bytes of each, or its absence. It is full with 1 MiB.
#[derive(Clone, Debug, Default)]
pub struct RowBatch {
    bytes: Vec<u8>,
    /// For each row, the ends of its key and of its row bytes in `bytes`.
    ends: Vec<(u32, u32)>,
}

/// Bytes of rows with which a batch is full.
const BYTES_MAX: usize = 1 << 20;

/// The end of the key of an absent row.
const ABSENT: u32 = u32::MAX;

impl RowBatch {
    /// None.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a row, however long it is: also to a batch that is full.
    ///
    /// # Panics
    /// If the batch grows to 4 GiB.
    #[inline]
    pub fn push(&mut self, key: &[u8], row: &[u8]) {
        self.bytes.extend_from_slice(key);
        let key_end = self.bytes.len();
        self.bytes.extend_from_slice(row);
        let end = u32::try_from(self.bytes.len()).unwrap_or(ABSENT);
        assert!(end < ABSENT, "a batch of rows is shorter than 4 GiB");
        self.ends.push((key_end as u32, end));
    }

    /// Adds that there is no row.
    pub fn push_absent(&mut self) {
        self.ends.push((ABSENT, self.bytes.len() as u32));
    }

    /// The key bytes and the row bytes of row number `at`, unless it is absent.
    ///
    /// # Panics
    /// If there are fewer rows.
    #[inline]
    #[must_use]
    pub fn get(&self, at: usize) -> Option<(&[u8], &[u8])> {
        let from = match at {
            0 => 0,
            _ => self.ends[at - 1].1,
        };
        let (key_end, end) = self.ends[at];
        if key_end == ABSENT {
            return None;
        }
        let (from, key_end, end) = (from as usize, key_end as usize, end as usize);
        Some((&self.bytes[from..key_end], &self.bytes[key_end..end]))
    }

    /// Whether it is large enough: a source adds no more rows, unless it has added none.
    #[inline]
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.bytes.len() >= BYTES_MAX
    }

    /// Number of rows, including absent ones.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether the batch is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Takes all rows out; the memory stays.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_and_their_absence_come_back_in_order() {
        let mut batch = RowBatch::new();
        for _ in 0..2 {
            batch.push(b"k", b"row");
            batch.push_absent();
            batch.push(b"", b"");
            batch.push(b"key", b"");
            let expected: [Option<(&[u8], &[u8])>; 4] = [
                Some((b"k", b"row")),
                None,
                Some((b"", b"")),
                Some((b"key", b"")),
            ];
            let rows: Vec<_> = (0..batch.len()).map(|at| batch.get(at)).collect();
            assert_eq!(rows, expected);
            batch.clear();
            assert!(batch.is_empty());
        }
    }
}
