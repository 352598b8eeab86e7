//! The public interface: a database, its sessions and transactions, views, typed tables and
//! queries.

pub(crate) mod byte_rows;
pub(crate) mod database;
mod held_session;
#[cfg(test)]
mod held_session_tests;
mod maintenance;
mod map;
pub(crate) mod query;
mod read_view;
pub(crate) mod rows;
pub(crate) mod running_body;
pub(crate) mod session;
pub(crate) mod table;
mod task_waits;
mod transact_in_task;
pub(crate) mod transaction;
#[cfg(test)]
mod transaction_cleanup_tests;
pub(crate) mod view;
