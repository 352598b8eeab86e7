//! What is wrong with a configuration: the key, why, and what to write.

use std::path::PathBuf;

/// Why a configuration is not usable.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read the configuration {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// It is not TOML, or has unknown keys, lacks one or has a value of another type.
    #[error("the configuration is not valid: {0}")]
    Syntax(String),
    /// A value makes no sense.
    #[error("the configuration is not valid: key `{key}`: {why}; write {remedy}")]
    Value {
        /// The key.
        key: String,
        /// What is wrong with it.
        why: String,
        /// What to write.
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
