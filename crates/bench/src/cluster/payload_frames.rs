//! Finds the frames of payloads in the directory of a node that does not run, and damages some of them on every node.
//!
//! Each node groups the payloads of a stream into frames by itself: the same payload is in frames of different lengths and
//! numbers. So the payloads are read, and a frame is damaged only if each of its payloads is in another whole frame, on some
//! node.
//!
//! The last frames of a stream stay whole. Damage there cannot be told from a torn write, which a start cuts off; with every
//! node restarted at once, no memory of acknowledgements is left that would tell the difference.
//!
//! The layout of files and frames is that of docs/on-disk-format.md.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use namiki_platform::bytes::{u32_at, u64_at};
use namiki_platform::seeded_random::Random;

/// Frames of one node that are damaged in a round, at most.
const FRAMES_MAX: usize = 50;
/// The last frames of each stream, which stay whole: as many as a worker has groups in flight by default.
const TAIL_FRAMES: usize = 64;
/// Bytes that are damaged in a frame.
const DAMAGED_BYTES: usize = 16;

const FILE_MAGIC: &[u8] = b"NAMIKLOG";
const FRAME_MAGIC: &[u8] = b"NLF1";
/// Length of the header of a log file, of a frame, of a record, and of a payload.
const FILE_HEADER: usize = 64;
const FRAME_HEADER: usize = 72;
const RECORD_HEADER: usize = 24;
const PAYLOAD_HEADER: usize = 16;

/// A payload: stream, term of the leader that sealed it, and its number.
type PayloadName = (String, u64, u64);

/// A whole frame of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PayloadFrame {
    path: PathBuf,
    offset: usize,
    length: usize,
    stream: String,
    payloads: Vec<PayloadName>,
}

/// The whole frames of payloads in a node's directory, in the order of each stream.
pub(super) fn read_frames(directory: &Path) -> io::Result<Vec<PayloadFrame>> {
    let mut frames = Vec::new();
    let log = directory.join("log");
    for stream in sorted_names(&log)? {
        // Stream 0 has Raft's records.
        if stream == "0000" {
            continue;
        }
        for name in sorted_names(&log.join(&stream))? {
            // Others have no number yet.
            if name.ends_with(".log") {
                let path = log.join(&stream).join(name);
                frames_of_file(&path, &stream, &mut frames)?;
            }
        }
    }
    Ok(frames)
}

/// Names have leading zeros, so they sort as their numbers.
fn sorted_names(folder: &Path) -> io::Result<Vec<String>> {
    let names = fs::read_dir(folder)?
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect::<io::Result<Vec<String>>>();
    names.map(|mut names| {
        names.sort_unstable();
        names
    })
}

fn frames_of_file(path: &Path, stream: &str, into: &mut Vec<PayloadFrame>) -> io::Result<()> {
    let bytes = fs::read(path)?;
    if bytes.len() < FILE_HEADER || !bytes.starts_with(FILE_MAGIC) {
        return Ok(());
    }
    let block = u32_at(&bytes, 52) as usize;
    if !(64..=4096).contains(&block) {
        return Ok(());
    }
    let identity = &bytes[16..32];
    let mut at = FILE_HEADER.next_multiple_of(block);
    while at + FRAME_HEADER <= bytes.len() {
        let Some(frame) = whole_frame(&bytes, identity, at) else {
            at += block;
            continue;
        };
        into.push(PayloadFrame {
            path: path.to_owned(),
            offset: at,
            length: frame.len(),
            stream: stream.to_owned(),
            payloads: payloads(frame, stream),
        });
        at += frame.len().next_multiple_of(block);
    }
    Ok(())
}

/// The frame at an offset of a log file, if there is a whole one that was written there.
fn whole_frame<'a>(file: &'a [u8], identity: &[u8], offset: usize) -> Option<&'a [u8]> {
    let rest = &file[offset..];
    if !rest.starts_with(FRAME_MAGIC) {
        return None;
    }
    let length = u32_at(rest, 8) as usize;
    let frame = rest.get(..length).filter(|_| length >= FRAME_HEADER)?;
    let mut place = [0; 16];
    place[..8].copy_from_slice(&file[32..40]);
    place[8..].copy_from_slice(&(offset as u64).to_le_bytes());
    let salt = crc32c::crc32c_append(crc32c::crc32c(identity), &place);
    let sum = crc32c::crc32c(&frame[FRAME_HEADER..]);
    let sum = crc32c::crc32c_append(sum, &frame[8..FRAME_HEADER]);
    let sum = crc32c::crc32c_append(sum, &salt.to_le_bytes());
    (sum == u32_at(frame, 4)).then_some(frame)
}

fn payloads(frame: &[u8], stream: &str) -> Vec<PayloadName> {
    let mut payloads = Vec::new();
    let mut rest = &frame[FRAME_HEADER..];
    while rest.len() >= RECORD_HEADER + PAYLOAD_HEADER {
        let length = u32_at(rest, 0) as usize;
        let name = &rest[RECORD_HEADER..];
        payloads.push((stream.to_owned(), u64_at(name, 0), u64_at(name, 8)));
        rest = rest.get(RECORD_HEADER + length..).unwrap_or_default();
    }
    payloads
}

/// Chooses frames of each node, so that each payload stays in a whole frame of some node. Returns their numbers by node.
pub(super) fn choose(nodes: &[Vec<PayloadFrame>], random: &mut Random) -> Vec<Vec<usize>> {
    let mut copies: HashMap<&PayloadName, u32> = HashMap::new();
    for name in nodes.iter().flatten().flat_map(|frame| &frame.payloads) {
        *copies.entry(name).or_default() += 1;
    }
    let mut candidates: Vec<(usize, usize)> = Vec::new();
    for (node, frames) in nodes.iter().enumerate() {
        let mut behind: HashMap<&str, usize> = HashMap::new();
        for (at, frame) in frames.iter().enumerate().rev() {
            let behind = behind.entry(&frame.stream).or_default();
            *behind += 1;
            if *behind > TAIL_FRAMES && !frame.payloads.is_empty() {
                candidates.push((node, at));
            }
        }
    }
    let mut chosen = vec![Vec::new(); nodes.len()];
    while !candidates.is_empty() {
        let next = random.below(candidates.len() as u64) as usize;
        let (node, at) = candidates.swap_remove(next);
        let payloads = &nodes[node][at].payloads;
        let is_elsewhere = |name: &PayloadName| copies.get(name).is_some_and(|count| *count > 1);
        if chosen[node].len() < FRAMES_MAX && payloads.iter().all(is_elsewhere) {
            for name in payloads {
                copies.entry(name).and_modify(|count| *count -= 1);
            }
            chosen[node].push(at);
        }
    }
    chosen
}

/// Overwrites some bytes of a frame's records.
pub(super) fn damage_frame(frame: &PayloadFrame, random: &mut Random) -> io::Result<()> {
    let file = File::options().read(true).write(true).open(&frame.path)?;
    let bytes = DAMAGED_BYTES.min(frame.length - FRAME_HEADER);
    let places = (frame.length - FRAME_HEADER - bytes + 1) as u64;
    let at = (frame.offset + FRAME_HEADER) as u64 + random.below(places);
    let mut damaged = vec![0; bytes];
    file.read_exact_at(&mut damaged, at)?;
    damaged.iter_mut().for_each(|byte| *byte ^= 0x5a);
    file.write_all_at(&damaged, at)?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    const BLOCK: usize = 512;

    fn put(into: &mut [u8], at: usize, bytes: &[u8]) {
        into[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// A log file with frames of these payloads, of term 1.
    fn log_file(number: u64, frames: &[&[u64]]) -> Vec<u8> {
        let mut file = vec![0; BLOCK];
        put(&mut file, 0, FILE_MAGIC);
        put(&mut file, 16, &[7; 16]);
        put(&mut file, 32, &number.to_le_bytes());
        put(&mut file, 52, &(BLOCK as u32).to_le_bytes());
        for payloads in frames {
            let offset = file.len();
            let mut frame = vec![0; FRAME_HEADER];
            for number in *payloads {
                let mut record = vec![0; RECORD_HEADER];
                put(&mut record, 0, &(PAYLOAD_HEADER as u32 + 100).to_le_bytes());
                record.extend(1_u64.to_le_bytes());
                record.extend(number.to_le_bytes());
                record.extend([9; 100]);
                frame.extend(record);
            }
            let length = frame.len() as u32;
            put(&mut frame, 0, FRAME_MAGIC);
            put(&mut frame, 8, &length.to_le_bytes());
            let mut place = number.to_le_bytes().to_vec();
            place.extend((offset as u64).to_le_bytes());
            let salt = crc32c::crc32c_append(crc32c::crc32c(&[7; 16]), &place);
            let sum = crc32c::crc32c(&frame[FRAME_HEADER..]);
            let sum = crc32c::crc32c_append(sum, &frame[8..FRAME_HEADER]);
            let sum = crc32c::crc32c_append(sum, &salt.to_le_bytes());
            put(&mut frame, 4, &sum.to_le_bytes());
            file.extend(frame);
            file.resize(file.len().next_multiple_of(BLOCK), 0);
        }
        file
    }

    fn directory(frames: &[&[u64]]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for stream in ["0000", "0001"] {
            let stream = folder.path().join("log").join(stream);
            fs::create_dir_all(&stream).unwrap();
            let file = log_file(3, frames);
            fs::write(stream.join("000001-00000003.log"), file).unwrap();
        }
        folder
    }

    fn numbers(frames: &[PayloadFrame]) -> Vec<Vec<u64>> {
        let of = |frame: &PayloadFrame| frame.payloads.iter().map(|name| name.2).collect();
        frames.iter().map(of).collect()
    }

    #[test]
    fn whole_frames_of_payload_streams_are_found() {
        let folder = directory(&[&[1, 2, 3, 4, 5], &[6], &[7, 8]]);
        let frames = read_frames(folder.path()).unwrap();
        let found = numbers(&frames);
        assert_eq!(found, [vec![1, 2, 3, 4, 5], vec![6], vec![7, 8]]);
        damage_frame(&frames[0], &mut Random::seeded(1)).unwrap();
        let left = read_frames(folder.path()).unwrap();
        assert_eq!(numbers(&left), [vec![6], vec![7, 8]]);
    }

    /// Frames of other lengths on each node, as each flushes by itself.
    #[test]
    fn every_payload_stays_whole_on_some_node() {
        let frames = |per_frame: usize| {
            let all: Vec<u64> = (1..=2000).collect();
            let frames: Vec<&[u64]> = all.chunks(per_frame).collect();
            read_frames(directory(&frames).path()).unwrap()
        };
        let nodes = [frames(1), frames(3), frames(7)];
        for seed in 0..10 {
            let chosen = choose(&nodes, &mut Random::seeded(seed));
            let mut whole = HashSet::new();
            for (node, chosen) in nodes.iter().zip(&chosen) {
                assert!(!chosen.is_empty() && chosen.len() <= FRAMES_MAX);
                let last = node.len() - TAIL_FRAMES;
                assert!(chosen.iter().all(|at| *at < last));
                for (at, frame) in node.iter().enumerate() {
                    if !chosen.contains(&at) {
                        whole.extend(frame.payloads.iter().map(|name| name.2));
                    }
                }
            }
            assert_eq!(whole.len(), 2000);
        }
    }

    #[test]
    fn a_payload_without_a_copy_is_not_damaged() {
        let all: Vec<u64> = (1..=200).collect();
        let frames: Vec<&[u64]> = all.chunks(1).collect();
        let nodes = [read_frames(directory(&frames).path()).unwrap()];
        assert_eq!(
            choose(&nodes, &mut Random::seeded(1)),
            [Vec::<usize>::new()]
        );
    }
}
