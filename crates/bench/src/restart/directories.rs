//! The directories to reopen. A child process fills each one and then ends in the requested way.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use clap::ValueEnum;
use namiki::{Database, ProtocolSpec};
use namiki_platform::seeded_random::Random;

use crate::error::BenchError;
use crate::interrupt;

/// The one table.
pub(super) const TABLE: &str = "records";
/// Number of rows in each transaction of the load.
const ROWS_TOGETHER: u64 = 1000;

/// The way in which the previous process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Ending {
    /// It closed the database right after a checkpoint.
    Closed,
    /// It made updates after the checkpoint, and was killed.
    Killed,
}

impl Ending {
    /// The name on the command line.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Killed => "killed",
        }
    }
}

/// The content of a directory.
pub(super) struct Contents {
    pub(super) spec: ProtocolSpec,
    pub(super) records: u64,
    pub(super) updates: u64,
    pub(super) seed: u64,
    pub(super) ending: Ending,
}

/// The value of a record: the initial one, or that of the update with this number.
pub(super) fn value_of(key: u64, version: u64) -> [u8; 100] {
    let mut value = [0; 100];
    for (place, byte) in value.iter_mut().enumerate() {
        *byte = (key >> (place % 5 * 8)) as u8 ^ (version >> (place % 4 * 8)) as u8;
    }
    value[..8].copy_from_slice(&version.to_le_bytes());
    value
}

impl Contents {
    /// The final version of each record: 0, or the number of its last update.
    pub(super) fn versions(&self) -> Vec<u64> {
        let mut versions = vec![0; self.records as usize];
        if self.ending == Ending::Killed {
            for (key, version) in self.update_keys().zip(1..) {
                versions[key as usize] = version;
            }
        }
        versions
    }

    fn update_keys(&self) -> impl Iterator<Item = u64> {
        let (mut random, records) = (Random::seeded(self.seed), self.records);
        (0..self.updates).map(move |_| random.below(records))
    }

    /// Fills a directory in a child process.
    pub(super) fn make(&self, dir: &Path) -> Result<(), BenchError> {
        let program = std::env::current_exe().map_err(BenchError::system("name this program"))?;
        let numbers = [
            ("--records", self.records),
            ("--updates", self.updates),
            ("--seed", self.seed),
        ];
        let mut command = Command::new(&program);
        command.arg("restart").arg("--fill").arg(dir);
        command.args(["--spec", &self.spec.to_string()]);
        command.args(["--ending", self.ending.name()]);
        for (flag, number) in numbers {
            command.args([flag, &number.to_string()]);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let child = command.spawn().map_err(BenchError::file("run", &program))?;
        let mut child = KilledOnDrop(child);
        // The child writes one byte when all is acknowledged.
        let mut said = Vec::new();
        if let Some(stdout) = &mut child.0.stdout {
            let read = stdout.take(1).read_to_end(&mut said);
            read.map_err(BenchError::system("listen to the process that writes"))?;
        }
        interrupt::check()?;
        if said.is_empty() {
            Err(BenchError::Check(
                "the process that writes has failed".to_owned(),
            ))
        } else {
            Ok(())
        }
    }

    /// Fills a directory: the work of the child process. It ends by being killed, even if it closed
    /// the database before.
    pub(super) fn fill(&self, dir: &Path) -> Result<(), BenchError> {
        let builder = Database::builder()
            .spec(self.spec)
            .checkpoint_log_bytes(u64::MAX)
            .checkpoint_at_close(None);
        let db = builder.open(dir)?;
        let table = db.table::<u64, [u8]>(TABLE)?;
        let mut session = db.session()?;
        for first in (0..self.records).step_by(ROWS_TOGETHER as usize) {
            let end = self.records.min(first + ROWS_TOGETHER);
            session.transact_async(|tx| {
                (first..end).try_for_each(|key| tx.put(&table, &key, &value_of(key, 0)))
            })?;
        }
        session.flush()?;
        db.checkpoint()?;
        if self.ending == Ending::Killed {
            let mut last = None;
            for (key, version) in self.update_keys().zip(1..) {
                let put =
                    session.transact_async(|tx| tx.put(&table, &key, &value_of(key, version)));
                last = Some(put?.1);
            }
            session.flush()?;
            if let Some(last) = last {
                session.wait(&last)?;
            }
        } else {
            drop(session);
            db.close()?;
        }
        let mut stdout = std::io::stdout();
        stdout.write_all(b".").map_err(BenchError::Output)?;
        stdout.flush().map_err(BenchError::Output)?;
        loop {
            std::thread::park();
        }
    }
}

struct KilledOnDrop(Child);

impl Drop for KilledOnDrop {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Copies a directory, including empty folders, to a path that does not exist.
pub(super) fn copy_into(from: &Path, to: &Path) -> Result<(), BenchError> {
    std::fs::create_dir_all(to).map_err(BenchError::file("create", to))?;
    for entry in std::fs::read_dir(from).map_err(BenchError::file("list", from))? {
        let path = entry.map_err(BenchError::file("list", from))?.path();
        let copy = to.join(path.file_name().unwrap_or_default());
        if path.is_dir() {
            copy_into(&path, &copy)?;
        } else {
            std::fs::copy(&path, &copy).map_err(BenchError::file("copy", &path))?;
        }
    }
    Ok(())
}
