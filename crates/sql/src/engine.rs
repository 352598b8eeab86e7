//! The engine: opening SQL over a database.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use namiki::{ConcurrencyControl, Database};
use tokio::sync::watch;

use crate::catalogue::{Catalogue, Relation, Sequences};
use crate::connection::Connection;
use crate::ddl::remove_marker;
use crate::engine_options::EngineOptions;
use crate::error::{SqlError, SqlResult};
use crate::front_end::FrontEnd;
use crate::pools::Pools;
use crate::row_counts::RowCounts;
use crate::row_locks::RowLocks;
use crate::shared::Shared;
use crate::stats::{Counters, EngineStats};
use crate::storage::{Reader, Storage, core_table_name};
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
    /// Those of the core; XX001 for a catalogue that cannot be read, or that names a table which has lost its rows; 0A000 for a protocol that is not strictly serializable.
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
        let pools = Arc::new(Pools::start(&options)?);
        let row_counts = RowCounts::new(db.clone(), Arc::clone(&pools));
        let front_end = FrontEnd::new(
            Arc::clone(&catalogue),
            Arc::clone(&storage),
            Arc::new(row_counts),
            &sequences,
            &options,
        )?;
        Ok(Self {
            shared: Arc::new(Shared {
                views: Views::new(db.clone(), pools.statements.clone()),
                row_locks: Arc::new(RowLocks::default()),
                cache: TextCache::new(options.text_cache_entries),
                db,
                options,
                catalogue,
                storage,
                sequences,
                front_end,
                counters: Counters::default(),
                versions: parking_lot::RwLock::default(),
                changes: watch::Sender::new(0),
                change_number: AtomicU64::new(0),
                pools,
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
        self.shared.pools.close().await;
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine")
            .field("options", &self.shared.options)
            .finish_non_exhaustive()
    }
}

/// Whether every table and index that the catalogue names has its core table.
///
/// # Errors
/// XX001 with the names of those that have not.
fn check_storage(relations: &[Arc<Relation>], storage: &Storage) -> SqlResult<()> {
    let there: std::collections::HashSet<u64> = storage.numbers().into_iter().collect();
    let mut missing = Vec::new();
    for row in relations.iter().map(|relation| &relation.row) {
        if !there.contains(&row.storage) {
            missing.push(format!(
                "the rows of table \"{}\" (core table {})",
                row.name,
                core_table_name(row.storage)
            ));
        }
        for index in &row.indexes {
            if !there.contains(&index.storage) {
                missing.push(format!(
                    "the entries of index \"{}\" on table \"{}\" (core table {})",
                    index.name,
                    row.name,
                    core_table_name(index.storage)
                ));
            }
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    Err(SqlError::corrupted(format!(
        "the database has lost {}: restore it from a backup; `namiki check` says what else is damaged",
        missing.join(", ")
    )))
}

/// After a crash: markers and core tables that no command needs any more.
fn clean_up(db: &Database, catalogue: &Catalogue, storage: &Storage) -> SqlResult<()> {
    let view = db.view()?;
    let relations = catalogue.relations(&mut Reader::View(&view))?;
    check_storage(&relations, storage)?;
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
