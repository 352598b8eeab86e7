//! Changes of the catalogue, as the engine's own commands.

use datafusion::sql::sqlparser::ast::{
    ColumnDef, ColumnOption, CreateIndex as CreateIndexAst, CreateTable as CreateTableAst,
    DataType, Expr, GeneratedAs, IndexColumn, ObjectName, ObjectType, SequenceOptions, Statement,
    TableConstraint, Truncate, TruncateIdentityOption, UnaryOperator, Value,
};

use super::ddl_types::sql_type_of_ast;
use super::names::{identifier, table_name};
use crate::catalogue::Identity;
use crate::ddl_command::{
    ColumnDefinition, CreateIndex, CreateTable, DdlCommand, DefaultDefinition, KeyDefinition,
    ObjectKind, QualifiedName, SequenceDefinition,
};
use crate::error::{SqlError, SqlResult};
use crate::types::SqlType;

/// The command of a statement that is no query, no change of rows, and not ALTER TABLE.
///
/// # Errors
/// 0A000 for what there is not.
pub(super) fn command(statement: Statement) -> SqlResult<DdlCommand> {
    match statement {
        Statement::CreateTable(create) => create_table(create).map(DdlCommand::CreateTable),
        Statement::CreateIndex(create) => create_index(create).map(DdlCommand::CreateIndex),
        Statement::CreateSequence {
            temporary: false,
            if_not_exists,
            name,
            sequence_options,
            ..
        } => Ok(DdlCommand::CreateSequence {
            sequence: sequence(&sequence_options)?,
            name: qualified(&name)?,
            if_not_exists,
        }),
        Statement::Drop {
            object_type,
            if_exists,
            names,
            cascade,
            ..
        } => {
            let kind = match object_type {
                ObjectType::Table => ObjectKind::Table,
                ObjectType::Index => ObjectKind::Index,
                ObjectType::Sequence => ObjectKind::Sequence,
                ObjectType::View => ObjectKind::View,
                ObjectType::MaterializedView => ObjectKind::MaterializedView,
                other => return Err(SqlError::unsupported(format!("DROP {other}"))),
            };
            // Nothing depends on a table but its own indexes and sequences.
            let _ = cascade;
            let names = names.iter().map(qualified).collect::<SqlResult<Vec<_>>>()?;
            Ok(DdlCommand::Drop {
                kind,
                names,
                if_exists,
            })
        }
        Statement::Truncate(truncate) => truncate_tables(truncate),
        other => {
            let text = other.to_string();
            let words: Vec<&str> = text.split_whitespace().take(2).collect();
            Err(SqlError::unsupported(words.join(" ").to_uppercase()))
        }
    }
}

/// The name of an object, with its schema if it is said.
pub(super) fn qualified(name: &ObjectName) -> SqlResult<QualifiedName> {
    let (schema, name) = table_name(name)?;
    Ok(QualifiedName { schema, name })
}

/// CREATE TABLE, without a query.
pub(super) fn create_table(create: CreateTableAst) -> SqlResult<CreateTable> {
    for (is_there, what) in [
        (create.temporary, "CREATE TEMPORARY TABLE"),
        (create.query.is_some(), "CREATE TABLE AS"),
        (create.like.is_some(), "CREATE TABLE LIKE"),
        (create.inherits.is_some(), "INHERITS"),
        (
            create.partition_by.is_some() || create.partition_of.is_some(),
            "a partitioned table",
        ),
        (
            create.external || create.or_replace,
            "this form of CREATE TABLE",
        ),
    ] {
        if is_there {
            return Err(SqlError::unsupported(what));
        }
    }
    // WITH (fillfactor = …) and its like: there are no pages to be filled.
    let mut table = CreateTable {
        name: qualified(&create.name)?,
        if_not_exists: create.if_not_exists,
        columns: Vec::new(),
        keys: Vec::new(),
        checks: Vec::new(),
    };
    for column in create.columns {
        let defined = column_definition(column, &mut table.keys, &mut table.checks)?;
        table.columns.push(defined);
    }
    for constraint in create.constraints {
        match constraint_of(constraint)? {
            Constraint::Key(key) => table.keys.push(key),
            Constraint::Check(name, text) => table.checks.push((name, text)),
        }
    }
    Ok(table)
}

/// A column; its constraints are added to `keys` and `checks`.
pub(super) fn column_definition(
    column: ColumnDef,
    keys: &mut Vec<KeyDefinition>,
    checks: &mut Vec<(Option<String>, String)>,
) -> SqlResult<ColumnDefinition> {
    let name = identifier(&column.name);
    let (sql_type, is_serial) = column_type(&column.data_type)?;
    let mut defined = ColumnDefinition {
        name: name.clone(),
        sql_type,
        not_null: is_serial,
        default: is_serial.then(|| DefaultDefinition::Sequence(SequenceDefinition::default())),
        identity: None,
    };
    for option in column.options {
        let constraint = option.name.as_ref().map(identifier);
        match option.option {
            ColumnOption::Null => defined.not_null = false,
            ColumnOption::NotNull => defined.not_null = true,
            ColumnOption::Default(expr) => {
                defined.default = Some(DefaultDefinition::Expression(expr.to_string()));
            }
            ColumnOption::PrimaryKey(_) => keys.push(KeyDefinition {
                name: constraint,
                columns: vec![name.clone()],
                is_primary: true,
            }),
            ColumnOption::Unique(_) => keys.push(KeyDefinition {
                name: constraint,
                columns: vec![name.clone()],
                is_primary: false,
            }),
            ColumnOption::Check(check) => {
                let named = check.name.as_ref().map(identifier).or(constraint);
                checks.push((named, check.expr.to_string()));
            }
            ColumnOption::Collation(_) => {}
            ColumnOption::ForeignKey(_) => return Err(foreign_key()),
            ColumnOption::Generated {
                generated_as,
                sequence_options,
                generation_expr: None,
                ..
            } => {
                if !sql_type.is_integer() {
                    return Err(SqlError::new(
                        crate::sqlstate::INVALID_PARAMETER_VALUE,
                        "identity column type must be smallint, integer, or bigint",
                    ));
                }
                defined.not_null = true;
                defined.identity = Some(match generated_as {
                    GeneratedAs::Always => Identity::Always,
                    _ => Identity::ByDefault,
                });
                let options = sequence_options.unwrap_or_default();
                defined.default = Some(DefaultDefinition::Sequence(sequence(&options)?));
            }
            ColumnOption::Generated { .. } => {
                return Err(SqlError::unsupported("a generated column"));
            }
            other => return Err(SqlError::unsupported(format!("column option {other}"))),
        }
    }
    Ok(defined)
}

/// The type of a column, and whether it is one of the serial types.
fn column_type(data_type: &DataType) -> SqlResult<(SqlType, bool)> {
    if let DataType::Custom(name, _) = data_type {
        let serial = match name.to_string().to_ascii_lowercase().as_str() {
            "smallserial" | "serial2" => Some(SqlType::Int2),
            "serial" | "serial4" => Some(SqlType::Int4),
            "bigserial" | "serial8" => Some(SqlType::Int8),
            _ => None,
        };
        if let Some(of) = serial {
            return Ok((of, true));
        }
    }
    Ok((sql_type_of_ast(data_type)?, false))
}

fn foreign_key() -> SqlError {
    SqlError::unsupported("FOREIGN KEY")
        .with_hint("Check in the application that the row referred to exists.")
}

/// A constraint of a table.
pub(super) enum Constraint {
    Key(KeyDefinition),
    Check(Option<String>, String),
}

/// The constraint of this tree.
pub(super) fn constraint_of(constraint: TableConstraint) -> SqlResult<Constraint> {
    Ok(match constraint {
        TableConstraint::PrimaryKey(key) => Constraint::Key(KeyDefinition {
            name: key.name.as_ref().map(identifier),
            columns: index_columns(&key.columns)?,
            is_primary: true,
        }),
        TableConstraint::Unique(key) => Constraint::Key(KeyDefinition {
            name: key.name.as_ref().map(identifier),
            columns: index_columns(&key.columns)?,
            is_primary: false,
        }),
        TableConstraint::Check(check) => {
            Constraint::Check(check.name.as_ref().map(identifier), check.expr.to_string())
        }
        TableConstraint::ForeignKey(_) => return Err(foreign_key()),
        other => return Err(SqlError::unsupported(format!("constraint {other}"))),
    })
}

/// The names of an index's columns.
fn index_columns(columns: &[IndexColumn]) -> SqlResult<Vec<String>> {
    let name = |column: &IndexColumn| {
        let order = &column.column;
        match &order.expr {
            Expr::Identifier(ident) => Ok(identifier(ident)),
            _ => Err(SqlError::unsupported("an index on an expression")),
        }
    };
    columns.iter().map(name).collect()
}

fn create_index(create: CreateIndexAst) -> SqlResult<CreateIndex> {
    if create.predicate.is_some() {
        return Err(SqlError::unsupported("a partial index"));
    }
    if !create.include.is_empty() {
        return Err(SqlError::unsupported("an index with INCLUDE"));
    }
    if create.nulls_distinct == Some(false) {
        return Err(SqlError::unsupported("NULLS NOT DISTINCT"));
    }
    if let Some(using) = &create.using
        && !using.to_string().eq_ignore_ascii_case("btree")
    {
        return Err(SqlError::unsupported(format!("an index USING {using}")));
    }
    Ok(CreateIndex {
        name: match &create.name {
            Some(name) => Some(table_name(name)?.1),
            None => None,
        },
        table: qualified(&create.table_name)?,
        columns: index_columns(&create.columns)?,
        unique: create.unique,
        if_not_exists: create.if_not_exists,
    })
}

fn truncate_tables(truncate: Truncate) -> SqlResult<DdlCommand> {
    if truncate.partitions.is_some() {
        return Err(SqlError::unsupported("TRUNCATE of partitions"));
    }
    let names = truncate
        .table_names
        .iter()
        .map(|target| qualified(&target.name));
    Ok(DdlCommand::Truncate {
        names: names.collect::<SqlResult<Vec<_>>>()?,
        restart_identity: matches!(truncate.identity, Some(TruncateIdentityOption::Restart)),
    })
}

/// The numbers of a sequence.
fn sequence(options: &[SequenceOptions]) -> SqlResult<SequenceDefinition> {
    let mut defined = SequenceDefinition::default();
    for option in options {
        match option {
            SequenceOptions::IncrementBy(value, _) => defined.increment = number(value)?,
            SequenceOptions::MinValue(Some(value)) => defined.least = Some(number(value)?),
            SequenceOptions::MaxValue(Some(value)) => defined.greatest = Some(number(value)?),
            SequenceOptions::StartWith(value, _) => defined.start = Some(number(value)?),
            SequenceOptions::Cycle(no_cycle) => defined.cycle = !no_cycle,
            // Numbers are reserved in blocks whatever it says.
            SequenceOptions::MinValue(None)
            | SequenceOptions::MaxValue(None)
            | SequenceOptions::Cache(_) => {}
        }
    }
    if defined.increment == 0 {
        return Err(SqlError::new(
            crate::sqlstate::INVALID_PARAMETER_VALUE,
            "INCREMENT must not be zero",
        ));
    }
    Ok(defined)
}

fn number(expr: &Expr) -> SqlResult<i64> {
    let (expr, sign) = match expr {
        Expr::UnaryOp {
            op: UnaryOperator::Minus,
            expr,
        } => (&**expr, "-"),
        other => (other, ""),
    };
    let digits = match expr {
        Expr::Value(value) => match &value.value {
            Value::Number(digits, _) => Some(digits),
            _ => None,
        },
        _ => None,
    };
    let read = digits.and_then(|digits| format!("{sign}{digits}").parse().ok());
    read.ok_or_else(|| SqlError::syntax(format!("a number is expected, not {expr}")))
}
