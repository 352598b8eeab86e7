//! The one commit path, and what a transaction needs for it: access set, resources, engine, epochs, tickets.

pub(crate) mod access_set;
pub(crate) mod commit_path;
pub(crate) mod drops;
pub(crate) mod engine;
pub(crate) mod epoch;
pub(crate) mod held_resources;
pub(crate) mod late_changes;
pub(crate) mod latency;
pub(crate) mod live_operations;
mod removal;
pub(crate) mod removal_pause;
pub(crate) mod removed_keys;
pub(crate) mod restore_points;
pub(crate) mod room_requests;
pub(crate) mod ticket;
pub(crate) mod undo;
pub(crate) mod view_opening;
pub(crate) mod views;
