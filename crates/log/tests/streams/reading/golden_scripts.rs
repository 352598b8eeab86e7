//! Reading a log that was written, truncated or damaged, as scripts in `tests/golden/`.
//!
//! `log` and `append` write a log. All other commands work on a copy of the log and its manifest,
//! in the state after a kill. Each block makes a new copy for each prefix.
//!
//! | command | meaning |
//! |---|---|
//! | `log [streams=N] [region=BYTES] [keeps=N]` | begins a log: in files of 16 KiB, or in regions; keeps the last N files |
//! | `append FRAMES BYTES` | frames with one record each, of this length |
//! | `write FILE AT HEX [N]` | writes these bytes, N times |
//! | `header FILE AT HEX` | the same within a header, which gets the checksum of what it holds then |
//! | `resize FILE BYTES`, `swap A B`, `copy A B`, `remove FILE` | changes files |
//! | `manifest KEY=N …` | changes the manifest: `seal`, `streams`, `region`, `generation`, `file`, `identity` |
//! | `read [STREAM]` | what the reader finds |
//!
//! A FILE is the number of a log file of stream 0, or `device`.
//!
//! `UPDATE_GOLDENFILES=1 cargo test -p namiki-log --test streams golden` writes the expected output
//! anew.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::error::Error;
use std::num::{NonZeroU32, ParseIntError};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use goldenscript::{Block, Command, Context, Runner};
use namiki_log::{GenerationEnd, GenerationInfo, Log, Placement, Retain, StreamReader};
use namiki_platform::disk::Disk;
use namiki_platform::disk::sim::{Loss, SimDisk};
use namiki_platform::{Epoch, Generation, Lsn, Stamp, WorkerId};

use crate::common::*;

type Said = Result<String, Box<dyn Error>>;

#[derive(Command)]
enum Step {
    Log(#[arg(key, many, optional)] BTreeMap<String, u64>),
    Append(u64, usize),
    Write(String, u64, String, Option<usize>),
    Header(String, u64, String),
    Resize(String, usize),
    Swap(String, String),
    Copy(String, String),
    Remove(String),
    Manifest(BTreeMap<String, u64>),
    Read(Option<u16>),
}

/// A copy of a log, and of its part of the manifest.
struct Copied {
    disk: SimDisk,
    info: GenerationInfo,
    identity: u128,
}

#[derive(Default)]
struct Script {
    written: Option<(SimDisk, Arc<Log<()>>, GenerationInfo)>,
    copies: BTreeMap<Option<String>, Copied>,
}

fn path(file: &str) -> PathBuf {
    match file.parse::<u64>() {
        Ok(number) => wal().join(format!("0000/000001-{number:08}.log")),
        Err(_) => Path::new("/db").join(file),
    }
}

/// Bytes in hexadecimal.
fn bytes(hex: &str) -> Result<Vec<u8>, ParseIntError> {
    let bytes = hex.as_bytes().chunks(2);
    let bytes = bytes.map(|hex| u8::from_str_radix(&String::from_utf8_lossy(hex), 16));
    bytes.collect()
}

impl Script {
    fn begin(&mut self, settings: &BTreeMap<String, u64>) {
        let mut config = config(settings.get("streams").map_or(1, |streams| *streams as u16));
        if let Some(region_bytes) = settings.get("region") {
            config.placement = shared(*region_bytes);
        }
        let keeps = settings.get("keeps").map(|files| *files as u32);
        config.retain = keeps
            .and_then(NonZeroU32::new)
            .map_or(Retain::All, Retain::Last);
        let sim = SimDisk::new();
        let disk: Arc<dyn Disk> = Arc::new(sim.clone());
        let announced = info(&config);
        self.written = Some((sim, create(&disk, config), announced));
    }

    fn append(&self, frames: u64, bytes: usize) -> Result<(), Box<dyn Error>> {
        let (_, log, _) = self.written.as_ref().ok_or("no log")?;
        for stamp in 0..frames {
            put(log.stream(WorkerId(0)), stamp, &vec![0xAB; bytes])?;
            log.stream(WorkerId(0)).flush()?;
        }
        Ok(())
    }

    fn copy(&mut self, name: Option<&String>) -> Result<&mut Copied, Box<dyn Error>> {
        let (sim, _, info) = self.written.as_ref().ok_or("no log")?;
        Ok(self.copies.entry(name.cloned()).or_insert_with(|| Copied {
            disk: sim.crash_image(sim.events(), Loss::None),
            info: info.clone(),
            identity: IDENTITY,
        }))
    }
}

impl Copied {
    fn run(&mut self, step: &Step) -> Said {
        let replace = |file: &str, bytes: &[u8]| self.disk.replace(&path(file), bytes);
        let get = |file: &str| self.disk.read(&path(file));
        match step {
            Step::Write(file, at, text, times) => {
                let bytes = bytes(text)?.repeat(times.unwrap_or(1));
                self.disk.damage(&path(file), *at, &bytes)?;
            }
            Step::Header(file, at, text) => {
                let (mut whole, new) = (get(file)?, bytes(text)?);
                whole[*at as usize..][..new.len()].copy_from_slice(&new);
                let checksum = crc32c::crc32c(&whole[12..64]);
                whole[8..12].copy_from_slice(&checksum.to_le_bytes());
                replace(file, &whole)?;
            }
            Step::Resize(file, len) => {
                let mut whole = get(file)?;
                whole.resize(*len, 0);
                replace(file, &whole)?;
            }
            Step::Swap(a, b) => {
                let (first, second) = (get(a)?, get(b)?);
                replace(a, &second)?;
                replace(b, &first)?;
            }
            Step::Copy(from, to) => replace(to, &get(from)?)?,
            Step::Remove(file) => self.disk.remove(&path(file))?,
            Step::Manifest(changes) => {
                for (key, value) in changes {
                    self.announce(key, *value)?;
                }
            }
            Step::Read(stream) => return Ok(self.read(WorkerId(stream.unwrap_or(0)))),
            Step::Log(_) | Step::Append(..) => {
                return Err("a log is written without a prefix".into());
            }
        }
        Ok(String::new())
    }

    fn announce(&mut self, key: &str, value: u64) -> Result<(), Box<dyn Error>> {
        let info = &mut self.info;
        match key {
            "streams" => info.streams = value as u16,
            "generation" => info.generation = Generation(value as u32),
            "region" => info.placement = shared(value),
            "file" => {
                info.placement = Placement::Files {
                    log_file_bytes: value,
                };
            }
            "identity" => self.identity = value.into(),
            "seal" => {
                info.seal = Some(GenerationEnd {
                    last_sequences: vec![value; usize::from(info.streams)],
                    last_lsn: Lsn(value),
                    durable_epoch: Epoch(0),
                    max_stamp: Stamp(value),
                });
            }
            _ => return Err(format!("the manifest has no {key}").into()),
        }
        Ok(())
    }

    fn read(&self, stream: WorkerId) -> String {
        let disk: Arc<dyn Disk> = Arc::new(self.disk.clone());
        let opened = StreamReader::open(disk, &wal(), self.identity, &self.info, stream);
        let end = opened.and_then(|mut reader| {
            while reader.next_frame()?.is_some() {}
            Ok(reader.end())
        });
        match end {
            Err(error) => error.to_string(),
            Ok(end) if end.frames == 0 => "no frame".to_owned(),
            Ok(end) => {
                let torn = if end.torn { ", and a torn one" } else { "" };
                let first = end.last_sequence + 1 - end.frames;
                format!(
                    "{} frames, {first} to {}{torn}",
                    end.frames, end.last_sequence
                )
            }
        }
    }
}

impl Runner for Script {
    type Command = Step;

    fn start_block(&mut self, _: &Block) -> Said {
        self.copies.clear();
        Ok(String::new())
    }

    fn run(&mut self, step: &Step, context: &Context) -> Said {
        match step {
            Step::Log(settings) => self.begin(settings),
            Step::Append(frames, bytes) => self.append(*frames, *bytes)?,
            _ => return self.copy(context.prefix.as_ref())?.run(step),
        }
        Ok(String::new())
    }
}

fn run(script: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    goldenscript::run(&mut Script::default(), folder.join(script)).unwrap();
}

#[test]
fn a_script_reads_damaged_log_files() {
    run("log_files");
}

#[test]
fn a_script_reads_torn_tails() {
    run("torn_tails");
}

#[test]
fn a_script_reads_damaged_regions() {
    run("regions");
}
