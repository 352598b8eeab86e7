//! The effect of a transaction on a key.

/// A pending write of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Own {
    /// This value; `None` for a deletion.
    Value(Option<u64>),
    /// An increment of the version before it, which the transaction has not read. An absent key
    /// counts as zero.
    Added(u64),
}

impl Own {
    /// Whether the key exists after the write.
    pub(super) fn is_present(self) -> bool {
        self != Self::Value(None)
    }

    /// The same with an amount added.
    pub(super) fn plus(self, amount: u64) -> Self {
        match self {
            Self::Value(value) => Self::Value(Some(value.unwrap_or(0) + amount)),
            Self::Added(before) => Self::Added(before + amount),
        }
    }

    /// The value of a version with this effect, written over a version of value `before`.
    pub(super) fn on(self, before: Option<u64>) -> Option<u64> {
        match self {
            Self::Value(value) => value,
            Self::Added(amount) => Some(before.unwrap_or(0).wrapping_add(amount)),
        }
    }
}

/// The value below an amount that was added and then read. The transaction found the sum; `present`
/// says whether the version below has a value.
///
/// # Panics
/// If the transaction found nothing.
pub(super) fn below(sum: Option<u64>, amount: u64, present: bool) -> Option<u64> {
    let sum = sum.expect("a transaction sees what it has added");
    // If the sum is wrong, no transaction will have written the difference.
    match sum.wrapping_sub(amount) {
        0 if !present => None,
        before => Some(before),
    }
}
