//! What a change of the catalogue works on, and the steps that commands share.

use std::sync::Arc;

use namiki::{Database, Session, Transaction};
use namiki_data::columns::Schema;

use super::Effects;
use crate::cancel::Cancelled;
use crate::catalogue::{Catalogue, Named, Relation, SequenceRow, TableRow};
use crate::ddl_command::QualifiedName;
use crate::error::{Notice, SqlError, SqlResult};
use crate::front_end::{FrontEnd, SessionInfo};
use crate::program::{Environment, Guard};
use crate::sqlstate;
use crate::storage::{Reader, Storage};
use crate::types::{TimeZone, now_micros};

/// What a change of the catalogue works on. It blocks: storage is made before the transaction names it.
pub(crate) struct DdlContext<'a> {
    pub(crate) db: &'a Database,
    pub(crate) catalogue: &'a Arc<Catalogue>,
    pub(crate) storage: &'a Arc<Storage>,
    pub(crate) front_end: &'a FrontEnd,
    pub(crate) info: &'a SessionInfo,
    /// The session. Its transaction runs.
    pub(crate) session: &'a mut Session,
    pub(crate) effects: &'a mut Effects,
    /// Whether the command is the only one of its transaction, so that it may commit markers before.
    pub(crate) is_alone: bool,
    /// The most rows that the transaction may read.
    pub(crate) rows_max: usize,
    /// Whether the command was cancelled.
    pub(crate) cancelled: Cancelled,
    pub(crate) notices: Vec<Notice>,
}

impl DdlContext<'_> {
    /// Runs a part of the command in the transaction.
    pub(super) fn statement<T>(
        &mut self,
        body: impl FnOnce(&mut Transaction) -> SqlResult<T>,
    ) -> SqlResult<T> {
        self.session.statement(body)
    }

    /// What expressions may use that are evaluated for the rows of a table.
    pub(super) fn environment(&self) -> Environment {
        Environment {
            parameters: Arc::new([]),
            now: now_micros(),
            zone: TimeZone::Utc,
            guard: Guard {
                cancelled: self.cancelled.clone(),
                ..Guard::none()
            },
            // It is given no numbers of sequences.
            session: 0,
        }
    }

    /// What a name means.
    pub(super) fn named(&mut self, name: &QualifiedName) -> SqlResult<Option<Named>> {
        let catalogue = Arc::clone(self.catalogue);
        self.statement(|tx| {
            catalogue.named(&mut Reader::Transaction(tx), name.schema(), &name.name)
        })
    }

    /// The table of this name; `None` if there is none and that is allowed.
    pub(super) fn table(
        &mut self,
        name: &QualifiedName,
        if_exists: bool,
    ) -> SqlResult<Option<Arc<Relation>>> {
        let catalogue = Arc::clone(self.catalogue);
        let found = self.statement(|tx| {
            let reader = &mut Reader::Transaction(tx);
            match catalogue.named(reader, name.schema(), &name.name)? {
                Some(Named::Table(id)) => catalogue.relation(reader, id),
                Some(_) => Err(SqlError::new(
                    sqlstate::WRONG_OBJECT_TYPE,
                    format!("\"{}\" is not a table", name.name),
                )),
                None => Ok(None),
            }
        })?;
        match found {
            Some(relation) if relation.row.marker.is_some() => Err(busy(&relation)),
            Some(relation) => Ok(Some(relation)),
            None if if_exists => {
                self.notices.push(Notice::plain(
                    sqlstate::SUCCESSFUL_COMPLETION,
                    format!("relation \"{}\" does not exist, skipping", name.name),
                ));
                Ok(None)
            }
            None => Err(no_relation(&name.name)),
        }
    }

    /// Makes the core tables that a table's row names.
    pub(super) fn create_storage(&mut self, relation: &Relation) -> SqlResult<()> {
        let row = &relation.row;
        self.create_one(
            row.storage,
            relation.has_eight_byte_keys(),
            relation.room_bytes(),
            Some(relation.format.schema()),
        )?;
        for index in &row.indexes {
            self.create_index_storage(index.storage)?;
        }
        self.effects.untouched.insert(row.storage, row.id);
        Ok(())
    }

    /// Makes the core table of an index.
    pub(super) fn create_index_storage(&mut self, number: u64) -> SqlResult<()> {
        self.create_one(number, false, 16, None)
    }

    /// Makes one core table.
    fn create_one(
        &mut self,
        number: u64,
        eight_byte_keys: bool,
        room: usize,
        schema: Option<&Schema>,
    ) -> SqlResult<()> {
        // Noted first: it may be there although this fails.
        self.effects.created.insert(number);
        self.storage.create(number, eight_byte_keys, room, schema)?;
        Ok(())
    }

    /// The core tables of a table's row are not needed once the transaction has committed.
    pub(super) fn abandon(&mut self, row: &TableRow) {
        self.effects.obsolete.extend(row.storages());
    }

    /// A number that is never used again.
    pub(super) fn number(&self) -> SqlResult<u64> {
        self.catalogue.numbers.next()
    }

    /// The number of an object.
    pub(super) fn id(&self) -> SqlResult<u32> {
        self.catalogue.numbers.next_id()
    }

    /// Writes a table's row.
    pub(super) fn put(&mut self, row: &TableRow, version: u64) -> SqlResult<()> {
        let catalogue = Arc::clone(self.catalogue);
        self.effects.versions.push((row.id, Some(version)));
        self.statement(|tx| catalogue.put_relation(tx, row, version))
    }

    /// Writes a sequence and its name.
    pub(super) fn put_sequence(&mut self, row: &SequenceRow) -> SqlResult<()> {
        self.take_name(&row.schema, &row.name, Named::Sequence(row.id))?;
        let catalogue = Arc::clone(self.catalogue);
        self.effects.own_sequences.insert(row.id, None);
        self.statement(|tx| catalogue.put_sequence(tx, row))
    }

    /// Gives a name to an object.
    ///
    /// # Errors
    /// 42P07 if it is another's.
    pub(super) fn take_name(&mut self, schema: &str, name: &str, named: Named) -> SqlResult<()> {
        let catalogue = Arc::clone(self.catalogue);
        if self.statement(|tx| catalogue.take_name(tx, schema, name, named))? {
            Ok(())
        } else {
            Err(exists(name))
        }
    }

    /// Frees a name.
    pub(super) fn free_name(&mut self, schema: &str, name: &str) -> SqlResult<()> {
        let catalogue = Arc::clone(self.catalogue);
        self.statement(|tx| catalogue.free_name(tx, schema, name))
    }

    /// Checks the stored expressions of a table by binding them.
    pub(super) fn target(&mut self, relation: &Arc<Relation>) -> SqlResult<crate::change::Target> {
        let (front_end, info) = (self.front_end, self.info);
        self.statement(|tx| front_end.target(relation, info, &mut Reader::Transaction(tx)))
    }
}

/// A relation that does not exist.
pub(super) fn no_relation(name: &str) -> SqlError {
    SqlError::new(
        sqlstate::UNDEFINED_TABLE,
        format!("relation \"{name}\" does not exist"),
    )
}

/// A name that is taken.
pub(super) fn exists(name: &str) -> SqlError {
    SqlError::new(
        sqlstate::DUPLICATE_TABLE,
        format!("relation \"{name}\" already exists"),
    )
}

/// A table that an index or key is built on.
pub(crate) fn busy(relation: &Relation) -> SqlError {
    SqlError::wait_for_table(relation.id(), &relation.row.name)
}
