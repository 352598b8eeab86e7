//! Validation of values.

use std::str::FromStr as _;
use std::time::Duration;

use namiki_client::TlsOptions;

use super::error::wrong;
use super::file::{File, FileMember};
use super::{ConfigError, GROUP_SIZE_MAX, Member, NodeConfig};
use crate::membership::{MEMBERS_MAX, is_address};
use crate::network::NodeId;
use crate::transport::City;

/// Least room for each stream of the log: some files, while others are truncated.
const LOG_BYTES_MIN: u64 = 32 << 20;
/// Shortest time after which a session that is not used may be closed.
const SESSION_IDLE_CLOSE_MIN: Duration = Duration::from_secs(3600);
/// Largest number of workers of a node.
const WORKERS_MAX: u16 = 64;

impl NodeConfig {
    pub(super) fn check(file: File) -> Result<Self, ConfigError> {
        let mut members = file
            .member
            .into_iter()
            .map(Member::check)
            .collect::<Result<Vec<_>, _>>()?;
        members.sort_by_key(|member| member.id);
        check_members(&members)?;
        let own = members.iter().find(|it| it.id.number() == file.node);
        let Some(own) = own else {
            let ids: Vec<String> = members.iter().map(|it| it.id.to_string()).collect();
            let why = format!("{} is the id of no [[member]]", file.node);
            return Err(wrong("node", why, format!("one of {}", ids.join(", "))));
        };
        let node = own.id;
        let (peer, client) = (own.peer.clone(), own.client.clone());
        let config = Self {
            cluster: cluster_from_text(&file.cluster)?,
            node,
            directory: file.directory,
            peer_listen: file.peer_listen.unwrap_or(peer),
            client_listen: file.client_listen.unwrap_or(client),
            metrics_listen: file.metrics_listen,
            members,
            workers: file.workers,
            group_size: file.group_size,
            groups_in_flight: file.groups_in_flight,
            group_wait: Duration::from_micros(file.group_wait_us),
            election_timeout: Duration::from_millis(file.election_timeout_ms),
            heartbeat: Duration::from_millis(file.heartbeat_ms),
            log_bytes_max: file.log_bytes_max,
            payload_cache_bytes: file.payload_cache_bytes,
            sessions_max: file.sessions_max,
            client_sessions_max: file.client_sessions_max,
            session_idle_close: file.session_idle_close_s.map(Duration::from_secs),
            emulate_cities: file.emulate_cities,
            delay_in_handler: file.delay_in_handler,
            allow_cuts: file.allow_cuts,
            tls: file.tls.map(|tls| TlsOptions {
                authority: tls.authority,
                certificate: tls.certificate,
                key: tls.key,
            }),
        };
        config.check_values()?;
        Ok(config)
    }

    fn check_values(&self) -> Result<(), ConfigError> {
        if self.directory.as_os_str().is_empty() {
            return Err(wrong("directory", "it is empty", "the path of a folder"));
        }
        check_address("peer_listen", &self.peer_listen)?;
        check_address("client_listen", &self.client_listen)?;
        if let Some(address) = &self.metrics_listen {
            check_address("metrics_listen", address)?;
        }
        if !(1..=WORKERS_MAX).contains(&self.workers) {
            let why = format!("a node cannot have {} workers", self.workers);
            return Err(wrong(
                "workers",
                why,
                format!("a number from 1 to {WORKERS_MAX}"),
            ));
        }
        if !(1..=GROUP_SIZE_MAX).contains(&self.group_size) {
            let why = format!("a group cannot have {} commands", self.group_size);
            let remedy = format!("a number from 1 to {GROUP_SIZE_MAX}");
            return Err(wrong("group_size", why, remedy));
        }
        if self.groups_in_flight == 0 {
            let why = "without groups in flight nothing is committed".to_owned();
            let remedy = "write 1 or more".to_owned();
            return Err(wrong("groups_in_flight", why, remedy));
        }
        if self.group_wait > Duration::from_secs(1) {
            let why = "commands would wait for more than a second";
            return Err(wrong(
                "group_wait_us",
                why,
                "microseconds, from 0 to 1000000",
            ));
        }
        if self.heartbeat.is_zero() {
            let why = "a leader cannot send heartbeats all the time";
            return Err(wrong("heartbeat_ms", why, "milliseconds, such as 50"));
        }
        if self.election_timeout < 3 * self.heartbeat {
            let why = format!(
                "{} ms are fewer than three heartbeats of {} ms, so a late one would depose the leader",
                self.election_timeout.as_millis(),
                self.heartbeat.as_millis()
            );
            let remedy = format!("at least {}", 3 * self.heartbeat.as_millis());
            return Err(wrong("election_timeout_ms", why, remedy));
        }
        let least = (u64::from(self.workers) + 1) * LOG_BYTES_MIN;
        if self.log_bytes_max < least {
            let why = format!(
                "the logs of {} workers and of Raft need {least} bytes",
                self.workers
            );
            return Err(wrong("log_bytes_max", why, "bytes, such as 68719476736"));
        }
        for (key, sessions) in [
            ("sessions_max", self.sessions_max),
            ("client_sessions_max", self.client_sessions_max),
        ] {
            if sessions == 0 {
                let why = "no client could open a session";
                return Err(wrong(key, why, "a number of sessions, such as 10000"));
            }
        }
        if self
            .session_idle_close
            .is_some_and(|it| it < SESSION_IDLE_CLOSE_MIN)
        {
            let why = "sessions of clients that pause would be closed, and the results of their last groups be lost";
            let remedy = "at least 3600 seconds, such as 604800, or leave the key out";
            return Err(wrong("session_idle_close_s", why, remedy));
        }
        if self.emulate_cities
            && let Some(member) = self.members.iter().find(|member| member.city.is_none())
        {
            let why = format!("member {} is in no city", member.id);
            let remedy = "a `city` into every [[member]], or `emulate_cities = false`";
            return Err(wrong("emulate_cities", why, remedy));
        }
        if self.delay_in_handler && !self.emulate_cities {
            let why = "it says how the delays between cities are emulated, and they are not";
            let remedy = "`emulate_cities = true`, too, or leave the key out";
            return Err(wrong("delay_in_handler", why, remedy));
        }
        Ok(())
    }
}

impl Member {
    fn check(file: FileMember) -> Result<Self, ConfigError> {
        let city = file.city.as_deref().map(City::from_str).transpose();
        let city =
            city.map_err(|why| wrong("member.city", why, "the name, or leave the key out"))?;
        check_address("member.peer", &file.peer)?;
        check_address("member.client", &file.client)?;
        if file.id == 0 {
            return Err(wrong(
                "member.id",
                "no node has the number 0",
                "1 for the first node",
            ));
        }
        if file.id > NodeId::MAX {
            let why = format!("{} is too large for a node's number", file.id);
            return Err(wrong(
                "member.id",
                why,
                "1 for the first node, 2 for the second",
            ));
        }
        Ok(Self {
            id: NodeId::first(file.id),
            peer: file.peer,
            client: file.client,
            city,
        })
    }
}

fn check_members(members: &[Member]) -> Result<(), ConfigError> {
    for pair in members.windows(2) {
        if pair[0].id == pair[1].id {
            let why = format!("two members have the number {}", pair[0].id);
            return Err(wrong("member.id", why, "another number for one of them"));
        }
    }
    if members.len() > MEMBERS_MAX {
        let why = format!("there are {}", members.len());
        return Err(wrong("member", why, format!("at most {MEMBERS_MAX}")));
    }
    let mut addresses: Vec<&str> = members
        .iter()
        .flat_map(|member| [&*member.peer, &*member.client])
        .collect();
    addresses.sort_unstable();
    if let Some(twice) = addresses.windows(2).find(|pair| pair[0] == pair[1]) {
        let why = format!("the address {} occurs twice", twice[0]);
        let remedy = "an own address for nodes and an own one for clients into every [[member]]";
        return Err(wrong("member", why, remedy));
    }
    Ok(())
}

pub(super) fn check_address(key: &str, address: &str) -> Result<(), ConfigError> {
    let remedy = "a name or a number and a port, such as 10.0.0.1:7400";
    if is_address(address) {
        return Ok(());
    }
    Err(wrong(key, format!("{address:?} is no address"), remedy))
}

fn cluster_from_text(text: &str) -> Result<u128, ConfigError> {
    let digits = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let number = digits
        .then(|| u128::from_str_radix(text, 16).ok())
        .flatten();
    // To clients, 0 means any cluster.
    number.filter(|it| *it != 0).ok_or_else(|| {
        wrong(
            "cluster",
            format!("{text:?} is no number of a cluster"),
            "32 hexadecimal digits chosen at random, the same on all nodes",
        )
    })
}
