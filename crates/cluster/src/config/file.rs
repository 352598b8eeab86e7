//! The parsed TOML file, before its values are checked.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The file, before it is checked.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub(super) cluster: String,
    pub(super) node: u64,
    pub(super) directory: PathBuf,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) peer_listen: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) client_listen: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) metrics_listen: Option<String>,
    #[serde(default = "defaults::workers")]
    pub(super) workers: u16,
    #[serde(default = "defaults::group_size")]
    pub(super) group_size: u32,
    #[serde(default = "defaults::groups_in_flight")]
    pub(super) groups_in_flight: u32,
    #[serde(default = "defaults::group_wait_us")]
    pub(super) group_wait_us: u64,
    #[serde(default = "defaults::election_timeout_ms")]
    pub(super) election_timeout_ms: u64,
    #[serde(default = "defaults::heartbeat_ms")]
    pub(super) heartbeat_ms: u64,
    #[serde(default = "defaults::log_bytes_max")]
    pub(super) log_bytes_max: u64,
    #[serde(default = "defaults::payload_cache_bytes")]
    pub(super) payload_cache_bytes: u64,
    #[serde(default = "defaults::sessions_max")]
    pub(super) sessions_max: u32,
    #[serde(default = "defaults::client_sessions_max")]
    pub(super) client_sessions_max: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) session_idle_close_s: Option<u64>,
    #[serde(default)]
    pub(super) emulate_cities: bool,
    #[serde(default)]
    pub(super) delay_in_handler: bool,
    #[serde(default)]
    pub(super) allow_cuts: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tls: Option<FileTls>,
    pub(super) member: Vec<FileMember>,
}

/// Paths, relative to the file's folder.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileTls {
    pub(super) authority: PathBuf,
    pub(super) certificate: PathBuf,
    pub(super) key: PathBuf,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileMember {
    pub(super) id: u64,
    pub(super) peer: String,
    pub(super) client: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) city: Option<String>,
}

/// Defaults of missing keys.
pub(super) mod defaults {
    pub(in crate::config) const fn workers() -> u16 {
        2
    }
    pub(in crate::config) const fn group_size() -> u32 {
        10_000
    }
    pub(in crate::config) const fn groups_in_flight() -> u32 {
        64
    }
    pub(in crate::config) const fn group_wait_us() -> u64 {
        1000
    }
    pub(in crate::config) const fn election_timeout_ms() -> u64 {
        300
    }
    pub(in crate::config) const fn heartbeat_ms() -> u64 {
        50
    }
    pub(in crate::config) const fn log_bytes_max() -> u64 {
        64 << 30
    }
    pub(in crate::config) const fn payload_cache_bytes() -> u64 {
        256 << 20
    }
    pub(in crate::config) const fn sessions_max() -> u32 {
        100_000
    }
    pub(in crate::config) const fn client_sessions_max() -> u32 {
        10_000
    }
}
