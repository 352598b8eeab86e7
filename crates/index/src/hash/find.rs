//! Look-up of keys, without a lock and without a store to shared memory.
//!
//! ```text
//!  control word -> the three words, the payload -> the same control word still, and not locked?
//!      -> (not there: is it the right bucket? the overflow lines; the stripe's counter)
//! ```
//! A key that is found needs no check of its bucket: no other bucket can have it. Nothing orders
//! one look-up after the next, so the processor overlaps the misses of several.

use std::ptr;

use namiki_platform::prefetch;
use namiki_platform::sync::wait;

use super::HashIndex;
use super::keys::HashKey;
use super::line::{Control, Line, SLOTS};
use super::locked_bucket::slots;
use crate::Lookup;
use crate::shared::batch::LANES;

/// The bucket changed while it was read.
struct Changed;

impl<K: HashKey> HashIndex<K> {
    /// `pin` was taken before.
    #[inline]
    pub(super) fn look_up(&self, key: K::Ref<'_>, hash: u64, pin: &K::Pin) -> Lookup {
        let (_, line) = self.table.guess(hash);
        self.look_up_from(line, key, hash, pin)
    }

    /// Looks a key up from a line that was determined a moment ago. The line may belong to another
    /// bucket by now: then the key is not found in it.
    #[inline(always)]
    fn look_up_from(&self, line: &Line, key: K::Ref<'_>, hash: u64, _pin: &K::Pin) -> Lookup {
        match self.find_at_home(line, key, hash) {
            Some(payload) => Lookup::Found(payload),
            None => self.look_further(key, hash),
        }
    }

    /// Fast path: the key is in the line that is searched first, and no writer holds it. Nine look-ups in
    /// ten end here. The fewer instructions, the more of them fit into the processor while it waits for
    /// memory.
    #[inline(always)]
    fn find_at_home(&self, line: &Line, key: K::Ref<'_>, hash: u64) -> Option<u64> {
        let before = line.control();
        let payload = self.read_line(line, before.used(), key, hash)?;
        // A live bucket has no keys of other buckets, and a dead one has none at all.
        before.is_still(line.control()).then_some(payload)
    }

    /// Slow path: the key is not in its home line, or a writer is active.
    #[inline(never)]
    fn look_further(&self, key: K::Ref<'_>, hash: u64) -> Lookup {
        let mut turn = 0;
        loop {
            let (_, line, before) = self.table.bucket(hash);
            if !before.is_locked()
                && let Ok(lookup) = self.read(line, before, key, hash)
            {
                return lookup;
            }
            wait(turn);
            turn += 1;
        }
    }

    /// The payload of a key in one line. Without a branch on the slot: the branch would be
    /// unpredictable, and a misprediction would delay the next look-up.
    #[inline(always)]
    fn read_line(&self, line: &Line, used: u8, key: K::Ref<'_>, hash: u64) -> Option<u64> {
        let slot = if K::INLINE {
            let mut equal = 0;
            for slot in 0..SLOTS {
                equal |= u32::from(self.is(line.word(slot), key, hash)) << slot;
            }
            let found = equal & u32::from(used);
            (found != 0).then(|| found.trailing_zeros() as usize)?
        } else {
            slots(used).find(|slot| self.is(line.word(*slot), key, hash))?
        };
        Some(line.payload(slot))
    }

    /// Reads a bucket that was in the state `before`, unlocked: its home line, its overflow lines, and the
    /// stripe's version if the key is in none.
    fn read(
        &self,
        home: &Line,
        before: Control,
        key: K::Ref<'_>,
        hash: u64,
    ) -> Result<Lookup, Changed> {
        let mut found = self.read_line(home, before.used(), key, hash);
        let mut further = home.further();
        while found.is_none()
            && let Some(number) = further
        {
            // The lines of a changed bucket may lead anywhere, even in a circle.
            if home.control() != before {
                return Err(Changed);
            }
            let line = self.table.overflow.line(number);
            found = self.read_line(line, line.control().used(), key, hash);
            further = line.further();
        }
        let lookup = match found {
            Some(payload) => Lookup::Found(payload),
            // Between two loads of the control word: see V1.
            None => Lookup::Missing(self.table.stripes.version(hash)),
        };
        if home.control() == before {
            Ok(lookup)
        } else {
            Err(Changed)
        }
    }

    /// At most [`LANES`] interleaved look-ups.
    pub(super) fn get_lanes(&self, keys: &[K::Ref<'_>], out: &mut Vec<Lookup>) {
        let pin = &K::pin();
        let first = self.table.guess(0).1;
        let (mut hashes, mut lines) = ([0; LANES], [first; LANES]);
        for ((hash, line), key) in hashes.iter_mut().zip(&mut lines).zip(keys) {
            *hash = self.hash(*key);
            *line = self.table.guess(*hash).1;
            prefetch(ptr::from_ref(*line).cast());
        }
        let lanes = hashes.iter().zip(lines).zip(keys);
        if !K::INLINE {
            // Next the boxes of the likely keys.
            for ((hash, line), _) in lanes.clone() {
                for slot in slots(line.control().used()) {
                    K::prefetch(line.word(slot), Some(*hash));
                }
            }
        }
        out.extend(lanes.map(|((hash, line), key)| self.look_up_from(line, *key, *hash, pin)));
    }
}
