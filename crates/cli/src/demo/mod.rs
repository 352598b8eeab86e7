//! `namiki demo`: load, pay, kill, recover, and compare with an outside witness.
//!
//! ```text
//!   parent: the witness                          child: the victim
//!   starts the child ──────────────────────────▶ creates the database, loads the accounts
//!   shows the progress       ◀── pipe: loaded ──
//!   remembers every id       ◀── pipe: acknowledged ── pays from account to account
//!   after some seconds: SIGKILL ───────────────▶ dies in the middle of it
//!   opens the database: recovery
//!   looks up every acknowledged id, adds up all the money
//! ```
//! The witness shares nothing with the database but the pipe. A payment is written into the pipe
//! after the database acknowledged it, so every payment that came out of the pipe must have
//! survived.

mod ledger;
mod pipe_message;
mod verify;
mod victim;
mod witness;

use std::io::{LineWriter, Write};
use std::num::NonZeroU16;
use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::{RangedU64ValueParser, TypedValueParser};
use namiki::{Database, Logging, ProtocolSpec};
use namiki_terminal::number_format::{bytes, counted, grouped};
use namiki_terminal::{interrupt, standard_output};

use crate::failure::{Failure, device};
use crate::opening;
use ledger::INITIAL_BALANCE;
use verify::Found;
pub(crate) use victim::{VICTIM_COMMAND, VictimArguments, run as run_victim};
use witness::Testimony;

const HELP: &str = "\
A second process creates a database, loads the accounts, and pays from account to account on all
processors. It reports every payment through a pipe after the database has acknowledged it. After some
seconds it is killed with SIGKILL. Then the demo opens the database again, which recovers it from its
logs, and compares it with the reports from the pipe.

The directory has to be new or empty and is kept, so that you can inspect it with `namiki check` and
`namiki dump-log`. Without --dir, one is created in the system's temporary folder (set TMPDIR for
another place) and removed at the end. If that folder is in memory, writes are faster than to a disk.

Exit status: 0 if payments were acknowledged and nothing is missing, 1 otherwise.

Examples:
  namiki demo
  namiki demo --accounts 100000 --seconds 2
  namiki demo --dir /data/demo --spec 'TT(ELR)+PWAL(16)'";

/// Largest number of paying threads. Each has its own log stream, with a first file that is filled
/// with zeros before the first payment.
const THREADS_MAX: u16 = 256;

/// Arguments of `namiki demo`.
#[derive(Args)]
#[command(after_help = HELP)]
pub(crate) struct DemoArguments {
    /// The directory of the database, which is kept. Default: a temporary folder, removed at the
    /// end
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Number of accounts to load
    #[arg(long, default_value_t = 1_000_000, value_parser = RangedU64ValueParser::<u64>::from(2..=1 << 32))]
    accounts: u64,
    /// Seconds of payments before the kill
    #[arg(long, default_value_t = 5, value_parser = RangedU64ValueParser::<u64>::from(1..=86_400))]
    seconds: u64,
    /// Number of paying threads. Default: one for each processor
    #[arg(long, value_parser = RangedU64ValueParser::<u16>::from(1..=THREADS_MAX as u64).try_map(NonZeroU16::try_from))]
    threads: Option<NonZeroU16>,
    /// The commit protocol: TT|SILO|S2PL ( NLR|ELR|EPOCH ) + PWAL|SWAL ( n|auto ); S2PL also with
    /// +ARIES
    #[arg(long, default_value_t = ProtocolSpec::DEFAULT, value_parser = durable_spec)]
    spec: ProtocolSpec,
}

fn durable_spec(text: &str) -> Result<ProtocolSpec, String> {
    let spec: ProtocolSpec = text.parse().map_err(|error| format!("{error}"))?;
    match spec.logging {
        Logging::None => Err("without a log, nothing survives a kill".to_owned()),
        Logging::Log { .. } => Ok(spec),
    }
}

/// The directory of the demo's database; a temporary folder is removed with it.
enum Place {
    Given(PathBuf),
    Temporary(tempfile::TempDir),
}

impl Place {
    fn new(given: Option<&Path>) -> Result<Self, Failure> {
        let Some(dir) = given else {
            let made = tempfile::Builder::new().prefix("namiki-demo-").tempdir();
            return made
                .map(Self::Temporary)
                .map_err(|source| Failure::Temporary {
                    parent: std::env::temp_dir(),
                    source,
                });
        };
        match std::fs::read_dir(dir).map(|mut entries| entries.next().is_none()) {
            Ok(true) => Ok(Self::Given(dir.to_owned())),
            Ok(false) => Err(Failure::NotEmpty(dir.to_owned())),
            // Created here, so that an error names the directory that was asked for.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                match std::fs::create_dir_all(dir) {
                    Ok(()) => Ok(Self::Given(dir.to_owned())),
                    Err(source) => Err(device("make the directory", dir)(source)),
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotADirectory && dir.exists() => {
                Err(Failure::NotADirectory(dir.to_owned()))
            }
            Err(source) => Err(device("read", dir)(source)),
        }
    }

    fn path(&self) -> &Path {
        match self {
            Self::Given(dir) => dir,
            Self::Temporary(dir) => dir.path(),
        }
    }

    /// Removes a temporary folder, and reports a failure.
    fn leave(self) -> Result<(), Failure> {
        let Self::Temporary(dir) = self else {
            return Ok(());
        };
        let path = dir.path().to_owned();
        dir.close().map_err(device("remove", &path))
    }
}

/// Runs the demonstration.
pub(crate) fn run(arguments: &DemoArguments) -> Result<(), Failure> {
    interrupt::listen();
    let place = Place::new(arguments.dir.as_deref())?;
    let threads = arguments.threads.unwrap_or_else(|| {
        std::thread::available_parallelism()
            .ok()
            .and_then(|n| NonZeroU16::new(n.get().min(THREADS_MAX.into()) as u16))
            .unwrap_or(NonZeroU16::MIN)
    });
    let victim = VictimArguments {
        dir: place.path().to_owned(),
        accounts: arguments.accounts,
        threads,
        spec: arguments.spec,
    };
    let told = story(&victim, arguments.seconds);
    let left = place.leave();
    told.and(left)
}

/// Prints one line: a word, and a sentence.
fn tell(word: &str, sentence: &str) -> Result<(), Failure> {
    let mut out = LineWriter::new(standard_output());
    writeln!(out, "{word:<11}{sentence}")
        .and_then(|()| out.flush())
        .map_err(Failure::output)
}

fn story(arguments: &VictimArguments, seconds: u64) -> Result<(), Failure> {
    tell(
        "namiki",
        &format!(
            "{} as {}, {} in {}",
            counted(arguments.accounts, "account"),
            arguments.spec,
            counted(u64::from(arguments.threads.get()), "thread"),
            arguments.dir.display()
        ),
    )?;
    let testimony = witness::watch(arguments, seconds)?;
    let acknowledged = testimony.acknowledged.len() as u64;
    tell(
        "loaded",
        &format!(
            "{} with {INITIAL_BALANCE} each in {:.1} s",
            counted(arguments.accounts, "account"),
            testimony.load_seconds
        ),
    )?;
    tell(
        "paid",
        &format!(
            "{} acknowledged in {:.1} s, {} a second",
            counted(acknowledged, "payment"),
            testimony.pay_seconds,
            grouped((acknowledged as f64 / testimony.pay_seconds) as u64)
        ),
    )?;
    tell("killed", "with SIGKILL while payments were under way")?;

    let db = recover(arguments)?;
    let outcome = verdict(&db, arguments, testimony);
    let closed = db.close().map_err(Failure::Transaction);
    outcome.and(closed)
}

/// Opens the database that was killed.
fn recover(arguments: &VictimArguments) -> Result<Database, Failure> {
    let settings = Database::builder()
        .create(false)
        .spec(arguments.spec)
        .streams(arguments.threads);
    let db = opening::open(settings, |settings| settings.open(&arguments.dir))?;
    let report = db.recovery();
    let torn = match report.torn {
        0 => String::new(),
        torn => format!(
            "; {} ended in a torn frame",
            counted(u64::from(torn), "stream")
        ),
    };
    let dropped = match report.dropped {
        0 => String::new(),
        dropped => format!(
            "; {} dropped, not acknowledged and behind a gap",
            counted(dropped, "commit")
        ),
    };
    tell(
        "recovered",
        &format!(
            "{} from {} of log in {:.2} s{torn}{dropped}",
            counted(report.replayed, "commit"),
            bytes(report.bytes),
            report.seconds
        ),
    )?;
    Ok(db)
}

/// Compares the database with the witness's records.
fn verdict(
    db: &Database,
    arguments: &VictimArguments,
    testimony: Testimony,
) -> Result<(), Failure> {
    let acknowledged = testimony.acknowledged.len() as u64;
    let found = verify::compare(db, arguments.accounts, testimony.acknowledged)?;
    tell(
        "payments",
        &match &found.missing[..] {
            [] if acknowledged == 0 => "none was acknowledged before the kill".to_owned(),
            [] => format!(
                "all {} acknowledged are there, and {} more that had no time to be acknowledged",
                grouped(acknowledged),
                match found.unacknowledged {
                    0 => "no".to_owned(),
                    more => grouped(more),
                }
            ),
            [first, ..] => format!(
                "MISSING: {} of {} acknowledged, the first with id {first}",
                grouped(found.missing.len() as u64),
                grouped(acknowledged)
            ),
        },
    )?;
    let (expected, accounts) = (
        i128::from(arguments.accounts) * i128::from(INITIAL_BALANCE),
        counted(arguments.accounts, "account"),
    );
    tell(
        "money",
        &if found.total == expected && found.accounts == arguments.accounts {
            format!(
                "conserved: {} in {accounts}, as at the beginning",
                grouped(expected)
            )
        } else {
            format!(
                "NOT CONSERVED: {} in {}, but it was {} in {accounts}",
                grouped(found.total),
                counted(found.accounts, "account"),
                grouped(expected)
            )
        },
    )?;
    tell(
        "balances",
        &match found.wrong_balances {
            0 => "every account holds exactly the sum of its payments".to_owned(),
            wrong => format!(
                "WRONG: {} not the sum of the payments",
                counted(wrong, "account")
            ),
        },
    )?;
    conclude(&found, acknowledged, arguments.accounts, expected)
}

/// The result of the comparison; no proof if nothing was acknowledged.
fn conclude(found: &Found, acknowledged: u64, accounts: u64, total: i128) -> Result<(), Failure> {
    if !found.is_sound(accounts, total) {
        return Err(Failure::Broken);
    }
    if acknowledged == 0 {
        return Err(Failure::NothingAcknowledged);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_demo_without_a_payment_has_shown_nothing() {
        let found = Found {
            accounts: 2,
            total: 20,
            ..Found::default()
        };
        assert!(conclude(&found, 1, 2, 20).is_ok());
        let nothing = conclude(&found, 0, 2, 20);
        assert!(matches!(nothing, Err(Failure::NothingAcknowledged)));
        for (accounts, total) in [(3, 20), (2, 21)] {
            for acknowledged in [0, 1] {
                let broken = conclude(&found, acknowledged, accounts, total);
                assert!(matches!(broken, Err(Failure::Broken)));
            }
        }
    }
}
