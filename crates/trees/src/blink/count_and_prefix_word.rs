//! The shape word: one word of a node's header with the layout of its entries.

/// The layout of a node's entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Shape {
    /// Entries.
    pub(super) len: usize,
    /// Number of leading bytes that all keys share.
    pub(super) prefix: usize,
    /// Position of the last insert.
    pub(super) last: usize,
    /// Number of consecutive inserts that went right behind the one before; at most 255.
    pub(super) run: usize,
}

/// ```text
///  56           40 39       32 31     16 15      0
/// | prefix (17)   | run (8)   | last    | len     |
/// ```
impl Shape {
    #[inline]
    pub(super) fn of(word: u64) -> Self {
        Self {
            len: (word & 0xffff) as usize,
            last: (word >> 16 & 0xffff) as usize,
            run: (word >> 32 & 0xff) as usize,
            prefix: (word >> 40) as usize,
        }
    }

    #[inline]
    pub(super) fn word(self) -> u64 {
        debug_assert!(self.len <= 0xffff && self.last <= 0xffff);
        (self.prefix as u64) << 40
            | (self.run.min(0xff) as u64) << 32
            | (self.last as u64) << 16
            | self.len as u64
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    #[test]
    fn a_shape_is_read_back_and_long_runs_stay_long() {
        let shape = Shape {
            len: 1024,
            prefix: 1 << 16,
            last: 1023,
            run: 255,
        };
        assert_eq!(Shape::of(shape.word()), shape);
        let longer = Shape { run: 300, ..shape };
        assert_eq!(Shape::of(longer.word()), shape);
        assert_eq!(Shape::of(0), Shape::default());
    }
}
