//! The files of a log's stream, or a shared device, and the manifest's entry for the generation.
//!
//! ```text
//!  flags u8 | last sequence of the seal u8 | where the stream begins u8 | file, as in file_chunks.rs, …
//! ```

use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;

use namiki::files::{Changes, Operation};
use namiki::{Epoch, Generation, Lsn, RestorePoint, Stamp, WorkerId};
use namiki_log::hostile_bytes::mend_checksums;
use namiki_log::{
    CutRule, GenerationEnd, GenerationInfo, LogConfig, Placement, Records, Retain, StreamReader,
    StreamStart, generations_contradiction, harden_tail, log_file_path,
};
use namiki_platform::disk::{Disk, MemoryDisk};

use super::Input;
use super::file_chunks::take_file;

/// The identity of the database, in every file and every checksum.
pub(super) const IDENTITY: u128 = 0x6e61_6d69_6b69;
pub(super) const GENERATION: Generation = Generation(1);
/// The length of a file, and of the only region of a device.
pub(super) const FILE_BYTES: usize = 16 << 10;

pub(super) const MENDS: u8 = 1;
pub(super) const CUT_BY_LSN: u8 = 1 << 1;
pub(super) const CUT_BY_EPOCH: u8 = 1 << 2;
pub(super) const OPERATIONS: u8 = 1 << 3;
const KEEPS_LAST: u8 = 1 << 4;
pub(super) const SHARED: u8 = 1 << 5;
pub(super) const SEALED: u8 = 1 << 6;
const RECYCLES: u8 = 1 << 7;

const WORKER: WorkerId = WorkerId(0);
const FILES_MAX: u64 = 4;

pub(super) fn accepts(bytes: &[u8]) -> bool {
    let dir = Path::new("/wal");
    let mut input = Input(bytes);
    let flags = input.byte();
    let info = generation(flags, input.byte(), input.byte());
    // The manifest would be refused.
    if generations_contradiction(std::slice::from_ref(&info), Generation(2)).is_some() {
        return false;
    }
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let mut number = 0;
    while !input.is_empty() && number < FILES_MAX {
        number += 1;
        let mut file = take_file(&mut input, FILE_BYTES);
        let is_shared = flags & SHARED != 0;
        if flags & MENDS != 0 {
            mend_checksums(IDENTITY, if is_shared { 0 } else { number }, &mut file);
        }
        let file_number = info.start(WORKER).file_number.saturating_add(number - 1);
        let path = match &info.placement {
            Placement::Shared { path, .. } => path.clone(),
            Placement::Files { .. } => log_file_path(dir, GENERATION, WORKER, file_number),
        };
        let made = (path.parent().map_or(Ok(()), |dir| disk.create_dir_all(dir)))
            .and_then(|()| disk.replace(&path, &file));
        made.expect("memory has room for a small file");
    }
    read(&disk, dir, &info)
}

/// The manifest's entry for the generation.
fn generation(flags: u8, last_sequence: u8, start: u8) -> GenerationInfo {
    let has = |flag| flags & flag != 0;
    let cut = match (has(CUT_BY_LSN), has(CUT_BY_EPOCH)) {
        (true, _) => CutRule::Lsn,
        (false, true) => CutRule::Epoch,
        (false, false) => CutRule::Stamp,
    };
    let mut info = LogConfig::new(IDENTITY, GENERATION).generation_info(cut);
    let bytes = FILE_BYTES as u64;
    info.placement = if has(SHARED) {
        Placement::Shared {
            path: "/device".into(),
            region_bytes: bytes,
        }
    } else {
        Placement::Files {
            log_file_bytes: bytes,
        }
    };
    if has(OPERATIONS) {
        info.records = Records::Operations;
    }
    info.restore_points = cut == CutRule::Epoch;
    if has(KEEPS_LAST) {
        info.retain = Retain::Last(NonZeroU32::MIN);
    } else if has(RECYCLES) || has(SHARED) {
        info.retain = Retain::UntilRecycled;
        info.starts = vec![begins_at(has(SHARED), start)];
    }
    if has(SEALED) {
        info.seal = Some(GenerationEnd {
            last_sequences: vec![last_sequence.into()],
            last_lsn: Lsn(last_sequence.into()),
            durable_epoch: Epoch(last_sequence.into()),
            max_stamp: Stamp::MAX,
        });
    }
    info
}

fn begins_at(is_ring: bool, start: u8) -> StreamStart {
    let (low, high) = (u64::from(start & 15), u64::from(start >> 4));
    if is_ring {
        StreamStart {
            file_number: 1,
            sequence: 1 + high,
            offset: 1024 + 512 * low,
        }
    } else {
        StreamStart {
            file_number: 1 + low,
            sequence: 1 + low + high,
            offset: 0,
        }
    }
}

/// Reads the stream as recovery does: all frames, their records, and the end, which is made
/// durable.
fn read(disk: &Arc<dyn Disk>, dir: &Path, info: &GenerationInfo) -> bool {
    let opened = StreamReader::open(Arc::clone(disk), dir, IDENTITY, info, WORKER);
    let Ok(mut reader) = opened else {
        return false;
    };
    let (mut last, mut frames) = (None, 0);
    loop {
        match reader.next_frame() {
            Ok(Some(frame)) => {
                let sequence = frame.header.sequence;
                assert!(
                    last.is_none_or(|last: u64| last.checked_add(1) == Some(sequence)),
                    "frame {sequence} follows {last:?}"
                );
                last = Some(sequence);
                frames += 1;
                let records = frame.records();
                let records = records.map(|record| look_into(record.payload)).count();
                assert_eq!(records, frame.header.records as usize);
            }
            Ok(None) => break,
            Err(error) => {
                assert!(!error.to_string().is_empty());
                assert!(matches!(reader.next_frame(), Ok(None)), "reading on");
                return false;
            }
        }
    }
    let end = reader.end();
    assert_eq!(end.frames, frames);
    assert!(last.is_none_or(|last| last == end.last_sequence));
    harden_tail(disk, dir, info, WORKER, &end).is_ok()
}

/// Decodes a record's bytes as every kind of record.
fn look_into(payload: &[u8]) {
    let mut bytes = 0;
    for change in Changes::new(payload) {
        let Ok(change) = change else {
            break;
        };
        bytes += change.key.len() + change.value.map_or(0, <[u8]>::len);
    }
    assert!(bytes <= payload.len());
    if let Ok(operation) = Operation::decode(payload) {
        assert!(!format!("{operation:?}").is_empty());
    }
    let _ = RestorePoint::decode(payload);
}
