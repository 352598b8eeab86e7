//! What a transaction makes of a key.

/// What a transaction will have written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Own {
    /// This value; nothing if it is a deletion.
    Value(Option<u64>),
    /// So much more than the version before it holds, which the transaction has not read; a key that is not there
    /// holds zero.
    Added(u64),
}

impl Own {
    /// Whether the key is there after it.
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

    /// The value of a version that holds this and comes after one of value `before`.
    pub(super) fn on(self, before: Option<u64>) -> Option<u64> {
        match self {
            Self::Value(value) => value,
            Self::Added(amount) => Some(before.unwrap_or(0).wrapping_add(amount)),
        }
    }
}

/// What is below an amount that was added and then read: its transaction found the sum, and whether the version
/// below says that the key is there.
///
/// # Panics
/// If the transaction found nothing.
pub(super) fn below(sum: Option<u64>, amount: u64, present: bool) -> Option<u64> {
    let sum = sum.expect("a transaction sees what it has added");
    // If the sum is wrong, no transaction will have written this.
    match sum.wrapping_sub(amount) {
        0 if !present => None,
        before => Some(before),
    }
}
