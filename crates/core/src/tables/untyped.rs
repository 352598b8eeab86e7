//! Tables of types that the program does not have: keys and values are bytes, and the types' names
//! are text.
//!
//! For tools that work on any database. The typed program reads what they write, so they have to
//! write the encoding of its types. Only the length of keys is checked, in a table of eight-byte
//! keys.

use std::sync::Arc;

use namiki_data::{RowLayout, TypeLayouts};

use crate::api::database::{Database, Shared};
use crate::api::table::Table;
use crate::error::Error;
use crate::live::catalogue::Catalogue;
use crate::table::raw_table::{RawTable, TableInfo};
use crate::tables::create_table::room_bytes;

/// A table to be created for types that the program does not have.
#[derive(Clone, Debug)]
pub struct UntypedTable<'a> {
    /// The table's name.
    pub name: &'a str,
    /// The name of its key type, as [`Key::type_name`](crate::Key::type_name) gives it.
    pub key_type: &'a str,
    /// That of its value type, as [`Value::type_name`](crate::Value::type_name) gives it.
    pub value_type: &'a str,
    /// Whether the key type is one of eight bytes, see [`Key::EIGHT_BYTES`](crate::Key::EIGHT_BYTES).
    pub eight_byte_keys: bool,
    /// The room that its values mostly need, see [`Value::ROOM_BYTES`](crate::Value::ROOM_BYTES).
    pub room_bytes: usize,
    /// The layouts of its derived types, if they are known: see [`RowLayout::Types`].
    pub layouts: Option<&'a TypeLayouts>,
}

/// Tables by their bytes.
impl Database {
    /// The manifest's entries of all tables in memory, in the order of their creation. Empty in a
    /// forked child of the process that opened the database.
    #[must_use]
    pub fn table_infos(&self) -> Vec<TableInfo> {
        let shared = &*self.shared;
        if !shared.engine.is_own() {
            return Vec::new();
        }
        shared.catalogue.lock().manifest.tables.clone()
    }

    /// A table in memory of any types; `None` if it does not exist. Its keys and values are the
    /// **encoded** ones: a caller has to write the encoding of the program's types.
    ///
    /// # Errors
    /// As [`Database::table`].
    #[doc(hidden)]
    pub fn untyped_table(&self, name: &str) -> Result<Option<Table<[u8], [u8]>>, Error> {
        let shared = &*self.shared;
        shared.engine.check_process()?;
        let mut catalogue = shared.catalogue.lock();
        while catalogue.manifest.loaded_tables.table(name).is_some() {
            drop(catalogue);
            let opened = shared.open_table_in_segment(name, &|_| Ok(()))?;
            if let Some(raw_table) = opened {
                return Ok(Some(Table::new(raw_table)));
            }
            catalogue = shared.catalogue.lock();
        }
        let found = shared.find_untyped(&catalogue, name)?;
        Ok(found.map(Table::new))
    }

    /// Creates a table for types that the program does not have, or returns the existing one if it
    /// has these types.
    ///
    /// # Errors
    /// As [`Database::table`].
    #[doc(hidden)]
    pub fn create_untyped_table(
        &self,
        table: &UntypedTable<'_>,
    ) -> Result<Table<[u8], [u8]>, Error> {
        let shared = &*self.shared;
        shared.engine.check_process()?;
        let mut catalogue = shared.catalogue.lock();
        if let Some(found) = shared.find_untyped(&catalogue, table.name)? {
            let no_such = || Error::NoSuchTable {
                table: table.name.to_owned(),
            };
            let info = catalogue.manifest.table(found.id).ok_or_else(no_such)?;
            if info.key_type == table.key_type && info.value_type == table.value_type {
                return Ok(Table::new(found));
            }
            return Err(Error::TableType {
                table: info.name.clone(),
                found: format!("{} to {}", info.key_type, info.value_type),
                expected: format!("{} to {}", table.key_type, table.value_type),
            });
        }
        let info = TableInfo {
            id: catalogue.manifest.next_table(),
            name: table.name.to_owned(),
            key_type: table.key_type.to_owned(),
            value_type: table.value_type.to_owned(),
            fixed_keys: table.eight_byte_keys,
            inline_bytes: room_bytes(table.room_bytes),
            layout: (table.layouts.cloned()).map(|types| Box::new(RowLayout::Types(types))),
        };
        shared.create_table(&mut catalogue, info).map(Table::new)
    }
}

impl Shared {
    /// The table in memory of this name, unless the name is another's.
    fn find_untyped(
        &self,
        catalogue: &Catalogue,
        name: &str,
    ) -> Result<Option<Arc<RawTable>>, Error> {
        if catalogue.closed.is_some() {
            return Err(Error::Closed);
        }
        let table = name.to_owned();
        if catalogue.manifest.loaded_tables.table(name).is_some() {
            return Err(Error::TableInSegments { table });
        }
        let Some(id) = catalogue.ids.get(name) else {
            return if catalogue.loading.names.contains(name) {
                Err(Error::TableBeingLoaded { table })
            } else {
                Ok(None)
            };
        };
        // A drop that has failed half-way leaves the name without its table.
        let raw_table = self.engine.raw_tables.lock().get(&id).cloned();
        raw_table.map(Some).ok_or(Error::NoSuchTable { table })
    }
}
