//! Real processes that are killed, and file systems that lose their power.
//!
//! A child process pays from account to account on several threads, and writes the number of each
//! acknowledged payment into a pipe. Its parent, the witness, kills it at some moment and opens the
//! database: every payment that was acknowledged is there, whole, and no money was lost or made.
//!
//! Checkpoints run by themselves meanwhile, and a good part of the kills hits one.
//!
//! A kill cannot find a missing sync, because what a dead process wrote is still in the page cache.
//! So other rounds cut the power: of an ext4 in a file, which is shut down without a flush.

mod child;
mod image_folder;
mod kill_and_verify;
mod power_cut;

use std::num::{NonZeroU16, NonZeroU32};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use namiki::{Builder, Database, Error, ProtocolSpec, Table};
use namiki_platform::disk::DelayedDisk;
use namiki_platform::seeded_random::Random;

pub use child::pay;
pub use kill_and_verify::{Cut, Witness, Witnessed};
pub use power_cut::PowerCut;

/// Accounts, and what each holds at first.
const ACCOUNTS: u64 = 40;
const BALANCE: i64 = 1000;

/// The tables of these runs. A payment is its accounts and its amount, as three little-endian
/// numbers. Some have an attachment ([`attachment`]).
struct Bank {
    accounts: Table<u64, i64>,
    payments: Table<u64, [u8; 24]>,
    attachments: Table<u64, [u8]>,
}

/// What belongs to one payment in 32, and makes its transaction longer than a log buffer, and often than a log file.
fn attachment(id: u64) -> Option<Vec<u8>> {
    let bytes = 10_000 + id / 32 % 16 * 9_000;
    let word = |at: u64| at.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ id;
    let words = (0..bytes / 8).flat_map(|at| word(at).to_le_bytes());
    id.is_multiple_of(32).then(|| words.collect())
}

impl Bank {
    fn of(db: &Database) -> Result<Self, Error> {
        Ok(Self {
            accounts: db.table("accounts")?,
            payments: db.table_with_room("payments", 24)?,
            attachments: db.table("attachments")?,
        })
    }
}

/// How a process opens the database.
#[derive(Clone, Debug)]
pub struct Opening {
    /// Where it is.
    pub dir: PathBuf,
    /// The protocol.
    pub spec: ProtocolSpec,
    /// Log streams.
    pub streams: u16,
    /// A bug, to see it found: writes to the log are not synced.
    pub forgetful: bool,
    /// Which child this is: its payments' numbers begin with it.
    pub life: u64,
    /// Whether checkpoints are taken after a while, too, and not only when the log is long.
    pub checkpoints_by_time: bool,
}

impl Opening {
    /// A protocol and a number of streams chosen by chance.
    fn random(dir: &Path, random: &mut Random) -> Self {
        let specs = ProtocolSpec::all_durable();
        Self {
            dir: dir.to_owned(),
            spec: specs[random.index(specs.len())],
            streams: 1 + random.below(4) as u16,
            forgetful: false,
            life: 0,
            checkpoints_by_time: random.chance(0.3),
        }
    }

    fn builder(&self) -> Builder {
        let builder = match self.forgetful {
            true => Database::builder().disk(Arc::new(DelayedDisk::new(Duration::ZERO))),
            false => Database::builder(),
        };
        let builder = match self.checkpoints_by_time {
            true => builder.checkpoint_interval(Duration::from_millis(1)),
            false => builder,
        };
        builder
            .checkpoint_log_bytes(128 << 10)
            .spec(self.spec)
            .streams(NonZeroU16::new(self.streams).unwrap_or(NonZeroU16::MIN))
            .group_wait_max(Duration::from_millis(1))
            // Groups of one are waited for, and larger ones left to the disk.
            .async_flush_min_commits(NonZeroU32::MIN.saturating_add(1))
            // Small, so that a round goes through several files.
            .segment_bytes(64 << 10)
            .buffer_bytes(16 << 10)
    }

    /// The same, for the command line of a child.
    fn give(&self, command: &mut Command) {
        command
            .arg(&self.dir)
            .arg(self.spec.to_string())
            .arg(self.streams.to_string())
            .arg(self.forgetful.to_string())
            .arg(self.life.to_string())
            .arg(self.checkpoints_by_time.to_string());
    }

    /// Reads what `give` wrote.
    ///
    /// # Errors
    /// What is wrong with the arguments.
    pub fn parse(arguments: &[String]) -> Result<Self, String> {
        let [dir, spec, streams, forgetful, life, by_time] = arguments else {
            return Err(
                "a directory, a protocol, streams, a bug, a life and a trigger are wanted"
                    .to_owned(),
            );
        };
        Ok(Self {
            dir: dir.into(),
            spec: spec.parse().map_err(|error| format!("{error}"))?,
            streams: streams.parse().map_err(|error| format!("{error}"))?,
            forgetful: forgetful.parse().map_err(|error| format!("{error}"))?,
            life: life.parse().map_err(|error| format!("{error}"))?,
            checkpoints_by_time: by_time.parse().map_err(|error| format!("{error}"))?,
        })
    }
}

/// An error with everything that caused it.
fn told(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        text = format!("{text}: {inner}");
        source = inner.source();
    }
    text
}
