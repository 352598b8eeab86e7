//! The record of a run of the engine: transactions, the versions they read, the keys they wrote.

use std::collections::HashMap;

/// Names a version of a key: the stamp of the transaction that created it.
pub type VersionStamp = u64;

/// The "version" of a key that was never written. No transaction may commit with this stamp.
pub const NEVER_WRITTEN: VersionStamp = 0;

/// A key of one [`History`], interned so that a read costs twelve bytes and not a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId(pub(super) u32);

/// One committed transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transaction {
    /// Its id, unique within the history; messages use it as the name.
    pub id: u64,
    /// When it began, in instants of one clock or counter shared by all recorders.
    pub started: Option<u64>,
    /// When its commit was acknowledged to its client.
    pub ended: Option<u64>,
    /// Its commit stamp, which names every version it wrote.
    pub stamp: VersionStamp,
    /// The versions of keys that it saw, in any order. A key may occur twice.
    pub reads: Vec<(KeyId, VersionStamp)>,
    /// The keys it wrote, deletions included.
    pub writes: Vec<KeyId>,
}

impl Transaction {
    /// A transaction that has done nothing yet.
    #[must_use]
    pub fn new(id: u64, stamp: VersionStamp) -> Self {
        Self {
            id,
            stamp,
            ..Self::default()
        }
    }

    /// Adds a read of the version of `key` created at `stamp`.
    #[must_use]
    pub fn read(mut self, key: KeyId, stamp: VersionStamp) -> Self {
        self.reads.push((key, stamp));
        self
    }

    /// Adds a write (or a deletion) of `key`.
    #[must_use]
    pub fn write(mut self, key: KeyId) -> Self {
        self.writes.push(key);
        self
    }

    /// Sets its start and its end.
    #[must_use]
    pub fn during(mut self, started: u64, ended: u64) -> Self {
        self.started = Some(started);
        self.ended = Some(ended);
        self
    }
}

/// Everything that committed in one run.
///
/// Each recording thread fills its own and [`absorb`](Self::absorb) joins them afterwards.
#[derive(Clone, Debug, Default)]
pub struct History {
    pub(super) names: Vec<(u32, Box<[u8]>)>,
    ids: HashMap<u32, HashMap<Box<[u8]>, KeyId>>,
    pub(super) initial: Vec<(KeyId, VersionStamp)>,
    pub(super) transactions: Vec<Transaction>,
}

impl History {
    /// An empty history.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The short name of key `bytes` of `table`, the same for the same arguments.
    ///
    /// # Panics
    /// Beyond 2²⁹ distinct keys.
    pub fn key(&mut self, table: u32, bytes: &[u8]) -> KeyId {
        let of_table = self.ids.entry(table).or_default();
        if let Some(&id) = of_table.get(bytes) {
            return id;
        }
        assert!(
            self.names.len() < 1 << super::graph::KEY_BITS,
            "too many keys in one history"
        );
        let id = KeyId(self.names.len() as u32);
        of_table.insert(bytes.into(), id);
        self.names.push((table, bytes.into()));
        id
    }

    /// Records that this version existed before the first transaction began.
    pub fn push_initial(&mut self, key: KeyId, stamp: VersionStamp) {
        self.initial.push((key, stamp));
    }

    /// Adds a committed transaction.
    pub fn push(&mut self, transaction: Transaction) {
        self.transactions.push(transaction);
    }

    /// The committed transactions in the order they were added.
    #[must_use]
    pub fn transactions(&self) -> &[Transaction] {
        &self.transactions
    }

    /// Adds everything `other` recorded. The same key gets the same [`KeyId`].
    pub fn absorb(&mut self, other: Self) {
        let translated: Vec<KeyId> = other
            .names
            .iter()
            .map(|(table, bytes)| self.key(*table, bytes))
            .collect();
        let translate = |key: KeyId| translated[key.0 as usize];
        self.initial.extend(
            other
                .initial
                .into_iter()
                .map(|(key, at)| (translate(key), at)),
        );
        self.transactions
            .extend(other.transactions.into_iter().map(|mut transaction| {
                for (key, _) in &mut transaction.reads {
                    *key = translate(*key);
                }
                for key in &mut transaction.writes {
                    *key = translate(*key);
                }
                transaction
            }));
    }

    /// A key as people read it: `t1["abc"]` when printable, `t1[7]` for eight bytes (the big-endian
    /// number they hold), `t1[0x00ff]` otherwise.
    #[must_use]
    pub fn key_name(&self, key: KeyId) -> String {
        let (table, bytes) = &self.names[key.0 as usize];
        let printable = !bytes.is_empty() && bytes.iter().all(|b| (b' '..=b'~').contains(b));
        if printable {
            return format!("t{table}[\"{}\"]", String::from_utf8_lossy(bytes));
        }
        if let Ok(eight) = <[u8; 8]>::try_from(&bytes[..]) {
            return format!("t{table}[{}]", u64::from_be_bytes(eight));
        }
        format!("t{table}[0x{}]", super::hex::to_hex(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absorbing_translates_the_keys() {
        let (mut a, mut b) = (History::new(), History::new());
        let x = a.key(1, b"x");
        let (y, also_x) = (b.key(1, b"y"), b.key(1, b"x"));
        assert_eq!(x, y, "both are the first key of their history");
        b.push_initial(also_x, 3);
        b.push(Transaction::new(7, 9).read(y, 0).write(also_x));
        a.absorb(b);
        let y = a.key(1, b"y");
        assert_ne!(x, y);
        assert_eq!(
            a.transactions(),
            [Transaction::new(7, 9).read(y, 0).write(x)]
        );
        assert_eq!(a.initial, [(x, 3)]);
    }

    #[test]
    fn the_same_bytes_in_two_tables_are_two_keys() {
        let mut history = History::new();
        assert_ne!(history.key(1, b"x"), history.key(2, b"x"));
    }

    #[test]
    fn key_names_are_readable() {
        let mut history = History::new();
        let name = |history: &mut History, bytes: &[u8]| {
            let key = history.key(1, bytes);
            history.key_name(key)
        };
        assert_eq!(name(&mut history, b"alice"), "t1[\"alice\"]");
        assert_eq!(name(&mut history, &7_u64.to_be_bytes()), "t1[7]");
        assert_eq!(name(&mut history, &[0, 255]), "t1[0x00ff]");
        assert_eq!(name(&mut history, b""), "t1[0x]");
    }
}
