//! Which rows a block locks: see [`row_locks`](crate::row_locks).

use std::sync::Arc;

use super::{Block, Connection};
use crate::error::SqlResult;
use crate::front_end::Body;
use crate::program::{Access, Environment, Path, SelectProgram};
use crate::row_locks::RowId;
use crate::storage::OpenTable;

/// Rows that a block remembers to have added to.
const ADDED_TO_MAX: usize = 64;
/// Locks of one block.
const LOCKS_MAX: usize = 1024;

impl Connection {
    /// Before a change of one row: waits while another block has locked it, and locks it if this block reads it.
    pub(super) async fn lock_changed_row(
        &mut self,
        body: &Body,
        environment: &Environment,
    ) -> SqlResult<()> {
        let (access, adds) = match body {
            Body::Update { program, .. } => (&program.access, program.adds_later()),
            Body::Delete { program, .. } => (&program.access, false),
            _ => return Ok(()),
        };
        let Some((table, row)) = self.one_row(access.as_ref(), environment)? else {
            return Ok(());
        };
        if self.row_locks.iter().any(|lock| lock.is_of(&row)) {
            return Ok(());
        }
        let locks = Arc::clone(&self.shared.row_locks);
        let (held, pool) = (self.row_locks.len(), self.shared.pool().clone());
        let is_block = self.block == Block::Explicit;
        if is_block && held < LOCKS_MAX && (!adds || table.do_reads_follow_sums()) {
            self.row_locks.extend(locks.lock(row, held, &pool).await);
            return Ok(());
        }
        locks.wait_for(&row, held, &pool).await;
        if is_block && adds && self.rows_added_to.len() < ADDED_TO_MAX {
            self.rows_added_to.push(row);
        }
        Ok(())
    }

    /// Before a block reads a row: whether it has added to it is noted.
    pub(super) fn note_row_read(
        &mut self,
        program: &SelectProgram,
        environment: &Environment,
    ) -> SqlResult<()> {
        if self.rows_added_to.is_empty() {
            return Ok(());
        }
        if let Some((table, row)) = self.one_row(program.access.as_ref(), environment)?
            && self.rows_added_to.contains(&row)
        {
            table.note_read_after_sum();
        }
        Ok(())
    }

    /// The block has ended.
    pub(super) fn unlock_rows(&mut self) {
        self.row_locks.clear();
        self.rows_added_to.clear();
    }

    /// The table and the row, if the path is a whole key.
    fn one_row(
        &self,
        access: Option<&Access>,
        environment: &Environment,
    ) -> SqlResult<Option<(Arc<OpenTable>, RowId)>> {
        let Some(access) = access else {
            return Ok(None);
        };
        let Path::Key(parts) = &access.path else {
            return Ok(None);
        };
        let Some(key) = access.key(parts, environment)? else {
            return Ok(None);
        };
        // A table that was dropped is the statement's error.
        let Ok(table) = self.shared.storage.open(access.relation.row.storage) else {
            return Ok(None);
        };
        let row = (table.number, key);
        Ok(Some((table, row)))
    }
}
