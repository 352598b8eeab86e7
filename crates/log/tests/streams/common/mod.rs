//! Helpers for the tests of the log.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

pub(crate) mod engine;
pub(crate) mod gate;
pub(crate) mod manifest;
pub(crate) mod parking_waker;

use std::io;
use std::num::{NonZeroU16, NonZeroU32};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use namiki_log::{
    CutRule, Entry, GenerationInfo, Group, GroupResource, Log, LogConfig, LogError, Placement,
    Prepare, ReadError, SequencerKind, Stream, StreamEnd, StreamReader, Ticket,
};
use namiki_platform::disk::{Disk, DiskCall, HookedDisk, SimDisk};
use namiki_platform::{Epoch, Generation, Lsn, Stamp, WorkerId};

pub(crate) const IDENTITY: u128 = 0x6e61_6d69_6b69_0000_1234;

pub(crate) fn wal() -> PathBuf {
    PathBuf::from("/db/wal")
}

/// A disk that calls `hook` before it does something.
pub(crate) fn hooked(
    disk: &SimDisk,
    hook: impl Fn(DiskCall) -> io::Result<()> + Send + Sync + 'static,
) -> Arc<dyn Disk> {
    let disk = Arc::new(disk.clone());
    Arc::new(HookedDisk::new(disk, move |call, _| hook(call)).begin_writes())
}

/// The same contents on a device that takes only whole blocks of `block_bytes`.
pub(crate) fn with_blocks(disk: &SimDisk, block_bytes: usize) -> Arc<dyn Disk> {
    let disk = Arc::new(disk.clone());
    Arc::new(HookedDisk::with_blocks(disk, block_bytes).begin_writes())
}

/// No threads, small buffers, LSNs by fetch-add, groups that never fill.
pub(crate) fn config(streams: u16) -> LogConfig {
    LogConfig {
        streams: NonZeroU16::new(streams).unwrap(),
        group: Group::Auto,
        group_wait_max: Duration::MAX,
        sequencer: SequencerKind::FetchAdd,
        buffer_bytes: 4096,
        placement: Placement::Files {
            log_file_bytes: 16 << 10,
        },
        prepare: Prepare::Inline,
        ..LogConfig::new(IDENTITY, Generation(1))
    }
}

pub(crate) fn count(n: u32) -> Group {
    Group::Count(NonZeroU32::new(n).unwrap())
}

pub(crate) fn shared(region_bytes: u64) -> Placement {
    Placement::Shared {
        path: PathBuf::from("/db/device"),
        region_bytes,
    }
}

pub(crate) fn create<H: GroupResource>(disk: &Arc<dyn Disk>, config: LogConfig) -> Arc<Log<H>> {
    disk.create_dir_all(Path::new("/db")).unwrap();
    Log::create(Arc::clone(disk), &wal(), config).unwrap()
}

/// Appends `payload` with a stamp.
pub(crate) fn put<H: GroupResource>(
    stream: &Stream<H>,
    stamp: u64,
    payload: &[u8],
) -> Result<(Ticket, bool), LogError> {
    let appended = stream.append(
        Entry::Commit,
        Stamp(stamp),
        Epoch(1),
        payload.len(),
        |into, _| into.copy_from_slice(payload),
        |_| {},
    )?;
    Ok((appended.ticket, appended.group_is_full))
}

pub(crate) fn reader(
    disk: &Arc<dyn Disk>,
    info: &GenerationInfo,
    worker: u16,
) -> Result<StreamReader, ReadError> {
    StreamReader::open(Arc::clone(disk), &wal(), IDENTITY, info, WorkerId(worker))
}

pub(crate) fn info(config: &LogConfig) -> GenerationInfo {
    config.generation_info(CutRule::Lsn)
}

/// One record as read back.
pub(crate) type Read = (Stamp, Lsn, Vec<u8>);

/// Everything in a stream.
pub(crate) fn read(
    disk: &Arc<dyn Disk>,
    info: &GenerationInfo,
    worker: u16,
) -> Result<(Vec<Read>, StreamEnd), ReadError> {
    let mut reader = reader(disk, info, worker)?;
    let mut all = Vec::new();
    while let Some(frame) = reader.next_frame()? {
        for record in frame.records() {
            all.push((record.stamp, record.lsn, record.payload.to_vec()));
        }
    }
    Ok((all, reader.end()))
}

/// The payloads of a stream.
pub(crate) fn payloads(disk: &Arc<dyn Disk>, info: &GenerationInfo, worker: u16) -> Vec<Vec<u8>> {
    let (all, _) = read(disk, info, worker).unwrap();
    all.into_iter().map(|(_, _, payload)| payload).collect()
}

/// Returns the result of `run`; a watchdog for tests that could hang.
pub(crate) fn within_reason<T: Send + 'static>(
    what: &str,
    run: impl FnOnce() -> T + Send + 'static,
) -> T {
    let (sender, receiver) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || drop(sender.send(run())));
    match receiver.recv_timeout(Duration::from_secs(30)) {
        Ok(value) => {
            thread.join().unwrap();
            value
        }
        Err(_) => panic!("never, or in a panic: {what}"),
    }
}
