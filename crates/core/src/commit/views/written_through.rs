//! The progress of a checkpoint through the state that its view shows. It scans the tables in the
//! order of their numbers and each in the order of keys, once; versions of rows behind it need not
//! be kept for it any more.

use parking_lot::RwLock;

use crate::table::raw_table::TableId;

/// The position of a checkpoint. At first, no row has been written.
#[derive(Debug, Default)]
pub(crate) struct WrittenThrough(RwLock<Option<(TableId, Option<Vec<u8>>)>>);

impl WrittenThrough {
    /// Everything up to this key of the table is written; without a key, all of the table.
    pub(crate) fn set(&self, table: TableId, key: Option<&[u8]>) {
        *self.0.write() = Some((table, key.map(<[u8]>::to_vec)));
    }

    /// Whether a key is passed.
    pub(crate) fn has(&self, table: TableId, key: &[u8]) -> bool {
        match &*self.0.read() {
            None => false,
            Some((through, _)) if *through != table => table < *through,
            Some((_, None)) => true,
            Some((_, Some(through))) => key <= &through[..],
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn tables_and_keys_are_passed_in_their_order() {
        let through = WrittenThrough::default();
        assert!(!through.has(TableId(0), b""));
        through.set(TableId(2), Some(b"k"));
        for (table, key, has) in [
            (1, "z", true),
            (2, "k", true),
            (2, "ka", false),
            (3, "", false),
        ] {
            assert_eq!(
                through.has(TableId(table), key.as_bytes()),
                has,
                "{table} {key}"
            );
        }
        through.set(TableId(2), None);
        assert!(through.has(TableId(2), b"z") && !through.has(TableId(3), b""));
    }
}
