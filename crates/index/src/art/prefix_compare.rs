//! The rank of a key at a node: before everything below the node, behind it, or the key's byte.

use std::cmp::Ordering;

use super::key_window::window;
use super::node::NodeRef;
use crate::key::{Fixed8, Key, Variable};
use crate::shared::scan::Target;

/// The rank of a key that is less than everything below a node but its first child.
pub(super) const BEFORE: i32 = -1;
/// The rank of a key that is greater than everything below a node but its last child.
pub(super) const BEHIND: i32 = 255;

/// The length of the match between the target and the path, during a descent.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Progress {
    /// Number of matching bytes.
    matched: usize,
    /// Set when a byte differed. It holds for all nodes below, as their paths begin with this
    /// one's.
    side: Option<i32>,
}

/// Key operations that the tree needs.
pub trait ArtKey: Key {
    /// Whether 256 keys that differ in their last byte alone may have a leaf of their own.
    #[doc(hidden)]
    const BLOCKS: bool;

    /// The rank of a target at a node: a byte, `BEFORE` or `BEHIND`.
    #[doc(hidden)]
    #[expect(private_interfaces, reason = "the trait is sealed through `Key`")]
    fn rank(target: Target<'_, Self>, node: NodeRef<'_, Self>, progress: &mut Progress) -> i32;

    /// How many first bytes two keys share.
    #[doc(hidden)]
    fn shared(a: Self::Ref<'_>, b: Self::Ref<'_>) -> usize;
}

impl ArtKey for Fixed8 {
    const BLOCKS: bool = true;

    #[inline]
    #[expect(private_interfaces, reason = "the trait is sealed through `Key`")]
    fn rank(target: Target<'_, Self>, node: NodeRef<'_, Self>, _progress: &mut Progress) -> i32 {
        let key = match target {
            Target::At(key) => key,
            Target::Below(key) => key.wrapping_sub(1),
            Target::Last => return BEHIND,
        };
        // The path is less than eight bytes; the head is all of it.
        let below_path = 56 - 8 * node.path_len() as u32;
        let with_byte = key >> below_path;
        match (with_byte >> 8).cmp(&node.head()) {
            Ordering::Equal => (with_byte & 0xff) as i32,
            Ordering::Less => BEFORE,
            Ordering::Greater => BEHIND,
        }
    }

    #[inline]
    fn shared(a: u64, b: u64) -> usize {
        (a ^ b).leading_zeros() as usize / 8
    }
}

impl ArtKey for Variable {
    const BLOCKS: bool = false;

    #[inline]
    #[expect(private_interfaces, reason = "the trait is sealed through `Key`")]
    fn rank(target: Target<'_, Self>, node: NodeRef<'_, Self>, progress: &mut Progress) -> i32 {
        let (key, below) = match target {
            Target::At(key) => (key, false),
            Target::Below(key) => (key, true),
            Target::Last => return BEHIND,
        };
        if let Some(side) = progress.side {
            return side;
        }
        let len = node.path_len();
        if len > progress.matched {
            let order = match window(key, len) {
                // The bytes before the window are known to be equal.
                Some(window) if len - progress.matched <= 8 => window.cmp(&node.head()),
                _ => {
                    let path = &node.path()[progress.matched..];
                    let rest = &key[progress.matched..key.len().min(len)];
                    rest.cmp(path)
                }
            };
            match order {
                Ordering::Equal => progress.matched = len,
                Ordering::Less => progress.side = Some(BEFORE),
                Ordering::Greater => progress.side = Some(BEHIND),
            }
            if let Some(side) = progress.side {
                return side;
            }
        }
        match key.get(len) {
            // The key ends where the path does: it comes before each of the node's bounds.
            None => BEFORE,
            // A bound that is the key itself is not below the key.
            Some(byte) if below && key.len() == len + 1 => i32::from(*byte) - 1,
            Some(byte) => i32::from(*byte),
        }
    }

    #[inline]
    fn shared(a: &[u8], b: &[u8]) -> usize {
        shared_bytes(a, b)
    }
}

/// How many first bytes two byte strings share.
#[inline]
pub(super) fn shared_bytes(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}
