//! A value page: bytes of long values.
//!
//! ```text
//!   0  CRC-32C                    4
//!   4  kind (2)                   1
//!   5  0                          1
//!   6  bytes in use               2   1 to 4088
//!   8  bytes of values, then zeros
//! ```
//!
//! Long values lie back to back over the value pages in front of their leaf. One that does not end
//! in a page continues at byte 8 of the next one.

use super::{KIND_AT, PAGE_BYTES, Page, PageKind, put, u16_at};
use crate::error::Damage;
use crate::long_value::VALUE_PAGE_BYTES;

const HEADER_BYTES: usize = 8;

const _: () = assert!(HEADER_BYTES + VALUE_PAGE_BYTES == PAGE_BYTES);

/// Makes a page with `bytes` in it, but for the checksum.
pub(crate) fn write(bytes: &[u8], page: &mut Page) {
    page.fill(0);
    page[KIND_AT] = PageKind::Value as u8;
    put(page, 6, (bytes.len() as u16).to_le_bytes());
    page[HEADER_BYTES..HEADER_BYTES + bytes.len()].copy_from_slice(bytes);
}

/// Whether a page whose checksum is right is a value page.
pub(crate) fn check(page: &Page) -> Result<(), Damage> {
    let used = u16_at(page, 6) as usize;
    if page[5] != 0 || used == 0 || used > VALUE_PAGE_BYTES {
        return Err(Damage::Contents("a header that no value page has"));
    }
    Ok(())
}

/// The bytes of a checked page that are in use.
pub(crate) fn bytes(page: &Page) -> &[u8] {
    &page[HEADER_BYTES..HEADER_BYTES + u16_at(page, 6) as usize]
}
