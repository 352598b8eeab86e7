//! The settings of an opening: those of the program, and the automatic choice of the others.

pub(crate) mod absolute_path;
pub(crate) mod autotune;
pub(crate) mod builder;
mod check_settings;
pub(crate) mod config;
