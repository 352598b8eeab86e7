//! Reads the floor's log from its beginning to where it ends.

use namiki_platform::disk::{AlignedBuf, DiskFile};
use namiki_platform::hash::hash_of;

use super::{HEADER_BYTES, KEY_BYTES};
use crate::error::BenchError;
use crate::kv::store::decoded;
use crate::txn::payload::Payload;

/// What is read at once, unless a group is longer.
const READ_BYTES: usize = 1 << 20;

/// Where a log ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct End {
    /// How many groups there are.
    pub(super) groups: u64,
    /// Where the next one belongs.
    pub(super) bytes: u64,
}

/// Shows every group's number and entries, in order, up to the first that is not whole.
pub(super) fn replay(
    file: &dyn DiskFile,
    mut group: impl FnMut(u64, &[u8]) -> Result<(), BenchError>,
) -> Result<End, BenchError> {
    let mut end = End {
        groups: 0,
        bytes: 0,
    };
    let mut buffer = AlignedBuf::zeroed(READ_BYTES);
    loop {
        let read = file
            .read_at(end.bytes, &mut buffer)
            .map_err(BenchError::system("read the floor's log"))?;
        let mut rest = &buffer[..read];
        let mut missing = None;
        while missing.is_none() {
            match next_group(rest, end.groups + 1) {
                Next::Whole(entries) => {
                    group(end.groups + 1, entries)?;
                    let whole = HEADER_BYTES + entries.len();
                    let bytes = whole.next_multiple_of(file.block_bytes());
                    rest = rest.get(bytes..).unwrap_or_default();
                    end.groups += 1;
                    end.bytes += bytes as u64;
                }
                Next::Longer(bytes) => missing = Some(bytes),
                Next::None => return Ok(end),
            }
        }
        let missing = missing.unwrap_or(0);
        // There is no more in the file, or the length is not one of a group.
        if missing as u64 > file.len_bytes().saturating_sub(end.bytes) {
            return Ok(end);
        }
        if missing > buffer.len() {
            buffer.resize(missing.next_multiple_of(file.block_bytes()));
        }
    }
}

enum Next<'a> {
    Whole(&'a [u8]),
    /// So many bytes are needed to tell.
    Longer(usize),
    None,
}

fn next_group(bytes: &[u8], number: u64) -> Next<'_> {
    let Some((header, _)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
        return Next::Longer(HEADER_BYTES);
    };
    let (words, _) = header.as_chunks::<8>();
    let [hash, found, length] = [0, 1, 2].map(|at| u64::from_le_bytes(words[at]));
    let Some(whole) = usize::try_from(length)
        .ok()
        .and_then(|length| length.checked_add(HEADER_BYTES))
    else {
        return Next::None;
    };
    if found != number {
        return Next::None;
    }
    match bytes.get(..whole) {
        None => Next::Longer(whole),
        Some(group) if hash_of(0, &group[8..]) != hash => Next::None,
        Some(group) => Next::Whole(&group[HEADER_BYTES..]),
    }
}

/// Shows the records of a group, whose values are `value_bytes` long.
pub(super) fn records(
    entries: &[u8],
    value_bytes: u16,
    mut record: impl FnMut(u64, Payload) -> Result<(), BenchError>,
) -> Result<(), BenchError> {
    for entry in entries.chunks(KEY_BYTES + usize::from(value_bytes)) {
        let Some((key, value)) = entry.split_first_chunk::<KEY_BYTES>() else {
            return Err(BenchError::Check("a group is cut off".to_owned()));
        };
        let key = u64::from_le_bytes(*key);
        record(key, decoded(key, value)?)?;
    }
    Ok(())
}
