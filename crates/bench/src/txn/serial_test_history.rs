//! A serial execution of a run's transactions, as a test case for the checks.

use namiki_platform::seeded_random::Random;

use super::body::amount;
use super::thread_commits::Done;
use super::workload::{Choice, HotKeys, Ring, Workload, tag};

pub(crate) const RECORDS: u64 = 100;
/// Transactions of each thread before its keys repeat.
const ROUND: u64 = 300;

/// A run.
pub(crate) struct History {
    pub(crate) workload: Workload,
    pub(crate) threads: Vec<Done>,
    /// All transactions in commit order.
    pub(crate) steps: Vec<Step>,
}

/// A transaction, with the records and values that it wrote.
pub(crate) struct Step {
    pub(crate) thread: usize,
    pub(crate) number: u64,
    pub(crate) writes: Vec<(usize, u64)>,
}

impl Step {
    pub(crate) fn is(&self, other: &Self) -> bool {
        (self.thread, self.number) == (other.thread, other.number)
    }
}

impl History {
    /// Runs `commits` transactions of each thread in random interleaving.
    pub(crate) fn play(workload: Workload, threads: usize, commits: u64) -> Self {
        let choice = Choice {
            records: RECORDS,
            skew: 0.5,
            hot_keys: HotKeys::Scattered,
            seed: 1,
        };
        let ring = |thread| Ring::new(workload, choice, thread, ROUND);
        let done = |thread| Done::new(workload, thread, ring(thread), 0);
        let mut history = Self {
            workload,
            threads: (0..threads).map(done).collect(),
            steps: Vec::new(),
        };
        let mut table = history.table();
        let mut random = Random::stream(2, 0);
        for _ in 0..threads as u64 * commits {
            let behind = history.threads.iter().filter(|it| it.committed() < commits);
            let behind: Vec<usize> = behind.map(|done| done.thread).collect();
            let next = behind[random.below(behind.len() as u64) as usize];
            history.step(next, &mut table);
        }
        history
    }

    fn step(&mut self, thread: usize, table: &mut [u64]) {
        let done = &mut self.threads[thread];
        let number = done.next_number();
        let mut writes = Vec::new();
        match self.workload {
            Workload::Payment => {
                let keys = done.ring.keys(number);
                let (from, to) = (keys[0] as usize, keys[1] as usize);
                let amount = amount(tag(thread, number), keys[0]);
                if table[from] < amount {
                    done.refuse();
                } else {
                    writes = vec![(from, table[from] - amount), (to, table[to] + amount)];
                }
            }
            Workload::ReadUpdate(_) => {
                let mut counted = table.to_vec();
                for key in done.ring.keys(number) {
                    let key = *key as usize;
                    counted[key] += 1;
                    writes.push((key, counted[key]));
                }
            }
            _ => {
                let keys = done.ring.writes(self.workload, number);
                writes = keys.map(|key| (key, tag(thread, number))).collect();
            }
        }
        done.commit();
        for (key, value) in &writes {
            table[*key] = *value;
        }
        self.steps.push(Step {
            thread,
            number,
            writes,
        });
    }

    /// The final values after all transactions.
    pub(crate) fn table(&self) -> Vec<u64> {
        self.table_without(|_| false)
    }

    /// The final values if some transactions are lost.
    pub(crate) fn table_without(&self, lost: impl Fn(&Step) -> bool) -> Vec<u64> {
        let mut table: Vec<u64> = (0..RECORDS)
            .map(|key| self.workload.first_tag(key))
            .collect();
        for step in self.steps.iter().filter(|step| !lost(step)) {
            for (key, value) in &step.writes {
                table[*key] = *value;
            }
        }
        table
    }
}
