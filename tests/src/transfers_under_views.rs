//! Transfers money between accounts under full load, and checks that every view sees the same sum,
//! whatever the protocol and the release rule.

use std::ops::{AddAssign, ControlFlow};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use namiki::{Builder, Database, Direction, Error, Stamp, Table, View};
use namiki_platform::seeded_random::Random;

/// Few, so that transfers conflict.
const ACCOUNTS: u64 = 1000;
const BALANCE: i64 = 100;
/// Threads that transfer.
const PAYERS: u64 = 3;
/// Transfers of a thread between two waits for the log.
const UNWAITED_MAX: u64 = 64;
/// A view that stays open is read again and closed after this number of other views.
const VIEWS_OF_OLD: u64 = 8;

/// Counts of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Committed transfers.
    pub transfers: u64,
    /// Scans of all accounts in a view, each of which found the whole sum.
    pub scans: u64,
    /// Checkpoints taken during the run.
    pub checkpoints: u64,
}

impl AddAssign for Seen {
    fn add_assign(&mut self, other: Self) {
        self.transfers += other.transfers;
        self.scans += other.scans;
        self.checkpoints += other.checkpoints;
    }
}

/// Transfers on several threads while one thread opens views and scans them, forward and backward.
/// One view stays open for longer.
///
/// # Errors
/// The first wrong view, or the error of the engine.
pub fn transfer(builder: Builder, dir: &Path, seed: u64, transfers: u64) -> Result<Seen, String> {
    let db = builder.open(dir).map_err(|error| error.to_string())?;
    let told = |error: Error| format!("{}, seed {seed}: {error}", db.spec());
    let accounts = db.table::<u64, i64>("accounts").map_err(told)?;
    let opened = db
        .transact(|tx| (0..ACCOUNTS).try_for_each(|account| tx.put(&accounts, &account, &BALANCE)));
    opened.map_err(told)?;
    let (paying, paid) = (AtomicU64::new(PAYERS), AtomicU64::new(0));
    let failed = AtomicBool::new(false);
    let scans = std::thread::scope(|scope| {
        let payers: Vec<_> = (0..PAYERS)
            .map(|payer| {
                let (db, accounts, failed) = (&db, &accounts, &failed);
                let (paying, paid) = (&paying, &paid);
                scope.spawn(move || {
                    let random = Random::stream(seed, payer);
                    let done = pay(db, accounts, random, || {
                        !failed.load(Ordering::Relaxed)
                            && paid.fetch_add(1, Ordering::Relaxed) < transfers
                    });
                    paying.fetch_sub(1, Ordering::Release);
                    done
                })
            })
            .collect();
        let scans = look(&db, &accounts, || paying.load(Ordering::Acquire) > 0);
        failed.store(scans.is_err(), Ordering::Relaxed);
        for payer in payers {
            let done = payer.join();
            done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
                .map_err(told)?;
        }
        scans.map_err(|wrong| format!("{}, seed {seed}: {wrong}", db.spec()))
    })?;
    Ok(Seen {
        transfers,
        scans,
        checkpoints: db.stats().checkpoints.taken,
    })
}

fn pay(
    db: &Database,
    accounts: &Table<u64, i64>,
    mut random: Random,
    go_on: impl Fn() -> bool,
) -> Result<(), Error> {
    let mut session = db.session()?;
    let mut unwaited = 0;
    while go_on() {
        let (from, to) = (random.below(ACCOUNTS), random.below(ACCOUNTS));
        let amount = random.below(20) as i64;
        let (_, ticket) = session.transact_async(|tx| {
            tx.update(accounts, &from, |balance| balance - amount)?;
            tx.update(accounts, &to, |balance| balance + amount)
        })?;
        unwaited += 1;
        if unwaited == UNWAITED_MAX {
            session.wait(&ticket)?;
            unwaited = 0;
        }
    }
    session.flush()
}

/// Opens views one after the other and scans them; one stays open while the next ones are read.
/// Returns the number of scans.
fn look(
    db: &Database,
    accounts: &Table<u64, i64>,
    go_on: impl Fn() -> bool,
) -> Result<u64, String> {
    let (mut opened, mut scans) = (0_u64, 0);
    let mut last = Stamp(0);
    let mut old: Option<View> = None;
    while go_on() {
        let view = db.view().map_err(|error| error.to_string())?;
        let stamp = view.stamp();
        if stamp < last {
            return Err(format!("a view at {stamp} comes after one at {last}"));
        }
        last = stamp;
        scan(&view, accounts, Direction::Forward)?;
        opened += 1;
        scans += 1;
        if opened.is_multiple_of(VIEWS_OF_OLD)
            && let Some(old) = old.replace(view)
        {
            scan(&old, accounts, Direction::Backward)?;
            scans += 1;
        }
    }
    Ok(scans)
}

/// Adds all balances up.
fn scan(view: &View, accounts: &Table<u64, i64>, direction: Direction) -> Result<(), String> {
    let (mut sum, mut count) = (0, 0);
    let scanned = view.scan_with(accounts, .., direction, |_, balance| {
        sum += balance;
        count += 1;
        ControlFlow::Continue(())
    });
    scanned.map_err(|error| error.to_string())?;
    if (sum, count) == (BALANCE * ACCOUNTS as i64, ACCOUNTS) {
        Ok(())
    } else {
        Err(format!(
            "a view at {} has {count} accounts with {sum}",
            view.stamp()
        ))
    }
}
