//! The interface of tables and transactions, and its errors.

mod api;
mod aries;
mod async_commits;
mod batched_keys;
mod byte_rows;
mod deferred_writes;
mod deleted_keys;
mod foreign_tickets_and_savepoints;
mod full_tables;
mod increments;
mod indexes;
mod integrity_constraints;
mod late_changes;
mod logged_reads;
mod lone_transactions;
mod nested_transactions;
mod refused_changes;
mod statement_ends;
mod table_creation;
mod transaction_bodies;
mod wrong_input;
