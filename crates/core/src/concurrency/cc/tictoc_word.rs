//! TicToc's word: when a record's version was written, until when it has been read, and a lock.

/// One record's TicToc timestamps and lock, in one word so all are read at the same instant.
/// ```text
///  63     62          48 47                            0
/// | lock | delta (15)   | wts (48)                      |   rts = wts + delta
/// ```
/// The version that the record holds is valid at every stamp from wts to rts. When rts has to move
/// further from wts than delta can say, wts moves up too: a version's *identity* is therefore its
/// creation stamp (`record.rs`), never wts.
///
/// Paper: tictoc-pwal §2.1.1
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TsWord(pub(crate) u64);

impl TsWord {
    const WTS_BITS: u32 = 48;
    const DELTA_BITS: u32 = 15;
    const WTS_MASK: u64 = (1 << Self::WTS_BITS) - 1;
    pub(crate) const DELTA_MAX: u64 = (1 << Self::DELTA_BITS) - 1;
    const LOCK: u64 = 1 << 63;

    /// The word of an unlocked record with a version that is valid at `stamp` alone.
    pub(crate) const fn at(stamp: u64) -> Self {
        debug_assert!(stamp <= Self::WTS_MASK);
        Self(stamp)
    }

    pub(crate) const fn wts(self) -> u64 {
        self.0 & Self::WTS_MASK
    }

    pub(crate) const fn rts(self) -> u64 {
        self.wts() + (self.0 >> Self::WTS_BITS & Self::DELTA_MAX)
    }

    pub(crate) const fn is_locked(self) -> bool {
        self.0 & Self::LOCK != 0
    }

    pub(crate) const fn locked(self) -> Self {
        Self(self.0 | Self::LOCK)
    }

    /// The same version, valid until `rts`, which is not before the present rts.
    pub(crate) const fn extended_to(self, rts: u64) -> Self {
        debug_assert!(!self.is_locked() && rts >= self.rts() && rts <= Self::WTS_MASK);
        let mut wts = self.wts();
        if rts - wts > Self::DELTA_MAX {
            wts = rts - Self::DELTA_MAX;
        }
        Self((rts - wts) << Self::WTS_BITS | wts)
    }
}

const _: () = assert!(1 + TsWord::DELTA_BITS + TsWord::WTS_BITS == u64::BITS);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_extension_beyond_delta_moves_wts_and_keeps_rts_exact() {
        let word = TsWord::at(100);
        assert_eq!((word.wts(), word.rts()), (100, 100));
        let near = word.extended_to(100 + TsWord::DELTA_MAX);
        assert_eq!((near.wts(), near.rts()), (100, 100 + TsWord::DELTA_MAX));
        let far = near.extended_to(101 + TsWord::DELTA_MAX);
        assert_eq!((far.wts(), far.rts()), (101, 101 + TsWord::DELTA_MAX));
        let last = far.extended_to((1 << 48) - 1);
        assert_eq!(last.rts(), (1 << 48) - 1);
        assert!(last.locked().is_locked());
        assert_eq!(
            (last.locked().wts(), last.locked().rts()),
            (last.wts(), last.rts())
        );
    }
}
