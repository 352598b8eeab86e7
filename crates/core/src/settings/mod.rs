//! What a database is opened with: the settings of a program, and what is chosen where it leaves the choice.

pub(crate) mod absolute_path;
pub(crate) mod autotune;
pub(crate) mod builder;
mod check_settings;
pub(crate) mod config;
