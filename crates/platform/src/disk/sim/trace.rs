//! What happened on a simulated disk, and what could be left of it after a crash at any moment.
//!
//! ```text
//!  event   1       2       3       4       5       6       7
//!        create  begin   begin    end    create   end   sync_dir
//!          a      w1      w2      w1       b      w2
//!                                 ^ a crash here: w1 is kept; of w2 any subset of the sectors;
//!                                   of the names nothing, or a
//! ```
//!
//! # Invariants
//! - T1. Sectors of a write are pending from its begin to its end; after its end they are kept.
//!   Sectors of a failed write are pending until a later end overwrites them.
//! - T2. Changes of names are pending until a sync of their directory, and are kept in order: a
//!   prefix survives. So a sync keeps everything older than what it covers, too; on a disk with
//!   separate directories only what is of its directory, and there a prefix of the changes of each
//!   directory survives.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use super::contents::{Contents, FileId, NameChange};
use super::cow_pages::Pages;
use crate::seeded_random::Random;

pub(super) type WriteId = u64;

/// One step of what happened.
#[derive(Clone)]
pub(super) enum Event {
    /// A new file's zeros are on disk; its name is another event.
    Body(FileId, u64),
    /// A file is longer. A write there is another event.
    Grow(FileId, u64),
    Names(NameChange),
    SyncDir(Arc<Path>),
    Begin {
        write: WriteId,
        file: FileId,
        offset: u64,
        bytes: Arc<[u8]>,
    },
    End(WriteId),
    /// The write was reported as failed.
    Fail(WriteId),
    /// Everything appended to the file is durable.
    Sync(FileId),
    /// Damage: changed bytes at once, without a write.
    Damage {
        file: FileId,
        offset: u64,
        bytes: Arc<[u8]>,
    },
    Mark(u64),
}

impl std::fmt::Debug for Event {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Body(file, len) => write!(f, "file {file} of {len} zeros"),
            Self::Grow(file, len) => write!(f, "file {file} has {len} bytes"),
            Self::Names(change) => write!(f, "{change:?}"),
            Self::SyncDir(dir) => write!(f, "sync of {}", dir.display()),
            Self::Begin {
                write,
                file,
                offset,
                bytes,
            } => {
                let len = bytes.len();
                write!(f, "write {write} of {len} bytes at {offset} of file {file}")
            }
            Self::End(write) => write!(f, "write {write} is durable"),
            Self::Fail(write) => write!(f, "write {write} failed"),
            Self::Sync(file) => write!(f, "sync of file {file}"),
            Self::Damage {
                file,
                offset,
                bytes,
            } => write!(
                f,
                "damage to {} bytes at {offset} of file {file}",
                bytes.len()
            ),
            Self::Mark(mark) => write!(f, "mark {mark}"),
        }
    }
}

/// The part of the changes, not durable yet, that a crash loses.
///
/// Sectors and names that are pending are numbered from 0, oldest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// Nothing: all pending sectors and names are kept.
    None,
    /// All pending sectors and names.
    All,
    /// This pending sector only.
    Only(usize),
    /// Everything pending but this sector.
    OnlyKept(usize),
    /// All pending names except this number of first ones; no sector.
    NamesAfter(usize),
    /// A random subset of the pending sectors, and the names after a random prefix.
    Seeded(u64),
}

struct PendingSector {
    write: WriteId,
    file: FileId,
    offset: u64,
    bytes: Arc<[u8]>,
    /// The position of the sector in `bytes`.
    part: std::ops::Range<usize>,
    failed: bool,
}

/// The state after the first `at` events: what is durable and what is pending.
pub(super) struct Frontier {
    pub(super) at: usize,
    durable: Contents,
    sectors: Vec<PendingSector>,
    names: Vec<NameChange>,
}

impl Frontier {
    /// The state before any event.
    pub(super) fn new(base: Contents) -> Self {
        Self {
            at: 0,
            durable: base,
            sectors: Vec::new(),
            names: Vec::new(),
        }
    }

    pub(super) fn pending_sectors(&self) -> usize {
        self.sectors.len()
    }

    pub(super) fn pending_names(&self) -> usize {
        self.names.len()
    }

    /// Takes in the next event.
    pub(super) fn advance(&mut self, event: &Event) {
        self.at += 1;
        match event {
            Event::Body(file, len_bytes) => {
                self.durable.bodies.insert(*file, Pages::zeroed(*len_bytes));
            }
            Event::Grow(file, len_bytes) => self.durable.grow(*file, *len_bytes),
            Event::Names(change) => self.names.push(change.clone()),
            Event::SyncDir(dir) if self.durable.has_separate_dirs => {
                let is_of_it = |name: &mut NameChange| name.home() == &**dir;
                for change in self.names.extract_if(.., is_of_it) {
                    self.durable.apply(&change);
                }
            }
            Event::SyncDir(dir) => {
                let covered = self.names.iter().rposition(|name| name.home() == &**dir);
                if let Some(last) = covered {
                    for change in self.names.drain(..=last) {
                        self.durable.apply(&change);
                    }
                }
            }
            Event::Begin {
                write,
                file,
                offset,
                bytes,
            } => {
                let sector_bytes = self.durable.sector_bytes;
                let begun = sectors(*write, (*file, *offset), bytes, sector_bytes);
                self.sectors.extend(begun);
            }
            Event::End(write) => self.end(*write),
            Event::Sync(file) => self.sync(*file),
            Event::Damage {
                file,
                offset,
                bytes,
            } => self.durable.write(*file, *offset, bytes),
            Event::Fail(write) => {
                for sector in self.sectors.iter_mut().filter(|s| s.write == *write) {
                    sector.failed = true;
                }
            }
            Event::Mark(_) => {}
        }
    }

    /// Keeps what was written to a file and did not fail.
    fn sync(&mut self, file: FileId) {
        let synced = |sector: &mut PendingSector| sector.file == file && !sector.failed;
        for sector in self.sectors.extract_if(.., synced) {
            let bytes = &sector.bytes[sector.part.clone()];
            self.durable.write(sector.file, sector.offset, bytes);
        }
    }

    fn end(&mut self, write: WriteId) {
        let ended: Vec<PendingSector> = self
            .sectors
            .extract_if(.., |sector| sector.write == write)
            .collect();
        for sector in ended {
            self.durable.write(
                sector.file,
                sector.offset,
                &sector.bytes[sector.part.clone()],
            );
            // Bytes that an older, failed write left pending here can no longer surface (T1).
            self.sectors.retain(|other| {
                !other.failed
                    || other.write > write
                    || (other.file, other.offset) != (sector.file, sector.offset)
            });
        }
    }

    /// The first pending changes of names, this number of them; where directories are separate, and
    /// some are lost at random, not the later ones of some directories.
    fn kept_names(&self, loss: Loss, names: usize) -> impl Iterator<Item = &NameChange> {
        let mut random = match loss {
            Loss::Seeded(seed) if self.durable.has_separate_dirs => Some(Random::seeded(!seed)),
            _ => None,
        };
        let mut cut = BTreeSet::new();
        self.names[..names].iter().filter(move |change| {
            if random.as_mut().is_some_and(|random| random.chance(0.2)) {
                cut.insert(change.home());
            }
            !cut.contains(change.home())
        })
    }

    /// The contents after a crash now.
    pub(super) fn crash(&self, loss: Loss) -> Contents {
        let (keeps, names): (Box<dyn FnMut(usize) -> bool>, usize) = match loss {
            Loss::None => (Box::new(|_| true), self.names.len()),
            Loss::All => (Box::new(|_| false), 0),
            Loss::Only(lost) => (Box::new(move |index| index != lost), self.names.len()),
            Loss::OnlyKept(kept) => (Box::new(move |index| index == kept), 0),
            Loss::NamesAfter(prefix) => (Box::new(|_| true), prefix.min(self.names.len())),
            Loss::Seeded(seed) => {
                let mut random = Random::seeded(seed);
                let names = random.index(self.names.len() + 1);
                (Box::new(move |_| random.chance(0.5)), names)
            }
        };
        let mut keeps = keeps;
        let mut left = self.durable.clone();
        for (index, sector) in self.sectors.iter().enumerate() {
            if keeps(index) {
                left.write(
                    sector.file,
                    sector.offset,
                    &sector.bytes[sector.part.clone()],
                );
            }
        }
        for change in self.kept_names(loss, names) {
            left.apply(change);
        }
        left.drop_nameless();
        left
    }

    /// What a process leaves that is killed now: readers see all pending names, and this number of pending sectors, oldest
    /// first. They stay pending until they are written again, or their directories are synced.
    pub(super) fn kill(&self, sectors: usize) -> Killed {
        let mut pending = Vec::new();
        let mut live = self.durable.clone();
        let mut writes = 0;
        for sector in self.sectors.iter().take(sectors) {
            let bytes = &sector.bytes[sector.part.clone()];
            live.write(sector.file, sector.offset, bytes);
            pending.push(Event::Begin {
                write: writes,
                file: sector.file,
                offset: sector.offset,
                bytes: bytes.into(),
            });
            pending.push(Event::Fail(writes));
            writes += 1;
        }
        for change in &self.names {
            live.apply(change);
            pending.push(Event::Names(change.clone()));
        }
        live.drop_nameless();
        let mut base = self.durable.clone();
        let named: BTreeSet<FileId> = base
            .names
            .values()
            .chain(live.names.values())
            .copied()
            .collect();
        base.bodies.retain(|file, _| named.contains(file));
        Killed {
            base,
            pending,
            live,
            writes,
        }
    }
}

/// What a killed process leaves.
pub(super) struct Killed {
    /// What is durable.
    pub(super) base: Contents,
    /// The writes, all failed, and the changes of names that lead from there to what readers see.
    pub(super) pending: Vec<Event>,
    /// What readers see.
    pub(super) live: Contents,
    /// Number of writes in `pending`.
    pub(super) writes: WriteId,
}

fn sectors(
    write: WriteId,
    (file, offset): (FileId, u64),
    bytes: &Arc<[u8]>,
    sector_bytes: usize,
) -> impl Iterator<Item = PendingSector> {
    let mut start = 0;
    std::iter::from_fn(move || {
        if start >= bytes.len() {
            return None;
        }
        let at = offset + start as u64;
        // An append need not begin at a sector boundary.
        let sector = sector_bytes - (at % sector_bytes as u64) as usize;
        let part = start..bytes.len().min(start + sector);
        start = part.end;
        Some(PendingSector {
            write,
            file,
            offset: at,
            bytes: Arc::clone(bytes),
            part,
            failed: false,
        })
    })
}
