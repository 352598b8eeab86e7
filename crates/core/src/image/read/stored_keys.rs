//! The encoding of keys in a run of an image: keys that are too long for a segment are cut.
//!
//! ```text
//!   key of 1,532 bytes or fewer    key                                  value
//!   a longer one                   first 1,532 bytes, number (4)        length of the rest (4), rest of the key, value
//! ```
//! A table's keys have up to 65,536 bytes, a segment's 1,536. Keys that begin with the same 1,532
//! bytes are numbered in their order, from 0 in each run, in big-endian numbers: so the segment's
//! rows have the order of the keys. A whole key is never longer than the stored prefix of a cut
//! one, so their lengths distinguish the two, and they compare correctly.

use std::borrow::Cow;

use namiki_segment::KEY_BYTES_MAX;

/// The longest key that lies in a segment as it is.
const WHOLE_BYTES_MAX: usize = KEY_BYTES_MAX - NUMBER_BYTES;
const NUMBER_BYTES: usize = 4;
const LENGTH_BYTES: usize = 4;

/// Cuts the keys of one run, which come in their order.
#[derive(Default)]
pub(crate) struct KeyCutter {
    /// The beginning of the last long key and its number.
    key: Vec<u8>,
    value: Vec<u8>,
}

impl KeyCutter {
    /// Key and value of the segment's row for the next row of the table.
    pub(crate) fn cut<'r>(&'r mut self, key: &'r [u8], value: &'r [u8]) -> (&'r [u8], &'r [u8]) {
        let Some((head, rest)) = key.split_at_checked(WHOLE_BYTES_MAX) else {
            return (key, value);
        };
        if rest.is_empty() {
            return (key, value);
        }
        let number = match self.key.split_at_checked(WHOLE_BYTES_MAX) {
            // A segment refuses a key that comes twice.
            Some((last, number)) if last == head => be_number(number).saturating_add(1),
            _ => 0,
        };
        self.key.clear();
        self.key.extend_from_slice(head);
        self.key.extend_from_slice(&number.to_be_bytes());
        self.value.clear();
        self.value
            .extend_from_slice(&(rest.len() as u32).to_le_bytes());
        self.value.extend_from_slice(rest);
        self.value.extend_from_slice(value);
        (&self.key, &self.value)
    }
}

/// Reassembles the keys of one run.
#[derive(Default)]
pub(crate) struct KeyJoiner {
    /// The last long key, and its number.
    last: Option<(Vec<u8>, u32)>,
}

impl KeyJoiner {
    /// The table's row in the segment's next row; or what is wrong with it.
    pub(crate) fn join<'r>(
        &'r mut self,
        key: &'r [u8],
        value: &'r [u8],
    ) -> Result<(&'r [u8], &'r [u8]), &'static str> {
        if key.len() <= WHOLE_BYTES_MAX {
            return Ok((key, value));
        }
        let (head, number) = key.split_at(WHOLE_BYTES_MAX);
        let (rest, value) = split_rest(number, value)?;
        let number = be_number(number);
        let (expected, follows) = match &self.last {
            Some((last, number)) if last.starts_with(head) => {
                (number.saturating_add(1), rest > &last[WHOLE_BYTES_MAX..])
            }
            _ => (0, !rest.is_empty()),
        };
        if number != expected || !follows {
            return Err("a key that is cut does not follow the one before");
        }
        let (last, last_number) = self.last.get_or_insert_default();
        last.clear();
        last.extend_from_slice(head);
        last.extend_from_slice(rest);
        *last_number = number;
        Ok((last, value))
    }
}

/// Completes a key as it lies in a segment to the table's, whatever came before it, and returns where in the row's value
/// the table's value begins; or what is wrong with the row.
pub(crate) fn complete_key(key: &mut Vec<u8>, value: &[u8]) -> Result<usize, &'static str> {
    if key.len() <= WHOLE_BYTES_MAX {
        return Ok(0);
    }
    let (rest, _) = split_rest(&key[WHOLE_BYTES_MAX..], value)?;
    key.truncate(WHOLE_BYTES_MAX);
    key.extend_from_slice(rest);
    Ok(LENGTH_BYTES + rest.len())
}

/// The least key of a segment that a key of the table, or one above it, can have there.
pub(crate) fn first_stored(key: &[u8]) -> Cow<'_, [u8]> {
    stored(key, 0)
}

/// The greatest key of a segment that a key of the table, or one below it, can have there.
pub(crate) fn last_stored(key: &[u8]) -> Cow<'_, [u8]> {
    stored(key, u32::MAX)
}

/// The key itself, or if it is cut, its head with this number.
fn stored(key: &[u8], number: u32) -> Cow<'_, [u8]> {
    match key.split_at_checked(WHOLE_BYTES_MAX) {
        Some((head, [_, ..])) => Cow::Owned([head, &number.to_be_bytes()].concat()),
        _ => Cow::Borrowed(key),
    }
}

/// The rest of a key that is cut, and the table's value, of a row with this number behind the head of its key.
fn split_rest<'v>(number: &[u8], value: &'v [u8]) -> Result<(&'v [u8], &'v [u8]), &'static str> {
    if number.len() != NUMBER_BYTES {
        return Err("a key that is cut has no number");
    }
    let rest = value
        .split_first_chunk::<LENGTH_BYTES>()
        .and_then(|(len, rest)| rest.split_at_checked(u32::from_le_bytes(*len) as usize));
    rest.ok_or("the rest of a key that is cut is missing")
}

fn be_number(bytes: &[u8]) -> u32 {
    bytes
        .iter()
        .fold(0, |number, byte| number << 8 | u32::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A key of `len` bytes that ends with `end`.
    fn key(len: usize, end: &[u8]) -> Vec<u8> {
        let mut key = vec![7; len - end.len()];
        key.extend_from_slice(end);
        key
    }

    fn keys() -> Vec<Vec<u8>> {
        let mut keys = vec![
            Vec::new(),
            key(10, b"a"),
            key(WHOLE_BYTES_MAX - 1, b""),
            key(WHOLE_BYTES_MAX, b""),
            key(WHOLE_BYTES_MAX + 1, b"\0"),
            key(WHOLE_BYTES_MAX + 1, b"a"),
            key(WHOLE_BYTES_MAX + 4, b"abcd"),
            key(WHOLE_BYTES_MAX + 5, b"abcde"),
            key(KEY_BYTES_MAX, b""),
            key(KEY_BYTES_MAX, b"z"),
            key(65_536, b""),
            key(65_536, b"x"),
            key(WHOLE_BYTES_MAX, b"z"),
            key(WHOLE_BYTES_MAX + 9, b"zzzzzzzzzz"),
            key(WHOLE_BYTES_MAX + 9, b"zzzzzzzzzzzz"),
            vec![8],
        ];
        for last in 0..=255 {
            keys.push(key(WHOLE_BYTES_MAX + 2, &[1, last]));
        }
        keys.sort();
        keys
    }

    #[test]
    fn keys_of_all_lengths_keep_their_order_and_come_back() {
        let (mut cutter, mut joiner) = (KeyCutter::default(), KeyJoiner::default());
        let mut last: Option<Vec<u8>> = None;
        for (number, key) in keys().iter().enumerate() {
            let value = vec![number as u8; number % 5];
            let (stored, stored_value) = cutter.cut(key, &value);
            assert!(stored.len() <= KEY_BYTES_MAX);
            assert!(last.is_none_or(|last| *last < *stored), "{number}");
            last = Some(stored.to_vec());
            let joined = joiner.join(stored, stored_value).unwrap();
            assert_eq!(joined, (&**key, &*value), "{number}");
            // And without those before it.
            let mut alone = stored.to_vec();
            let from = complete_key(&mut alone, stored_value).unwrap();
            assert_eq!((&alone, &stored_value[from..]), (key, &*value), "{number}");
            assert!(*first_stored(key) <= *stored && *stored <= *last_stored(key));
        }
    }

    #[test]
    fn rows_that_no_cutter_makes_are_refused() {
        let long = |number: u32| {
            let mut stored = key(WHOLE_BYTES_MAX, b"");
            stored.extend_from_slice(&number.to_be_bytes());
            stored
        };
        let refused = |rows: &[(Vec<u8>, &[u8])]| {
            let mut joiner = KeyJoiner::default();
            let mut joined = rows
                .iter()
                .map(|(key, value)| joiner.join(key, value).map(drop));
            joined.find_map(Result::err).unwrap_or_default()
        };
        assert_eq!(
            refused(&[(long(0), b"\x01\0\0\0a"), (long(1), b"\x01\0\0\0b")]),
            ""
        );
        assert!(refused(&[(key(WHOLE_BYTES_MAX + 1, b""), b"")]).contains("no number"));
        assert!(refused(&[(long(0), b"\x01\0\0")]).contains("missing"));
        assert!(refused(&[(long(0), b"\x02\0\0\0a")]).contains("missing"));
        assert!(refused(&[(long(1), b"\x01\0\0\0a")]).contains("follow"));
        assert!(refused(&[(long(0), b"\0\0\0\0a")]).contains("follow"));
        let twice = [(long(0), &b"\x01\0\0\0b"[..]), (long(1), b"\x01\0\0\0a")];
        assert!(refused(&twice).contains("follow"));
    }
}
