//! The bytes of a segment are those of its format: another layout needs another version of the
//! format.
//!
//! `format-2.txt` has them in hexadecimal, 32 a line. A line that repeats the one before it is left
//! out: `*` stands for any number of such lines. Docs: `docs/on-disk-format.md`.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fmt::Write as _;
use std::sync::Arc;

use crate::common::*;
use namiki_platform::Stamp;
use namiki_platform::disk::Disk;
use namiki_segment::{MemoryPages, PAGE_BYTES, Value};

const LINE_BYTES: usize = 32;

/// Two leaves with stamps of their own, and a long value in front of the first.
fn golden_rows() -> Model {
    let row = |n: u64| {
        let len = if n == 20 { 5000 } else { n * 37 % 40 };
        let value = vec![n as u8; len as usize];
        (format!("key-{n:03}").into_bytes(), (value, Stamp(n * n)))
    };
    (0..150).map(row).collect()
}

fn dump(bytes: &[u8]) -> String {
    let mut text = String::new();
    for (number, page) in bytes.chunks(PAGE_BYTES).enumerate() {
        writeln!(text, "page {number}").unwrap();
        let mut before: &[u8] = &[];
        let mut is_repeated = false;
        for (line, bytes) in page.chunks(LINE_BYTES).enumerate() {
            if bytes == before {
                if !is_repeated {
                    text.push_str("*\n");
                }
                is_repeated = true;
                continue;
            }
            is_repeated = false;
            before = bytes;
            write!(text, "{:04x} ", line * LINE_BYTES).unwrap();
            bytes
                .iter()
                .for_each(|byte| write!(text, "{byte:02x}").unwrap());
            text.push('\n');
        }
    }
    text
}

#[test]
fn the_bytes_of_a_segment_are_those_of_format_2() {
    let (disk, model) = (sim_disk(), golden_rows());
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    write(&shared, &model);
    let found = dump(&disk.read(&path()).unwrap());
    let expected = include_str!("format-2.txt");
    let differs = found.lines().zip(expected.lines()).find(|(a, b)| a != b);
    assert_eq!(differs, None, "in this dump:\n{found}");
    assert_eq!(found.len(), expected.len(), "of this dump:\n{found}");
    let segment = open(&shared);
    assert_eq!((segment.leaves(), segment.pages()), (2, 6));
    let pages = MemoryPages::load(&segment).unwrap();
    let row = is(segment.get(&pages, b"key-020")).unwrap();
    assert!(matches!(row.value, Value::Long(_)) && row.stamp == Stamp(400));
}
