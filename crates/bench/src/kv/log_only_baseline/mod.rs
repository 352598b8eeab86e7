//! A baseline that is only a log, the store `floor`: the minimal cost of synchronous durable
//! commits by many threads.
//!
//! One preallocated file, one mutex, one open group. A committer adds its transaction to the open
//! group. If no write is in progress, it becomes the leader: it closes that group, writes it with
//! one durable write and wakes the others. Later committers add to the next group and wait, and the
//! first of them to wake becomes its leader. With one thread, this is a single durable writer.
//! There is no index: reads can only scan the whole log.
//!
//! The file has two halves. When one is full, the other is overwritten from its start, as a log is
//! after a checkpoint. A run may therefore have any length, and entries older than half the file
//! may be lost.
//!
//! # A group in the file
//! ```text
//! | hash (8) | number (8) | bytes of what follows (8) | key (8), value | key, value | … | zeros to the next block |
//! ```
//! Groups are numbered from 1 and contiguous within their half. The hash covers everything after
//! it. A group torn by a crash is therefore invalid, and the log ends before it.
//!
//! # Invariants
//! - F1. `durable` is the number of the last group which the device has reported as durable. A
//!   committer returns when `durable` is at least the number of its own group.
//! - F2. Only the thread that has set `writing` writes, so groups become durable in the order of
//!   their numbers.

mod log_reader;
#[cfg(test)]
mod tests;

use std::mem;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use namiki::ValueBytes;
use namiki_platform::disk::{AlignedBuf, DiskFile, open_best};
use namiki_platform::hash::hash_of;

use self::log_reader::{Kept, replay};
use super::store::{Committed, Handle, Promises, Setting, Store, encoded};
use crate::error::BenchError;
use crate::txn::record_payload::Payload;

const FILE: &str = "floor.log";
/// Hash, number and length.
const HEADER_BYTES: usize = 24;
const KEY_BYTES: usize = 8;
/// The length of the file, which is filled with zeros before the clock starts.
const FILE_BYTES: u64 = 128 << 20;

/// The log.
pub(crate) struct Floor {
    file: Arc<dyn DiskFile>,
    mode: String,
    value_bytes: u16,
    log: Mutex<Log>,
    /// Notified when a group is durable, or has failed.
    written: Condvar,
}

struct Log {
    /// The open group, with space for its header.
    open: AlignedBuf,
    /// The number of the open group.
    number: u64,
    /// F1.
    durable: u64,
    /// F2.
    writing: bool,
    /// Set when a write has failed. It is unknown how much the device kept, so no more commits are
    /// accepted.
    failed: bool,
    /// The end of the previous group.
    end: u64,
    /// The buffer of the previous group.
    spare: AlignedBuf,
}

impl Floor {
    /// Opens the log, or creates it.
    pub(crate) fn open(setting: &Setting<'_>) -> Result<Box<dyn Store>, BenchError> {
        let path = setting.dir.join(FILE);
        let (disk, mode) =
            open_best(setting.dir).map_err(BenchError::file("write to", setting.dir))?;
        let file = if path.exists() {
            disk.open(&path).map_err(BenchError::file("open", &path))?
        } else {
            let made = disk.create(&path, FILE_BYTES);
            let file = made.map_err(BenchError::file("create", &path))?;
            let named = disk.sync_dir(setting.dir);
            named.map_err(BenchError::file("create", &path))?;
            file
        };
        let floor = Self::on(file, mode.to_string(), setting.value_bytes)?;
        Ok(Box::new(floor))
    }

    /// Continues the log in a file.
    fn on(file: Arc<dyn DiskFile>, mode: String, value_bytes: u16) -> Result<Self, BenchError> {
        let kept = replay(&*file, |_| Ok(()))?;
        Ok(Self {
            file,
            mode,
            value_bytes,
            log: Mutex::new(Log {
                open: empty_group(AlignedBuf::default()),
                number: kept.last + 1,
                durable: kept.last,
                writing: false,
                failed: false,
                end: kept.end,
                spare: AlignedBuf::default(),
            }),
            written: Condvar::new(),
        })
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        // A panic of a holder cannot leave the log half changed.
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Commits a transaction that puts `value` to all keys. Returns when it is durable.
    fn commit(&self, keys: &[u64], value: &[u8]) -> Result<Committed, BenchError> {
        let mut log = self.log();
        let bytes = log.open.len() + keys.len() * (KEY_BYTES + value.len());
        let bytes = bytes.next_multiple_of(self.file.block_bytes()) as u64;
        if bytes > half_bytes(&*self.file) {
            let what = format!("floor: a group of {bytes} bytes is longer than half the log");
            return Err(BenchError::Usage(what));
        }
        for key in keys {
            log.open.extend_from_slice(&key.to_le_bytes());
            log.open.extend_from_slice(value);
        }
        let ours = log.number;
        loop {
            if log.durable >= ours {
                return Ok(Committed::AT_ONCE);
            }
            if log.failed {
                return Err(BenchError::Check("the floor's log has failed".to_owned()));
            }
            if !log.writing {
                return self.lead(log);
            }
            let woken = self.written.wait(log);
            log = woken.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Writes the open group as its leader.
    fn lead(&self, mut log: MutexGuard<'_, Log>) -> Result<Committed, BenchError> {
        let number = log.number;
        let next = empty_group(mem::take(&mut log.spare));
        let mut group = mem::replace(&mut log.open, next);
        close_group(&mut group, number, self.file.block_bytes());
        let offset = self.place(log.end, group.len() as u64);
        log.end = offset + group.len() as u64;
        log.number += 1;
        log.writing = true;
        drop(log);
        let done = self.file.write_durable(offset, &group);
        let mut log = self.log();
        log.writing = false;
        log.spare = group;
        match &done {
            Ok(()) => log.durable = number,
            Err(_) => log.failed = true,
        }
        drop(log);
        self.written.notify_all();
        done.map_err(BenchError::system("write the floor's log"))?;
        Ok(Committed::AT_ONCE)
    }

    /// The position of the group that follows `end`: directly after it, or at the start of the
    /// other half.
    fn place(&self, end: u64, bytes: u64) -> u64 {
        let half = half_bytes(&*self.file);
        let in_half = end % half;
        let offset = if in_half + bytes <= half {
            end
        } else {
            end - in_half + half
        };
        offset % (2 * half)
    }
}

/// Half of the file, in whole blocks.
fn half_bytes(file: &dyn DiskFile) -> u64 {
    let block = file.block_bytes() as u64;
    file.len_bytes() / 2 / block * block
}

fn empty_group(mut memory: AlignedBuf) -> AlignedBuf {
    memory.clear();
    memory.resize(HEADER_BYTES);
    memory
}

fn close_group(group: &mut AlignedBuf, number: u64, block_bytes: usize) {
    let bytes = group.len() - HEADER_BYTES;
    group[8..16].copy_from_slice(&number.to_le_bytes());
    group[16..HEADER_BYTES].copy_from_slice(&(bytes as u64).to_le_bytes());
    let hash = hash_of(0, &group[8..]);
    group[..8].copy_from_slice(&hash.to_le_bytes());
    group.resize(group.len().next_multiple_of(block_bytes));
}

impl Store for Floor {
    fn promises(&self) -> Promises {
        Promises {
            isolation: "none: a log without an index",
            durability: format!("{} per group", self.mode),
        }
    }

    /// No load is necessary: a record that was never in the log holds its number.
    fn load(&self, _setting: &Setting<'_>) -> Result<(), BenchError> {
        Ok(())
    }

    fn handle(&self) -> Result<Box<dyn Handle + Send + '_>, BenchError> {
        Ok(Box::new(FloorHandle {
            floor: self,
            value: ValueBytes::new(),
        }))
    }

    fn forgets(&self) -> bool {
        true
    }

    fn contents(&self, records: u64) -> Result<Vec<Option<Payload>>, BenchError> {
        let bytes = self.value_bytes;
        let mut found = vec![None; records as usize];
        let kept = replay(&*self.file, |entries| {
            log_reader::records(entries, bytes, |key, payload| {
                let at = usize::try_from(key).ok().and_then(|key| found.get_mut(key));
                *at.ok_or_else(|| BenchError::Check(format!("key {key} was never written")))? =
                    Some(payload);
                Ok(())
            })
        })?;
        let durable = self.log().durable;
        let Kept { first, last, .. } = kept;
        if last != durable || !kept.reaches_back {
            return Err(BenchError::Check(format!(
                "the floor's log has groups {first} to {last} of {durable}"
            )));
        }
        if first == 1 {
            // Nothing is overwritten yet, and a record that was never written holds its number.
            for (key, payload) in (0..).zip(&mut found) {
                payload.get_or_insert(Payload { tag: key, bytes });
            }
        }
        Ok(found)
    }

    fn close(self: Box<Self>) -> Result<(), BenchError> {
        Ok(())
    }
}

struct FloorHandle<'a> {
    floor: &'a Floor,
    value: ValueBytes,
}

/// The workloads that need an index leave this store out.
fn no_index() -> BenchError {
    BenchError::Usage("floor has no index, and takes only blind updates".to_owned())
}

impl Handle for FloorHandle<'_> {
    fn update(&mut self, keys: &[u64], payload: Payload) -> Result<Committed, BenchError> {
        self.floor.commit(keys, encoded(payload, &mut self.value))
    }

    fn read(&mut self, _: &[u64], _: &mut Vec<Payload>) -> Result<Committed, BenchError> {
        Err(no_index())
    }

    fn read_update(&mut self, _: &[u64]) -> Result<Committed, BenchError> {
        Err(no_index())
    }

    fn scan(
        &mut self,
        _: u64,
        _: usize,
        _: &mut Vec<(u64, Payload)>,
    ) -> Result<Committed, BenchError> {
        Err(no_index())
    }
}
