//! A database that does not load its tables until a test allows it.

use std::ops::Deref;

use parking_lot::{Condvar, Mutex};

use super::*;
use crate::settings::builder::Builder;

/// Blocks the loading of tables, and notes which ones have begun.
#[derive(Default)]
pub(super) struct Gate {
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Default)]
struct GateState {
    is_open: bool,
    begun: Vec<String>,
}

impl Gate {
    pub(super) fn open(&self) {
        self.state.lock().is_open = true;
        self.changed.notify_all();
    }

    /// The tables of the parts that have begun to load, once there are `parts` of them.
    pub(super) fn begun(&self, parts: usize) -> Vec<String> {
        let mut state = self.state.lock();
        while state.begun.len() < parts {
            self.changed.wait(&mut state);
        }
        state.begun.clone()
    }

    fn pass(&self, table: &str) {
        let mut state = self.state.lock();
        state.begun.push(table.to_owned());
        self.changed.notify_all();
        while !state.is_open {
            self.changed.wait(&mut state);
        }
    }
}

/// A database with a gate, which is open before the database is closed.
pub(super) struct HeldLoading {
    pub(super) gate: Arc<Gate>,
    db: Database,
}

impl Deref for HeldLoading {
    type Target = Database;

    fn deref(&self) -> &Database {
        &self.db
    }
}

impl Drop for HeldLoading {
    fn drop(&mut self) {
        self.gate.open();
    }
}

impl HeldLoading {
    pub(super) fn open(builder: Builder) -> Self {
        let gate = Arc::<Gate>::default();
        let before_load = {
            let gate = Arc::clone(&gate);
            Arc::new(move |table: &str| gate.pass(table))
        };
        let db = builder.before_load(before_load).open(dir()).unwrap();
        Self { gate, db }
    }

    /// With one thread that loads.
    pub(super) fn on_one_thread(sim: &SimDisk) -> Self {
        let disk: Arc<dyn Disk> = Arc::new(sim.clone());
        let builder = Database::builder().disk(disk);
        Self::open(builder.recovery_threads(std::num::NonZeroU16::MIN))
    }
}
