//! Tables by bytes: keys and values are bytes, and the types' names are text.
//!
//! For tools that work on any database, which have to write the encoding of the typed program; and
//! for programs that encode rows themselves. Only the length of keys is checked, in a table of
//! eight-byte keys.
//!
//! Schema versions: such a program may store its schemas in the catalogue. They are appended, and
//! durable before their number is known to any caller. So a row that names a version is in no log
//! before its version is in the manifest.

use std::sync::Arc;

use namiki_data::{RowLayout, SchemaVersions, TypeLayouts};

use crate::api::byte_rows::ByteTable;
use crate::api::database::{Database, Shared};
use crate::api::table::Table;
use crate::catalogue::manifest::Manifest;
use crate::error::Error;
use crate::live::catalogue::{Catalogue, not_changed};
use crate::table::raw_table::{RawTable, TableInfo};
use crate::tables::create_table::room_bytes;

/// A table by bytes that is to be created.
#[derive(Clone, Debug, Default)]
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
    /// The first schema version, number 0, of a program that encodes rows itself. It must not have
    /// `layouts`.
    pub schema: Option<&'a [u8]>,
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
    pub fn untyped_table(&self, name: &str) -> Result<Option<ByteTable>, Error> {
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

    /// Creates a table by bytes, durably, or returns the existing one if its types have these names.
    /// The existing one keeps its layouts and its schema versions.
    ///
    /// A key is in the order of its bytes. A row is whatever the program writes: see
    /// [`Transaction::put_row`](crate::Transaction::put_row).
    ///
    /// # Errors
    /// As [`Database::table`]. [`Error::TableType`], too, if the table is to have both `layouts` and a
    /// `schema`.
    pub fn create_untyped_table(&self, table: &UntypedTable<'_>) -> Result<ByteTable, Error> {
        let layout = match (table.layouts, table.schema) {
            (None, None) => None,
            (Some(types), None) => Some(RowLayout::Types(types.clone())),
            (None, Some(schema)) => {
                let mut versions = SchemaVersions::new();
                versions.push(schema);
                Some(RowLayout::Opaque(versions))
            }
            (Some(_), Some(_)) => {
                return Err(Error::TableType {
                    table: table.name.to_owned(),
                    found: "bytes with schema versions".to_owned(),
                    expected: "derived types".to_owned(),
                });
            }
        };
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
            layout: layout.map(Box::new),
        };
        shared.create_table(&mut catalogue, info).map(Table::new)
    }

    /// Appends a schema version to a table by bytes, and returns its number once it is durable:
    /// versions count from 0, are never changed or removed, and stay when the table is
    /// [cleared](Database::clear_table). It is not part of a transaction, and no running one is
    /// affected.
    ///
    /// # Errors
    /// [`Error::TableDropped`], [`Error::ForeignTable`], [`Error::TableInSegments`]; [`Error::TableType`] of a
    /// table with columns, or with derived types; [`Error::ReadOnly`], [`Error::Closed`],
    /// [`Error::Forked`]; [`Error::AnotherWriter`]; [`Error::Manifest`]: no number was given out.
    pub fn add_schema_version(&self, table: &ByteTable, schema: &[u8]) -> Result<u32, Error> {
        let shared = &*self.shared;
        shared.engine.check_process()?;
        if shared.engine.read_only {
            return Err(Error::ReadOnly);
        }
        let mut catalogue = shared.catalogue.lock();
        let mut info = shared.info_of(&catalogue, table)?.clone();
        let not_by_bytes = |info: &TableInfo| Error::TableType {
            table: info.name.clone(),
            found: format!("{} to {}", info.key_type, info.value_type),
            expected: "bytes with schema versions".to_owned(),
        };
        let Some(versions) = info.schemas_mut() else {
            return Err(not_by_bytes(&info));
        };
        let number = versions.push(schema);
        let Ok(number) = u32::try_from(number) else {
            unreachable!("the manifest is shorter");
        };
        let id = info.id;
        let (disk, dir) = (&*shared.disk, &*shared.dir);
        let changed = catalogue.change_manifest(disk, dir, |manifest: &mut Manifest| {
            if let Some(found) = manifest.table_mut(id) {
                found.layout = info.layout;
            }
        });
        changed.map_err(|unchanged| not_changed(dir, unchanged))?;
        Ok(number)
    }

    /// The schema versions of a table by bytes, by their numbers. Empty if it has none.
    ///
    /// # Errors
    /// [`Error::TableDropped`], [`Error::ForeignTable`], [`Error::TableInSegments`]; [`Error::Closed`],
    /// [`Error::Forked`].
    pub fn schema_versions(&self, table: &ByteTable) -> Result<Vec<Box<[u8]>>, Error> {
        let shared = &*self.shared;
        shared.engine.check_process()?;
        let catalogue = shared.catalogue.lock();
        let versions = shared.info_of(&catalogue, table)?.schemas();
        let versions = versions.into_iter().flat_map(SchemaVersions::iter);
        Ok(versions.map(Box::from).collect())
    }
}

impl Shared {
    /// The catalogue's entry of a table by bytes.
    fn info_of<'c>(
        &self,
        catalogue: &'c Catalogue,
        table: &ByteTable,
    ) -> Result<&'c TableInfo, Error> {
        if catalogue.closed.is_some() {
            return Err(Error::Closed);
        }
        self.engine.check_table(table.raw_table())?;
        let found = catalogue.manifest.table(table.id());
        found.ok_or_else(|| Error::TableInSegments {
            table: table.name(),
        })
    }

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
