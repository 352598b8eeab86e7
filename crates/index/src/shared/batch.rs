//! Batched look-up: interleaves several look-ups.
//!
//! One look-up spends most of its time waiting for memory, one dependent miss after the other. Look-ups
//! that descend a tree together, each prefetching its next node before it yields to the others, overlap
//! their misses.

use crate::key::Key;
use crate::{IndexError, Lookup};

/// Number of interleaved look-ups: about as many misses as a core keeps under way.
pub const LANES: usize = 16;

/// Looks many keys up. `lanes` gets at most [`LANES`] of them and adds one answer for each to `out`, in order.
///
/// # Errors
/// If a key is not one that the index can hold; `out` is then empty.
#[inline]
pub fn get_in_lanes<'k, K: Key>(
    keys: &[&'k [u8]],
    out: &mut Vec<Lookup>,
    mut lanes: impl FnMut(&[K::Ref<'k>], &mut Vec<Lookup>),
) -> Result<(), IndexError> {
    out.clear();
    out.reserve(keys.len());
    for batch in keys.chunks(LANES) {
        let mut parsed = [K::min(); LANES];
        for (parsed, key) in parsed.iter_mut().zip(batch) {
            *parsed = K::parse(key).inspect_err(|_| out.clear())?;
        }
        lanes(&parsed[..batch.len()], out);
    }
    Ok(())
}
