//! A client's connection: its transaction, its settings, and the statements that it runs.
//!
//! ```text
//!  Idle ──BEGIN──► Block ──error──► Failed ──ROLLBACK──► Idle
//!    └─Part────► Implicit ──sync──► Idle
//! ```
//! *Implicit* is the transaction of several statements between two synchronisation points of the protocol.

mod copy_in;
mod copy_lines;
mod copy_out;
mod create_table_as;
mod execute;
mod found_rows;
mod kept_rows;
mod portal;
mod prepare;
mod progress;
mod row_locking;
mod run_change;
mod run_ddl;
mod run_select;
mod transaction;
mod utility;

use std::sync::Arc;

use namiki::{Savepoint, Session, WorkerId};

use crate::cancel::{CancelHandle, Cancelled};
use crate::change::RowNumbers;
use crate::ddl::Effects;
use crate::error::{Notice, SqlResult};
use crate::front_end::SessionInfo;
use crate::pools::TaskGuard;
use crate::row_locks::{RowId, RowLock};
use crate::settings::Settings;
use crate::shared::Shared;
use crate::stats::count;
use copy_in::CopyIn;

pub use portal::{ColumnDescription, Deallocated, Portal, Statement};
pub use progress::{CommandTag, Progress, Scope};

/// What `ReadyForQuery` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionStatus {
    /// No transaction block.
    Idle,
    /// In a transaction block.
    InBlock,
    /// In a transaction block that has failed: only its end is accepted.
    Failed,
}

impl TransactionStatus {
    /// The byte of the protocol.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Self::Idle => b'I',
            Self::InBlock => b'T',
            Self::Failed => b'E',
        }
    }
}

/// The transaction that a connection is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Block {
    Idle,
    /// Of several statements between two synchronisation points.
    Implicit,
    /// Between BEGIN and its end.
    Explicit,
    /// The same, after an error.
    Failed,
}

/// A client's connection.
///
/// Its methods are called one after the other. Dropping it rolls an open transaction back.
pub struct Connection {
    shared: Arc<Shared>,
    /// Under which sequences know the numbers that it was given.
    number: i64,
    worker: WorkerId,
    info: SessionInfo,
    settings: Settings,
    /// Made at the first transaction; lent to the second pool while a plan reads through it. In memory of its own: it is moved
    /// for every statement.
    session: Option<Box<Session>>,
    block: Block,
    /// Whether the transaction may write nothing.
    read_only: bool,
    /// When the transaction began, in microseconds since 1970.
    now: i64,
    effects: Effects,
    savepoints: Vec<(String, Savepoint)>,
    row_numbers: RowNumbers,
    /// Rows that the block has locked.
    row_locks: Vec<RowLock>,
    /// Rows that the block has added to without locking them.
    rows_added_to: Vec<RowId>,
    notices: Vec<Notice>,
    cancel: CancelHandle,
    /// The statement that runs, or has run last.
    running: Cancelled,
    /// Its time limit, as long as it runs.
    time_limit: Option<TaskGuard>,
    copy: Option<CopyIn>,
    /// Whether the messages since the last synchronisation point began without a transaction, and have committed none.
    is_repeatable: bool,
    repeats: u32,
}

impl Connection {
    pub(crate) fn new(shared: Arc<Shared>, user: &str, database: &str, worker: u16) -> Self {
        count(&shared.counters.connections);
        Self {
            number: shared.sequences.begin_session(),
            worker: WorkerId(worker),
            info: SessionInfo {
                user: user.to_owned(),
                database: database.to_owned(),
            },
            settings: Settings::new(user),
            session: None,
            block: Block::Idle,
            read_only: false,
            now: 0,
            effects: Effects::default(),
            savepoints: Vec::new(),
            row_numbers: RowNumbers::default(),
            row_locks: Vec::new(),
            rows_added_to: Vec::new(),
            notices: Vec::new(),
            cancel: CancelHandle::default(),
            running: Cancelled::default(),
            time_limit: None,
            copy: None,
            is_repeatable: true,
            repeats: 0,
            shared,
        }
    }

    /// The state of its transaction.
    #[must_use]
    pub fn status(&self) -> TransactionStatus {
        match self.block {
            Block::Idle | Block::Implicit => TransactionStatus::Idle,
            Block::Explicit => TransactionStatus::InBlock,
            Block::Failed => TransactionStatus::Failed,
        }
    }

    /// What cancels the statement that runs, from any thread.
    #[must_use]
    pub fn cancel_handle(&self) -> CancelHandle {
        self.cancel.clone()
    }

    /// How long a transaction block may wait for its next statement (`idle_in_transaction_session_timeout`); `None`: for
    /// ever.
    #[must_use]
    pub fn idle_in_transaction_timeout(&self) -> Option<std::time::Duration> {
        self.settings.idle_in_transaction_timeout()
    }

    /// A parameter of the start-up message.
    ///
    /// # Errors
    /// 22023 for a value that the setting cannot have.
    pub fn set_startup(&mut self, name: &str, value: &str) -> SqlResult<()> {
        self.settings.set_startup(name, value)
    }

    /// All settings that the protocol reports, and their values.
    #[must_use]
    pub fn reported(&self) -> Vec<(&'static str, String)> {
        self.settings.reported()
    }

    /// The reported settings that have changed since the last call.
    pub fn take_changed(&mut self) -> Vec<(&'static str, String)> {
        self.settings.take_changed()
    }

    /// Notices of the last statements.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    /// Frees what is kept for the next transaction, unless one runs: the client has been idle for a while.
    pub fn free_memory(&mut self) {
        if self.block == Block::Idle && !self.session.as_ref().is_some_and(|it| it.is_running()) {
            self.session = None;
            self.savepoints = Vec::new();
            self.row_locks = Vec::new();
            self.rows_added_to = Vec::new();
            self.notices = Vec::new();
        }
    }

    /// The statements of a text of the simple protocol.
    ///
    /// # Errors
    /// 42601 for a literal or a comment without an end.
    pub fn split<'t>(&self, text: &'t str) -> SqlResult<Vec<&'t str>> {
        crate::syntax::split(text)
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection")
            .field("user", &self.info.user)
            .field("block", &self.block)
            .finish_non_exhaustive()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // Also what runs on another thread, for a client that has gone.
        self.cancel.cancel();
        let effects = std::mem::take(&mut self.effects);
        if let Some(session) = &mut self.session {
            session.rollback();
        }
        if !effects.is_empty() {
            self.shared.rolled_back(effects);
        }
        self.shared.sequences.end_session(self.number);
        let connections = &self.shared.counters.connections;
        connections.fetch_sub(1, std::sync::atomic::Ordering::Relaxed);
    }
}

/// The engine's parts, which a task on another thread needs.
fn shared(connection: &Connection) -> Arc<crate::shared::Shared> {
    Arc::clone(&connection.shared)
}
