//! Every crash of a run, and its consequences.

use std::collections::BTreeMap;

use namiki::{Error, IndexKind, LogError};
use namiki_platform::disk::SimDisk;
use namiki_platform::disk::sim::Loss;
use namiki_platform::seeded_random::Random;

use super::backups_left::{check_left, check_next};
use super::error_text::with_sources;
use super::{Acknowledge, Clients, Kept, Oracle, Setup, Tables, run_shuffled};
use crate::key_encoding::{Numbered, Spelling};

/// Number of crashes to check.
#[derive(Clone, Copy, Debug)]
pub struct Depth {
    /// Random subsets of the pending writes, at each event.
    pub subsets: u64,
    /// Up to this number of pending sectors, each is lost alone once, and kept alone once; above
    /// it, as many as there are subsets.
    pub sectors_each_max: usize,
    /// The probability of checking an event.
    pub events: f64,
    /// The probability of continuing after a recovery, and of crashing that recovery and the
    /// commits after it.
    pub second: f64,
    /// The same after the recovery of such an image. No image is crashed a fourth time.
    pub third: f64,
}

impl Depth {
    /// The depth for every change.
    pub const CI: Self = Self {
        subsets: 3,
        sectors_each_max: 8,
        events: 0.35,
        second: 0.002,
        third: 0.002,
    };
    /// The depth for long runs.
    pub const LONG: Self = Self {
        subsets: 128,
        sectors_each_max: 100,
        events: 1.0,
        second: 0.02,
        third: 0.002,
    };
}

/// Counts of a sweep.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sweep {
    /// Events of the run.
    pub events: u64,
    /// Images that were recovered.
    pub images: u64,
    /// Images of second crashes, also counted above.
    pub second: u64,
    /// Images of third crashes, also counted above, including in `second`.
    pub third: u64,
    /// Recoveries that had to truncate the log.
    pub cut: u64,
    /// Acknowledgements checked.
    pub acknowledged: u64,
    /// Transactions of the run that a full disk refused.
    pub refused: u64,
    /// Checkpoints of the runs, including those after second crashes.
    pub checkpoints: u64,
    /// Checkpoints that failed as planned.
    pub checkpoints_failed: u64,
    /// Log files that the checkpoints freed.
    pub log_files_freed: u64,
    /// Number of times the streams of shared devices have wrapped around their regions in the runs.
    pub laps: u64,
    /// Images of crashes in the middle of a checkpoint.
    pub in_checkpoint: u64,
    /// Images of second or third crashes in the middle of a recovery.
    pub in_recovery: u64,
    /// Images of crashes in the middle of a backup.
    pub in_backup: u64,
    /// States of backups that were compared with the transactions up to their stamps.
    pub copies: u64,
    /// Views that were compared with the transactions up to their stamps.
    pub views: u64,
    /// Images of first crashes, by index and keys of the run.
    pub by_index: BTreeMap<(String, Spelling), u64>,
}

impl Sweep {
    /// Whether a run over this index was crashed.
    #[must_use]
    pub fn has_crashed(&self, index: IndexKind) -> bool {
        let index = index.to_string();
        self.by_index.keys().any(|(crashed, _)| *crashed == index)
    }
}

impl std::ops::AddAssign for Sweep {
    fn add_assign(&mut self, other: Self) {
        self.events += other.events;
        self.images += other.images;
        self.second += other.second;
        self.third += other.third;
        self.cut += other.cut;
        self.acknowledged += other.acknowledged;
        self.refused += other.refused;
        self.checkpoints += other.checkpoints;
        self.checkpoints_failed += other.checkpoints_failed;
        self.log_files_freed += other.log_files_freed;
        self.laps += other.laps;
        self.in_checkpoint += other.in_checkpoint;
        self.in_recovery += other.in_recovery;
        self.in_backup += other.in_backup;
        self.copies += other.copies;
        self.views += other.views;
        for (index, images) in other.by_index {
            *self.by_index.entry(index).or_default() += images;
        }
    }
}

/// The state before the events of a disk's trace: the transactions that the previous recovery kept.
struct Before<'a> {
    kept: &'a Kept,
    ids_below: u64,
    /// Number of earlier crashes.
    crashes: u64,
    /// Number of events at the start of the trace that belong to the recovery.
    recovery_events: usize,
}

/// Crashes a run at its events and verifies the recovered state.
///
/// # Errors
/// The mismatch of the first wrong image.
pub fn sweep<K: Numbered>(
    disk: &SimDisk,
    setup: Setup,
    oracle: &Oracle,
    depth: Depth,
    seed: u64,
) -> Result<Sweep, String> {
    let mut random = Random::seeded(seed);
    let mut swept = sweep_from::<K>(disk, setup, oracle, depth, &mut random, None)?;
    let first = swept.images - swept.second;
    swept.refused = oracle.refused();
    swept.laps = setup.laps(disk).map_err(|error| error.to_string())?;
    swept.by_index = BTreeMap::from([((setup.index.to_string(), setup.keys), first)]);
    Ok(swept)
}

fn sweep_from<K: Numbered>(
    disk: &SimDisk,
    setup: Setup,
    oracle: &Oracle,
    depth: Depth,
    random: &mut Random,
    before: Option<&Before<'_>>,
) -> Result<Sweep, String> {
    let events = disk.events();
    let mut swept = Sweep {
        events: events as u64,
        views: oracle.check_shown()?,
        checkpoints: oracle.checkpoints.taken(),
        checkpoints_failed: oracle.checkpoints.failures.len() as u64,
        log_files_freed: oracle.checkpoints.log_files_freed,
        ..Sweep::default()
    };
    let is_in_recovery = |at| before.is_some_and(|before| 0 < at && at < before.recovery_events);
    for at in 0..=events {
        if !random.chance(depth.events) && at != events {
            continue;
        }
        for loss in losses(disk, at, depth, random) {
            let image = disk.crash_image(at, loss);
            let marks = disk.marks_before(at);
            let acknowledged: Vec<u64> = match before {
                Some(before) => before.kept.iter().copied().chain(marks).collect(),
                None => marks,
            };
            let again = setup.again(random);
            let crash = Crash {
                image: &image,
                setup: again,
                oracle,
                acknowledged: &acknowledged,
                before,
                events: at,
            };
            let went = crash.recover::<K>(depth, random).map_err(|wrong| {
                let last = match at {
                    0 => "nothing".to_owned(),
                    at => disk.describe(at - 1),
                };
                format!(
                    "{wrong}\n  crash after event {at} of {events} ({last}), {loss:?}\n  \
                     reopened with {again:?}\n  acknowledged {acknowledged:?}"
                )
            })?;
            swept += went;
            swept.images += 1;
            swept.in_backup += u64::from(oracle.backups.has_within(at));
            swept.in_checkpoint += u64::from(oracle.checkpoints.has_within(at));
            swept.in_recovery += u64::from(is_in_recovery(at));
            swept.acknowledged += acknowledged.len() as u64;
        }
    }
    Ok(swept)
}

/// The possible losses at an event: many subsets of the pending writes.
fn losses(disk: &SimDisk, at: usize, depth: Depth, random: &mut Random) -> Vec<Loss> {
    let (sectors, names) = (disk.pending_sectors(at), disk.pending_names(at));
    let mut losses = vec![Loss::None];
    if sectors + names == 0 {
        return losses;
    }
    losses.push(Loss::All);
    if at > 0 && disk.describe(at - 1).starts_with("mark") {
        // Only the acknowledgement is new.
        return losses;
    }
    losses.extend((0..names).map(Loss::NamesAfter));
    if sectors > depth.sectors_each_max {
        // A large transaction or an image: the first and the last sector, and some between.
        for _ in 0..depth.subsets {
            losses.push(Loss::Only(random.index(sectors)));
            losses.push(Loss::OnlyKept(random.index(sectors)));
        }
        losses.extend([0, sectors - 1].map(Loss::Only));
        losses.extend([0, sectors - 1].map(Loss::OnlyKept));
    } else if sectors > 1 {
        losses.extend((0..sectors).map(Loss::Only));
        losses.extend((0..sectors).map(Loss::OnlyKept));
    }
    // With this number of draws, every subset of a small set is among them.
    let all = 16_u64 << (sectors + names).min(32);
    let subsets = depth.subsets.min(all);
    losses.extend((0..subsets).map(|_| Loss::Seeded(random.next_u64())));
    losses
}

/// One image and its known history.
struct Crash<'a> {
    image: &'a SimDisk,
    setup: Setup,
    oracle: &'a Oracle,
    acknowledged: &'a [u64],
    before: Option<&'a Before<'a>>,
    /// The number of events before the crash.
    events: usize,
}

impl Crash<'_> {
    fn recover<K: Numbered>(&self, depth: Depth, random: &mut Random) -> Result<Sweep, String> {
        let mut swept = Sweep::default();
        let is_in_backup = self.oracle.backups.has_within(self.events);
        if random.chance(if is_in_backup { 0.4 } else { 0.03 }) {
            let Self {
                image,
                setup,
                oracle,
                ..
            } = *self;
            swept.copies = check_left::<K>(image, setup, oracle, self.events, random)?;
        }
        let db = self
            .setup
            .open(self.image)
            .map_err(|error| format!("does not open: {}", with_sources(&error)))?;
        let recovery_events = self.image.events();
        let tables = Tables::<K>::of(&db).map_err(|error| error.to_string())?;
        let (kept, stamps) = self.oracle.verify(&db, &tables, self.acknowledged)?;
        if let Some(before) = self.before {
            let old: Kept = kept.range(..before.ids_below).copied().collect();
            if &old != before.kept {
                return Err(format!(
                    "the recovery before kept {:?}, this one {old:?}",
                    before.kept
                ));
            }
        }
        let report = db.recovery().clone();
        swept.cut += u64::from(report.dropped > 0);

        let floor = kept.iter().map(|id| stamps[id]).max().unwrap_or(0);
        let floor = floor.max(report.max_stamp.0);
        if !random.chance(depth.second) {
            if random.chance(0.1) {
                check_stamp(&db, &tables, floor)?;
            }
            if random.chance(if is_in_backup { 0.1 } else { 0.005 }) {
                check_next(&db, &tables, self.image, self.setup)?;
            }
            return Ok(swept);
        }

        let mut oracle = self.oracle.clone();
        oracle.retain(&kept, &stamps);
        let crashes = 1 + self.before.map_or(0, |before| before.crashes);
        let ids_below = crashes << 40;
        let (new, failure) = run_shuffled::<K>(
            &db,
            self.image,
            2,
            ids_below,
            8,
            Clients {
                acknowledge: Acknowledge::WhenDurable,
                large: self.setup.large,
                backs_up: true,
            },
            random,
        );
        if let Some(failure) = failure {
            return Err(format!("after a recovery: {}", with_sources(&failure)));
        }
        new.check_none_refused()
            .and_then(|()| new.check_nothing_failed())
            .map_err(|wrong| format!("after a recovery: {wrong}"))?;
        for id in ids_below..ids_below + 8 {
            if let Some(stamp) = new.stamp_of_writer(id)
                && stamp <= floor
            {
                return Err(format!("a new stamp is {stamp}, not above {floor}"));
            }
        }
        oracle.absorb(new);
        drop((tables, db));
        let before = Before {
            kept: &kept,
            ids_below,
            crashes,
            recovery_events,
        };
        let shallow = Depth {
            subsets: depth.subsets.min(8),
            events: 0.5,
            sectors_each_max: depth.sectors_each_max.min(8),
            second: depth.third,
            third: 0.0,
        };
        let again = sweep_from::<K>(
            self.image,
            self.setup,
            &oracle,
            shallow,
            random,
            Some(&before),
        )
        .map_err(|wrong| format!("after crash {crashes}, another: {wrong}"))?;
        swept += Sweep {
            second: again.images,
            third: again.second,
            events: 0,
            ..again
        };
        Ok(swept)
    }
}

fn check_stamp<K: Numbered>(
    db: &namiki::Database,
    tables: &Tables<K>,
    floor: u64,
) -> Result<(), String> {
    let commit = || {
        let mut tx = db.begin()?;
        tx.put(&tables.first, &K::from(u64::MAX), &0)?;
        tx.commit_async()
    };
    let committed = match commit() {
        // A checkpoint makes room in a full region.
        Err(Error::DiskFull(LogError::RegionFull { .. })) => db.checkpoint().and_then(|_| commit()),
        committed => committed,
    };
    let failed = |error: Error| format!("after a recovery: {}", with_sources(&error));
    let ticket = committed.map_err(failed)?;
    if ticket.stamp().0 > floor {
        Ok(())
    } else {
        Err(format!(
            "the first new stamp is {}, not above {floor}",
            ticket.stamp().0
        ))
    }
}
