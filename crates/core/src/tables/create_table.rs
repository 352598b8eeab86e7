//! Creating a table, or opening it with the types of the program.

use std::sync::Arc;

use namiki_data::{Key, Value, layout_of_types};

use crate::api::database::{Database, Shared};
use crate::api::table::Table;
use crate::catalogue::manifest::Manifest;
use crate::error::Error;
use crate::events;
use crate::live::catalogue::{Catalogue, catalogue_error};
use crate::storage::record::INLINE_BYTES_MAX;
use crate::table::raw_table::{RawTable, TableId, TableInfo};

/// The inline capacity of a table's records if neither its creator nor its values' type sets it.
const ROOM_BYTES: usize = 8;
/// The most inline capacity that a values' type can set.
const ROOM_BYTES_MAX: usize = 64;
/// The longest name of a table, in bytes.
const TABLE_NAME_BYTES_MAX: usize = 255;

/// The inline capacity of a new table's records, if most of its values need `needed` bytes.
pub(crate) fn room_bytes(needed: usize) -> usize {
    match needed {
        ROOM_BYTES..=ROOM_BYTES_MAX => needed,
        _ => ROOM_BYTES,
    }
}

impl Database {
    /// The table of this name, created if it does not exist.
    ///
    /// One that was loaded into segments ([`Database::load_sorted`]) is taken into memory first,
    /// which takes about as long as its load, and is an ordinary table from then on. That waits for
    /// a running checkpoint or backup, and must not be called where a backup reports its progress.
    /// If it cannot be taken into memory, the handle is only for views: transactions on it fail
    /// with [`Error::TableTooLarge`] or [`Error::TableHasIndexes`], or, in a database that was
    /// opened read-only, with [`Error::TableInSegments`]. That is decided once for each opening.
    ///
    /// # Errors
    /// [`Error::TableType`] if it exists with other types, or with types of another shape;
    /// [`Error::TableNotWritten`] or [`Error::TableNotLoaded`] if it lies in segments, and they
    /// cannot be read, or it cannot be written anew; [`Error::TableBeingLoaded`] if it is about to
    /// be loaded; [`Error::TableName`]; [`Error::NoSuchTable`] if it does not exist and the
    /// database was opened read-only; [`Error::Manifest`] if the catalogue cannot be written: the
    /// table then does not exist, or has the type that it had.
    pub fn table<K: Key + ?Sized, V: Value + ?Sized>(
        &self,
        name: &str,
    ) -> Result<Table<K, V>, Error> {
        self.table_with_room(name, room_bytes(V::ROOM_BYTES))
    }

    /// [`Database::table`] with an inline capacity for records of a new table: values of up to
    /// `inline_bytes`, from 0 to 2040, are stored inline. Longer values take one more memory access
    /// to read. An existing table keeps its capacity.
    ///
    /// # Errors
    /// As [`Database::table`]; [`Error::TableRoom`] if records cannot have that much room, whether the
    /// table exists or not.
    pub fn table_with_room<K: Key + ?Sized, V: Value + ?Sized>(
        &self,
        name: &str,
        inline_bytes: usize,
    ) -> Result<Table<K, V>, Error> {
        let shared = &*self.shared;
        // Checked first: in a forked child, the lock may be held by a thread that does not exist
        // there.
        shared.engine.check_process()?;
        let mut catalogue = shared.catalogue.lock();
        if catalogue.closed.is_some() {
            return Err(Error::Closed);
        }
        if inline_bytes > INLINE_BYTES_MAX {
            return Err(Error::TableRoom {
                table: name.to_owned(),
                inline_bytes,
                max_bytes: INLINE_BYTES_MAX,
            });
        }
        while catalogue.manifest.loaded_tables.table(name).is_some() {
            drop(catalogue);
            let opened = shared.open_table_in_segment(name, &has_types::<K, V>)?;
            if let Some(raw_table) = opened {
                return Ok(Table::new(raw_table));
            }
            // It was opened or dropped concurrently.
            catalogue = shared.catalogue.lock();
        }
        // Also one that was taken into memory just now, when its name is not free yet.
        if let Some(id) = catalogue.ids.get(name) {
            shared.check_types::<K, V>(&mut catalogue, id)?;
            let raw_table = shared.engine.raw_tables.lock().get(&id).cloned();
            let table = name.to_owned();
            let raw_table = raw_table.ok_or(Error::NoSuchTable { table })?;
            return Ok(Table::new(raw_table));
        }
        if catalogue.loading.names.contains(name) {
            return Err(Error::TableBeingLoaded {
                table: name.to_owned(),
            });
        }
        let info = TableInfo {
            id: catalogue.manifest.next_table(),
            name: name.to_owned(),
            key_type: K::type_name().into_owned(),
            value_type: V::type_name().into_owned(),
            fixed_keys: K::EIGHT_BYTES,
            inline_bytes,
            layout: layout_of_types::<K, V>(),
        };
        shared.create_table(&mut catalogue, info).map(Table::new)
    }

    /// The names of all tables in memory, in the order of their creation. Empty in a forked child
    /// of the process that opened the database: no table can be used there.
    #[must_use]
    pub fn tables(&self) -> Vec<String> {
        let engine = &self.shared.engine;
        if !engine.is_own() {
            return Vec::new();
        }
        let raw_tables = engine.raw_tables.lock();
        raw_tables
            .values()
            .map(|raw_table| raw_table.name())
            .collect()
    }
}

/// Whether a table can have this name.
pub(crate) fn check_name(name: &str) -> Result<(), Error> {
    let why = match name.len() {
        0 => "it is empty",
        1..=TABLE_NAME_BYTES_MAX if !name.chars().any(char::is_control) => return Ok(()),
        1..=TABLE_NAME_BYTES_MAX => "it has a line break or another control character",
        _ => "it is longer than 255 bytes",
    };
    let name = name.to_owned();
    Err(Error::TableName { name, why })
}

/// Whether a table has these types.
fn has_types<K: Key + ?Sized, V: Value + ?Sized>(info: &TableInfo) -> Result<(), Error> {
    let (key_type, value_type) = (K::type_name(), V::type_name());
    if info.key_type == key_type && info.value_type == value_type {
        return Ok(());
    }
    Err(Error::TableType {
        table: info.name.clone(),
        found: format!("{} to {}", info.key_type, info.value_type),
        expected: format!("{key_type} to {value_type}"),
    })
}

impl Shared {
    /// Creates a table that does not exist yet.
    pub(crate) fn create_table(
        &self,
        catalogue: &mut Catalogue,
        info: TableInfo,
    ) -> Result<Arc<RawTable>, Error> {
        check_name(&info.name)?;
        if self.engine.read_only {
            return Err(Error::NoSuchTable { table: info.name });
        }
        let Catalogue {
            manifest, files, ..
        } = &mut *catalogue;
        // Durable before a change of it can be logged.
        files
            .add_table(&*self.disk, &self.dir, manifest, info.clone())
            .map_err(|why| catalogue_error(&self.dir, why, true))?;
        let change = self.begin_change(catalogue, &info.name);
        catalogue.ids.add(info.name.clone(), info.id);
        events::table_created(&info.name);
        Ok(self.add_raw_table(info, change))
    }

    /// Whether the table has these types. If it has a value type that `V` was made from, it has `V` from now on: once
    /// that is durable, values of both may be in the log, and the earlier type, which does not know `V`'s, opens the
    /// table no longer.
    fn check_types<K: Key + ?Sized, V: Value + ?Sized>(
        &self,
        catalogue: &mut Catalogue,
        id: TableId,
    ) -> Result<(), Error> {
        let Catalogue {
            manifest, files, ..
        } = catalogue;
        let Some(info) = manifest.table(id) else {
            unreachable!("the names are of the manifest's tables");
        };
        let (key_type, value_type) = (K::type_name(), V::type_name());
        let has_key_type = info.key_type == key_type;
        if has_key_type && info.value_type == value_type {
            // A table that was created without its types. The layout is durable with the next manifest, the one of the closing most
            // often: nothing depends on it.
            if info.layout.is_none()
                && !self.engine.read_only
                && let Some(info) = manifest.table_mut(id)
            {
                info.layout = layout_of_types::<K, V>();
            }
            return Ok(());
        }
        let earlier = V::earlier_type_names();
        if has_key_type && earlier.iter().any(|name| *name == info.value_type) {
            // Values of the earlier type are read as this one, and there are no others.
            if self.engine.read_only {
                return Ok(());
            }
            let change = |manifest: &mut Manifest| {
                if let Some(info) = manifest.table_mut(id) {
                    info.value_type = value_type.into_owned();
                    info.layout = layout_of_types::<K, V>();
                }
            };
            let changed = files.change(&*self.disk, &self.dir, manifest, change);
            return changed.map_err(|why| catalogue_error(&self.dir, why, true));
        }
        has_types::<K, V>(info)
    }
}
