//! Open transactions with shuffled steps, all on one thread.

use namiki::{Conflict, Database, Error, Ticket, Transaction};
use namiki_platform::seeded_random::Random;

use super::{Attempt, Mix, Numbers, Run, Step};
use crate::key_encoding::Numbered;

struct Open {
    tx: Transaction,
    attempt: Attempt,
    /// The remaining steps, last first.
    steps: Vec<Step>,
}

/// Runs `transactions` transactions, up to `open_max` at a time.
///
/// # Errors
/// Errors of the engine other than conflicts.
pub fn run(
    db: &Database,
    table: &Numbers<impl Numbered>,
    mix: Mix,
    seed: u64,
    transactions: u64,
    open_max: usize,
) -> Result<Run, Error> {
    let mut random = Random::seeded(seed);
    let mut run = Run::beginning_with(&mut db.session()?, table)?;
    let mut open: Vec<Open> = Vec::new();
    let mut tickets: Vec<Ticket> = Vec::new();
    let mut started = 0;
    while started < transactions || !open.is_empty() {
        let new = started < transactions && open.len() < open_max;
        if new && (open.is_empty() || random.chance(0.3)) {
            started += 1;
            let mut steps = mix.steps(&mut random, started);
            steps.reverse();
            open.push(Open {
                tx: db.begin()?,
                attempt: Attempt::new(started),
                steps,
            });
            continue;
        }
        let chosen = random.index(open.len());
        let one = &mut open[chosen];
        let done = match one.steps.pop() {
            Some(step) => one
                .attempt
                .step(&mut one.tx, table, step, &mut random)
                .map(|()| false),
            None => Ok(true),
        };
        let ended = match done {
            Ok(false) => continue,
            Ok(true) => {
                let Open { tx, attempt, .. } = open.swap_remove(chosen);
                if random.chance(0.05) {
                    tx.rollback();
                    continue;
                }
                tx.commit_async().map(|ticket| (attempt, ticket))
            }
            Err(error) => {
                open.swap_remove(chosen).tx.rollback();
                Err(error)
            }
        };
        match ended {
            Ok((attempt, ticket)) => {
                run.committed(attempt, ticket.stamp());
                tickets.push(ticket);
                if random.chance(0.2) {
                    db.wait(&tickets.swap_remove(random.index(tickets.len())))?;
                }
            }
            Err(Error::Conflict(conflict)) => {
                run.conflicts += 1;
                // A group of another worker holds the lock, and no other thread would flush it.
                if matches!(conflict, Conflict::ReadLocked | Conflict::WriteLocked) {
                    for ticket in tickets.drain(..) {
                        db.wait(&ticket)?;
                    }
                }
            }
            Err(error) => return Err(error),
        }
    }
    for ticket in tickets {
        db.wait(&ticket)?;
    }
    Ok(run)
}
