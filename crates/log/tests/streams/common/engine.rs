//! An engine without tables: a log with checkpoints, opened and closed again and again.

use std::path::Path;
use std::sync::Arc;

use namiki_log::{
    GenerationEnd, GenerationInfo, Log, LogConfig, LogError, Placement, ReadError, RecyclePoint,
    Retain, check_all_announced, harden_tail, remove_generations, remove_superfluous,
    split_superfluous,
};
use namiki_platform::disk::Disk;
use namiki_platform::disk::sim::SimDisk;
use namiki_platform::seeded_random::Random;
use namiki_platform::{Epoch, Generation, Stamp, WorkerId};

use super::manifest::Manifest;
use super::{IDENTITY, config, create, info, put, read, shared, wal};

/// Maximum number of streams of an engine.
const STREAMS_MAX: u16 = 3;

pub(crate) fn recycling(placement: &Placement, streams: u16, generation: Generation) -> LogConfig {
    LogConfig {
        retain: Retain::UntilRecycled,
        placement: placement.clone(),
        generation,
        ..config(streams)
    }
}

/// Log files, and regions that are full after a few dozen commits.
pub(crate) fn placements() -> [Placement; 2] {
    [config(1).placement, shared(32 << 10)]
}

/// The stamps in a generation that the image lacks.
pub(crate) fn stamps_of(
    disk: &Arc<dyn Disk>,
    info: &GenerationInfo,
    image: Stamp,
) -> Result<Vec<u64>, ReadError> {
    let mut found = Vec::new();
    for worker in 0..info.streams {
        let (all, _) = read(disk, info, worker)?;
        found.extend(
            all.iter()
                .map(|(stamp, ..)| stamp.0)
                .filter(|it| *it > image.0),
        );
    }
    found.sort_unstable();
    Ok(found)
}

/// The stamps in all generations that the image lacks.
pub(crate) fn recovered(disk: &Arc<dyn Disk>, manifest: &Manifest) -> Result<Vec<u64>, ReadError> {
    check_all_announced(
        &**disk,
        &wal(),
        IDENTITY,
        &manifest.generations,
        manifest.next,
    )?;
    let mut found = Vec::new();
    for info in &manifest.generations {
        found.extend(stamps_of(disk, info, manifest.image)?);
    }
    Ok(found)
}

/// Drops the generations that the image of everything through `stamp` makes superfluous.
pub(crate) fn drop_generations(manifest: &mut Manifest, stamp: Stamp) {
    manifest.image = stamp;
    let (dropped, kept) = split_superfluous(&manifest.generations, stamp);
    if !dropped.is_empty() {
        let first = kept.first().map(|info| info.generation);
        manifest.oldest = first.unwrap_or(manifest.next);
        manifest.generations = kept.to_vec();
    }
}

/// An engine without tables, opened over the contents of the disk.
pub(crate) struct Engine {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) log: Arc<Log<()>>,
    pub(crate) manifest: Manifest,
    pub(crate) next_stamp: u64,
}

impl Engine {
    /// Recovers, removes superfluous files, seals, and begins the next generation.
    pub(crate) fn open(sim: &SimDisk, placement: &Placement, streams: u16) -> Self {
        Self::open_on(Arc::new(sim.clone()), placement, streams)
    }

    pub(crate) fn open_on(disk: Arc<dyn Disk>, placement: &Placement, streams: u16) -> Self {
        make_device(&*disk, placement);
        let mut manifest = match disk.read(Path::new("/db/manifest")) {
            Ok(_) => Manifest::read(&*disk),
            Err(_) => Manifest {
                generations: Vec::new(),
                next: Generation(1),
                oldest: Generation(0),
                image: Stamp(0),
            },
        };
        let found = recovered(&disk, &manifest).unwrap();
        let last = found.last().copied().unwrap_or(0).max(manifest.image.0);
        for info in &mut manifest.generations {
            if info.seal.is_some() {
                continue;
            }
            let ends: Vec<_> = (0..info.streams)
                .map(|worker| read(&disk, info, worker).unwrap().1)
                .collect();
            for (worker, end) in (0..).map(WorkerId).zip(&ends) {
                harden_tail(&disk, &wal(), info, worker, end).unwrap();
            }
            info.seal = Some(GenerationEnd {
                last_sequences: ends.iter().map(|end| end.last_sequence).collect(),
                last_lsn: ends.iter().map(|end| end.last_lsn).max().unwrap(),
                durable_epoch: Epoch(0),
                max_stamp: Stamp(last),
            });
        }
        manifest.generations.retain(|info| {
            let seal = info.seal.as_ref().unwrap();
            seal.last_sequences.iter().any(|last| *last > 0)
        });
        let (generations, oldest) = (&manifest.generations, manifest.oldest);
        let removed = remove_superfluous(&*disk, &wal(), generations, oldest);
        assert!(removed.failed.is_empty());
        let config = LogConfig {
            kept: Some(manifest.generations.clone()),
            ..recycling(placement, streams, manifest.next)
        };
        let log = create(&disk, config.clone());
        manifest.next = manifest.next.next();
        manifest.generations.push(info(&config));
        manifest.last().begin_at(&log.beginning());
        manifest.write(&*disk);
        Self {
            disk,
            log,
            manifest,
            next_stamp: last + 1,
        }
    }

    /// Commits to any stream, and marks the commit on the disk. A commit without room is retried
    /// after a checkpoint.
    pub(crate) fn commit(&mut self, sim: &SimDisk, random: &mut Random) {
        let worker = WorkerId(random.below(self.log.streams() as u64) as u16);
        let payload = vec![self.next_stamp as u8; random.below(1500) as usize];
        let log = Arc::clone(&self.log);
        let stream = log.stream(worker);
        match put(stream, self.next_stamp, &payload) {
            Ok(_) => {}
            Err(LogError::RegionFull { .. }) => {
                assert!(log.is_short_of_room());
                self.checkpoint(Stamp(self.next_stamp - 1));
                put(stream, self.next_stamp, &payload).unwrap();
            }
            Err(error) => panic!("{error}"),
        }
        stream.flush().unwrap();
        sim.mark(self.next_stamp);
        self.next_stamp += 1;
    }

    pub(crate) fn checkpoint(&mut self, stamp: Stamp) {
        let point = RecyclePoint {
            stamp,
            below_lsn: None,
        };
        let start = self.log.recyclable(point).unwrap();
        self.manifest.last().begin_at(&start);
        drop_generations(&mut self.manifest, stamp);
        self.manifest.write(&*self.disk);
        let removed = remove_generations(&*self.disk, &wal(), self.manifest.oldest);
        assert!(removed.failed.is_empty());
        let oldest = self.manifest.oldest;
        self.log.recycle(&start, oldest, 1 << 20).unwrap();
    }
}

/// Makes the shared device, if the placement has one, with room for the maximum number of streams.
fn make_device(disk: &dyn Disk, placement: &Placement) {
    if let Placement::Shared { path, region_bytes } = placement
        && disk.open(path).is_err()
    {
        let dir = Path::new("/db");
        disk.create_dir_all(dir).unwrap();
        disk.create(path, u64::from(STREAMS_MAX) * region_bytes)
            .unwrap();
        disk.sync_dir(dir).unwrap();
    }
}
