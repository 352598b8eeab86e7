//! Errors of a configuration: the key, the problem, and the remedy.

use std::path::PathBuf;

/// The reason for which a configuration is invalid.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the configuration {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// It is not TOML, or has unknown keys, lacks one or has a value of another type.
    #[error("the configuration is not valid: {0}")]
    Syntax(String),
    /// A value is invalid.
    #[error("the configuration is not valid: key `{key}`: {why}; write {remedy}")]
    Value {
        /// The key.
        key: String,
        /// The problem.
        why: String,
        /// The remedy.
        remedy: String,
    },
}

pub(super) fn wrong(key: &str, why: impl Into<String>, remedy: impl Into<String>) -> ConfigError {
    ConfigError::Value {
        key: key.to_owned(),
        why: why.into(),
        remedy: remedy.into(),
    }
}
