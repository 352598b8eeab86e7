//! The engine: opening SQL over a database.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use namiki::{ConcurrencyControl, Database};
use tokio::sync::{Semaphore, watch};

use crate::catalogue::{Catalogue, Sequences};
use crate::connection::Connection;
use crate::ddl::remove_marker;
use crate::error::{SqlError, SqlResult};
use crate::front_end::FrontEnd;
use crate::row_locks::RowLocks;
use crate::shared::{EngineOptions, Shared};
use crate::sqlstate;
use crate::stats::{Counters, EngineStats};
use crate::storage::{Reader, Storage};
use crate::text_cache::TextCache;
use crate::views::Views;

/// SQL over a database. A handle: cloning it is cheap.
#[derive(Clone)]
pub struct Engine {
    pub(crate) shared: Arc<Shared>,
}

impl Engine {
    /// Opens SQL over a database: makes the catalogue if it is not there, takes markers of interrupted commands away, and
    /// drops core tables that nothing names. Blocks.
    ///
    /// # Errors
    /// Those of the core; XX001 for a catalogue that cannot be read; 0A000 for a protocol that is not strictly serializable.
    pub fn open(db: Database, options: EngineOptions) -> SqlResult<Self> {
        if db.spec().concurrency == ConcurrencyControl::TicToc {
            return Err(SqlError::unsupported(
                "SQL over TicToc, which is not strictly serializable,",
            )
            .with_hint("Open the database with the default protocol."));
        }
        // A table that is not loaded yet would end each transaction that meets it.
        db.wait_until_loaded()?;
        let catalogue = Arc::new(Catalogue::open(&db)?);
        let storage = Arc::new(Storage::new(db.clone()));
        clean_up(&db, &catalogue, &storage)?;
        // The counter has its row before a transaction notes that there is none.
        catalogue.numbers.next()?;
        let sequences = Arc::new(Sequences::new(db.clone(), Arc::clone(&catalogue)));
        let front_end = FrontEnd::new(
            Arc::clone(&catalogue),
            Arc::clone(&storage),
            &sequences,
            options.plan_memory_bytes,
        )?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(options.planner_threads.max(1))
            .thread_name("sql")
            .enable_time()
            .thread_stack_size(8 << 20)
            .build()
            .map_err(|error| {
                SqlError::new(
                    sqlstate::OUT_OF_MEMORY,
                    format!("cannot start threads: {error}"),
                )
            })?;
        let pool = runtime.handle().clone();
        Ok(Self {
            shared: Arc::new(Shared {
                views: Views::new(db.clone(), pool.clone()),
                row_locks: Arc::new(RowLocks::default()),
                cache: TextCache::new(options.text_cache_entries),
                long_statements: Arc::new(Semaphore::new(options.long_statements_max.max(1))),
                db,
                options,
                catalogue,
                storage,
                sequences,
                front_end,
                counters: Counters::default(),
                versions: parking_lot::RwLock::default(),
                changes: watch::Sender::new(0),
                copied_bytes: Arc::default(),
                next_statement: AtomicU64::new(1),
                pool,
                runtime: Some(runtime),
            }),
        })
    }

    /// The database.
    #[must_use]
    pub fn database(&self) -> &Database {
        &self.shared.db
    }

    /// A connection of a client. Its commits use this log stream.
    ///
    /// # Errors
    /// Those of the core.
    pub fn connect(&self, user: &str, database: &str, worker: u16) -> SqlResult<Connection> {
        Ok(Connection::new(
            Arc::clone(&self.shared),
            user,
            database,
            worker,
        ))
    }

    /// What it has done so far.
    #[must_use]
    pub fn stats(&self) -> EngineStats {
        self.shared.counters.read()
    }

    /// Waits until no statement runs on the second pool, and lets no further one begin.
    pub async fn shutdown(&self) {
        let all = self.shared.options.long_statements_max.max(1);
        let permits = u32::try_from(all).unwrap_or(u32::MAX);
        // Fails only if the semaphore was closed before.
        let _ = self.shared.long_statements.acquire_many(permits).await;
        self.shared.long_statements.close();
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine")
            .field("options", &self.shared.options)
            .finish_non_exhaustive()
    }
}

/// After a crash: markers and core tables that no command needs any more.
fn clean_up(db: &Database, catalogue: &Catalogue, storage: &Storage) -> SqlResult<()> {
    let view = db.view()?;
    let relations = catalogue.relations(&mut Reader::View(&view))?;
    let mut named = std::collections::HashSet::new();
    for relation in &relations {
        named.extend(relation.row.storages());
        if relation.has_row_numbers() {
            storage.resume_row_numbers(relation.row.storage, &view)?;
        }
    }
    drop(view);
    for relation in relations
        .iter()
        .filter(|relation| relation.row.marker.is_some())
    {
        remove_marker(db, catalogue, relation.id())?;
    }
    for number in storage.numbers() {
        if !named.contains(&number) {
            storage.remove(number)?;
        }
    }
    Ok(())
}
