//! Imports a file into a table.

use std::io::BufReader;
use std::path::{Path, PathBuf};

use namiki::{Database, SchemaVersions, UntypedTable};
use namiki_terminal::number_format::counted;

use super::batches::{IfThere, Imported, Stopped, import};
use super::formats::{FileFormat, reader};
use super::row_file::{Header, ReadError, RowReader};
use crate::failure::Failure;
use crate::input::Input;
use crate::tables::TypedTable;

/// A file to be imported, after its header was read.
pub(super) struct RowSource {
    path: PathBuf,
    rows: Box<dyn RowReader>,
}

impl RowSource {
    pub(super) fn open(path: &Path, format: FileFormat) -> Result<Self, Failure> {
        let input = Input::open(path).map_err(|source| Failure::input(path, source))?;
        let input = Box::new(BufReader::with_capacity(1 << 20, input));
        let rows = reader(format, input).map_err(|error| match error {
            ReadError::Io(source) => Failure::input(path, source),
            ReadError::Bad(bad) => Failure::BadLine {
                path: path.to_owned(),
                line: bad.line,
                why: bad.why,
                done: 0,
            },
        })?;
        Ok(Self {
            path: path.to_owned(),
            rows,
        })
    }

    /// Imports all rows, and prints their number.
    pub(super) fn import(
        &mut self,
        db: &Database,
        name: &str,
        if_there: IfThere,
    ) -> Result<(), Failure> {
        let table = self.table(db, name)?;
        let mut done = Imported::default();
        let imported = import(db, &table, &mut *self.rows, if_there, &mut done);
        let Imported { written, there } = done;
        let rows = counted(written, "row");
        let there_already = match there {
            0 => String::new(),
            1 => "; 1 row was there already".to_owned(),
            there => format!("; {} were there already", counted(there, "row")),
        };
        let path = self.path.clone();
        match imported {
            Ok(()) => {
                eprintln!("imported {rows} into table {name:?}{there_already}");
                Ok(())
            }
            Err(Stopped::Line(bad)) => Err(Failure::BadLine {
                path,
                line: bad.line,
                why: bad.why,
                done: written + there,
            }),
            Err(Stopped::Io(source)) => Err(Failure::input(&path, source)),
            Err(Stopped::Failure(failure)) => {
                eprintln!(
                    "imported {rows} into table {name:?}{there_already}, but not all: --resume continues"
                );
                Err(*failure)
            }
        }
    }

    /// The table of this name, created if it does not exist.
    fn table(&self, db: &Database, name: &str) -> Result<TypedTable, Failure> {
        let Header {
            key_type,
            value_type,
            eight_byte_keys,
            room_bytes,
            layouts,
            schemas,
        } = self.rows.header();
        let types = self.rows.header().types();
        if let Some(found) = TypedTable::find_if_any(db, name)? {
            if &found.info.key_type == key_type && &found.info.value_type == value_type {
                return Ok(found);
            }
            return Err(Failure::OtherTypes {
                path: self.path.clone(),
                table: name.to_owned(),
                found: format!("{} to {}", found.info.key_type, found.info.value_type),
                expected: format!("{key_type} to {value_type}"),
            });
        }
        let mut versions = schemas.iter().flat_map(SchemaVersions::iter);
        let created = db.create_untyped_table(&UntypedTable {
            name,
            key_type,
            value_type,
            eight_byte_keys: if types.key.is_known() {
                types.key.has_eight_byte_keys()
            } else {
                *eight_byte_keys
            },
            layouts: layouts.as_ref(),
            schema: versions.next(),
            room_bytes: room_bytes.unwrap_or_else(|| types.value.room_bytes()),
        })?;
        for schema in versions {
            db.add_schema_version(&created, schema)?;
        }
        TypedTable::find(db, name)
    }
}
