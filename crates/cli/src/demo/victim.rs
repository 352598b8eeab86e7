//! The victim process: it loads the accounts and pays until it is killed.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};
use std::num::NonZeroU16;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use clap::Args;
use namiki::{Database, Error, ProtocolSpec, Session, Ticket, WorkerId};
use namiki_platform::seeded_random::Random;
use namiki_terminal::CommandFailure;

use super::ledger::{AMOUNT_MAX, INITIAL_BALANCE, Ledger, Payment};
use super::pipe_message::{MESSAGE_BYTES, Message};
use crate::failure::Failure;

/// The name of the hidden command.
pub(crate) const VICTIM_COMMAND: &str = "demo-victim";

/// Number of accounts that one transaction loads.
const LOAD_BATCH: u64 = 1000;
/// Number of a thread's payments that may wait for durability at the same time.
const WAITING_MAX: usize = 64;
/// A payment's id holds its thread above this many bits and counts within them.
const ID_COUNT_BITS: u32 = 40;

// One write of at most 4096 bytes into a pipe is atomic, so threads need no lock, and their
// messages are never interleaved.
const _: () = assert!(WAITING_MAX * MESSAGE_BYTES <= 4096);

/// Arguments of the victim.
#[derive(Args)]
pub(crate) struct VictimArguments {
    /// The directory of the database
    #[arg(long)]
    pub(super) dir: PathBuf,
    /// Number of accounts to load
    #[arg(long)]
    pub(super) accounts: u64,
    /// Number of paying threads
    #[arg(long)]
    pub(super) threads: NonZeroU16,
    /// The commit protocol
    #[arg(long)]
    pub(super) spec: ProtocolSpec,
}

/// Loads and pays, and reports through standard output, until it is killed or its reader is gone.
pub(crate) fn run(arguments: &VictimArguments) -> Result<(), Failure> {
    // The descriptor itself, because the standard library's output is buffered.
    let pipe = io::stdout()
        .as_fd()
        .try_clone_to_owned()
        .map(File::from)
        .map_err(CommandFailure::Output)?;
    let db = Database::builder()
        .spec(arguments.spec)
        .streams(arguments.threads)
        .open(&arguments.dir)?;
    let victim = Victim {
        ledger: Ledger::open(&db)?,
        db,
        pipe,
        accounts: arguments.accounts,
        next_account: AtomicU64::new(0),
        stop: AtomicBool::new(false),
    };
    victim.on_all(arguments.threads, Victim::load)?;
    victim.tell(&Message::Paying.encode())?;
    victim.on_all(arguments.threads, Victim::pay)
}

struct Victim {
    db: Database,
    ledger: Ledger,
    pipe: File,
    accounts: u64,
    next_account: AtomicU64,
    /// Another thread has failed.
    stop: AtomicBool,
}

impl Victim {
    fn on_all(
        &self,
        threads: NonZeroU16,
        work: impl Fn(&Self, u16) -> Result<(), Failure> + Copy + Send,
    ) -> Result<(), Failure> {
        let run = move |thread| {
            let done = work(self, thread);
            if done.is_err() {
                self.stop.store(true, Ordering::Relaxed);
            }
            done
        };
        std::thread::scope(|scope| {
            let running: Vec<_> = (0..threads.get())
                .map(|thread| scope.spawn(move || run(thread)))
                .collect();
            // Waits for all threads, and reports the first failure.
            let mut all = Ok(());
            for running in running {
                let done = running
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                all = all.and(done);
            }
            all
        })
    }

    fn tell(&self, messages: &[u8]) -> Result<(), Failure> {
        (&self.pipe).write_all(messages).map_err(Failure::output)
    }

    fn load(&self, thread: u16) -> Result<(), Failure> {
        let mut session = self.db.session_on(WorkerId(thread))?;
        loop {
            let first = self.next_account.fetch_add(LOAD_BATCH, Ordering::Relaxed);
            if first >= self.accounts || self.stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            let batch = first..self.accounts.min(first + LOAD_BATCH);
            session.transact(|tx| {
                for account in batch.clone() {
                    tx.put(&self.ledger.accounts, &account, &INITIAL_BALANCE)?;
                }
                Ok(())
            })?;
            self.tell(&Message::Loaded(batch.end - batch.start).encode())?;
        }
    }

    fn pay(&self, thread: u16) -> Result<(), Failure> {
        let mut session = self.db.session_on(WorkerId(thread))?;
        let seed = u64::from(std::process::id());
        let mut random = Random::stream(seed, u64::from(thread));
        // In the order of their commits, as the paper's commitQueue.
        let mut waiting = VecDeque::<(u64, Ticket)>::new();
        let mut said = Vec::new();
        for count in 1.. {
            if self.stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            let id = u64::from(thread) << ID_COUNT_BITS | count;
            let from = random.below(self.accounts);
            let payment = Payment {
                from,
                // Any account except the paying one.
                to: (from + 1 + random.below(self.accounts - 1)) % self.accounts,
                amount: 1 + random.below(AMOUNT_MAX) as i64,
            };
            match session.transact_async(|tx| self.ledger.pay(tx, id, &payment)) {
                Ok((true, ticket)) => waiting.push_back((id, ticket)),
                Ok((false, _)) => {}
                Err(Error::TooManyConflicts { .. }) => {}
                Err(error) => return Err(Failure::Transaction(error)),
            }
            self.acknowledge(&session, &mut waiting, &mut said)?;
        }
        Ok(())
    }

    /// Reports the acknowledged payments at the front of the queue; first waits for one if too many
    /// are unacknowledged.
    fn acknowledge(
        &self,
        session: &Session,
        waiting: &mut VecDeque<(u64, Ticket)>,
        said: &mut Vec<u8>,
    ) -> Result<(), Failure> {
        if waiting.len() >= WAITING_MAX
            && let Some((_, first)) = waiting.front()
        {
            session.wait(first)?;
        }
        said.clear();
        while let Some((id, ticket)) = waiting.front()
            && session.is_acknowledged(ticket)
        {
            said.extend_from_slice(&Message::Acknowledged(*id).encode());
            waiting.pop_front();
        }
        if said.is_empty() {
            return Ok(());
        }
        self.tell(said)
    }
}
