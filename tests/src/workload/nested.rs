//! Sessions that run inside one another, on one thread, so that bugs can be planted.
//!
//! Between any two steps of a transaction, another one may run from its beginning to its end on the
//! next session, and a third one inside that.

use namiki::faults::Checks;
use namiki::{Error, Session};
use namiki_platform::seeded_random::Random;

use super::{Attempt, Mix, Numbers, Run};

struct Nest<'a> {
    table: &'a Numbers,
    mix: Mix,
    random: Random,
    run: Run,
    started: u64,
}

/// Runs at least `transactions` transactions, nested as deeply as there are sessions.
///
/// # Errors
/// Errors of the engine other than conflicts.
pub fn run<C: Checks>(
    sessions: &mut [Session],
    table: &Numbers,
    mix: Mix,
    seed: u64,
    transactions: u64,
) -> Result<Run, Error> {
    let mut nest = Nest {
        table,
        mix,
        random: Random::seeded(seed),
        run: Run::default(),
        started: 0,
    };
    while nest.started < transactions {
        nest.one::<C>(sessions)?;
        for session in sessions.iter() {
            session.flush()?;
        }
    }
    Ok(nest.run)
}

impl Nest<'_> {
    fn one<C: Checks>(&mut self, sessions: &mut [Session]) -> Result<(), Error> {
        let Some((session, inner)) = sessions.split_first_mut() else {
            return Ok(());
        };
        self.started += 1;
        let mut attempt = Attempt::new(self.started);
        let steps = self.mix.steps(&mut self.random, self.started);
        let ended = session.try_faulty::<C, _>(|tx| {
            for step in steps {
                while self.random.chance(0.3) {
                    self.one::<C>(inner)?;
                }
                attempt.step(tx, self.table, step, &mut self.random)?;
            }
            while self.random.chance(0.3) {
                self.one::<C>(inner)?;
            }
            Ok(())
        });
        match ended {
            Ok(((), ticket)) => {
                self.run.committed(attempt, ticket.stamp());
                if self.random.chance(0.5) {
                    session.flush()?;
                }
                Ok(())
            }
            Err(Error::Conflict(_)) => {
                self.run.conflicts += 1;
                session.flush()
            }
            Err(error) => Err(error),
        }
    }
}
