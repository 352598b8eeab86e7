//! A node of the simulation: a disk that outlives it, and its parts while it runs.

use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use namiki::replica::ReplicaFault;
use namiki_client::protocol::NodeAddresses;
use namiki_log::Prepare;
use namiki_platform::disk::Disk;
use namiki_platform::disk::sim::{Loss, SimDisk};
use namiki_platform::hash::hash_of;

use super::network::{Admitted, Outbox, SimNetwork};
use crate::fault_injection::{Fault, FaultInjection};
use crate::network::NodeId;
use crate::node::parts::{self, NodeInbox, Parts};
use crate::node::{NodeOptions, OpenedNode};
use crate::scans::run_scans;
use crate::shared::Shared;
use crate::storage::{NodeIdentity, NodeStore, StoreError, StoreOptions};

/// A part that can be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Part {
    Raft,
    RaftWriter,
    Worker(u16),
    PayloadWriter(u16),
    Applier,
    /// The end of the loading of the tables.
    Loading,
    Fetches,
    Scans,
    Checkpointer,
    ImageReceiver,
}

impl Part {
    /// Another number for each part.
    pub(super) fn key(self) -> u64 {
        match self {
            Self::Raft => 0,
            Self::RaftWriter => 1,
            Self::Applier => 2,
            Self::Fetches => 3,
            Self::Scans => 4,
            Self::Checkpointer => 5,
            Self::ImageReceiver => 6,
            Self::Loading => 7,
            Self::Worker(number) => 1 << 16 | u64::from(number),
            Self::PayloadWriter(number) => 2 << 16 | u64::from(number),
        }
    }
}

/// A node that runs.
pub(super) struct Running {
    pub(super) parts: Parts,
    pub(super) inbox: NodeInbox,
    pub(super) admitted: Admitted,
    /// The numbers in its configuration.
    pub(super) configured: Vec<u64>,
    /// Its tables are not in memory, as far as it knows.
    is_loading: bool,
    /// Its manifest says that it may have forgotten promises.
    pub(super) forgets: bool,
    /// Number of the disk's events before which a crash would contradict messages that the node has
    /// sent since.
    crash_from: usize,
}

impl Running {
    /// Whether all that its disk has was seen by the node as durable: a crash does not lose any of it.
    pub(super) fn has_acted_on_all(&self, disk: &SimDisk) -> bool {
        self.crash_from == disk.events()
    }
}

/// An earlier state of a disk.
pub(super) struct DiskCopy {
    disk: SimDisk,
    /// The number of its events.
    events: usize,
    /// The frames that the disks of all nodes had damaged.
    pub(super) damaged: usize,
}

/// A node and its disk.
pub(super) struct SimNode {
    pub(super) id: NodeId,
    pub(super) disk: SimDisk,
    pub(super) running: Option<Running>,
    /// Counts starts: events that were scheduled for an earlier life are dropped.
    pub(super) life: u64,
    /// It never starts again.
    pub(super) is_wiped: bool,
    /// Its disk is slow.
    pub(super) is_slow: bool,
    /// Its disk is full: no file can be created.
    pub(super) is_full: bool,
    /// Its disk does not answer for seconds.
    pub(super) is_stuck: bool,
    /// An earlier state of its disk.
    pub(super) copy: Option<DiskCopy>,
    /// Its disk went back, and it has not caught up since.
    pub(super) went_back: bool,
    /// Its disk has damaged stream 0, and it has not caught up since.
    pub(super) has_forgotten: bool,
    /// Data on its disk was damaged.
    pub(super) is_damaged: bool,
    /// Limit of its log.
    pub(super) log_bytes_max: Option<u64>,
    workers: u16,
    options: NodeOptions,
}

pub(super) fn dir() -> &'static Path {
    Path::new("/node")
}

/// The addresses of a number's nodes.
pub(super) fn addresses_of(number: u64) -> NodeAddresses {
    NodeAddresses {
        peer: format!("node-{number}:1"),
        client: format!("node-{number}:2"),
    }
}

/// The fault of a node's tables.
fn replica_fault(planted: FaultInjection) -> Option<ReplicaFault> {
    let faults = [
        (Fault::RecordReused, ReplicaFault::RecordReused),
        (Fault::NumberReused, ReplicaFault::NumberReused),
    ];
    let mut planted = faults.into_iter().filter(|(fault, _)| planted.has(*fault));
    planted.next().map(|(_, fault)| fault)
}

impl SimNode {
    pub(super) fn create(
        id: NodeId,
        founders: usize,
        workers: u16,
        options: NodeOptions,
    ) -> Result<Self, StoreError> {
        let disk = SimDisk::new();
        let voters: Vec<_> = (1..=founders as u64).map(NodeId::first).collect();
        let identity = NodeIdentity {
            cluster: 7,
            node: id,
            workers,
        };
        NodeStore::create(Arc::new(disk.clone()), dir(), &identity, &voters)?;
        Ok(Self {
            id,
            disk,
            running: None,
            life: 0,
            is_wiped: false,
            is_slow: false,
            is_full: false,
            is_stuck: false,
            copy: None,
            went_back: false,
            has_forgotten: false,
            is_damaged: false,
            log_bytes_max: None,
            workers,
            options,
        })
    }

    /// Puts a node into its configuration.
    pub(super) fn configure(&mut self, number: u64) {
        (self.options.addresses).insert(number, addresses_of(number));
    }

    /// Replaces the disk by an empty one, and recreates the node under its old identity, which is
    /// forbidden.
    pub(super) fn wipe(&mut self, founders: usize) -> Result<(), StoreError> {
        *self = self.replacement(self.id, founders)?;
        Ok(())
    }

    /// A node with an empty disk.
    pub(super) fn replacement(&self, id: NodeId, founders: usize) -> Result<Self, StoreError> {
        let mut options = self.options.clone();
        options
            .addresses
            .insert(id.number(), addresses_of(id.number()));
        let new = Self::create(id, founders, self.workers, options)?;
        let life = self.life + 1;
        let log_bytes_max = self.log_bytes_max;
        Ok(Self {
            life,
            log_bytes_max,
            ..new
        })
    }

    /// Starts the node.
    pub(super) fn start(&mut self, outbox: &Outbox) -> Result<(), String> {
        let disk: Arc<dyn Disk> = Arc::new(self.disk.clone());
        let options = StoreOptions {
            log_file_bytes: 256 << 10,
            buffer_bytes: 64 << 10,
            prepare: Prepare::Inline,
            max_log_bytes: self.log_bytes_max,
            planted: self.options.planted,
            ..StoreOptions::default()
        };
        let opened = OpenedNode::open(disk, dir(), options);
        let opened = opened.map_err(|error| format!("{error:?}"))?;
        if let Some(fault) = replica_fault(self.options.planted) {
            opened.replica.plant(fault);
        }
        let missing = &opened.recovered().missing;
        if !missing.is_empty() && !self.is_damaged {
            return Err(format!("no disk was damaged, and {missing:?} are missing"));
        }
        if let Some(damage) = opened.damage.as_ref().filter(|_| !self.is_damaged) {
            return Err(format!("no disk was damaged, and the tables are: {damage}"));
        }
        let forgets = opened.recovered().forgotten.is_some();
        let admitted = Admitted::default();
        let network = SimNetwork {
            node: self.id,
            outbox: Arc::clone(outbox),
            admitted: Arc::clone(&admitted),
        };
        let mut options = self.options.clone();
        let start = hash_of(options.seed ^ self.id.to_raft(), &self.life.to_le_bytes());
        options.start = NonZeroU64::new(start);
        options.asks_all = self.went_back;
        let parts = Parts::new(&options, opened, Arc::new(network), None);
        let parts = parts.map_err(|error| format!("{error:?}"))?;
        self.life += 1;
        self.running = Some(Running {
            inbox: NodeInbox::new(&parts.shared, &self.options),
            admitted,
            configured: self.options.addresses.keys().copied().collect(),
            is_loading: parts.shared.replica.began_with_tables(),
            parts,
            forgets,
            crash_from: self.disk.events(),
        });
        Ok(())
    }

    /// Simulates a power failure, or that the process is killed: at some point of the last write, unless the node has acted
    /// on it since. What a killed process has written is there when it starts again, and may be lost by a later failure.
    pub(super) fn crash(&mut self, random: &mut namiki_platform::seeded_random::Random) {
        let until = self.disk.events();
        let from = self.running.as_ref().map_or(until, |it| it.crash_from);
        self.running = None;
        let at = from + random.index(until - from + 1);
        let loss = match random.below(6) {
            0 => Some(Loss::None),
            1 => Some(Loss::All),
            2 | 3 => Some(Loss::Seeded(random.next_u64())),
            _ => None,
        };
        self.disk = match loss {
            Some(loss) => self.disk.crash_image(at, loss),
            None => {
                let pending = self.disk.pending_sectors(at);
                let is_torn = random.chance(0.3);
                let seen = if is_torn {
                    random.index(pending + 1)
                } else {
                    pending
                };
                self.disk.kill_image(at, seen)
            }
        };
        (self.is_full, self.is_stuck) = (false, false);
    }

    /// Whether it may lack what it has promised.
    pub(super) fn has_lost_promises(&self) -> bool {
        self.went_back || self.has_forgotten
    }

    /// Leaves a file of a copy of an image in the folder for that.
    pub(super) fn leave_unfinished_copy(&self) {
        let folders = ["db", "db2"].map(|folder| dir().join(folder));
        let is_unused = |folder: &&PathBuf| self.disk.read(&folder.join("MANIFEST")).is_err();
        if let Some(folder) = folders.iter().find(is_unused) {
            let image = folder.join("image");
            let made = self.disk.create_dir_all(&image);
            let path = image.join("left.rows");
            made.and_then(|()| self.disk.replace(&path, b"rows"))
                .expect("the disk has room");
        }
    }

    /// Flips bits of a file. A crash does not undo it. Returns whether there is such a byte.
    pub(super) fn damage(&mut self, path: &Path, offset: u64) -> bool {
        let before = self.disk.events();
        let is_damaged = self.disk.flip(path, offset, 0x55).is_ok();
        if let Some(running) = &mut self.running
            && running.crash_from == before
        {
            running.crash_from = self.disk.events();
        }
        self.is_damaged |= is_damaged;
        is_damaged
    }

    /// Keeps a copy of its disk; `damaged`: the frames that the disks of all nodes have damaged.
    pub(super) fn keep_copy(&mut self, damaged: usize) {
        self.copy = Some(DiskCopy {
            disk: self.disk.clone(),
            events: self.disk.events(),
            damaged,
        });
    }

    /// A power failure, after which the disk is the kept copy.
    pub(super) fn go_back(&mut self) {
        self.running = None;
        if let Some(copy) = self.copy.take() {
            self.disk = copy.disk.crash_image(copy.events, Loss::None);
            self.went_back = true;
        }
        (self.is_full, self.is_stuck) = (false, false);
    }

    pub(super) fn shared(&self) -> Option<&Arc<Shared>> {
        self.running.as_ref().map(|it| &it.parts.shared)
    }

    /// The parts that have work.
    pub(super) fn ready(&self) -> Vec<Part> {
        let Some(running) = &self.running else {
            return Vec::new();
        };
        let shared = &running.parts.shared;
        let mut ready = Vec::new();
        let mut note = |part, waiting| {
            if waiting > 0 {
                ready.push(part);
            }
        };
        note(Part::Raft, shared.raft.len());
        let waiting = usize::from(self.waits_for_room(Part::RaftWriter));
        note(Part::RaftWriter, shared.raft_writer.len() + waiting);
        note(Part::Applier, shared.applier.len());
        note(Part::Loading, usize::from(running.is_loading));
        note(Part::Fetches, shared.fetches.len());
        note(Part::Scans, shared.scans.len());
        note(Part::Checkpointer, shared.images.len());
        note(Part::ImageReceiver, shared.copies.len());
        for (number, mailbox) in shared.workers.iter().enumerate() {
            note(Part::Worker(number as u16), mailbox.len());
        }
        for (number, mailbox) in shared.payload_writers.iter().enumerate() {
            let part = Part::PayloadWriter(number as u16);
            note(part, mailbox.len() + usize::from(self.waits_for_room(part)));
        }
        ready
    }

    /// Whether a writer tries again after a while.
    pub(super) fn waits_for_room(&self, part: Part) -> bool {
        let parts = self.running.as_ref().map(|running| &running.parts);
        let pause = parts.and_then(|parts| match part {
            Part::RaftWriter => parts.raft_writer.pause(),
            Part::PayloadWriter(number) => parts.payload_writers[usize::from(number)].pause(),
            _ => None,
        });
        pause.is_some()
    }

    /// Runs a part with all of its queued events. Returns the time at which a worker wants to be
    /// called again.
    pub(super) fn run(&mut self, part: Part, now_ns: u64) -> Option<u64> {
        let running = self.running.as_mut()?;
        let before = self.disk.events();
        let parts = &mut running.parts;
        let shared = Arc::clone(&parts.shared);
        let now = Some(std::time::Duration::ZERO);
        match part {
            Part::Raft => parts.run_raft(shared.raft.take_all(now)?),
            Part::RaftWriter => {
                let writes = shared.raft_writer.take_all(now)?;
                parts::run_raft_writer(&shared, &mut parts.raft_writer, writes);
            }
            Part::Applier => {
                let events = shared.applier.take_all(now)?;
                parts::run_applier(&shared, &mut parts.applier, events);
            }
            Part::Loading => {
                running.is_loading = false;
                parts::run_loading(&shared);
            }
            Part::Fetches => parts::run_fetches(&shared, shared.fetches.take_all(now)?),
            Part::Scans => run_scans(&shared, shared.scans.take_all(now)?),
            Part::Checkpointer => {
                let events = shared.images.take_all(now)?;
                parts::run_checkpointer(&shared, &mut parts.checkpointer, events);
            }
            Part::ImageReceiver => {
                let events = shared.copies.take_all(now)?;
                parts::run_image_receiver(&shared, &mut parts.image_receiver, events);
            }
            Part::Worker(number) => {
                let events = shared.workers[usize::from(number)].take_all(now)?;
                return parts.workers[usize::from(number)].run(events, now_ns);
            }
            Part::PayloadWriter(number) => {
                let payloads = shared.payload_writers[usize::from(number)].take_all(now)?;
                let writer = &mut parts.payload_writers[usize::from(number)];
                parts::run_payload_writer(&shared, writer, payloads);
            }
        }
        running.crash_from = match part {
            Part::RaftWriter | Part::PayloadWriter(_) | Part::Checkpointer => {
                running.crash_from.min(before)
            }
            // It may have acted on durable data.
            _ => self.disk.events(),
        };
        None
    }
}
