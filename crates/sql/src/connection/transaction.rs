//! The connection's transaction: beginning, committing, rolling back, and repeating after conflicts.

use std::sync::Arc;

use namiki::{Session, Ticket, Transaction};
use parking_lot::Mutex;

use super::{Block, Connection, shared};
use crate::cancel::Cancelled;
use crate::ddl::Effects;
use crate::error::{SqlError, SqlResult};
use crate::program::{Environment, Guard};
use crate::shared::Shared;
use crate::sqlstate;
use crate::stats::count;
use crate::storage::{ReadHandle, Reader};
use crate::types::now_micros;

/// Rows that a program visits or changes on the calling thread, which serves other clients, too: a millisecond or two.
pub(super) const ROWS_HERE_MAX: usize = 2048;
/// How often a message is repeated after conflicts.
const REPEATS_MAX: u32 = 1000;

/// Runs this in the running transaction of a session.
pub(super) fn statement<T>(
    session: &mut Session,
    body: impl FnOnce(&mut Transaction) -> SqlResult<T>,
) -> SqlResult<T> {
    session.statement(|tx| match body(tx) {
        Err(error) if error.is_final() => {
            // What a refusal is based on has to be of one moment; if it is not, the conflict is the error.
            Err(error.told_after(tx.end_statement()?))
        }
        done => done,
    })
}

impl Connection {
    /// The session, made if it is not there.
    pub(super) fn session(&mut self) -> SqlResult<&mut Session> {
        if self.session.is_none() {
            self.session = Some(Box::new(self.shared.db.session_on(self.worker)?));
        }
        match &mut self.session {
            Some(session) => Ok(session),
            None => Err(SqlError::new(
                sqlstate::INTERNAL_ERROR,
                "the connection has no session",
            )),
        }
    }

    /// Begins a transaction unless one runs.
    pub(super) fn ensure_begun(&mut self) -> SqlResult<()> {
        if !self.session()?.is_running() {
            self.session()?.begin()?;
            self.now = now_micros();
        }
        Ok(())
    }

    /// What expressions may use.
    pub(super) fn environment(
        &self,
        parameters: &Arc<[namiki_data::columns::Datum]>,
    ) -> Environment {
        Environment {
            parameters: Arc::clone(parameters),
            now: self.now,
            zone: self.settings.zone(),
            guard: Guard {
                cancelled: self.running.clone(),
                rows_max: self.shared.options.scan_rows_max,
                written_bytes_max: self.shared.options.written_bytes_max,
                rows_here_max: Some(ROWS_HERE_MAX),
            },
            session: self.number,
        }
    }

    /// Runs this in the running transaction.
    pub(super) fn in_transaction<T>(
        &mut self,
        body: impl FnOnce(&mut Transaction) -> SqlResult<T>,
    ) -> SqlResult<T> {
        statement(self.session()?, body)
    }

    /// Lends the running transaction to work on other threads, until it ends or the statement is cancelled.
    ///
    /// # Errors
    /// Those of the work; 57014 after a cancellation.
    pub(super) async fn lend_session<T, F: Future<Output = SqlResult<T>>>(
        &mut self,
        cancelled: &Cancelled,
        work: impl FnOnce(ReadHandle) -> F,
    ) -> SqlResult<T> {
        let slot = Arc::new(Mutex::new(self.session.take()));
        let work = work(ReadHandle::Session(Arc::clone(&slot)));
        let done = cancelled.unless(work).await;
        // What may still hold the handle finds no session any more.
        self.session = slot.lock().take();
        done?
    }

    /// Waits until a commit is durable. The future borrows nothing, so that a task may move between threads.
    pub(super) fn acknowledged(
        &self,
        ticket: Ticket,
    ) -> impl Future<Output = SqlResult<()>> + Send + use<> {
        let shared = shared(self);
        async move {
            if shared.db.is_acknowledged(&ticket) {
                return Ok(());
            }
            let waiting = shared.db.acknowledged(ticket);
            if shared.options.flushed_by_caller {
                waiting.flushed_by_caller().await?;
            } else {
                waiting.await?;
            }
            Ok(())
        }
    }

    /// An error that may be told: what it is based on is durable. Otherwise that is the error.
    pub(super) async fn tellable(&self, mut error: SqlError) -> SqlError {
        if error.asks_for_sequence() {
            // Only a kept plan that is older than the drop asks for it.
            return SqlError::new(sqlstate::UNDEFINED_TABLE, "the sequence does not exist");
        }
        match error.take_ticket() {
            Some(ticket) => self.acknowledged(ticket).await.err().unwrap_or(error),
            None => error,
        }
    }

    /// Commits the running transaction; when this returns, it is durable.
    pub(super) async fn commit(&mut self) -> SqlResult<()> {
        let mut ending = Ending {
            shared: shared(self),
            effects: std::mem::take(&mut self.effects),
            ticket: None,
        };
        let committed = self.commit_session(&mut ending).await;
        self.savepoints.clear();
        self.read_only = false;
        self.block = Block::Idle;
        self.settings.end(committed.is_ok());
        match committed {
            Ok(()) => {
                count(&self.shared.counters.commits);
                self.is_repeatable = false;
                ending.has_become_durable();
                Ok(())
            }
            Err(error) => {
                ending.has_failed(&error);
                Err(error)
            }
        }
    }

    async fn commit_session(&mut self, ending: &mut Ending) -> SqlResult<()> {
        // Taken out, so that a future that is dropped in the middle leaves no half session.
        let Some(mut session) = self.session.take() else {
            return ending.check_nothing_is_lost();
        };
        if !session.is_running() {
            self.session = Some(session);
            return ending.check_nothing_is_lost();
        }
        let committed = session.commit().await;
        self.session = Some(session);
        // Whoever waits for a row reads what was committed; it is shown when it is durable.
        self.unlock_rows();
        let ticket = committed?;
        ending.ticket = Some(ticket);
        self.acknowledged(ticket).await
    }

    /// Rolls the running transaction back.
    pub(super) fn roll_back(&mut self, to: Block) {
        if let Some(session) = &mut self.session {
            session.rollback();
        }
        self.unlock_rows();
        let effects = std::mem::take(&mut self.effects);
        if !effects.is_empty() {
            self.shared.rolled_back(effects);
        }
        self.savepoints.clear();
        self.copy = None;
        self.block = to;
        if to == Block::Idle {
            self.read_only = false;
            self.settings.end(false);
        }
    }

    /// The end of a message or a pipeline of messages: commits the transaction that they were part of, unless BEGIN has
    /// made it a block.
    ///
    /// # Errors
    /// 40001 after a conflict: nothing of it has happened. 08007 if it is not known.
    pub async fn sync(&mut self) -> SqlResult<()> {
        self.end_statement();
        let committed = if self.block == Block::Implicit {
            self.commit().await
        } else {
            Ok(())
        };
        if committed.is_ok() {
            self.is_repeatable = self.block == Block::Idle;
            self.repeats = 0;
        }
        committed
    }

    /// An error was reported to the client: the transaction of the messages since the last `sync` ends, and a block has
    /// failed.
    pub fn failed(&mut self) {
        self.end_statement();
        match self.block {
            Block::Idle | Block::Implicit => self.roll_back(Block::Idle),
            Block::Explicit => {
                if self.savepoints.is_empty() {
                    self.roll_back(Block::Failed);
                } else {
                    // ROLLBACK TO SAVEPOINT needs the transaction.
                    self.block = Block::Failed;
                }
            }
            Block::Failed => {}
        }
        self.is_repeatable = self.block == Block::Idle;
        self.repeats = 0;
    }

    /// After a conflict: rolls back, waits for a while, and says whether the messages since the last `sync` may be run
    /// again. Their output has to be forgotten first.
    ///
    /// # Errors
    /// The error, if they may not: it is no conflict, or a part of them has committed, or they began in a block.
    pub async fn prepare_repeat(&mut self, error: SqlError) -> SqlResult<()> {
        if !error.is_retryable() || !self.is_repeatable || self.repeats >= REPEATS_MAX {
            if error.is_retryable() {
                count(&self.shared.counters.conflicts_reported);
            }
            return Err(error);
        }
        self.repeats += 1;
        count(&self.shared.counters.repeats);
        self.roll_back(Block::Idle);
        self.back_off().await;
        Ok(())
    }

    /// Waits for a while after a conflict, longer each time.
    pub(super) async fn back_off(&mut self) {
        if let Some(mut session) = self.session.take() {
            session.back_off().await;
            self.session = Some(session);
        }
    }

    /// Whether the tables of a plan are those that it was made for. It counts as a read of their rows in the catalogue.
    ///
    /// # Errors
    /// One that says that the statement has to be planned again.
    pub(super) fn check_versions(
        shared: &Shared,
        reader: &mut Reader<'_>,
        tables: &[(u32, u64)],
    ) -> SqlResult<()> {
        for (id, version) in tables {
            if !shared.catalogue.is_version(reader, *id, *version)? {
                return Err(SqlError::stale_plan());
            }
        }
        Ok(())
    }
}

/// The end of a transaction that changes the catalogue. The future that waits for it may be dropped, as the client has
/// gone: what the transaction has made is then dropped only if it has not committed.
struct Ending {
    shared: Arc<Shared>,
    effects: Effects,
    /// The commit's, once it is sure to be ordered. Before, a future that is dropped rolls back.
    ticket: Option<Ticket>,
}

impl Ending {
    /// Without a transaction, nothing may have been made by one: a panic has ended it.
    fn check_nothing_is_lost(&self) -> SqlResult<()> {
        if self.effects.is_empty() {
            return Ok(());
        }
        Err(SqlError::new(
            sqlstate::INTERNAL_ERROR,
            "the transaction is gone",
        ))
    }

    /// The commit is durable.
    fn has_become_durable(mut self) {
        let effects = std::mem::take(&mut self.effects);
        if !effects.is_empty() {
            self.shared.committed(effects);
        }
    }

    /// The commit was refused, or is not known to be durable. The next opening finds out what is named then.
    fn has_failed(mut self, error: &SqlError) {
        let effects = std::mem::take(&mut self.effects);
        let is_unknown =
            self.ticket.is_some() || error.sqlstate() == sqlstate::TRANSACTION_RESOLUTION_UNKNOWN;
        if !effects.is_empty() && !is_unknown {
            self.shared.rolled_back(effects);
        }
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        let effects = std::mem::take(&mut self.effects);
        if effects.is_empty() {
            return;
        }
        match self.ticket {
            None => self.shared.rolled_back(effects),
            Some(ticket) => self.shared.committed_once_durable(ticket, effects),
        }
    }
}
