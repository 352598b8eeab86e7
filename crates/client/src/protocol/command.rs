//! Commands and their outcomes.

use serde::{Deserialize, Serialize};

/// One command. It is executed once, as a whole or not at all.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Command {
    /// Moves an amount from one account to another.
    ///
    /// An account is a row of a table: its key is the account's number (eight bytes, big-endian), its value the balance (eight bytes,
    /// little-endian). No balance goes below zero.
    Transfer {
        /// The table of accounts.
        table: u32,
        /// The account that is debited.
        from: u64,
        /// The account that is credited.
        to: u64,
        /// The amount.
        amount: u64,
    },
    /// Writes some rows if others are as expected.
    Write(Box<Write>),
}

/// A conditional write of several rows.
///
/// Keys and values are bytes. `namiki-data` encodes them as the database's typed tables do:
/// ```
/// use namiki_client::protocol::Write;
/// use namiki_data::{Key, Value, ValueBytes, encoded};
///
/// #[derive(Key)]
/// #[namiki(crate = namiki_data)]
/// struct Visit {
///     city: String,
///     day: u32,
/// }
///
/// let key = encoded::<Visit, _>(&("Kyoto", 7)).to_vec();
/// let mut guests = ValueBytes::new();
/// 3_u64.encode(&mut guests);
/// let write = Write {
///     rows: vec![(1, key, Some(guests.to_vec()))],
///     ..Write::default()
/// };
/// assert_eq!(write.rows[0].1, b"Kyoto\0\x01\0\0\0\x07");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Write {
    /// Conditions that must all hold; without any, the rows are always written.
    pub conditions: Vec<Condition>,
    /// Table, key, and the new value; without a value the row is deleted.
    pub rows: Vec<(u32, Vec<u8>, Option<Vec<u8>>)>,
}

/// Requires that a row has this value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Condition {
    /// The table.
    pub table: u32,
    /// The row's key.
    pub key: Vec<u8>,
    /// Its value; `None`: the row does not exist.
    pub value: Option<Vec<u8>>,
}

/// The outcome of a command. It is one byte on disk and on the wire, so the numbers never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[repr(u8)]
pub enum Outcome {
    /// The command was executed.
    Done = 0,
    /// The balance is too small. Nothing changed.
    InsufficientBalance = 1,
    /// One of the accounts does not exist. Nothing changed.
    NoSuchAccount = 2,
    /// The balance would be larger than 2⁶⁴ − 1. Nothing changed.
    BalanceTooLarge = 3,
    /// A condition does not hold. Nothing changed.
    ConditionFailed = 4,
    /// No table has that number. Nothing changed.
    NoSuchTable = 5,
    /// The command is not valid: an amount to the same account, a key or a value that is too long, a balance that is not eight bytes.
    /// Nothing changed.
    Invalid = 6,
}

impl Outcome {
    /// Decodes an outcome from its byte.
    #[must_use]
    pub fn from_byte(byte: u8) -> Option<Self> {
        let all = [
            Self::Done,
            Self::InsufficientBalance,
            Self::NoSuchAccount,
            Self::BalanceTooLarge,
            Self::ConditionFailed,
            Self::NoSuchTable,
            Self::Invalid,
        ];
        all.get(usize::from(byte)).copied()
    }
}
