//! Commands without a plan.

use std::sync::Arc;

use super::portal::{Deallocated, Portal};
use super::progress::{CommandTag, Progress, Scope};
use super::{Block, Connection, NamedSavepoint};
use crate::cancel::Cancelled;
use crate::error::{Notice, SqlError, SqlResult};
use crate::front_end::OutputColumn;
use crate::sink::RowSink;
use crate::sqlstate;
use crate::syntax::{SetValue, Utility};
use crate::types::SqlType;

/// The columns of a command's answer; `None` if it has none.
pub(super) fn columns(utility: &Utility) -> Option<Vec<OutputColumn>> {
    match utility {
        Utility::Show(None) => Some(vec![
            OutputColumn::new("name", SqlType::Text),
            OutputColumn::new("setting", SqlType::Text),
        ]),
        Utility::Show(Some(name)) => Some(vec![OutputColumn::new(name.clone(), SqlType::Text)]),
        _ => None,
    }
}

/// Writes rows of texts.
pub(super) fn write_texts(rows: impl Iterator<Item = Vec<String>>, sink: &mut dyn RowSink) {
    for row in rows {
        sink.begin_row(row.len());
        for text in row {
            sink.begin_value().extend_from_slice(text.as_bytes());
            sink.end_value();
        }
        sink.end_row();
    }
}

impl Connection {
    pub(super) async fn run_utility(
        &mut self,
        utility: &Arc<Utility>,
        portal: &mut Portal,
        scope: Scope,
        cancelled: &Cancelled,
        sink: &mut dyn RowSink,
    ) -> SqlResult<Progress> {
        let ends_block = matches!(
            **utility,
            Utility::Commit | Utility::Rollback | Utility::RollbackTo(_)
        );
        if !ends_block {
            self.check_not_failed()?;
        }
        if let Utility::Copy(copy) = &**utility {
            return if copy.from_stdin {
                let progress = self.begin_copy_in(copy, scope, cancelled).await?;
                portal.is_done = true;
                Ok(progress)
            } else {
                self.begin_copy_out(copy, portal, scope, cancelled).await
            };
        }
        let tag = self.command(utility, sink).await?;
        portal.is_done = true;
        portal.deallocates = match &**utility {
            Utility::Deallocate(Some(name)) => Some(Deallocated::One(name.clone())),
            Utility::Deallocate(None) | Utility::Discard("DISCARD ALL") => Some(Deallocated::All),
            _ => None,
        };
        Ok(Progress::Complete(tag))
    }

    async fn command(
        &mut self,
        utility: &Utility,
        sink: &mut dyn RowSink,
    ) -> SqlResult<CommandTag> {
        Ok(CommandTag::new(match utility {
            Utility::Begin { tag, read_only } => {
                match self.block {
                    Block::Idle | Block::Implicit => {
                        self.settings.begin();
                        self.block = Block::Explicit;
                        self.read_only = *read_only;
                        self.ensure_begun()?;
                    }
                    Block::Explicit | Block::Failed => self.notices.push(Notice::warning(
                        sqlstate::ACTIVE_SQL_TRANSACTION,
                        "there is already a transaction in progress",
                    )),
                }
                tag
            }
            Utility::Commit => return self.end_block().await.map(CommandTag::new),
            Utility::Rollback => {
                if matches!(self.block, Block::Idle | Block::Implicit) {
                    self.no_block();
                }
                self.roll_back(Block::Idle);
                "ROLLBACK"
            }
            Utility::Savepoint(name) => {
                self.check_in_block("SAVEPOINT")?;
                let savepoint = self.in_transaction(|tx| Ok(tx.savepoint()))?;
                self.savepoints.push(NamedSavepoint {
                    name: name.clone(),
                    savepoint,
                    effects: self.effects.mark(),
                });
                "SAVEPOINT"
            }
            Utility::Release(name) => {
                self.check_in_block("RELEASE SAVEPOINT")?;
                let at = self.savepoint(name)?;
                self.savepoints.truncate(at);
                "RELEASE"
            }
            Utility::RollbackTo(name) => {
                self.check_in_block("ROLLBACK TO SAVEPOINT")?;
                let at = self.savepoint(name)?;
                self.roll_back_to(at)?;
                self.savepoints.truncate(at + 1);
                self.block = Block::Explicit;
                "ROLLBACK"
            }
            Utility::Set { name, value, local } => {
                let value = match value {
                    SetValue::Default => None,
                    SetValue::Text(text) => Some(text.as_str()),
                };
                if *local {
                    self.settings.set_local(name, value)?;
                } else {
                    self.settings.set(name, value)?;
                }
                if self.settings.is_without_effect(name) {
                    self.notices.push(Notice::warning(
                        sqlstate::WARNING,
                        format!("parameter \"{name}\" has no effect here"),
                    ));
                }
                "SET"
            }
            Utility::SetTransaction { read_only } => {
                if let Some(read_only) = read_only {
                    self.read_only = *read_only && self.block == Block::Explicit;
                }
                "SET"
            }
            Utility::Show(Some(name)) => {
                let (_, value) = self.settings.show(name)?;
                write_texts(std::iter::once(vec![value]), sink);
                "SHOW"
            }
            Utility::Show(None) => {
                let all = self
                    .settings
                    .all()
                    .into_iter()
                    .map(|(name, value)| vec![name, value]);
                write_texts(all, sink);
                "SHOW"
            }
            Utility::ResetAll => {
                self.settings.reset_all();
                "RESET"
            }
            Utility::Discard(tag) => {
                if self.block != Block::Idle && *tag == "DISCARD ALL" {
                    return Err(SqlError::new(
                        sqlstate::ACTIVE_SQL_TRANSACTION,
                        "DISCARD ALL cannot run inside a transaction block",
                    ));
                }
                if *tag == "DISCARD ALL" {
                    self.settings.reset_all();
                }
                tag
            }
            Utility::Deallocate(Some(_)) => "DEALLOCATE",
            Utility::Deallocate(None) => "DEALLOCATE ALL",
            Utility::Vacuum => "VACUUM",
            Utility::Analyze => "ANALYZE",
            Utility::Lock => {
                self.check_in_block("LOCK TABLE")?;
                "LOCK TABLE"
            }
            Utility::Checkpoint => {
                let shared = Arc::clone(&self.shared);
                let for_task = Arc::clone(&shared);
                shared.blocking(move || for_task.db.checkpoint()).await??;
                "CHECKPOINT"
            }
            Utility::Copy(_) => {
                return Err(SqlError::new(
                    sqlstate::INTERNAL_ERROR,
                    "COPY is run elsewhere",
                ));
            }
        }))
    }

    /// COMMIT; of a failed block, a rollback.
    async fn end_block(&mut self) -> SqlResult<&'static str> {
        match self.block {
            Block::Failed => {
                self.roll_back(Block::Idle);
                Ok("ROLLBACK")
            }
            Block::Explicit => {
                self.commit().await?;
                Ok("COMMIT")
            }
            Block::Idle | Block::Implicit => {
                self.no_block();
                if self.block == Block::Implicit {
                    self.commit().await?;
                }
                Ok("COMMIT")
            }
        }
    }

    fn no_block(&mut self) {
        self.notices.push(Notice::warning(
            sqlstate::NO_ACTIVE_TRANSACTION,
            "there is no transaction in progress",
        ));
    }

    fn check_in_block(&self, what: &str) -> SqlResult<()> {
        match self.block {
            Block::Explicit | Block::Failed => Ok(()),
            Block::Idle | Block::Implicit => Err(SqlError::new(
                sqlstate::NO_ACTIVE_TRANSACTION,
                format!("{what} can only be used in transaction blocks"),
            )),
        }
    }

    fn roll_back_to(&mut self, at: usize) -> SqlResult<()> {
        let NamedSavepoint {
            savepoint, effects, ..
        } = &self.savepoints[at];
        let Some(session) = &mut self.session else {
            return Err(SqlError::new(
                sqlstate::INTERNAL_ERROR,
                "the connection has no session",
            ));
        };
        session.statement(|tx| Ok::<(), SqlError>(tx.rollback_to(savepoint)?))?;
        self.effects.return_to(effects);
        self.copy = None;
        self.keep_own_numbers()
    }

    fn savepoint(&self, name: &str) -> SqlResult<usize> {
        let found = self.savepoints.iter().rposition(|it| it.name == name);
        found.ok_or_else(|| {
            SqlError::new(
                sqlstate::INVALID_SAVEPOINT,
                format!("savepoint \"{name}\" does not exist"),
            )
        })
    }
}
