//! The bytes of a log record: whole commits, and operations one by one.

pub(crate) mod aries_operation;
pub(crate) mod commit_changes;
pub(crate) mod encoding_primitives;
pub(crate) mod restore_point;
pub(crate) mod transaction_table;
