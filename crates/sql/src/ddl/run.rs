//! Running a change of the catalogue in the transaction of a session.

use super::{DdlContext, alter_table, create_index, create_table, drop, truncate};
use crate::ddl_command::DdlCommand;
use crate::error::SqlResult;

/// Runs a command.
///
/// # Errors
/// Its own, and those of the transaction, which must not go on then.
pub(crate) fn run(context: &mut DdlContext<'_>, command: DdlCommand) -> SqlResult<()> {
    match command {
        DdlCommand::CreateTable(create) => create_table::create_table(context, create),
        DdlCommand::CreateSequence {
            sequence,
            name,
            if_not_exists,
        } => create_table::create_sequence(context, sequence, &name, if_not_exists),
        DdlCommand::CreateIndex(create) => create_index::create_index(context, create),
        DdlCommand::Drop {
            kind,
            names,
            if_exists,
        } => drop::drop_objects(context, kind, &names, if_exists),
        DdlCommand::Truncate {
            names,
            restart_identity,
        } => truncate::truncate(context, &names, restart_identity),
        DdlCommand::AlterTable {
            name,
            if_exists,
            operations,
        } => alter_table::alter_table(context, &name, if_exists, operations),
    }
}
