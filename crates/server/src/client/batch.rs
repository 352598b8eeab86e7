//! The state of a session between two Syncs: the engine's connection, statements, portals, output.
//!
//! A batch is what lies between two Syncs, or a message of the simple protocol. After a conflict it is
//! run once more, if all its messages are still in the input buffer and none of its output was sent.

use std::collections::HashMap;

use namiki_sql::{Connection, Deallocated, Portal, RowSink as _, SqlError};

use super::statements::{Statements, bytes_of};
use crate::metrics::Count;
use crate::shared::{Charge, Context};
use crate::wire::{Bind, Output, Severity, Target};

/// The state of a batch.
pub(super) struct Batch {
    pub(super) context: Context,
    pub(super) sql: Connection,
    pub(super) output: Output,
    pub(super) statements: Statements,
    unnamed_portal: Option<Portal>,
    portals: HashMap<String, Portal>,
    /// The memory of the portals.
    portal_bytes: usize,
    /// The session's part of the budget of bytes.
    pub(super) charge: Charge,
    /// The output's mark at its beginning.
    mark: usize,
    /// Portals that it has run.
    pub(super) executed: u32,
    /// Whether all its messages are still in the input buffer.
    pub(super) is_repeatable: bool,
    /// Whether messages are skipped until Sync, because one has failed.
    pub(super) is_failed: bool,
    /// Whether the session ends when the output is sent.
    pub(super) is_fatal: bool,
}

impl Batch {
    pub(super) fn new(context: Context, sql: Connection, output: Output) -> Self {
        Self {
            charge: Charge::new(&context.shared.input),
            context,
            sql,
            mark: output.mark(),
            output,
            statements: Statements::default(),
            unnamed_portal: None,
            portals: HashMap::new(),
            portal_bytes: 0,
            executed: 0,
            is_repeatable: true,
            is_failed: false,
            is_fatal: false,
        }
    }

    /// Begins the next batch. The portals of a transaction that has ended are gone.
    pub(super) fn begin(&mut self) {
        if self.sql.status() == namiki_sql::TransactionStatus::Idle {
            self.close_portals();
        }
        self.statements.begin_batch();
        self.mark = self.output.mark();
        self.executed = 0;
        self.is_repeatable = true;
        self.is_failed = false;
    }

    /// Prepares a statement.
    pub(super) async fn parse(
        &mut self,
        name: &str,
        text: &str,
        types: &[u32],
    ) -> Result<(), SqlError> {
        let statements_max = self.context.shared.limits.statements_max;
        self.statements.check_new(name, statements_max)?;
        let statement = self.sql.prepare(text, types).await?;
        self.hold(bytes_of(name, &statement))?;
        self.statements.set(name, statement);
        self.charge.set_held(self.held_bytes());
        self.output.parse_complete();
        Ok(())
    }

    /// Makes a portal.
    pub(super) fn bind(&mut self, bind: &Bind<'_>) -> Result<(), SqlError> {
        let statement = self.statements.get(bind.statement)?;
        let portals_max = self.context.shared.limits.portals_max;
        if !bind.portal.is_empty() {
            if self.portals.contains_key(bind.portal) {
                let message = format!("cursor \"{}\" already exists", bind.portal);
                return Err(SqlError::new("42P03", message));
            }
            if self.portals.len() >= portals_max {
                let message = format!("this session has {portals_max} portals");
                return Err(SqlError::new("53400", message).with_hint(
                    "Close the ones that are not used any more, or end the transaction.",
                ));
            }
        }
        let portal = self.sql.bind(
            statement,
            &bind.parameter_formats,
            &bind.parameters,
            &bind.result_formats,
        )?;
        self.hold(portal.memory_bytes())?;
        self.put_portal(bind.portal, portal);
        self.output.bind_complete();
        Ok(())
    }

    /// Describes a statement or a portal.
    pub(super) fn describe(&mut self, target: Target<'_>) -> Result<(), SqlError> {
        let output = &mut self.output;
        let mark = output.mark();
        let (columns, formats) = match target {
            Target::Statement(name) => {
                let statement = self.statements.get(name)?;
                output.parameter_description(statement.parameters());
                // A statement's formats are not known before it is bound.
                (statement.columns(), &[][..])
            }
            Target::Portal(name) => {
                let portal = if name.is_empty() {
                    self.unnamed_portal.as_ref()
                } else {
                    self.portals.get(name)
                };
                let portal = portal.ok_or_else(|| no_portal(name))?;
                (portal.columns(), portal.formats())
            }
        };
        match columns {
            Some(columns) => output.row_description(columns, formats),
            None => output.no_data(),
        }
        if output.take_overflow() {
            output.rewind(mark);
            let message = "the parameters or columns are too many for a message of the protocol";
            return Err(SqlError::new("54011", message.to_owned()));
        }
        Ok(())
    }

    /// Closes a statement or a portal.
    pub(super) fn close(&mut self, target: Target<'_>) {
        match target {
            Target::Statement(name) => self.statements.close(name),
            // There may be none.
            Target::Portal(name) => drop(self.take_portal(name)),
        }
        self.charge.set_held(self.held_bytes());
        self.output.close_complete();
    }

    /// Takes a portal, to run it.
    pub(super) fn take_portal(&mut self, name: &str) -> Result<Portal, SqlError> {
        let portal = if name.is_empty() {
            self.unnamed_portal.take()
        } else {
            self.portals.remove(name)
        };
        let portal = portal.ok_or_else(|| no_portal(name))?;
        self.portal_bytes -= portal.memory_bytes();
        Ok(portal)
    }

    /// Puts a portal where it is found by its name.
    pub(super) fn put_portal(&mut self, name: &str, portal: Portal) {
        self.portal_bytes += portal.memory_bytes();
        let before = if name.is_empty() {
            self.unnamed_portal.replace(portal)
        } else {
            self.portals.insert(name.to_owned(), portal)
        };
        self.portal_bytes -= before.map_or(0, |it| it.memory_bytes());
        self.charge.set_held(self.held_bytes());
    }

    /// Puts a portal back that has run.
    ///
    /// # Errors
    /// 53200, if there is no room for the rows that it has found. Then it is dropped.
    pub(super) fn return_portal(&mut self, name: &str, portal: Portal) -> Result<(), SqlError> {
        if !portal.is_done() {
            self.hold(portal.memory_bytes())?;
        }
        self.put_portal(name, portal);
        Ok(())
    }

    /// Bytes that the session holds from one request to the next.
    fn held_bytes(&self) -> usize {
        self.statements.bytes() + self.portal_bytes
    }

    /// Takes further bytes from the budget of all sessions.
    ///
    /// # Errors
    /// 53200, if it is exhausted.
    fn hold(&mut self, bytes: usize) -> Result<(), SqlError> {
        let held = self.held_bytes();
        if self.charge.set_held(held + bytes) {
            return Ok(());
        }
        self.charge.set_held(held);
        let message =
            "the sessions of this server hold too many bytes of statements and parameters";
        let hint = "Close the statements and portals that are not used any more.";
        Err(SqlError::new("53200", message.to_owned()).with_hint(hint))
    }

    /// Takes bytes for the line of COPY that has not arrived completely.
    ///
    /// # Errors
    /// 53200, if the budget of all sessions is exhausted.
    pub(super) fn hold_copied(&mut self) -> Result<(), SqlError> {
        self.hold(self.sql.copy_buffered_bytes())
    }

    /// The batch will not be repeated, because its messages are not kept, or a part of it has lasting effects.
    pub(super) fn stop_repeating(&mut self) {
        self.is_repeatable = false;
        self.statements.keep_changes();
    }

    /// Forgets all portals.
    fn close_portals(&mut self) {
        self.unnamed_portal = None;
        if !self.portals.is_empty() {
            self.portals = HashMap::new();
        }
        self.portal_bytes = 0;
        self.charge.set_held(self.held_bytes());
    }

    /// Forgets prepared statements, as DEALLOCATE and DISCARD ask for.
    pub(super) fn deallocate(&mut self, portal: &Portal) {
        match portal.deallocates() {
            None => {}
            Some(Deallocated::One(name)) => self.statements.close(&name),
            Some(Deallocated::All) => self.statements.close_all(),
        }
    }

    /// Frees the memory that is kept for the next request: the session is idle.
    pub(super) fn free_memory(&mut self) {
        self.sql.free_memory();
        self.output.free_memory();
        self.statements.free_memory();
    }

    /// Prepares a repetition of the batch after an error. Returns the error if there is none: it is
    /// to be reported then.
    pub(super) async fn prepare_repeat(&mut self, error: SqlError) -> Result<(), SqlError> {
        if !self.is_repeatable || !self.output.can_rewind(self.mark) {
            return Err(error);
        }
        self.sql.prepare_repeat(error).await?;
        self.output.rewind(self.mark);
        self.statements.undo_batch();
        self.close_portals();
        self.executed = 0;
        self.context.counters().increment(Count::Repeats);
        Ok(())
    }

    /// Reports an error. Messages are skipped until the next Sync.
    pub(super) fn report(&mut self, error: &SqlError) {
        self.sql.failed();
        self.put_notices();
        self.is_failed = true;
        self.context.counters().increment(Count::Errors);
        if error.is_fatal() {
            self.is_fatal = true;
            self.output.error(Severity::Fatal, error);
        } else {
            self.output.error(Severity::Error, error);
        }
    }

    /// Writes the notices of a statement.
    pub(super) fn put_notices(&mut self) {
        for notice in self.sql.take_notices() {
            self.output.notice(&notice);
        }
    }

    /// Ends a request: settings that have changed, and ReadyForQuery.
    pub(super) fn put_ready(&mut self) {
        for (name, value) in self.sql.take_changed() {
            self.output.parameter_status(name, &value);
        }
        self.output.ready(self.sql.status());
    }
}

fn no_portal(name: &str) -> SqlError {
    SqlError::new("34000", format!("portal \"{name}\" does not exist"))
}
