//! The process that kills, and looks what is left.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use namiki_platform::seeded_random::Random;

use super::{ACCOUNTS, BALANCE, Bank, Opening, PowerCut, attachment, told};

/// A child that does nothing for so long is killed in any case.
const STALL_TIMEOUT: Duration = Duration::from_secs(20);

/// How a child's life ends.
#[derive(Clone, Copy, Debug)]
pub enum Cut<'a> {
    /// `kill -9`.
    Kill,
    /// The file system under it loses its power; then it is killed.
    Power(&'a PowerCut),
}

/// What a witness saw.
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
}

/// Kills children that work in one directory, and knows what was acknowledged there.
pub struct Witness {
    /// The program with the child command `pay`.
    program: PathBuf,
    dir: PathBuf,
    random: Random,
    acknowledged: BTreeSet<u64>,
    /// Payments that a check has seen: never to disappear again.
    seen: BTreeSet<u64>,
    seen_by_all: Witnessed,
    forgetful: bool,
    lives: u64,
}

impl Witness {
    /// A witness of what children of `program` do in `dir`.
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
        }
    }

    /// Plants a bug in the children: they do not sync what they write to the log.
    #[must_use]
    pub fn of_forgetful_children(mut self) -> Self {
        self.forgetful = true;
        self
    }

    /// What was seen so far.
    #[must_use]
    pub fn witnessed(&self) -> Witnessed {
        self.seen_by_all
    }

    /// One child, from its start to its end.
    ///
    /// # Errors
    /// What is wrong: a child that failed by itself, above all because it could not open the
    /// database.
    pub fn round(&mut self, cut: Cut<'_>) -> Result<(), String> {
        let mut opening = Opening::random(&self.dir, &mut self.random);
        opening.forgetful = self.forgetful;
        self.lives += 1;
        opening.life = self.lives;
        let mut command = Command::new(&self.program);
        command.arg("pay");
        opening.give(&mut command);
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cannot start {}: {error}", self.program.display()))?;
        // Sometimes so early that it is still opening, sometimes after so many payments.
        let (delay, payments) = match self.random.chance(0.35) {
            true => (Duration::from_micros(self.random.below(40_000)), usize::MAX),
            false => (STALL_TIMEOUT, 1 + self.random.index(250)),
        };
        let end = watch(child, cut, delay, payments)?;
        if end.failed_by_itself {
            return Err(format!("{opening:?}: the child failed: {}", end.stderr));
        }
        self.seen_by_all.rounds += 1;
        self.seen_by_all.acknowledged += end.acknowledged.len() as u64;
        self.acknowledged.extend(end.acknowledged);
        Ok(())
    }

    /// Opens the database and compares it with what was acknowledged.
    ///
    /// # Errors
    /// What is wrong.
    pub fn check(&mut self) -> Result<(), String> {
        let opening = Opening::random(&self.dir, &mut self.random);
        let wrong = |why: String| format!("{opening:?}: {why}");
        let db = opening
            .builder()
            .open(&opening.dir)
            .map_err(|error| wrong(format!("does not open: {}", told(&error))))?;
        let read = Bank::of(&db).and_then(|bank| {
            db.transact(|tx| {
                let attachments = tx.scan(&bank.attachments, ..)?;
                Ok((
                    tx.scan(&bank.accounts, ..)?,
                    tx.scan(&bank.payments, ..)?,
                    attachments,
                ))
            })
        });
        let (accounts, payments, attachments) = read.map_err(|error| wrong(told(&error)))?;
        let found: BTreeSet<u64> = payments.iter().map(|(id, _)| *id).collect();
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
        if accounts.is_empty() && found.is_empty() {
            // Killed before anything was there.
            return Ok(());
        }
        let mut expected: Vec<(u64, i64)> = (0..ACCOUNTS).map(|key| (key, BALANCE)).collect();
        for (_, payment) in &payments {
            let (numbers, _) = payment.as_chunks::<8>();
            let [from, to, amount] = [0, 1, 2].map(|at| u64::from_le_bytes(numbers[at]));
            expected[from as usize].1 -= amount as i64;
            expected[to as usize].1 += amount as i64;
        }
        let attached = found.iter().filter_map(|id| Some((*id, attachment(*id)?)));
        if !attached.eq(attachments) {
            return Err(wrong(
                "the attachments are not those of the payments".to_owned(),
            ));
        }
        let total: i64 = accounts.iter().map(|(_, balance)| balance).sum();
        if total != BALANCE * ACCOUNTS as i64 {
            return Err(wrong(format!("the accounts hold {total} together")));
        }
        if accounts != expected {
            return Err(wrong(format!(
                "the payments make {expected:?}, but the accounts are {accounts:?}"
            )));
        }
        self.seen_by_all.checked += 1;
        self.seen_by_all.in_flight += found
            .difference(&self.acknowledged)
            .filter(|id| !self.seen.contains(id))
            .count() as u64;
        self.seen = found;
        db.close().map_err(|error| wrong(told(&error)))
    }
}

struct End {
    acknowledged: Vec<u64>,
    failed_by_itself: bool,
    stderr: String,
}

/// Reads what the child acknowledges, and ends it after `delay` or so many payments.
fn watch(mut child: Child, cut: Cut<'_>, delay: Duration, payments: usize) -> Result<End, String> {
    let (Some(mut stdout), Some(mut stderr)) = (child.stdout.take(), child.stderr.take()) else {
        return Err("the child has no pipes".to_owned());
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
                    // The receiver is gone when the child is dead already.
                    let _ = enough.send(());
                }
            }
            bytes
        });
        let complaints = scope.spawn(move || {
            let mut text = String::new();
            let _ = stderr.read_to_string(&mut text);
            text
        });
        // Disconnected: the child closed its pipe, so it has ended.
        let ended = told_enough.recv_timeout(delay) == Err(RecvTimeoutError::Disconnected);
        let mut cut_error = None;
        if let Cut::Power(power) = cut {
            cut_error = power.cut().err();
        }
        let killed = child.kill();
        let status = child.wait().map_err(|error| error.to_string())?;
        let bytes = join(reader);
        let stderr = join(complaints);
        if let Some(error) = cut_error {
            return Err(format!("cannot cut the power: {error}"));
        }
        killed.map_err(|error| format!("cannot kill: {error}"))?;
        let (ids, _) = bytes.as_chunks::<8>();
        Ok(End {
            acknowledged: ids.iter().map(|id| u64::from_le_bytes(*id)).collect(),
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
