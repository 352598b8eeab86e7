//! Measures the cost of a look-up when every page is resident, of a page check, and of writing.
//!
//! ```text
//! cargo run --release -p namiki-segment --example lookup_speed [NUMBER OF CASES]
//! ```
#![allow(clippy::unwrap_used, reason = "a measurement fails by panicking")]
#![allow(clippy::print_stdout, reason = "it prints what it has measured")]

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use namiki_platform::Stamp;
use namiki_platform::clock::process_cpu_ns;
use namiki_platform::disk::{Disk, PAGE_BYTES, open_best};
use namiki_platform::machine::miss_ns;
use namiki_platform::seeded_random::Random;
use namiki_segment::{
    Cursor, Found, MemoryPages, PageCache, PageNo, Pages, Segment, SegmentId, Writer,
};

const LOOK_UPS: usize = 1_000_000;

fn main() {
    let cases = std::env::args().nth(1);
    let cases = cases.map_or(usize::MAX, |cases| cases.parse().unwrap());
    let dir = tempfile::tempdir().unwrap();
    let (disk, mode) = open_best(dir.path()).unwrap();
    let miss_ns = miss_ns().unwrap();
    println!("{mode}, medians of 5, processor time; a cache miss takes {miss_ns:.0} ns");
    for (number, (rows, value_bytes, is_dense)) in [
        (100_000, 8, true),
        (1_000_000, 8, true),
        (1_000_000, 8, false),
        (1_000_000, 100, true),
        (10_000_000, 8, true),
        (10_000_000, 100, false),
    ]
    .into_iter()
    .enumerate()
    .take(cases)
    {
        measure(
            &disk,
            dir.path(),
            number as u64,
            rows,
            value_bytes,
            is_dense,
        );
    }
}

fn measure(
    disk: &Arc<dyn Disk>,
    dir: &Path,
    number: u64,
    rows: u64,
    value_bytes: usize,
    is_dense: bool,
) {
    let mut keys: Vec<u64> = (0..rows).collect();
    if !is_dense {
        let mut random = Random::seeded(1);
        keys = keys.iter().map(|_| random.next_u64()).collect();
        keys.sort_unstable();
        keys.dedup();
    }
    let id = SegmentId::new(1, number);
    let path = dir.join(format!("{number}.run"));
    let start = Instant::now();
    let mut writer = Writer::create(disk, &path, id).unwrap();
    let value = vec![7; value_bytes];
    for key in &keys {
        writer.push(&key.to_be_bytes(), &value, Stamp(1)).unwrap();
    }
    let summary = writer.finish().unwrap();
    let write_seconds = start.elapsed().as_secs_f64();
    let start = Instant::now();
    let segment = Arc::new(Segment::open(disk, &path, id).unwrap());
    let open_ms = start.elapsed().as_secs_f64() * 1e3;
    let mib = summary.bytes as f64 / f64::from(1 << 20);
    let kind = if is_dense { "dense" } else { "random" };
    println!(
        "\n{rows} rows, {kind} keys of 8 bytes, values of {value_bytes}: {mib:.0} MiB, {:.1} bytes a row, \
         index {:.2} % in memory; written at {:.0} MiB/s, opened in {open_ms:.1} ms",
        summary.bytes as f64 / keys.len() as f64,
        segment.pinned_bytes() as f64 / summary.bytes as f64 * 100.0,
        mib / write_seconds,
    );
    let pages = MemoryPages::load(&segment).unwrap();
    let mut random = Random::seeded(2);
    let probes: Vec<[u8; 8]> = (0..LOOK_UPS)
        .map(|_| keys[random.index(keys.len())].to_be_bytes())
        .collect();

    let nanos = median(|| {
        per_item(probes.len(), || {
            probes
                .iter()
                .map(|key| segment.leaf_of(key).map_or(0, |page| u64::from(page.0)))
                .sum()
        })
    });
    println!("  leaf_of, the index alone   {nanos:6.0} ns");
    let nanos = median(|| per_item(probes.len(), || get_all(&segment, &pages, &probes)));
    println!("  get                        {nanos:6.0} ns");
    let cache = PageCache::<Box<[u8; PAGE_BYTES]>>::new(summary.bytes as usize);
    let mut reader = cache.reader();
    for no in 0..segment.data_pages() {
        let mut frame = Box::new([0; PAGE_BYTES]);
        frame.copy_from_slice(pages.page(&segment, PageNo(no)).unwrap().bytes());
        reader.insert(&segment, PageNo(no), frame).unwrap();
        reader.release();
    }
    let nanos = median(|| {
        per_item(probes.len(), || {
            let mut sum = 0;
            for key in &probes {
                sum += get_all(&segment, &reader, std::slice::from_ref(key));
                reader.release();
            }
            sum
        })
    });
    println!("  get through the page cache {nanos:6.0} ns");
    let mut sorted = probes.clone();
    sorted.sort_unstable();
    let nanos = median(|| {
        per_item(sorted.len(), || {
            let mut sum = 0;
            let found = |_, row: Option<namiki_segment::Row<'_>>| sum += row.unwrap().value.len();
            segment.get_many(&pages, &sorted, found, |_| panic!());
            sum
        })
    });
    println!("  get_many, sorted           {nanos:6.0} ns");
    let nanos = median(|| {
        per_item(keys.len(), || {
            let mut cursor = Cursor::default();
            let mut sum = 0;
            while let Found::Is(Some(row)) = segment.next(&pages, &mut cursor) {
                sum += row.value.len();
            }
            sum
        })
    });
    println!("  next                       {nanos:6.1} ns");
    let count = segment.data_pages().min(20_000);
    let nanos = median(|| {
        per_item(count as usize, || {
            for no in 0..count {
                let page = pages.page(&segment, PageNo(no)).unwrap();
                segment.verify_page(PageNo(no), page.bytes()).unwrap();
            }
            1
        })
    });
    println!("  verify_page                {nanos:6.0} ns");
    let nanos = median(|| {
        per_item(count as usize, || {
            let checksum = |no| crc32c::crc32c(pages.page(&segment, PageNo(no)).unwrap().bytes());
            (0..count).map(|no| u64::from(checksum(no))).sum()
        })
    });
    println!("  of that, CRC-32C           {nanos:6.0} ns");
    disk.remove(&path).unwrap();
}

fn get_all(segment: &Segment, pages: &impl Pages, probes: &[[u8; 8]]) -> u64 {
    let mut sum = 0;
    for key in probes {
        match segment.get(pages, key) {
            Found::Is(Some(row)) => sum += row.value.len(),
            other => panic!("{other:?}"),
        }
    }
    sum
}

/// Nanoseconds of processor time for each item: other programs take less of that than of the
/// clock's.
fn per_item(items: usize, run: impl FnOnce() -> u64) -> f64 {
    let start = process_cpu_ns().unwrap();
    let sum = run();
    let nanos = process_cpu_ns().unwrap() - start;
    assert!(sum > 0);
    nanos as f64 / items as f64
}

fn median(mut run: impl FnMut() -> f64) -> f64 {
    let mut times: Vec<f64> = (0..5).map(|_| run()).collect();
    times.sort_by(f64::total_cmp);
    times[2]
}
