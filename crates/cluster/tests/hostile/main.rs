//! Hostile bytes at every port of a cluster that continues to commit: noise, mutated messages,
//! false lengths, connections that are silent or end in the middle.
//!
//! Claims: invalid input is refused with an answer of the protocol, or the connection is closed;
//! memory stays within the limits of the transport; no node stops, so commands are acknowledged
//! during the attacks, and all acknowledged rows exist at the end.
//!
//! A valid message is not an attack here: the ports of a cluster without certificates accept every
//! request.
//!
//! The tests run one after the other, so that every counted allocation belongs to one of them.
//! `SEED` determines the bytes that are sent.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod attacks;
mod cluster;
mod floods;
mod follower_reads;
mod links;
mod messages;
#[cfg(feature = "tls")]
mod protected;
mod resumed_sessions;
mod scans;

use std::io::{ErrorKind, Write as _};
use std::net::TcpStream;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use namiki_platform::counting_allocator::CountingAllocator;
use namiki_platform::seeded_random::Random;

use crate::cluster::{Cluster, Load, NODES};
use crate::links::{dial, rest};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Timeout for steps that never end if the test fails.
pub(crate) const WATCHDOG: Duration = Duration::from_secs(120);
pub(crate) const MIB: isize = 1 << 20;
/// Limit on the memory of three nodes under attack: buffers of some hundred connections, and the
/// cluster's own commits.
const UNAUTHENTICATED_BYTES_MAX: isize = 48 * MIB;

pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static RUNNING: Mutex<()> = Mutex::new(());
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn seeded() -> Random {
    let seed = std::env::var("SEED").map_or(11, |it| it.parse().unwrap());
    eprintln!("SEED={seed}");
    Random::seeded(seed)
}

/// Runs an attack while the cluster commits, and checks that commits continue, and the memory used.
pub(crate) fn under_load(cluster: &Cluster, bytes_max: isize, attack: impl FnOnce(&Load)) {
    let load = Load::begin(cluster);
    load.wait_for_more();
    let before = CountingAllocator::live();
    let peak = CountingAllocator::peak_of(|| {
        attack(&load);
        load.wait_for_more();
    });
    let grown = peak - before;
    eprintln!("{} KiB more at the peak", grown >> 10);
    assert!(
        grown < bytes_max,
        "{} MiB more at the peak, and {} MiB are allowed",
        grown / MIB,
        bytes_max / MIB
    );
    load.finish(cluster);
}

#[test]
fn mutated_bytes_stop_no_node_and_no_commit() {
    let _alone = alone();
    let mut random = seeded();
    let cluster = Cluster::start_plain();
    under_load(&cluster, UNAUTHENTICATED_BYTES_MAX, |load| {
        for round in 1..=400 {
            let target = 1 + random.below(NODES);
            if random.chance(0.5) {
                let attack = attacks::on_clients(&mut random);
                attack.run(dial(cluster.client_address(target)), &mut random);
            } else {
                let attack = attacks::on_nodes(target, &mut random);
                attack.run(dial(cluster.node_address(target)), &mut random);
            }
            if round % 100 == 0 {
                load.wait_for_more();
            }
        }
        assert!(cluster.refused_messages() > 0, "no frame has reached Raft");
    });
}

#[test]
fn floods_of_a_node_are_dropped() {
    let _alone = alone();
    let mut random = seeded();
    let cluster = Cluster::start_plain();
    under_load(&cluster, UNAUTHENTICATED_BYTES_MAX, |load| {
        for flood in attacks::floods(1, &mut random) {
            flood.run(dial(cluster.node_address(1)));
            load.wait_for_more();
        }
    });
}

#[test]
fn thousands_of_silent_connections_leave_room_for_work() {
    // 256 connections of 64 KiB each, and the welcome ones; all of them would take more.
    const BYTES_MAX: isize = 56 * MIB;
    let _alone = alone();
    let cluster = Cluster::start_plain();
    let connections = 1500.min(links::allow_many_files() / 3);
    under_load(&cluster, BYTES_MAX, |load| {
        for address in [cluster.node_address(1), cluster.client_address(1)] {
            let begin = |_| {
                let mut silent = dial(address);
                // Enough for a buffer. It may be closed already.
                let _ = silent.write_all(&[1, 0]);
                silent
            };
            let silent: Vec<TcpStream> = (0..connections).map(begin).collect();
            load.wait_for_more();
            // Beyond the limit they are closed at once, the others when their time is over.
            silent.into_iter().for_each(|it| drop(rest(it)));
        }
        // Welcome connections may be silent, and further ones are welcome.
        let (target, hello) = (cluster.client_address(2), messages::client_hello());
        let welcome: Vec<TcpStream> = (0..connections / 4)
            .map(|_| {
                let mut client = dial(target);
                client.write_all(&hello).unwrap();
                client
            })
            .collect();
        cluster.client();
        drop(welcome);
    });
}

/// Each byte arrives in time, all of them together do not.
#[test]
fn a_hello_byte_by_byte_ends_in_time() {
    let _alone = alone();
    let cluster = Cluster::start_plain();
    under_load(&cluster, UNAUTHENTICATED_BYTES_MAX, |load| {
        let node_hello = messages::NodeHello::to(1, 3).bytes();
        let client_hello = messages::client_hello();
        let mut dribbling = Vec::new();
        for _ in 0..20 {
            dribbling.push((dial(cluster.node_address(1)), &node_hello));
            dribbling.push((dial(cluster.client_address(1)), &client_hello));
        }
        let begin = Instant::now();
        let mut at = 0;
        while !dribbling.is_empty() {
            assert!(begin.elapsed() < WATCHDOG, "they are never closed");
            dribbling.retain_mut(|(link, hello)| match hello.get(at) {
                // The last byte never comes.
                Some(byte) if at + 1 < hello.len() => link.write_all(&[*byte]).is_ok(),
                _ => links::is_open(link),
            });
            at += 1;
            std::thread::sleep(Duration::from_millis(100));
        }
        load.wait_for_more();
    });
}

/// Sends more than all buffers together may hold, in messages that never end.
#[test]
fn unfinished_messages_share_a_budget() {
    const CLIENTS: usize = 150;
    const OFFERED_BYTES: usize = 6 << 20;
    // A budget of 256 MiB; a buffer grows by being copied.
    const BYTES_MAX: isize = (256 + 64) * MIB;
    let _alone = alone();
    let cluster = Cluster::start_plain();
    let chunk = vec![7; 64 << 10];
    under_load(&cluster, BYTES_MAX, |load| {
        let before = CountingAllocator::live();
        let mut clients: Vec<(TcpStream, usize)> = (0..CLIENTS)
            .map(|_| {
                let mut client = dial(cluster.client_address(1));
                client.write_all(&messages::client_hello()).unwrap();
                client.write_all(&(8_u32 << 20).to_le_bytes()).unwrap();
                client.set_nonblocking(true).unwrap();
                (client, 0)
            })
            .collect();
        // Until the node reads nothing more.
        let mut idle_rounds = 0;
        while idle_rounds < 50 {
            let mut taken = 0;
            for (client, sent) in &mut clients {
                let rest = OFFERED_BYTES - *sent;
                match client.write(&chunk[..chunk.len().min(rest)]) {
                    Ok(bytes) => {
                        *sent += bytes;
                        taken += bytes;
                    }
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                    // It has taken too long.
                    Err(_) => *sent = OFFERED_BYTES,
                }
            }
            idle_rounds = if taken == 0 { idle_rounds + 1 } else { 0 };
            std::thread::sleep(Duration::from_millis(5));
        }
        let buffered = CountingAllocator::live() - before;
        assert!(buffered > 64 * MIB, "{buffered} bytes prove nothing");
        load.wait_for_more();
    });
}
