//! The prepared statements of a session.
//!
//! Changes since the last Sync are kept, so that they can be undone when the batch is repeated.

use std::collections::HashMap;
use std::mem;

use namiki_sql::{SqlError, Statement};

/// Statements by name. The empty name is that of the unnamed one.
#[derive(Default)]
pub(super) struct Statements {
    unnamed: Option<Statement>,
    named: HashMap<String, Statement>,
    /// The changes of the batch: a name, and its statement before.
    changes: Vec<(String, Option<Statement>)>,
}

impl Statements {
    /// The statement of this name.
    ///
    /// # Errors
    /// 26000, if there is none.
    pub(super) fn get(&self, name: &str) -> Result<&Statement, SqlError> {
        if name.is_empty() {
            let unnamed = self.unnamed.as_ref();
            return unnamed.ok_or_else(|| {
                SqlError::new(
                    "26000",
                    "unnamed prepared statement does not exist".to_owned(),
                )
            });
        }
        self.named.get(name).ok_or_else(|| {
            let message = format!("prepared statement \"{name}\" does not exist");
            SqlError::new("26000", message)
        })
    }

    /// Whether a statement may get this name.
    ///
    /// # Errors
    /// 42P05, if another one has it; 53400, if there are too many.
    pub(super) fn check_new(&self, name: &str, statements_max: usize) -> Result<(), SqlError> {
        if name.is_empty() {
            return Ok(());
        }
        if self.named.contains_key(name) {
            let message = format!("prepared statement \"{name}\" already exists");
            return Err(SqlError::new("42P05", message));
        }
        if self.named.len() >= statements_max {
            let message = format!("this session has {statements_max} prepared statements");
            return Err(SqlError::new("53400", message).with_hint(
                "Close the ones that are not used any more; namiki-server --statements sets the limit.",
            ));
        }
        Ok(())
    }

    /// Gives a statement a name. The unnamed one is replaced.
    pub(super) fn set(&mut self, name: &str, statement: Statement) {
        let before = if name.is_empty() {
            self.unnamed.replace(statement)
        } else {
            self.named.insert(name.to_owned(), statement)
        };
        self.changes.push((name.to_owned(), before));
    }

    /// Forgets the statement of this name, if there is one.
    pub(super) fn close(&mut self, name: &str) {
        let before = if name.is_empty() {
            self.unnamed.take()
        } else {
            self.named.remove(name)
        };
        if before.is_some() {
            self.changes.push((name.to_owned(), before));
        }
    }

    /// Forgets all statements.
    pub(super) fn close_all(&mut self) {
        self.close("");
        let named = mem::take(&mut self.named);
        let changes = named.into_iter().map(|(name, it)| (name, Some(it)));
        self.changes.extend(changes);
    }

    /// Begins a batch: the changes so far will not be undone.
    pub(super) fn begin_batch(&mut self) {
        self.changes.clear();
    }

    /// Undoes the changes of the batch.
    pub(super) fn undo_batch(&mut self) {
        for (name, before) in mem::take(&mut self.changes).into_iter().rev() {
            if name.is_empty() {
                self.unnamed = before;
            } else if let Some(statement) = before {
                self.named.insert(name, statement);
            } else {
                self.named.remove(&name);
            }
        }
    }
}
