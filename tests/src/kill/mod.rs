//! Real processes that are killed, and file systems that lose their power.
//!
//! A child process makes payments between accounts on several threads, and writes the number of
//! each acknowledged payment into a pipe. Its parent, the witness, kills it at some moment and
//! opens the database: every acknowledged payment is there as a whole, and the sum of all money is
//! unchanged.
//!
//! Background checkpoints run during the payments, and a good part of the kills hits one. A backup
//! follows many of the children, and is checked too.
//!
//! A kill cannot detect a missing sync, because the writes of a dead process are still in the page
//! cache. Therefore other rounds cut the power of an ext4 in a file, which is shut down without a
//! flush.

mod child;
mod followed_copy;
mod image_folder;
mod kill_and_verify;
mod power_cut;

use std::collections::BTreeSet;
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
pub(crate) use power_cut::run;

/// Number of accounts, and the first balance of each.
const ACCOUNTS: u64 = 40;
const BALANCE: i64 = 1000;

/// The tables of these runs. A payment is its accounts and its amount, as three little-endian
/// numbers. Some have an attachment ([`attachment`]).
struct Bank {
    accounts: Table<u64, i64>,
    payments: Table<u64, [u8; 24]>,
    attachments: Table<u64, [u8]>,
}

/// The attachment of one payment in 32. It makes the transaction longer than a log buffer, and
/// often than a log file.
fn attachment(id: u64) -> Option<Vec<u8>> {
    let bytes = 10_000 + id / 32 % 16 * 9_000;
    let word = |at: u64| at.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ id;
    let words = (0..bytes / 8).flat_map(|at| word(at).to_le_bytes());
    id.is_multiple_of(32).then(|| words.collect())
}

impl Bank {
    /// Number of tables.
    const TABLES: usize = 3;

    fn of(db: &Database) -> Result<Self, Error> {
        Ok(Self {
            accounts: db.table("accounts")?,
            payments: db.table_with_room("payments", 24)?,
            attachments: db.table("attachments")?,
        })
    }

    /// Reads the payments in a database.
    ///
    /// # Errors
    /// The mismatch, if the accounts and attachments are not those that result from the payments.
    fn check(db: &Database) -> Result<BTreeSet<u64>, String> {
        let read = Self::of(db).and_then(|bank| {
            db.transact(|tx| {
                let attachments = tx.scan(&bank.attachments, ..)?;
                Ok((
                    tx.scan(&bank.accounts, ..)?,
                    tx.scan(&bank.payments, ..)?,
                    attachments,
                ))
            })
        });
        let (accounts, payments, attachments) = read.map_err(|error| told(&error))?;
        let found: BTreeSet<u64> = payments.iter().map(|(id, _)| *id).collect();
        if accounts.is_empty() && found.is_empty() {
            // The state before the accounts were created.
            return Ok(found);
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
            return Err("the attachments are not those of the payments".to_owned());
        }
        let total: i64 = accounts.iter().map(|(_, balance)| balance).sum();
        if total != BALANCE * ACCOUNTS as i64 {
            return Err(format!("the accounts hold {total} together"));
        }
        if accounts == expected {
            Ok(found)
        } else {
            Err(format!(
                "the payments make {expected:?}, but the accounts are {accounts:?}"
            ))
        }
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
    /// A planted bug: writes to the log are not synced.
    pub forgetful: bool,
    /// The number of the child: the numbers of its payments begin with it.
    pub life: u64,
    /// Whether checkpoints are also taken by time, in addition to log length.
    pub checkpoints_by_time: bool,
    /// Whether a backup follows the database.
    pub is_followed: bool,
}

impl Opening {
    /// A random protocol and number of streams.
    fn random(dir: &Path, random: &mut Random) -> Self {
        let specs = ProtocolSpec::all_durable();
        Self {
            dir: dir.to_owned(),
            spec: specs[random.index(specs.len())],
            streams: 1 + random.below(4) as u16,
            forgetful: false,
            life: 0,
            checkpoints_by_time: random.chance(0.3),
            is_followed: random.chance(0.5),
        }
    }

    fn builder(&self) -> Builder {
        let builder = if self.forgetful {
            Database::builder().disk(Arc::new(DelayedDisk::new(Duration::ZERO)))
        } else {
            Database::builder()
        };
        let builder = if self.checkpoints_by_time {
            builder.checkpoint_interval(Duration::from_millis(1))
        } else {
            builder
        };
        let builder = if self.is_followed {
            followed_copy::follow(builder, &self.dir)
        } else {
            builder
        };
        builder
            .checkpoint_log_bytes(128 << 10)
            .spec(self.spec)
            .streams(NonZeroU16::new(self.streams).unwrap_or(NonZeroU16::MIN))
            .group_wait_max(Duration::from_millis(1))
            // Groups of one are flushed synchronously, larger ones asynchronously.
            .async_flush_min_commits(NonZeroU32::MIN.saturating_add(1))
            // Small, so that a round fills several files.
            .log_file_bytes(64 << 10)
            .buffer_bytes(16 << 10)
    }

    /// Passes the settings on the command line of a child.
    fn give(&self, command: &mut Command) {
        command
            .arg(&self.dir)
            .arg(self.spec.to_string())
            .arg(self.streams.to_string())
            .arg(self.forgetful.to_string())
            .arg(self.life.to_string())
            .arg(self.checkpoints_by_time.to_string())
            .arg(self.is_followed.to_string());
    }

    /// Parses the arguments that `give` wrote.
    ///
    /// # Errors
    /// The invalid argument.
    pub fn parse(arguments: &[String]) -> Result<Self, String> {
        let [dir, spec, streams, forgetful, life, by_time, followed] = arguments else {
            return Err(
                "a directory, a protocol, streams, a bug, a life, a trigger and whether to follow are wanted"
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
            is_followed: followed.parse().map_err(|error| format!("{error}"))?,
        })
    }
}

/// An error with its chain of causes.
fn told(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        text = format!("{text}: {inner}");
        source = inner.source();
    }
    text
}
