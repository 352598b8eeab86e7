//! The numbers everything else is ordered by.
//!
//! Each is a newtype, so that a log sequence number cannot be compared with a stamp.
//!
//! Paper: tictoc-pwal §2.1.1 (stamps), pwal §4.3.1 (LSN)

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! number {
    ($(#[$doc:meta])* $name:ident($inner:ty), $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[derive(Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl $name {
            /// The number that comes next.
            #[must_use]
            pub const fn next(self) -> Self {
                Self(self.0 + 1)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }
    };
}

number! {
    /// Log sequence number: the place of a commit in one order over all streams of a log.
    /// The first is 1; 0 means "none was drawn".
    Lsn(u64), "lsn "
}
number! {
    /// The logical time at which a transaction committed. It counts, it is not nanoseconds.
    /// Stamps have 48 bits; 0 belongs to what was never written.
    Stamp(u64), "stamp "
}
number! {
    /// A stretch of time that every commit belongs to exactly one of.
    Epoch(u64), "epoch "
}
number! {
    /// One life of a log, from one opening to the next.
    Generation(u32), "generation "
}
number! {
    /// A worker, and the log stream of the same number.
    WorkerId(u16), "worker "
}

impl Stamp {
    /// The largest stamp that a record's word can hold (48 bits).
    pub const MAX: Self = Self((1 << 48) - 1);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_count_up_and_say_what_they_are() {
        assert!(Lsn(1) < Lsn(1).next());
        assert_eq!(Lsn::default().next(), Lsn(1));
        assert_eq!(Stamp(7).to_string(), "stamp 7");
        assert_eq!(WorkerId(3).to_string(), "worker 3");
        assert_eq!(Stamp::MAX.0.count_ones(), 48);
    }
}
