//! Fuzz targets: one function for each parser of bytes that a disk, a user or a network can have
//! changed.
//!
//! A target takes any bytes. It hands them to the parser of the product, and hands accepted values
//! to the code that uses them. It returns a result or a typed error, within its memory limit. A
//! value that can be written again must be equal after the round trip. Everything else is a panic.
//! Where the product compares a checksum first, the first byte of the input says whether the target
//! corrects it: otherwise no mutation would pass the comparison.
//!
//! ```text
//!  cargo xtask fuzz ──► fuzz/fuzz_targets/NAME.rs ──┐                            ┌──► the product
//!                       guided by coverage          ├──► hostile_bytes::run(NAME)│
//!  cargo test ────────► every file of               │    this folder             └──► the `hostile_bytes` of its crates:
//!                       fuzz/corpus/NAME/ ──────────┘                                 checksums, what is private
//! ```
//! `fuzz/corpus/NAME/` has *seeds*, which the product has written (`seeds.rs`), inputs of fuzzing
//! that reach new code, and one input for each bug found.

mod client_frames;
mod file_chunks;
mod image_list;
mod log_reader;
mod peer_frames;
mod plan_json;
mod seeds;
mod segment_pages;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use namiki_platform::counting_allocator::CountingAllocator;
pub use seeds::seeds;

/// A parser and its memory limit.
pub struct Target {
    /// The name of the target, of its program, and of the folder of its corpus.
    pub name: &'static str,
    /// Passes bytes to the parser. Returns whether they were accepted completely.
    accepts: fn(&[u8]) -> bool,
    /// The maximum of live bytes, in addition to [`MEMORY_FACTOR`] times the input.
    memory_bytes_max: isize,
}

/// Bytes of memory allowed for each byte of input: a command has three bytes on the wire, and a
/// hundred in memory.
const MEMORY_FACTOR: isize = 256;

/// All targets.
pub const TARGETS: &[Target] = &[
    Target {
        name: "client_frames",
        accepts: client_frames::accepts,
        memory_bytes_max: 4 << 20,
    },
    Target {
        name: "image_list",
        accepts: image_list::accepts,
        memory_bytes_max: 1 << 20,
    },
    Target {
        name: "log_reader",
        accepts: log_reader::accepts,
        memory_bytes_max: 8 << 20,
    },
    Target {
        name: "peer_frames",
        accepts: peer_frames::accepts,
        memory_bytes_max: 4 << 20,
    },
    Target {
        name: "plan_json",
        accepts: plan_json::accepts,
        memory_bytes_max: 1 << 20,
    },
    Target {
        name: "segment_pages",
        accepts: segment_pages::accepts,
        memory_bytes_max: 2 << 20,
    },
];

/// Passes bytes to the target of this name. Returns whether they were accepted completely.
///
/// # Panics
/// If there is no such target, if it panics, or if it takes too much memory. Memory is measured
/// only in programs with [`CountingAllocator`] while their other threads are idle.
pub fn run(name: &str, bytes: &[u8]) -> bool {
    let target = TARGETS.iter().find(|target| target.name == name);
    let target = target.expect("there is a target of this name");
    let before = CountingAllocator::live();
    let mut accepted = false;
    let peak = CountingAllocator::peak_of(|| accepted = (target.accepts)(bytes));
    let taken = peak - before;
    let allowed = target.memory_bytes_max + MEMORY_FACTOR * bytes.len() as isize;
    assert!(
        taken <= allowed,
        "{name} has taken {taken} bytes of memory for {} bytes, and {allowed} are allowed",
        bytes.len()
    );
    accepted
}

/// The folder with the corpus of a target.
#[must_use]
pub fn corpus_folder(target: &str) -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    tests.join("../fuzz/corpus").join(target)
}

/// The inputs in a target's corpus, with the names of their files.
///
/// # Errors
/// If the folder cannot be read.
pub fn corpus(target: &str) -> io::Result<Vec<(String, Vec<u8>)>> {
    let files = fs::read_dir(corpus_folder(target))?;
    let read = files.map(|file| {
        let file = file?;
        let name = file.file_name().to_string_lossy().into_owned();
        Ok((name, fs::read(file.path())?))
    });
    read.collect()
}

/// Takes an input apart from its beginning. Bytes beyond its end are zero.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn byte(&mut self) -> u8 {
        self.take(1).first().copied().unwrap_or_default()
    }

    fn u16(&mut self) -> u16 {
        u16::from(self.byte()) | u16::from(self.byte()) << 8
    }

    /// Takes this number of bytes, or all that remain.
    fn take(&mut self, bytes: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(bytes.min(self.0.len()));
        self.0 = rest;
        taken
    }

    fn rest(self) -> &'a [u8] {
        self.0
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
