//! `namiki put` and `namiki remove`.

use std::path::{Path, PathBuf};

use clap::Args;
use namiki::{Database, UntypedTable};
use namiki_terminal::interrupt;

use super::FORMS;
use super::table::{TypedTable, key_from, value_from};
use crate::failure::{Failure, usage};
use crate::opening;
use crate::typed::{Type, read_key};

const PUT_EXAMPLES: &str = "\
The command ends when the value is durable. An existing value is replaced.

With --create, a missing table is created, for types that the database knows: those below, except a
program's own. So is a missing database, if the directory is empty or does not exist.

Examples:
  namiki put /data/shop stock 17 100
  namiki put /data/shop visits '(\"alice\", 1)' 2026
  namiki put /data/shop notes 1 'three words here' --create u64 string

";

const REMOVE_EXAMPLES: &str = "\
The command ends when the removal is durable. Exit status: 1 if the key did not exist.

Examples:
  namiki remove /data/shop stock 17

";

/// Arguments of `namiki put`.
#[derive(Args)]
#[command(after_help = format!("{PUT_EXAMPLES}{FORMS}"))]
pub(crate) struct PutArguments {
    /// The database's directory
    dir: PathBuf,
    /// The table
    table: String,
    /// The key
    #[arg(allow_hyphen_values = true)]
    key: String,
    /// The value
    #[arg(allow_hyphen_values = true)]
    value: String,
    /// Create the table with these types, if it does not exist
    #[arg(long, num_args = 2, value_names = ["KEY_TYPE", "VALUE_TYPE"])]
    create: Option<Vec<String>>,
}

/// Writes a row.
pub(crate) fn run_put(arguments: &PutArguments) -> Result<(), Failure> {
    interrupt::listen();
    let types = match arguments.create.as_deref() {
        Some([key, value]) => Some((Type::parse(key), Type::parse(value))),
        _ => None,
    };
    if let Some((key, value)) = &types {
        check_new_types(key, value)?;
        // Before anything is created.
        key_from(key, &arguments.key)?;
        value_from(value, &arguments.value)?;
    }
    let db = opening::to_write(&arguments.dir, types.is_some())?;
    let table = match &types {
        Some((key, value)) => create(&db, &arguments.table, key, value)?,
        None => TypedTable::find(&db, &arguments.table)?,
    };
    let key = table.key(&arguments.key)?;
    let value = table.value(&arguments.value)?;
    db.transact(|tx| tx.put(&table.table, &key[..], &value[..]))?;
    Ok(db.close()?)
}

/// Fails unless a table can be created for these types without the program that defines them.
pub(crate) fn check_new_types(key: &Type, value: &Type) -> Result<(), Failure> {
    for (of, what) in [(key, "key"), (value, "value")] {
        if !of.is_known() {
            return Err(usage(format!(
                "{of:?} is not a type that the database knows, so no table can be created with such a {what}; \
                 --help lists the known types",
                of = of.to_string()
            )));
        }
    }
    if key.can_be_key() {
        Ok(())
    } else {
        Err(usage(format!(
            "{key} cannot be the type of a key: floats and lists have no order-preserving encoding"
        )))
    }
}

/// The table of this name, created if it does not exist.
pub(crate) fn create(
    db: &Database,
    name: &str,
    key: &Type,
    value: &Type,
) -> Result<TypedTable, Failure> {
    let (key_type, value_type) = (key.to_string(), value.to_string());
    db.create_untyped_table(&UntypedTable {
        layouts: None,
        schema: None,
        name,
        key_type: &key_type,
        value_type: &value_type,
        eight_byte_keys: key.has_eight_byte_keys(),
        room_bytes: value.room_bytes(),
    })?;
    TypedTable::find(db, name)
}

/// Arguments of `namiki remove`.
#[derive(Args)]
#[command(after_help = format!("{REMOVE_EXAMPLES}{FORMS}"))]
pub(crate) struct RemoveArguments {
    /// The database's directory
    dir: PathBuf,
    /// The table
    table: String,
    /// The key
    #[arg(allow_hyphen_values = true)]
    key: String,
}

/// Removes a row.
pub(crate) fn run_remove(arguments: &RemoveArguments) -> Result<(), Failure> {
    interrupt::listen();
    let dir: &Path = &arguments.dir;
    let db = opening::to_write(dir, false)?;
    let table = TypedTable::find(&db, &arguments.table)?;
    let key = table.key(&arguments.key)?;
    let was_there = db.transact(|tx| tx.delete(&table.table, &key[..]))?;
    db.close()?;
    if was_there {
        Ok(())
    } else {
        Err(Failure::NoKey {
            table: table.info.name,
            key: read_key(&table.types.key, &key).to_string(),
        })
    }
}
