//! A few rows, one after the other in memory.

use namiki_platform::Stamp;

use crate::table::raw_table::Loaded;

/// Copies of rows that are used together.
#[derive(Default)]
pub(crate) struct RowBuffer {
    /// Keys and values.
    bytes: Vec<u8>,
    /// The lengths of key and value, and the stamp.
    rows: Vec<(usize, usize, Stamp)>,
}

impl RowBuffer {
    pub(crate) fn push(&mut self, key: &[u8], value: &[u8], stamp: Stamp) {
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
        self.rows.push((key.len(), value.len(), stamp));
    }

    /// How many rows there are.
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// The bytes of keys and values.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The rows, in the order in which they came.
    pub(crate) fn rows(&self) -> impl Iterator<Item = Loaded<'_>> {
        let mut rest = &*self.bytes;
        self.rows.iter().map(move |&(key_len, value_len, stamp)| {
            let (key, value);
            (key, rest) = rest.split_at(key_len);
            (value, rest) = rest.split_at(value_len);
            let value = Some(value);
            Loaded { key, value, stamp }
        })
    }

    /// The key of the last row.
    pub(crate) fn last_key(&self) -> Option<&[u8]> {
        let (key_len, value_len, _) = self.rows.last()?;
        let at = self.bytes.len() - key_len - value_len;
        Some(&self.bytes[at..at + key_len])
    }

    /// Forgets all rows, and keeps the memory, unless a long row has made it large.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(BYTES_KEPT);
        self.rows.clear();
    }
}

/// The capacity that the buffer keeps for later rows, in bytes.
const BYTES_KEPT: usize = 16 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_back_in_their_order() {
        let mut buffer = RowBuffer::default();
        for _ in 0..2 {
            assert!(buffer.len() == 0 && buffer.last_key().is_none());
            let rows: [(&[u8], &[u8]); 4] = [(b"", b""), (b"a", b"12"), (b"b", b""), (b"cd", b"3")];
            for (at, (key, value)) in (1..).zip(rows) {
                buffer.push(key, value, Stamp(at));
                assert_eq!(buffer.last_key(), Some(key));
            }
            assert_eq!((buffer.len(), buffer.bytes()), (4, 7));
            for ((at, (key, value)), found) in (1..).zip(rows).zip(buffer.rows()) {
                assert_eq!((found.key, found.value), (key, Some(value)));
                assert_eq!(found.stamp, Stamp(at));
            }
            assert_eq!(buffer.rows().count(), 4);
            buffer.clear();
        }
    }
}
