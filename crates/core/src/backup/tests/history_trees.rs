//! Copies of one database at random moments: all are written further, and are backed up into one
//! directory at random.

use super::*;

/// A database's directory on a disk of its own, and where it comes from.
struct Branch {
    number: usize,
    disk: SimDisk,
    db: Option<Database>,
    /// How often it was changed.
    changes: u64,
    /// The branches that it was copied from, and the state of each at that moment.
    copied_from: Vec<(usize, Done)>,
}

/// The state of a branch: the number of its changes, and the number of steps of all branches.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Done {
    changes: u64,
    steps: u64,
}

/// The moment of a backup.
#[derive(Clone, Copy)]
struct Cut {
    branch: usize,
    done: Done,
}

#[derive(Debug, PartialEq, Eq)]
enum Expected {
    Taken,
    Refused,
    /// The two have the same contents.
    Either,
}

impl Branch {
    fn expected(&self, last: Option<Cut>) -> Expected {
        let Some(last) = last else {
            return Expected::Taken;
        };
        if last.branch == self.number {
            return Expected::Taken;
        }
        let from = self.copied_from.iter().find(|it| it.0 == last.branch);
        match from {
            Some((_, then)) if last.done.steps < then.steps => Expected::Taken,
            Some((_, then)) if last.done.changes <= then.changes => Expected::Either,
            _ => Expected::Refused,
        }
    }
}

/// Branches of one database, and one directory of backups on a disk of its own.
struct Tree {
    spec: ProtocolSpec,
    what: String,
    copies: SimDisk,
    branches: Vec<Branch>,
    last: Option<Cut>,
    steps: u64,
    random: Random,
    taken: u32,
    refused: u32,
}

impl Tree {
    fn new(spec: ProtocolSpec, seed: u64) -> Self {
        let disk = SimDisk::new();
        let db = builder(spec, &disk).open(DIR).unwrap();
        table_of(&db);
        let root = Branch {
            number: 0,
            disk,
            db: Some(db),
            changes: 0,
            copied_from: Vec::new(),
        };
        Self {
            spec,
            what: format!("{spec}, seed {seed}"),
            copies: SimDisk::new(),
            branches: vec![root],
            last: None,
            steps: 0,
            random: Random::seeded(seed),
            taken: 0,
            refused: 0,
        }
    }

    fn on(&self) -> BackupOptions {
        BackupOptions::default().disk(Arc::new(self.copies.clone()))
    }

    fn any_loss(&mut self) -> Loss {
        match self.random.below(3) {
            0 => Loss::None,
            1 => Loss::All,
            _ => Loss::Seeded(self.random.next_u64()),
        }
    }

    fn step(&mut self) {
        self.steps += 1;
        let at = self.random.below(self.branches.len() as u64) as usize;
        let spec = self.spec;
        match self.random.below(14) {
            0..4 => {
                let written = drawn(&mut self.random);
                let db = self.branches[at].db.as_ref().unwrap();
                let table = table_of(db);
                db.transact(|tx| {
                    // So that something is written in any case.
                    tx.put(&table, &KEYS, &at.to_le_bytes())?;
                    written.iter().try_for_each(|(key, value)| match value {
                        Some(value) => tx.put(&table, key, value),
                        None => tx.delete(&table, key).map(drop),
                    })
                })
                .unwrap();
                self.branches[at].changes += 1;
            }
            4 => {
                let db = self.branches[at].db.as_ref().unwrap();
                let name = format!("more-{}", self.steps);
                db.table::<u64, u64>(&name).unwrap();
                self.branches[at].changes += 1;
            }
            5 => {
                let db = self.branches[at].db.as_ref().unwrap();
                db.checkpoint().unwrap();
                self.branches[at].changes += 1;
            }
            6 => {
                let branch = &mut self.branches[at];
                branch.db.take().unwrap().close().unwrap();
                branch.db = Some(builder(spec, &branch.disk).open(DIR).unwrap());
                branch.changes += 1;
            }
            7 => {
                let loss = self.any_loss();
                let branch = &mut self.branches[at];
                branch.disk = branch.disk.crash_image(branch.disk.events(), loss);
                branch.db = Some(builder(spec, &branch.disk).open(DIR).unwrap());
                branch.changes += 1;
            }
            8 | 9 if self.branches.len() < 4 => self.copy_branch(at),
            10 => self.back_up_closed(at),
            _ => {
                let db = self.branches[at].db.as_ref().unwrap();
                let done = db.backup_with(COPY, &self.on());
                self.judge(at, done);
            }
        }
    }

    /// A copy of a closed directory, or a snapshot of one that is in use.
    fn copy_branch(&mut self, at: usize) {
        let loss = self.any_loss();
        let (number, spec) = (self.branches.len(), self.spec);
        let steps = self.steps;
        let branch = &mut self.branches[at];
        let is_closed = self.random.below(2) == 0;
        if is_closed {
            branch.db.take().unwrap().close().unwrap();
            branch.changes += 1;
        }
        let disk = branch.disk.crash_image(branch.disk.events(), loss);
        let changes = branch.changes;
        let mut copied_from = branch.copied_from.clone();
        copied_from.push((branch.number, Done { changes, steps }));
        if is_closed {
            branch.db = Some(builder(spec, &branch.disk).open(DIR).unwrap());
            branch.changes += 1;
        }
        let db = builder(spec, &disk).open(DIR).unwrap();
        self.branches.push(Branch {
            number,
            disk,
            db: Some(db),
            changes: 0,
            copied_from,
        });
    }

    /// Backs up the directory as it is after a close, or after a crash.
    fn back_up_closed(&mut self, at: usize) {
        let (loss, spec) = (self.any_loss(), self.spec);
        let on = self.on();
        let is_closed = self.random.below(2) == 0;
        let branch = &mut self.branches[at];
        let done = if is_closed {
            branch.db.take().unwrap().close().unwrap();
            branch.changes += 1;
            let done = builder(spec, &branch.disk).backup_closed(DIR, COPY, &on);
            branch.db = Some(builder(spec, &branch.disk).open(DIR).unwrap());
            done
        } else {
            let crashed = branch.disk.crash_image(branch.disk.events(), loss);
            builder(spec, &crashed).backup_closed(DIR, COPY, &on)
        };
        self.judge(at, done);
        // It was opened again.
        self.branches[at].changes += u64::from(is_closed);
    }

    fn judge(&mut self, at: usize, done: Result<BackupReport, BackupError>) {
        let branch = &self.branches[at];
        let expected = branch.expected(self.last);
        let what = format!("{}, step {}", self.what, self.steps);
        match done {
            Ok(_) => {
                assert_ne!(expected, Expected::Refused, "{what}: both histories");
                self.taken += 1;
                let (changes, steps) = (branch.changes, self.steps);
                self.last = Some(Cut {
                    branch: branch.number,
                    done: Done { changes, steps },
                });
                let order = BOTH_ORDERS[at % 2];
                let found = copied(self.spec, &self.copies, order);
                assert_eq!(found, contents(branch.db.as_ref().unwrap()), "{what}");
            }
            Err(BackupError::OtherHistory { .. }) => {
                assert_ne!(expected, Expected::Taken, "{what}: refused its own");
                self.refused += 1;
            }
            Err(error) => panic!("{what}: {error:?}"),
        }
    }
}

#[test]
fn a_backup_is_of_one_history() {
    let (mut taken, mut refused) = (0, 0);
    for (seed, spec) in (0..).zip(ProtocolSpec::tested()) {
        let mut tree = Tree::new(spec, seed);
        for _ in 0..120 {
            tree.step();
        }
        taken += tree.taken;
        refused += tree.refused;
    }
    assert!(taken > 50 && refused > 50, "{taken}, {refused}");
}
