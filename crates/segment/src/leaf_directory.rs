//! The index of a segment in memory: which leaf holds which keys, for all leaves. Pinned as long as
//! the segment is open, so that the leaf of a key is known without a read.
//!
//! ```text
//!   levels   | h16 | h32 | …         of every sixteen heads one, and again, until there are few: searched first
//!   heads    | h1 | h2 | h3 | …      eight bytes of each separator, behind what all have in common
//!   entries  | e1 | e2 | e3 | …      where each separator lies in the index pages: only where heads are equal
//!   leaves   | p0 | p1 | p2 | p3 …   absent where leaf n is page n
//! ```
//!
//! The first leaf's separator, which is empty, is not among them: keys below every separator are in
//! leaf 0.
//!
//! # Invariants
//! - I1. Separators rise strictly, and leaves rise with them: both are checked when the index is
//!   read.

use std::cmp::Ordering;
use std::ops::Range;

use namiki_platform::disk::AlignedBuf;

use crate::error::Damage;
use crate::format::index_page::{self, Entry};
use crate::format::{PAGE_BYTES, Page, common_prefix};
use crate::identity::PageNo;
use crate::key_head::{begins_with, head_u64, same_bytes};

/// Heads that are compared at a time: two cache lines, side by side.
const FANOUT: usize = 16;

/// See the module.
#[derive(Debug)]
pub(crate) struct LeafDirectory {
    /// The index pages.
    pages: AlignedBuf,
    /// The common prefix of all separators.
    prefix: Vec<u8>,
    heads: Vec<u64>,
    /// Every [`FANOUT`]th head, every [`FANOUT`]th of those, and so on.
    levels: Vec<Vec<u64>>,
    entries: Vec<u32>,
    leaves: Option<Vec<u32>>,
    count: u32,
}

/// A separator in its two parts.
#[derive(Clone, Copy)]
struct Separator<'p> {
    parts: [&'p [u8]; 2],
}

impl Separator<'_> {
    fn cmp_bytes(&self, key: &[u8]) -> Ordering {
        crate::row::Key {
            parts: [self.parts[0], self.parts[1], &[]],
        }
        .cmp_bytes(key)
    }
}

/// The index contradicts itself or the footer: on this page of it, from 0.
pub(crate) struct BadIndex {
    pub(crate) page: usize,
    pub(crate) damage: Damage,
}

impl LeafDirectory {
    /// Reads index pages whose checksums are right. There are to be `leaves` leaves, all of them
    /// before `leaves_end`.
    pub(crate) fn read(pages: AlignedBuf, leaves: u32, leaves_end: u32) -> Result<Self, BadIndex> {
        let mut directory = Self {
            pages: AlignedBuf::with_capacity(0),
            prefix: Vec::new(),
            heads: Vec::new(),
            levels: Vec::new(),
            entries: Vec::new(),
            leaves: None,
            count: leaves,
        };
        let mut numbers = Vec::new();
        let mut before = Vec::new();
        let mut key = Vec::new();
        let chunks = pages.as_chunks::<PAGE_BYTES>().0;
        for (number, page) in chunks.iter().enumerate() {
            let read = index_page::read(page, |entry, at| {
                let is_first = numbers.is_empty();
                key.clear();
                key.extend_from_slice(entry.prefix);
                key.extend_from_slice(entry.rest);
                if is_first != key.is_empty() || !is_first && before >= key {
                    return Err(Damage::Contents("its separators do not rise"));
                }
                if numbers.last().is_some_and(|last| *last >= entry.leaf.0)
                    || entry.leaf.0 >= leaves_end
                {
                    return Err(Damage::Contents("its leaves do not rise"));
                }
                if numbers.len() >= leaves as usize {
                    return Err(Damage::Contents("more leaves than the footer says"));
                }
                if !is_first {
                    if directory.entries.is_empty() {
                        directory.prefix.clone_from(&key);
                    }
                    directory
                        .prefix
                        .truncate(common_prefix(&directory.prefix, &key));
                    directory.entries.push((number * PAGE_BYTES + at) as u32);
                }
                numbers.push(entry.leaf.0);
                std::mem::swap(&mut before, &mut key);
                Ok(())
            });
            read.map_err(|damage| BadIndex {
                page: number,
                damage,
            })?;
        }
        if numbers.len() != leaves as usize {
            return Err(BadIndex {
                page: chunks.len().saturating_sub(1),
                damage: Damage::Contents("fewer leaves than the footer says"),
            });
        }
        directory.pages = pages;
        directory.heads = (1..numbers.len() as u32)
            .map(|leaf| {
                key.clear();
                for part in directory.separator(leaf).parts {
                    key.extend_from_slice(part);
                }
                head_u64(&key, directory.prefix.len())
            })
            .collect();
        let mut level = &directory.heads;
        let mut levels = Vec::new();
        while level.len() > FANOUT {
            let above = level.iter().copied().skip(FANOUT).step_by(FANOUT);
            levels.push(above.collect::<Vec<u64>>());
            level = &levels[levels.len() - 1];
        }
        directory.levels = levels;
        let is_dense = numbers
            .iter()
            .zip(0..)
            .all(|(page, number)| *page == number);
        directory.leaves = (!is_dense).then_some(numbers);
        Ok(directory)
    }

    /// Number of leaves.
    pub(crate) fn len(&self) -> u32 {
        self.count
    }

    /// Its size in memory, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        let leaves = self.leaves.as_ref().map_or(0, Vec::len);
        let levels: usize = self.levels.iter().map(Vec::len).sum();
        self.pages.len() + (self.heads.len() + levels) * 8 + self.entries.len() * 4 + leaves * 4
    }

    /// The page of a leaf.
    #[inline]
    pub(crate) fn page_of(&self, leaf: u32) -> PageNo {
        PageNo(match &self.leaves {
            None => leaf,
            Some(pages) => pages[leaf as usize],
        })
    }

    /// The leaf in a page, if there is one.
    pub(crate) fn leaf_in(&self, page: PageNo) -> Option<u32> {
        match &self.leaves {
            None => (page.0 < self.count).then_some(page.0),
            Some(pages) => pages.binary_search(&page.0).ok().map(|leaf| leaf as u32),
        }
    }

    /// Whether `fence`, a key in parts, is the lower fence of a leaf.
    pub(crate) fn is_fence(&self, leaf: u32, fence: [&[u8]; 4]) -> bool {
        match leaf {
            0 => fence.iter().all(|part| part.is_empty()),
            _ => same_bytes(self.separator(leaf).parts, fence),
        }
    }

    /// Whether a leaf holds the key, if any does: what [`LeafDirectory::leaf_of`] would say,
    /// without a search.
    #[inline]
    pub(crate) fn holds(&self, leaf: u32, key: &[u8]) -> bool {
        if !begins_with(key, &self.prefix) {
            return self.leaf_of(key) == leaf;
        }
        let head = head_u64(key, self.prefix.len());
        let is_at_or_above = |fence: u32| match self.heads[fence as usize - 1].cmp(&head) {
            Ordering::Less => true,
            Ordering::Greater => false,
            Ordering::Equal => self.separator(fence).cmp_bytes(key).is_le(),
        };
        (leaf == 0 || is_at_or_above(leaf)) && (leaf + 1 == self.count || !is_at_or_above(leaf + 1))
    }

    /// The separator of a leaf that is not the first.
    #[inline]
    fn separator(&self, leaf: u32) -> Separator<'_> {
        let at = self.entries[leaf as usize - 1] as usize;
        let page = &self.pages[at / PAGE_BYTES * PAGE_BYTES..][..PAGE_BYTES];
        let Entry { prefix, rest, .. } = index_page::entry_at(page, at % PAGE_BYTES);
        Separator {
            parts: [prefix, rest],
        }
    }

    /// The leaf that holds `key` if any does: the last whose separator is not above it. Only where
    /// there are leaves.
    #[inline]
    pub(crate) fn leaf_of(&self, key: &[u8]) -> u32 {
        if !begins_with(key, &self.prefix) {
            return match key.cmp(&self.prefix) {
                Ordering::Less => 0,
                _ => self.heads.len() as u32,
            };
        }
        let head = head_u64(key, self.prefix.len());
        // Leaf n has the head n - 1, so a number of heads is a leaf.
        let below = self.heads_below(head);
        if self.heads.get(below) != Some(&head) {
            return below as u32;
        }
        self.leaf_among(below, head, key)
    }

    /// The same where separators from the one of leaf `first + 1` on begin like the key.
    #[inline]
    fn leaf_among(&self, first: usize, head: u64, key: &[u8]) -> u32 {
        let (mut low, mut high) = (first, self.heads.len());
        if self.heads.get(first + 1) != Some(&head) {
            high = first + 1;
        }
        while low < high {
            let middle = low + (high - low) / 2;
            let is_above = self.heads[middle] > head
                || self.separator(middle as u32 + 1).cmp_bytes(key).is_gt();
            if is_above {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        low as u32
    }

    /// How many heads are below `head`. Each level leaves sixteen heads of the next one: all of
    /// them are compared, because a branch that depends on keys could not be predicted.
    #[inline]
    fn heads_below(&self, head: u64) -> usize {
        let mut below = 0;
        for level in self.levels.iter().rev() {
            below = count_below(level, below * FANOUT, head);
        }
        count_below(&self.heads, below * FANOUT, head)
    }

    /// The pages from the leaf that `lower` is in to the one that `upper` is in, with the value
    /// pages between.
    pub(crate) fn pages_between(&self, lower: u32, upper: u32) -> Range<u32> {
        // Value pages lie in front of their leaf.
        let first = match lower {
            0 => 0,
            _ => self.page_of(lower - 1).0 + 1,
        };
        first..self.page_of(upper).0 + 1
    }
}

/// How many heads of a level are below `head`, where all before `first` are, and of the [`FANOUT`]
/// from there on some.
#[inline]
fn count_below(level: &[u64], first: usize, head: u64) -> usize {
    let block = &level[first..level.len().min(first + FANOUT)];
    let below: usize = block.iter().map(|other| usize::from(*other < head)).sum();
    first + below
}

/// The pages of a buffer that holds whole ones.
pub(crate) fn pages_of(buffer: &AlignedBuf) -> &[Page] {
    buffer.as_chunks::<PAGE_BYTES>().0
}
