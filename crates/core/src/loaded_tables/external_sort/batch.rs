//! Keys in memory, within a budget, and their sorting.
//!
//! An entry has the first eight bytes of its key in addition to its position, so most comparisons
//! touch no other memory.

/// The least useful memory.
pub(super) const BATCH_BYTES_MIN: usize = 32 << 10;

/// Keys in memory.
///
/// Both lists grow by doubling, and are copied then. None gets more than two fifths of the budget: when one grows to
/// that, one fifth is what it was before, and two are the other's.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) bytes: Vec<u8>,
    pub(super) entries: Vec<Entry>,
    /// The limit of each list.
    bytes_max: usize,
}

/// Makes room for more elements, doubling the memory as far as `len_max` allows.
fn grow<T>(list: &mut Vec<T>, more: usize, len_max: usize) {
    let needed = list.len() + more;
    if needed > list.capacity() {
        let wanted = needed.max(2 * list.capacity()).min(len_max.max(needed));
        list.reserve_exact(wanted - list.len());
    }
}

pub(super) struct Entry {
    /// The first eight bytes, padded with zeros, so that they compare as keys do.
    prefix: u64,
    at: u32,
    len: u32,
}

impl Batch {
    pub(super) fn within(budget_bytes: usize) -> Self {
        Self {
            // A place in a batch has 32 bits.
            bytes_max: (budget_bytes / 5 * 2).clamp(BATCH_BYTES_MIN, u32::MAX as usize),
            ..Self::default()
        }
    }

    /// Makes room for a key of `key_bytes` bytes; returns false if that is impossible. An empty
    /// batch takes any key.
    pub(super) fn has_room(&mut self, key_bytes: usize) -> bool {
        let entries_max = self.bytes_max / size_of::<Entry>();
        let fits =
            self.entries.len() < entries_max && self.bytes.len() + key_bytes <= self.bytes_max;
        if fits {
            grow(&mut self.entries, 1, entries_max);
            grow(&mut self.bytes, key_bytes, self.bytes_max);
        }
        fits || self.entries.is_empty()
    }

    pub(super) fn push(&mut self, key: &[u8]) {
        let mut prefix = [0; 8];
        let beginning = key.len().min(8);
        prefix[..beginning].copy_from_slice(&key[..beginning]);
        self.entries.push(Entry {
            prefix: u64::from_be_bytes(prefix),
            at: self.bytes.len() as u32,
            len: key.len() as u32,
        });
        self.bytes.extend_from_slice(key);
    }

    pub(super) fn key(&self, entry: &Entry) -> &[u8] {
        &self.bytes[entry.at as usize..][..entry.len as usize]
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &[u8]> {
        self.entries.iter().map(|entry| self.key(entry))
    }

    pub(super) fn sort(&mut self) {
        let mut entries = std::mem::take(&mut self.entries);
        entries.sort_unstable_by(|a, b| {
            let by_prefix = a.prefix.cmp(&b.prefix);
            by_prefix.then_with(|| self.key(a).cmp(self.key(b)))
        });
        self.entries = entries;
    }

    /// Keeps the memory for the next batch.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.entries.clear();
    }
}
