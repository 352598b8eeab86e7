//! An array that grows while other threads read it: chunks double in size and never move.
//!
//! # Invariants
//! - A1. A chunk's pointer is null until the chunk is complete, and does not change afterwards.
//! - A2. A chunk is freed when the array is dropped, not before.
#![expect(unsafe_code, reason = "chunks are published as raw pointers")]

use std::array;
use std::ptr;
use std::sync::atomic::Ordering;

use namiki_platform::sync::AtomicPtr;

/// Elements of the first chunk; each further chunk has twice as many as the one before.
/// The first is small, as most arrays of an empty table have one element.
const FIRST_BITS: u32 = if cfg!(loom) { 2 } else { 4 };
const CHUNKS: usize = (SegmentedArray::<u8>::BITS + 1 - FIRST_BITS) as usize;

/// An array of up to 2²⁸ elements, in chunks that are allocated on demand.
pub struct SegmentedArray<T> {
    chunks: [AtomicPtr<T>; CHUNKS],
}

/// Chunk and place in it of element `i`.
#[inline]
fn locate(i: u32) -> (usize, usize) {
    let number = i + (1 << FIRST_BITS);
    let chunk = number.ilog2() - FIRST_BITS;
    (
        chunk as usize,
        (number - (1 << (chunk + FIRST_BITS))) as usize,
    )
}

const fn chunk_len(chunk: usize) -> usize {
    1 << (chunk + FIRST_BITS as usize)
}

impl<T> SegmentedArray<T> {
    /// Bits of the place of any element.
    pub const BITS: u32 = 28;
    /// Most elements there can be.
    pub const LEN_MAX: u32 = 1 << Self::BITS;

    pub fn new() -> Self {
        Self {
            chunks: array::from_fn(|_| AtomicPtr::new(ptr::null_mut())),
        }
    }

    /// Element `i`, if its chunk exists.
    #[inline]
    pub fn get(&self, i: u32) -> Option<&T> {
        if i >= Self::LEN_MAX {
            return None;
        }
        let (chunk, place) = locate(i);
        // `Acquire` pairs with the `AcqRel` that published the chunk.
        let elements = self.chunks[chunk].load(Ordering::Acquire);
        // SAFETY: a non-null chunk has `chunk_len(chunk)` initialised elements, `place` is less, and
        // it lives as long as the array (A1, A2).
        (!elements.is_null()).then(|| unsafe { &*elements.add(place) })
    }

    /// Makes sure that the chunk of element `i`, less than `LEN_MAX`, exists. Several threads may
    /// try, one chunk wins.
    pub fn reach(&self, i: u32, make: impl FnMut() -> T) {
        let chunk = locate(i).0;
        let place = &self.chunks[chunk];
        if !place.load(Ordering::Acquire).is_null() {
            return;
        }
        let mut make = make;
        let len = chunk_len(chunk);
        let fresh: Box<[T]> = (0..len).map(|_| make()).collect();
        let fresh = Box::into_raw(fresh).cast::<T>();
        // `AcqRel`: the elements are published with their address.
        let exchange =
            place.compare_exchange(ptr::null_mut(), fresh, Ordering::AcqRel, Ordering::Acquire);
        if exchange.is_err() {
            // SAFETY: it came from a boxed slice of `len` above and was not published.
            drop(unsafe { Box::from_raw(ptr::slice_from_raw_parts_mut(fresh, len)) });
        }
    }

    /// Calls `visit` with every existing element.
    pub fn for_each_mut(&mut self, mut visit: impl FnMut(&mut T)) {
        for (chunk, place) in self.chunks.iter().enumerate() {
            let elements = place.load(Ordering::Relaxed);
            if !elements.is_null() {
                // SAFETY: `chunk_len(chunk)` initialised elements (A1), ours alone by `&mut self`.
                let elements =
                    unsafe { std::slice::from_raw_parts_mut(elements, chunk_len(chunk)) };
                elements.iter_mut().for_each(&mut visit);
            }
        }
    }

    /// Bytes of the chunks that exist.
    pub fn bytes(&self) -> usize {
        let there = |chunk: &usize| !self.chunks[*chunk].load(Ordering::Relaxed).is_null();
        let elements: usize = (0..CHUNKS).filter(there).map(chunk_len).sum();
        elements * size_of::<T>()
    }
}

impl<T> Drop for SegmentedArray<T> {
    fn drop(&mut self) {
        for (chunk, place) in self.chunks.iter().enumerate() {
            let elements = place.load(Ordering::Relaxed);
            if !elements.is_null() {
                let slice = ptr::slice_from_raw_parts_mut(elements, chunk_len(chunk));
                // SAFETY: a boxed slice of this length (`reach`); no other thread has the array.
                drop(unsafe { Box::from_raw(slice) });
            }
        }
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;

    #[test]
    fn every_element_has_one_place_and_keeps_it() {
        let array = SegmentedArray::new();
        assert!(array.get(0).is_none());
        let last = 5_000;
        for i in 0..last {
            array.reach(i, || AtomicU32::new(u32::MAX));
            let element = array
                .get(i)
                .map(|element| element.swap(i, Ordering::Relaxed));
            assert_eq!(element, Some(u32::MAX), "{i}");
        }
        for i in 0..last {
            assert_eq!(array.get(i).map(|e| e.load(Ordering::Relaxed)), Some(i));
        }
        assert!(array.get(SegmentedArray::<AtomicU32>::LEN_MAX).is_none());
        assert!(array.get(u32::MAX).is_none());
        assert_eq!(array.bytes(), 511 * 16 * 4);
        let (mut array, mut elements) = (array, 0);
        array.for_each_mut(|_| elements += 1);
        assert_eq!(elements, 511 * 16);
    }
}
