//! The prepared statements of a session.
//!
//! Changes since the last Sync are kept, so that they can be undone when the batch is repeated.

use std::collections::HashMap;
use std::mem;

use namiki_sql::{SqlError, Statement};

/// Room for changes that is kept from one batch to the next.
const CHANGES_KEPT: usize = 16;

/// Statements by name. The empty name is that of the unnamed one.
pub(super) struct Statements {
    unnamed: Option<Statement>,
    named: HashMap<String, Statement>,
    /// The sum of their [`bytes_of`].
    bytes: usize,
    /// The changes of the batch: a name, and its statement before. `None`: the batch will not be repeated.
    changes: Option<Vec<(String, Option<Statement>)>>,
}

impl Default for Statements {
    fn default() -> Self {
        Self {
            unnamed: None,
            named: HashMap::new(),
            bytes: 0,
            changes: Some(Vec::new()),
        }
    }
}

/// An estimate of the memory of a statement: its text, and its plan, which may be shared with other sessions.
pub(super) fn bytes_of(name: &str, statement: &Statement) -> usize {
    const OWN_BYTES: usize = 1 << 10;
    const PLAN_BYTES_FOR_EACH: usize = 4;
    OWN_BYTES + name.len() + PLAN_BYTES_FOR_EACH * statement.text().len()
}

impl Statements {
    /// An estimate of the memory that they take.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The statement of this name.
    ///
    /// # Errors
    /// 26000 for an unknown name.
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
        let before = self.put(name, Some(statement));
        if let Some(changes) = &mut self.changes {
            changes.push((name.to_owned(), before));
        }
    }

    /// Gives a statement a name, or none. Returns the one that had it.
    fn put(&mut self, name: &str, statement: Option<Statement>) -> Option<Statement> {
        self.bytes += statement.as_ref().map_or(0, |it| bytes_of(name, it));
        let before = match statement {
            statement if name.is_empty() => mem::replace(&mut self.unnamed, statement),
            Some(statement) => self.named.insert(name.to_owned(), statement),
            None => self.named.remove(name),
        };
        self.bytes -= before.as_ref().map_or(0, |it| bytes_of(name, it));
        before
    }

    /// Forgets the statement of this name, if there is one.
    pub(super) fn close(&mut self, name: &str) {
        let before = self.put(name, None);
        if before.is_some()
            && let Some(changes) = &mut self.changes
        {
            changes.push((name.to_owned(), before));
        }
    }

    /// Forgets all statements.
    pub(super) fn close_all(&mut self) {
        self.close("");
        let named = mem::take(&mut self.named);
        self.bytes = 0;
        if let Some(changes) = &mut self.changes {
            let closed = named.into_iter().map(|(name, it)| (name, Some(it)));
            changes.extend(closed);
        }
    }

    /// Begins a batch: the changes so far will not be undone.
    pub(super) fn begin_batch(&mut self) {
        match &mut self.changes {
            Some(changes) if changes.capacity() <= CHANGES_KEPT => changes.clear(),
            changes => *changes = Some(Vec::new()),
        }
    }

    /// Frees memory that has no statements.
    pub(super) fn free_memory(&mut self) {
        self.named.shrink_to_fit();
    }

    /// The batch will not be repeated: nothing will be undone.
    pub(super) fn keep_changes(&mut self) {
        self.changes = None;
    }

    /// Undoes the changes of the batch.
    pub(super) fn undo_batch(&mut self) {
        let changes = self.changes.as_mut().map(mem::take);
        for (name, before) in changes.unwrap_or_default().into_iter().rev() {
            self.put(&name, before);
        }
    }
}
