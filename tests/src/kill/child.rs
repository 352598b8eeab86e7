//! The process that is killed.

use std::collections::VecDeque;
use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;

use namiki::{Database, Error, Ticket};
use namiki_platform::seeded_random::Random;

use super::{ACCOUNTS, BALANCE, Bank, Opening, attachment, told};

/// Threads that make payments.
const THREADS: u64 = 3;
/// Maximum of commits in a thread that wait for their acknowledgement.
const WAITING_MAX: usize = 40;

/// Opens the database and makes payments until the process is killed. Writes the numbers of
/// acknowledged payments to standard output, eight bytes each.
///
/// # Errors
/// The failure. A pipe without a reader is no error.
pub fn pay(opening: &Opening) -> Result<(), String> {
    let db = opening
        .builder()
        .open(&opening.dir)
        .map_err(|error| format!("cannot open: {}", told(&error)))?;
    let bank = Bank::of(&db).map_err(|error| told(&error))?;
    db.transact(|tx| {
        if tx.get(&bank.accounts, &0)?.is_none() {
            for account in 0..ACCOUNTS {
                tx.insert(&bank.accounts, &account, &BALANCE)?;
            }
        }
        Ok(())
    })
    .map_err(|error| told(&error))?;
    // Unbuffered writes to the pipe: a write of eight bytes is atomic.
    let stdout = std::io::stdout().as_fd().try_clone_to_owned();
    let pipe = File::from(stdout.map_err(|error| told(&error))?);
    std::thread::scope(|scope| {
        let (db, bank, pipe) = (&db, &bank, &pipe);
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| scope.spawn(move || pay_on(db, bank, pipe, opening.life, thread)))
            .collect();
        for thread in threads {
            let paid = thread
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            paid.map_err(|error| told(&error))?;
        }
        Ok(())
    })
}

/// Makes payments until the pipe is closed.
fn pay_on(
    db: &Database,
    bank: &Bank,
    mut pipe: &File,
    life: u64,
    thread: u64,
) -> Result<(), Error> {
    let mut session = db.session()?;
    let mut random = Random::stream(life, thread);
    let mut waiting: VecDeque<(u64, Ticket)> = VecDeque::new();
    for number in 0.. {
        let id = life << 40 | thread << 32 | number;
        let (from, to) = (random.below(ACCOUNTS), random.below(ACCOUNTS));
        let amount = 1 + random.below(20) as i64;
        let mut payment = [0; 24];
        payment[..8].copy_from_slice(&from.to_le_bytes());
        payment[8..16].copy_from_slice(&to.to_le_bytes());
        payment[16..].copy_from_slice(&amount.to_le_bytes());
        let attachment = attachment(id);
        let paid = session.transact_async(|tx| {
            let balance = tx.get(&bank.accounts, &from)?.unwrap_or(0);
            if balance < amount {
                return tx.abort("insufficient funds");
            }
            tx.put(&bank.accounts, &from, &(balance - amount))?;
            tx.update(&bank.accounts, &to, |balance| balance + amount)?;
            tx.insert(&bank.payments, &id, &payment)?;
            match &attachment {
                Some(bytes) => tx.insert(&bank.attachments, &id, &bytes[..]),
                None => Ok(()),
            }
        });
        match paid {
            Ok(((), ticket)) => waiting.push_back((id, ticket)),
            Err(Error::Aborted(_)) => {}
            Err(error) => return Err(error),
        }
        if waiting.len() > WAITING_MAX
            && let Some((_, ticket)) = waiting.front()
        {
            session.wait(ticket)?;
        }
        while let Some((id, ticket)) = waiting.front()
            && session.is_acknowledged(ticket)
        {
            if pipe.write_all(&id.to_le_bytes()).is_err() {
                return Ok(());
            }
            waiting.pop_front();
        }
    }
    Ok(())
}
