//! ALTER TABLE, as the engine's own command.

use datafusion::sql::sqlparser::ast::{
    AlterColumnOperation, AlterTable, AlterTableOperation, Ident, RenameTableNameKind,
};

use super::ddl::{Constraint, column_definition, constraint_of, qualified};
use super::ddl_types::sql_type_of_ast;
use super::names::{identifier, table_name};
use crate::ddl_command::{AlterOperation, DdlCommand, NewColumn};
use crate::error::{SqlError, SqlResult};

/// ALTER TABLE.
///
/// # Errors
/// 0A000 for clauses that there are not.
pub(super) fn alter_table(alter: AlterTable) -> SqlResult<DdlCommand> {
    let mut operations = Vec::new();
    for operation in alter.operations {
        operations.extend(alter_operation(operation)?);
    }
    Ok(DdlCommand::AlterTable {
        name: qualified(&alter.name)?,
        if_exists: alter.if_exists,
        operations,
    })
}

fn alter_operation(operation: AlterTableOperation) -> SqlResult<Vec<AlterOperation>> {
    let column = |name: &Ident| identifier(name);
    Ok(vec![match operation {
        AlterTableOperation::AddConstraint {
            not_valid: true, ..
        } => {
            return Err(SqlError::unsupported("ADD CONSTRAINT NOT VALID"));
        }
        AlterTableOperation::AddConstraint { constraint, .. } => match constraint_of(constraint)? {
            Constraint::Key(key) => AlterOperation::AddKey(key),
            Constraint::Check(name, text) => AlterOperation::AddCheck(name, text),
        },
        AlterTableOperation::AddColumn {
            column_def,
            if_not_exists,
            ..
        } => {
            let (mut keys, mut checks) = (Vec::new(), Vec::new());
            let column = column_definition(column_def, &mut keys, &mut checks)?;
            AlterOperation::AddColumn {
                new: Box::new(NewColumn {
                    column,
                    keys,
                    checks,
                }),
                if_not_exists,
            }
        }
        AlterTableOperation::DropColumn {
            column_names,
            if_exists,
            ..
        } => {
            let dropped = column_names.iter().map(|name| AlterOperation::DropColumn {
                name: identifier(name),
                if_exists,
            });
            return Ok(dropped.collect());
        }
        AlterTableOperation::RenameTable {
            table_name: RenameTableNameKind::To(name) | RenameTableNameKind::As(name),
        } => AlterOperation::Rename(table_name(&name)?.1),
        AlterTableOperation::RenameColumn {
            old_column_name,
            new_column_name,
        } => AlterOperation::RenameColumn {
            from: column(&old_column_name),
            to: column(&new_column_name),
        },
        AlterTableOperation::RenameConstraint { old_name, new_name } => {
            AlterOperation::RenameConstraint {
                from: column(&old_name),
                to: column(&new_name),
            }
        }
        AlterTableOperation::DropConstraint {
            if_exists, name, ..
        } => AlterOperation::DropConstraint {
            name: column(&name),
            if_exists,
        },
        AlterTableOperation::AlterColumn { column_name, op } => {
            let column = column(&column_name);
            match op {
                AlterColumnOperation::SetNotNull => AlterOperation::SetNotNull {
                    column,
                    not_null: true,
                },
                AlterColumnOperation::DropNotNull => AlterOperation::SetNotNull {
                    column,
                    not_null: false,
                },
                AlterColumnOperation::SetDefault { value } => AlterOperation::SetDefault {
                    column,
                    default: Some(value.to_string()),
                },
                AlterColumnOperation::DropDefault => AlterOperation::SetDefault {
                    column,
                    default: None,
                },
                AlterColumnOperation::SetDataType { using: Some(_), .. } => {
                    return Err(SqlError::unsupported("ALTER COLUMN TYPE with USING"));
                }
                AlterColumnOperation::SetDataType { data_type, .. } => AlterOperation::SetType {
                    column,
                    sql_type: sql_type_of_ast(&data_type)?,
                },
                AlterColumnOperation::AddGenerated { .. } => {
                    return Err(SqlError::unsupported("ALTER COLUMN ADD GENERATED"));
                }
            }
        }
        AlterTableOperation::OwnerTo { .. } => AlterOperation::Nothing,
        other => {
            let text = other.to_string();
            let words: Vec<&str> = text.split_whitespace().take(2).collect();
            return Err(SqlError::unsupported(format!(
                "ALTER TABLE {}",
                words.join(" ")
            )));
        }
    }])
}
