//! The witness: kills child processes and checks the remaining data.

use std::collections::BTreeSet;
use std::io::Read;
use std::ops::AddAssign;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use namiki_platform::seeded_random::Random;

use super::followed_copy::FollowedCopy;
use super::image_folder::{checkpoint_is_under_way, image_number};
use super::{Bank, Opening, PowerCut, told};

/// A child without progress for this time is killed in any case.
const STALL_TIMEOUT: Duration = Duration::from_secs(20);
/// Poll interval while waiting for a checkpoint to begin.
const LOOK: Duration = Duration::from_micros(200);

/// How a child's life ends.
#[derive(Clone, Copy, Debug)]
pub enum Cut<'a> {
    /// `kill -9`.
    Kill,
    /// The file system under it loses its power; then it is killed.
    Power(&'a PowerCut),
}

/// When a child's life ends.
#[derive(Clone, Copy, Debug)]
enum Moment {
    /// This time after its start: it may still be opening the database.
    After(Duration),
    /// When it has acknowledged this number of payments.
    Payments(usize),
    /// This time after the beginning of a checkpoint.
    InCheckpoint(Duration),
}

impl Moment {
    fn random(random: &mut Random) -> Self {
        match random.below(100) {
            0..20 => Self::After(Duration::from_micros(random.below(40_000))),
            20..50 => Self::Payments(1 + random.index(250)),
            _ => Self::InCheckpoint(Duration::from_micros(random.below(20_000))),
        }
    }
}

/// Counts of a witness.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Witnessed {
    /// Children killed.
    pub rounds: u64,
    /// Payments acknowledged.
    pub acknowledged: u64,
    /// Payments found that were not acknowledged: in flight when the child died.
    pub in_flight: u64,
    /// Databases opened and compared with what had been acknowledged.
    pub checked: u64,
    /// Children killed in the middle of a checkpoint.
    pub in_checkpoint: u64,
    /// Children that left another image than they found.
    pub new_images: u64,
    /// States of the backup that were compared with the database.
    pub copied: u64,
}

impl AddAssign for Witnessed {
    fn add_assign(&mut self, other: Self) {
        self.rounds += other.rounds;
        self.acknowledged += other.acknowledged;
        self.in_flight += other.in_flight;
        self.checked += other.checked;
        self.in_checkpoint += other.in_checkpoint;
        self.new_images += other.new_images;
        self.copied += other.copied;
    }
}

/// Kills children that work in one directory, and remembers the acknowledged payments.
pub struct Witness {
    /// The program with the child command `kill pay`.
    program: PathBuf,
    dir: PathBuf,
    random: Random,
    acknowledged: BTreeSet<u64>,
    /// Payments that a check has seen: they must never disappear.
    seen: BTreeSet<u64>,
    seen_by_all: Witnessed,
    forgetful: bool,
    lives: u64,
    /// The number of the last image after a life.
    image: Option<u32>,
    copy: FollowedCopy,
}

impl Witness {
    /// A witness for children of `program` in `dir`.
    #[must_use]
    pub fn new(program: &Path, dir: &Path, seed: u64) -> Self {
        Self {
            program: program.to_owned(),
            dir: dir.to_owned(),
            random: Random::seeded(seed),
            acknowledged: BTreeSet::new(),
            seen: BTreeSet::new(),
            seen_by_all: Witnessed::default(),
            forgetful: false,
            lives: 0,
            image: None,
            copy: FollowedCopy::default(),
        }
    }

    /// Plants a bug in the children: they do not sync what they write to the log.
    #[must_use]
    pub fn of_forgetful_children(mut self) -> Self {
        self.forgetful = true;
        self
    }

    /// The counts up to now.
    #[must_use]
    pub fn witnessed(&self) -> Witnessed {
        self.seen_by_all
    }

    /// Runs one child from its start to its end.
    ///
    /// # Errors
    /// A failure of the child itself, most likely because it could not open the database.
    pub fn round(&mut self, cut: Cut<'_>) -> Result<(), String> {
        let mut opening = Opening::random(&self.dir, &mut self.random);
        opening.forgetful = self.forgetful;
        self.lives += 1;
        opening.life = self.lives;
        let moment = Moment::random(&mut self.random);
        opening.checkpoints_by_time |= matches!(moment, Moment::InCheckpoint(_));
        let mut command = Command::new(&self.program);
        command.args(["kill", "pay"]);
        opening.give(&mut command);
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cannot start {}: {error}", self.program.display()))?;
        let end = watch(child, cut, moment, &self.dir)?;
        if end.failed_by_itself {
            return Err(format!("{opening:?}: the child failed: {}", end.stderr));
        }
        let seen = &mut self.seen_by_all;
        seen.rounds += 1;
        seen.acknowledged += end.acknowledged.len() as u64;
        seen.in_checkpoint += u64::from(end.in_checkpoint);
        seen.new_images += u64::from(end.image > self.image);
        self.image = self.image.max(end.image);
        self.acknowledged.extend(end.acknowledged);
        Ok(())
    }

    /// Opens the database and compares it with the acknowledged payments.
    ///
    /// # Errors
    /// The first mismatch.
    pub fn check(&mut self) -> Result<(), String> {
        let opening = Opening {
            is_followed: false,
            ..Opening::random(&self.dir, &mut self.random)
        };
        let wrong = |why: String| format!("{opening:?}: {why}");
        let db = opening
            .builder()
            .open(&opening.dir)
            .map_err(|error| wrong(format!("does not open: {}", told(&error))))?;
        let found = Bank::check(&db).map_err(wrong)?;
        let lost: Vec<&u64> = self.acknowledged.difference(&found).take(10).collect();
        if !lost.is_empty() {
            return Err(wrong(format!(
                "acknowledged payments are lost: {lost:x?}, of {} acknowledged and {} found; {:?}",
                self.acknowledged.len(),
                found.len(),
                db.recovery()
            )));
        }
        let gone: Vec<&u64> = self.seen.difference(&found).take(10).collect();
        if !gone.is_empty() {
            return Err(wrong(format!("payments seen before are gone: {gone:x?}")));
        }
        self.seen_by_all.checked += 1;
        self.seen_by_all.in_flight += found
            .difference(&self.acknowledged)
            .filter(|id| !self.seen.contains(id))
            .count() as u64;
        let copied = self.copy.check(&self.dir, &found, &mut self.random);
        self.seen_by_all.copied += copied.map_err(|why| wrong(format!("of the backup: {why}")))?;
        self.seen = found;
        db.close().map_err(|error| wrong(told(&error)))
    }
}

struct End {
    acknowledged: Vec<u64>,
    in_checkpoint: bool,
    /// The number of the image, if there was one.
    image: Option<u32>,
    failed_by_itself: bool,
    stderr: String,
}

/// Reads the child's acknowledgements, and ends it.
fn watch(mut child: Child, cut: Cut<'_>, moment: Moment, dir: &Path) -> Result<End, String> {
    let (Some(mut stdout), Some(mut stderr)) = (child.stdout.take(), child.stderr.take()) else {
        return Err("the child has no pipes".to_owned());
    };
    let (delay, payments) = match moment {
        Moment::After(delay) => (delay, usize::MAX),
        Moment::Payments(payments) => (STALL_TIMEOUT, payments),
        // The remains of the previous life's checkpoint are deleted by then.
        Moment::InCheckpoint(_) => (STALL_TIMEOUT, 1),
    };
    let (enough, told_enough) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let reader = scope.spawn(move || {
            let mut bytes = Vec::new();
            let mut chunk = [0; 4096];
            let mut said = false;
            while let Ok(count @ 1..) = stdout.read(&mut chunk) {
                bytes.extend_from_slice(&chunk[..count]);
                if bytes.len() / 8 >= payments && !said {
                    said = true;
                    // The receiver is gone if the child is already dead.
                    let _ = enough.send(());
                }
            }
            drop(enough);
            bytes
        });
        let complaints = scope.spawn(move || {
            let mut text = String::new();
            let _ = stderr.read_to_string(&mut text);
            text
        });
        // Disconnected: the child closed its pipe, so it has ended.
        let mut ended = told_enough.recv_timeout(delay) == Err(RecvTimeoutError::Disconnected);
        if let Moment::InCheckpoint(delay) = moment {
            let began = Instant::now();
            while !ended && !checkpoint_is_under_way(dir) && began.elapsed() < STALL_TIMEOUT {
                ended = told_enough.recv_timeout(LOOK) == Err(RecvTimeoutError::Disconnected);
            }
            std::thread::sleep(delay);
        }
        let mut cut_error = None;
        // After the cut, the directory cannot be read.
        let mut left = (checkpoint_is_under_way(dir), image_number(dir));
        if let Cut::Power(power) = cut {
            cut_error = power.cut().err();
        }
        let killed = child.kill();
        let status = child.wait().map_err(|error| error.to_string())?;
        if matches!(cut, Cut::Kill) {
            left = (checkpoint_is_under_way(dir), image_number(dir));
        }
        let bytes = join(reader);
        let stderr = join(complaints);
        if let Some(error) = cut_error {
            return Err(format!("cannot cut the power: {error}"));
        }
        killed.map_err(|error| format!("cannot kill: {error}"))?;
        let (ids, _) = bytes.as_chunks::<8>();
        Ok(End {
            acknowledged: ids.iter().map(|id| u64::from_le_bytes(*id)).collect(),
            // Before its first acknowledgement the child may have been opening: then the files are
            // of an earlier life.
            in_checkpoint: left.0 && !ids.is_empty(),
            image: left.1,
            failed_by_itself: ended || (matches!(cut, Cut::Kill) && status.code().is_some()),
            stderr,
        })
    })
}

fn join<T>(thread: std::thread::ScopedJoinHandle<'_, T>) -> T {
    thread
        .join()
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
