//! The state that the parts of an open database share: its catalogue with the views of it, the open
//! segments, and the tables that stay in segments.

pub(crate) mod catalogue;
pub(crate) mod catalogue_view;
pub(crate) mod opened_tables;
pub(crate) mod parts;
pub(crate) mod stoppable_thread;
pub(crate) mod tables_in_segments;
