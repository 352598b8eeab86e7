//! The parts of a query's processor time per read that are not reading: the checksum of a page, and
//! a search in it.

use std::hint::black_box;
use std::time::Instant;

use namiki_exec::plan::Plan;
use namiki_platform::seeded_random::Random;
use namiki_segment::{Cursor, Found, MemoryPages, PAGE_BYTES, PageNo};
use serde::Serialize;

use super::tpch_directory::TpchDirectory;
use crate::error::BenchError;

/// Maximal number of a segment's pages used: 64 MiB, far more than a processor's caches.
const PAGES_MAX: u32 = 1 << 14;
/// Number of timed searches.
const SEARCHES: usize = 10_000;

/// Processor time, in microseconds.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct PageCosts {
    /// For the CRC-32C of a page that is in no processor cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) crc_us_per_page: Option<f64>,
    /// For a key's search in a resident page, including the segment's directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) search_us_per_io: Option<f64>,
}

impl PageCosts {
    /// Measures on the largest segment of the plan's tables that is within the limit, once it is in
    /// memory.
    pub(crate) fn measure(
        directory: &TpchDirectory,
        plan: &Plan,
        seed: u64,
    ) -> Result<Self, BenchError> {
        let tables = plan.tables().into_iter();
        let tables: Vec<_> = tables
            .filter_map(|name| directory.tables.get(name))
            .collect();
        let sources = tables
            .iter()
            .flat_map(|table| table.indexes.values().chain([&table.source]));
        let segments = sources.flat_map(|source| source.segments().unwrap_or_default());
        let small = segments.filter(|segment| segment.data_pages() <= PAGES_MAX);
        let Some(segment) = small.max_by_key(|segment| segment.data_pages()) else {
            return Ok(Self::default());
        };
        let count = segment.data_pages() as usize;
        let bytes = segment.read_pages(PageNo(0), count)?;
        let mut pages: Vec<u32> = (0..count as u32).collect();
        let mut random = Random::seeded(seed);
        shuffle(&mut pages, &mut random);
        let began = Instant::now();
        for &page in &pages {
            let at = page as usize * PAGE_BYTES;
            segment.verify_page(PageNo(page), &bytes[at..at + PAGE_BYTES])?;
        }
        let crc = began.elapsed().as_secs_f64() * 1e6 / count.max(1) as f64;
        drop(bytes);

        let resident = MemoryPages::load(segment)?;
        let every = (segment.rows() / SEARCHES as u64).max(1);
        let (mut keys, mut cursor) = (Vec::new(), Cursor::default());
        for number in 0.. {
            match segment.next(&resident, &mut cursor) {
                Found::Is(Some(row)) => {
                    if number % every == 0 {
                        let mut key = Vec::with_capacity(row.key.len());
                        row.key.append_to(&mut key);
                        keys.push(key);
                    }
                }
                Found::Is(None) | Found::Fault(_) => break,
            }
        }
        shuffle(&mut keys, &mut random);
        let began = Instant::now();
        for key in &keys {
            black_box(segment.get(&resident, key));
        }
        let search = began.elapsed().as_secs_f64() * 1e6 / keys.len().max(1) as f64;
        Ok(Self {
            crc_us_per_page: (count > 0).then_some(crc),
            search_us_per_io: (!keys.is_empty()).then_some(search),
        })
    }
}

fn shuffle<T>(items: &mut [T], random: &mut Random) {
    for at in (1..items.len()).rev() {
        items.swap(at, random.index(at + 1));
    }
}
