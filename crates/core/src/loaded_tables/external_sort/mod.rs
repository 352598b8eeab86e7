//! External sort: more keys than fit into memory, those of a secondary index, which come in the
//! table's order.
//!
//! ```text
//!   push ──► bytes in memory, up to the budget ──► sorted run in a file ─┐
//!   push ──► bytes in memory, up to the budget ──► sorted run in a file ─┼─► merged in order
//!   push ──► what is left in memory, sorted ─────────────────────────────┘
//! ```
//! Entries that fit the budget are never written. A run is read back in blocks with checksums: a
//! flipped bit in it would otherwise become a wrong entry of an index, with a good checksum of its
//! own.
//!
//! A small budget makes many runs, and each that is merged is an open file with a block of memory. So at most
//! [`MERGED_MAX`] are merged at a time: where there are more, some of them become one first, until there are not.

mod batch;
mod merge;
mod run_file;

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;

use namiki_platform::disk::Disk;

use self::batch::Batch;
pub(crate) use self::merge::SortedKeys;
use self::run_file::{RunFile, RunWriter};
use crate::loaded_tables::load_error::LoadError;

/// Runs that are merged at a time.
const MERGED_MAX: usize = 64;

/// Takes keys in any order, within a budget of memory.
pub(crate) struct ExternalSort {
    disk: Arc<dyn Disk>,
    /// Names the files of runs, which end with their number.
    runs_path: PathBuf,
    batch: Batch,
    runs: VecDeque<RunFile>,
    /// Runs that were ever begun.
    runs_begun: u64,
}

impl ExternalSort {
    /// Runs, if any, are files next to `runs_path`, with its name and a number. `budget_bytes`
    /// bounds the memory for keys and for their entries.
    pub(crate) fn new(disk: Arc<dyn Disk>, runs_path: PathBuf, budget_bytes: usize) -> Self {
        Self {
            disk,
            runs_path,
            batch: Batch::within(budget_bytes),
            runs: VecDeque::new(),
            runs_begun: 0,
        }
    }

    pub(crate) fn push(&mut self, key: &[u8]) -> Result<(), LoadError> {
        if !self.batch.has_room(key.len()) {
            self.spill()?;
        }
        self.batch.push(key);
        Ok(())
    }

    /// The keys in ascending order. `on_key` is called for each key that is written once more on the way there, and ends
    /// the sort with its error.
    pub(crate) fn finish(
        mut self,
        on_key: &mut dyn FnMut() -> Result<(), LoadError>,
    ) -> Result<SortedKeys, LoadError> {
        self.batch.sort();
        while self.runs.len() > MERGED_MAX {
            // The last of these passes merges only as many runs as necessary.
            let count = (self.runs.len() - MERGED_MAX + 1).min(MERGED_MAX);
            let first: Vec<RunFile> = self.runs.drain(..count).collect();
            let mut merged = SortedKeys::of(Batch::default(), first)?;
            let mut run = self.begin_run()?;
            while let Some(key) = merged.next()? {
                run.push(key)?;
                on_key()?;
            }
            self.runs.push_back(run.finish()?);
        }
        SortedKeys::of(std::mem::take(&mut self.batch), self.runs.into())
    }

    fn begin_run(&mut self) -> Result<RunWriter, LoadError> {
        let path = self
            .runs_path
            .with_extension(format!("{}.run", self.runs_begun));
        self.runs_begun += 1;
        RunWriter::create(&self.disk, path)
    }

    fn spill(&mut self) -> Result<(), LoadError> {
        self.batch.sort();
        let mut run = self.begin_run()?;
        for key in self.batch.keys() {
            run.push(key)?;
        }
        self.runs.push_back(run.finish()?);
        self.batch.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;
    use std::path::Path;

    use namiki_platform::disk::SimDisk;
    use namiki_platform::seeded_random::Random;

    use super::batch::{BATCH_BYTES_MIN, Entry};
    use super::run_file::{BLOCK_BYTES, RunReader};
    use super::*;
    use crate::catalogue::image_files::FileNumber;

    const DIR: &str = "/db/image";

    fn empty_disk() -> SimDisk {
        let disk = SimDisk::new();
        disk.create_dir_all(Path::new(DIR)).unwrap();
        disk
    }

    fn sorter(disk: &SimDisk, budget_bytes: usize) -> ExternalSort {
        let path = Path::new(DIR).join("00000001.seg");
        ExternalSort::new(Arc::new(disk.clone()), path, budget_bytes)
    }

    fn drawn(random: &mut Random, count: usize) -> Vec<Vec<u8>> {
        let key = |random: &mut Random| -> Vec<u8> {
            let len = random.index(40);
            (0..len).map(|_| random.below(3) as u8).collect()
        };
        (0..count).map(|_| key(random)).collect()
    }

    fn sorted(sort: ExternalSort) -> Vec<Vec<u8>> {
        let mut sorted = sort.finish(&mut || Ok(())).unwrap();
        let mut keys = Vec::new();
        while let Some(key) = sorted.next().unwrap() {
            keys.push(key.to_vec());
        }
        keys
    }

    #[test]
    fn keys_come_back_in_order_whatever_was_spilled() {
        for seed in 0..20 {
            let mut random = Random::seeded(seed);
            let disk = empty_disk();
            let count = random.index(30_000);
            let mut keys = drawn(&mut random, count);
            let budget = BLOCK_BYTES << random.index(5);
            let mut sort = sorter(&disk, budget);
            for key in &keys {
                sort.push(key).unwrap();
                let entries = sort.batch.entries.capacity() * size_of::<Entry>();
                let used = sort.batch.bytes.capacity() + entries;
                assert!(used <= budget.max(2 * BATCH_BYTES_MIN), "seed {seed}");
            }
            let runs = sort.runs.len();
            let found = sorted(sort);
            keys.sort();
            assert!(found == keys, "seed {seed}, {count} keys, {runs} runs");
            assert!(disk.list(Path::new(DIR)).unwrap().is_empty(), "seed {seed}");
        }
    }

    #[test]
    fn a_flipped_bit_in_a_run_is_an_error() {
        let disk = empty_disk();
        let mut sort = sorter(&disk, BLOCK_BYTES);
        for key in drawn(&mut Random::seeded(3), 10_000) {
            sort.push(&key).unwrap();
        }
        let run = sort.runs[0].path().to_owned();
        assert_eq!(FileNumber::of_sort_run(&run), Some(FileNumber(1)));
        let len_bytes = disk.read(&run).unwrap().len() as u64;
        for at in [0, 5, 9, 700, len_bytes - 1] {
            disk.flip(&run, at, 4).unwrap();
            let mut reader = RunReader::open(&sort.runs[0]).unwrap();
            let mut key = Vec::new();
            let error = loop {
                match reader.next_into(&mut key) {
                    Ok(true) => {}
                    Ok(false) => panic!("byte {at} was not missed"),
                    Err(error) => break error,
                }
            };
            assert!(
                matches!(&error, LoadError::Device { path, source }
                    if *path == run && source.kind() == ErrorKind::InvalidData),
                "{error:?}"
            );
            disk.flip(&run, at, 4).unwrap();
        }
        drop(sort);
        assert!(disk.list(Path::new(DIR)).unwrap().is_empty());
    }

    /// Each pass opens the maximal number of runs, and the last one leaves that number.
    #[test]
    fn more_runs_than_are_merged_at_once_take_passes() {
        for runs in [MERGED_MAX, MERGED_MAX + 1, 2 * MERGED_MAX + 9, 300] {
            let disk = empty_disk();
            let mut sort = sorter(&disk, 1);
            let mut key = 0_u64;
            while sort.runs.len() < runs {
                // In no order, each key once.
                sort.push(&key.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes())
                    .unwrap();
                key += 1;
            }
            let mut rewritten = 0;
            let sorted = sort.finish(&mut || {
                rewritten += 1;
                Ok(())
            });
            let mut sorted = sorted.unwrap();
            assert!(disk.list(Path::new(DIR)).unwrap().len() <= MERGED_MAX);
            assert_eq!(rewritten > 0, runs > MERGED_MAX);
            let (mut count, mut before) = (0, None);
            while let Some(key) = sorted.next().unwrap() {
                assert!(before.as_deref() < Some(key), "{runs}");
                before = Some(key.to_vec());
                count += 1;
            }
            assert_eq!(count, key);
        }
    }

    #[test]
    fn a_merge_that_is_interrupted_leaves_no_run() {
        let disk = empty_disk();
        let mut sort = sorter(&disk, 1);
        let mut key = 0_u64;
        while sort.runs.len() < MERGED_MAX + 2 {
            sort.push(&key.to_be_bytes()).unwrap();
            key += 1;
        }
        let ended = sort.finish(&mut || Err(LoadError::Interrupted));
        assert!(matches!(ended, Err(LoadError::Interrupted)));
        assert!(disk.list(Path::new(DIR)).unwrap().is_empty());
    }
}
