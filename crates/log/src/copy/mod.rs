//! Copies of a log: taken of one stream while it is written, and checked before they count.

pub(crate) mod check_copy;
pub(crate) mod copy_stream;
