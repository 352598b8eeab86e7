//! One table without its types: an index from key bytes to records.

pub(crate) mod load_state;
pub(crate) mod lookup_cache;
pub(crate) mod raw_table;
pub(crate) mod removed_ranges;
pub(crate) mod table_info;
