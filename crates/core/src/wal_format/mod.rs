//! The bytes of a log record: whole commits, and operations one by one.

pub(crate) mod codec;
pub(crate) mod operation;
pub(crate) mod record_format;
pub(crate) mod transaction_table;
