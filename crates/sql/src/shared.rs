//! What all connections to one database share.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use namiki::{Database, Ticket};
use parking_lot::RwLock;
use tokio::runtime::Handle;
use tokio::sync::watch;

use crate::catalogue::{Catalogue, Sequences};
use crate::ddl::{Effects, remove_marker};
use crate::engine_options::EngineOptions;
use crate::error::SqlResult;
use crate::front_end::FrontEnd;
use crate::pools::{Pools, failed_task};
use crate::row_locks::RowLocks;
use crate::stats::Counters;
use crate::storage::Storage;
use crate::text_cache::TextCache;
use crate::views::Views;

/// What all connections to one database share.
pub(crate) struct Shared {
    pub(crate) db: Database,
    pub(crate) options: EngineOptions,
    pub(crate) catalogue: Arc<Catalogue>,
    pub(crate) storage: Arc<Storage>,
    pub(crate) sequences: Arc<Sequences>,
    pub(crate) front_end: FrontEnd,
    pub(crate) cache: TextCache,
    pub(crate) views: Views,
    pub(crate) row_locks: Arc<RowLocks>,
    pub(crate) counters: Counters,
    /// Versions of the tables that were changed since the opening; `None`: dropped. See [`is_outdated`](Self::is_outdated).
    pub(crate) versions: RwLock<HashMap<u32, Option<u64>>>,
    /// The number of changes of the catalogue: statements that wait for one watch it.
    pub(crate) changes: watch::Sender<u64>,
    /// The same number.
    pub(crate) change_number: AtomicU64,
    pub(crate) pools: Arc<Pools>,
}

impl Shared {
    /// The second pool.
    pub(crate) fn pool(&self) -> &Handle {
        &self.pools.statements
    }

    /// Runs this where it may block.
    ///
    /// # Errors
    /// What it returns; XX000 if it panics.
    pub(crate) async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> SqlResult<T> {
        let done = self.pool().spawn_blocking(work).await;
        done.map_err(|error| failed_task(&error))
    }

    /// A transaction that has changed the catalogue is durable.
    pub(crate) fn committed(self: &Arc<Self>, effects: Effects) {
        for id in &effects.sequences {
            self.sequences.forget(*id);
        }
        self.versions.write().extend(effects.versions);
        self.note_change();
        self.remove_later([effects.obsolete, effects.given_up].concat());
    }

    /// The same, for a commit whose client has gone. If it does not become durable, the next opening finds out
    /// what is named.
    pub(crate) fn committed_once_durable(self: &Arc<Self>, ticket: Ticket, effects: Effects) {
        let shared = Arc::clone(self);
        self.pool().spawn(async move {
            if shared.db.acknowledged(ticket).await.is_ok() {
                shared.committed(effects);
            }
        });
    }

    /// Says that the catalogue has changed, or a marker was removed.
    fn note_change(&self) {
        self.change_number.fetch_add(1, Ordering::Release);
        self.changes.send_modify(|changes| *changes += 1);
    }

    /// The number of changes so far. Cheaper than a look at `changes`, which takes a lock.
    pub(crate) fn change_number(&self) -> u64 {
        self.change_number.load(Ordering::Acquire)
    }

    /// Whether a plan was made for tables as they are no more. Only a hint, which keeps a transaction from reading rows of
    /// the catalogue that are gone: it reads the versions that it needs.
    pub(crate) fn is_outdated(&self, tables: &[(u32, u64)]) -> bool {
        let versions = self.versions.read();
        let is_older = |(id, version): &(u32, u64)| match versions.get(id) {
            Some(Some(latest)) => latest > version,
            Some(None) => true,
            None => false,
        };
        !versions.is_empty() && tables.iter().any(is_older)
    }

    /// A transaction that was to change the catalogue was rolled back.
    pub(crate) fn rolled_back(self: &Arc<Self>, effects: Effects) {
        if !effects.marked.is_empty() {
            let (shared, marked) = (Arc::clone(self), effects.marked);
            self.pool().spawn_blocking(move || {
                for id in marked {
                    // What cannot be removed now is at the next opening.
                    let _ = remove_marker(&shared.db, &shared.catalogue, id);
                }
                shared.note_change();
            });
        }
        for id in effects.own_sequences.keys() {
            self.sequences.forget(*id);
        }
        let mut unnamed = effects.given_up;
        unnamed.extend(effects.created);
        self.remove_later(unnamed);
    }

    fn remove_later(self: &Arc<Self>, numbers: Vec<u64>) {
        if numbers.is_empty() {
            return;
        }
        let shared = Arc::clone(self);
        self.pool().spawn_blocking(move || {
            for number in numbers {
                // As above.
                let _ = shared.storage.remove(number);
            }
        });
    }
}
