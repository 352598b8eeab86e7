//! Files in an input. They are mostly zeros, so the input has only the other parts.
//!
//! ```text
//!  file:  chunks u8 | chunk …          the file has its full length, unless bit 7 of `chunks` is set:
//!         chunks u8 | length u16 | chunk …
//!  chunk: sector u8 | length u16 | bytes
//! ```

use namiki_platform::disk::SECTOR_BYTES;

use super::Input;

/// Bit 7 of the number of chunks.
const IS_CUT: u8 = 0x80;

/// Takes the next file from an input.
pub(super) fn take_file(input: &mut Input<'_>, len_bytes: usize) -> Vec<u8> {
    let chunks = input.byte();
    let cut = (chunks & IS_CUT != 0).then(|| usize::from(input.u16()));
    let mut file = vec![0; len_bytes];
    for _ in 0..chunks & !IS_CUT {
        let at = usize::from(input.byte()) * SECTOR_BYTES;
        let length = usize::from(input.u16());
        let bytes = input.take(length);
        if let Some(rest) = file.get_mut(at..) {
            let fits = bytes.len().min(rest.len());
            rest[..fits].copy_from_slice(&bytes[..fits]);
        }
    }
    file.truncate(cut.unwrap_or(len_bytes));
    file
}

/// Appends a file of the full length to an input.
///
/// # Panics
/// If its last non-zero sector, or the number of stretches of such sectors, exceeds the limits of
/// the encoding.
pub(super) fn put_file(file: &[u8], into: &mut Vec<u8>) {
    let mut chunks: Vec<(usize, &[u8])> = Vec::new();
    let sectors = file.chunks(SECTOR_BYTES).enumerate();
    for (number, sector) in sectors.filter(|(_, sector)| sector.iter().any(|byte| *byte != 0)) {
        let used = sector.iter().rposition(|byte| *byte != 0);
        let end = number * SECTOR_BYTES + used.map_or(0, |last| last + 1);
        match chunks.last_mut() {
            Some((first, bytes))
                if *first * SECTOR_BYTES + bytes.len() == number * SECTOR_BYTES =>
            {
                *bytes = &file[*first * SECTOR_BYTES..end];
            }
            _ => chunks.push((number, &file[number * SECTOR_BYTES..end])),
        }
    }
    let count = u8::try_from(chunks.len()).expect("few chunks");
    assert!(count < IS_CUT, "few chunks");
    into.push(count);
    for (sector, bytes) in chunks {
        into.push(u8::try_from(sector).expect("a small file"));
        let length = u16::try_from(bytes.len()).expect("a small chunk");
        into.extend_from_slice(&length.to_le_bytes());
        into.extend_from_slice(bytes);
    }
}
