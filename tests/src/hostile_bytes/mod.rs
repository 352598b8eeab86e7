//! Targets of fuzzing: what reads bytes that a disk, a user or a network can have changed, behind one function each.
//!
//! A target takes any bytes. It hands them to the parser of the product, and to whatever uses what the parser has accepted.
//! It ends in an answer or in a typed error, within its memory; what can be written again comes back the same. Anything
//! else is a panic. Where the product compares a checksum first, the first byte of the input says whether the target
//! mends it: otherwise no mutation would come past it.
//!
//! ```text
//!  cargo xtask fuzz ──► fuzz/fuzz_targets/NAME.rs ──┐                            ┌──► the product
//!                       guided by coverage          ├──► hostile_bytes::run(NAME)│
//!  cargo test ────────► every file of               │    this folder             └──► the `hostile_bytes` of its crates:
//!                       fuzz/corpus/NAME/ ──────────┘                                 checksums, what is private
//! ```
//! `fuzz/corpus/NAME/` has *seeds*, which the product has written (`seeds.rs`), inputs of fuzzing that reach something
//! new, and one for each mistake that was found.

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

/// A parser, and how much memory it may take.
pub struct Target {
    /// Its name, which is that of its program, and of the folder of its corpus.
    pub name: &'static str,
    /// Hands bytes to it; whether they were accepted to their end.
    accepts: fn(&[u8]) -> bool,
    /// The most bytes that may be live at once, beside [`MEMORY_FACTOR`] times the input.
    memory_bytes_max: isize,
}

/// What an input may take of memory for each of its bytes: a command has three bytes on the wire, and a hundred in memory.
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

/// Hands bytes to the target of this name; whether they were accepted to their end.
///
/// # Panics
/// If there is no such target, if it panics, or if it takes too much memory. That is seen only in programs with
/// [`CountingAllocator`], whose other threads rest.
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
/// Where the folder cannot be read.
pub fn corpus(target: &str) -> io::Result<Vec<(String, Vec<u8>)>> {
    let files = fs::read_dir(corpus_folder(target))?;
    let read = files.map(|file| {
        let file = file?;
        let name = file.file_name().to_string_lossy().into_owned();
        Ok((name, fs::read(file.path())?))
    });
    read.collect()
}

/// Takes an input apart, from its beginning. What is beyond its end is zero.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn byte(&mut self) -> u8 {
        self.take(1).first().copied().unwrap_or_default()
    }

    fn u16(&mut self) -> u16 {
        u16::from(self.byte()) | u16::from(self.byte()) << 8
    }

    /// So many bytes, or as many as there are.
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
