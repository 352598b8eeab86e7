//! What a change of the catalogue asks for.

use crate::catalogue::{Identity, PUBLIC};
use crate::types::SqlType;

/// A name, with the schema if it is said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct QualifiedName {
    pub(crate) schema: Option<String>,
    pub(crate) name: String,
}

impl QualifiedName {
    /// The schema that it is in.
    pub(crate) fn schema(&self) -> &str {
        self.schema.as_deref().unwrap_or(PUBLIC)
    }
}

/// A command.
#[derive(Clone, Debug)]
pub(crate) enum DdlCommand {
    CreateTable(CreateTable),
    CreateIndex(CreateIndex),
    CreateSequence {
        sequence: SequenceDefinition,
        name: QualifiedName,
        if_not_exists: bool,
    },
    /// DROP TABLE, INDEX, SEQUENCE or VIEW of several.
    Drop {
        kind: ObjectKind,
        names: Vec<QualifiedName>,
        if_exists: bool,
    },
    /// TRUNCATE of several tables.
    Truncate {
        names: Vec<QualifiedName>,
        restart_identity: bool,
    },
    /// ALTER TABLE.
    AlterTable {
        name: QualifiedName,
        if_exists: bool,
        operations: Vec<AlterOperation>,
    },
}

/// The kind of objects that are dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ObjectKind {
    Table,
    Index,
    Sequence,
    /// There are none: each name is one that does not exist, or another object's.
    View,
    /// As views.
    MaterializedView,
}

/// CREATE TABLE.
#[derive(Clone, Debug)]
pub(crate) struct CreateTable {
    pub(crate) name: QualifiedName,
    pub(crate) if_not_exists: bool,
    pub(crate) columns: Vec<ColumnDefinition>,
    /// PRIMARY KEY and UNIQUE.
    pub(crate) keys: Vec<KeyDefinition>,
    /// CHECK: names, if they are said, and texts.
    pub(crate) checks: Vec<(Option<String>, String)>,
}

/// A column.
#[derive(Clone, Debug)]
pub(crate) struct ColumnDefinition {
    pub(crate) name: String,
    pub(crate) sql_type: SqlType,
    pub(crate) not_null: bool,
    pub(crate) default: Option<DefaultDefinition>,
    pub(crate) identity: Option<Identity>,
}

/// The default of a column.
#[derive(Clone, Debug)]
pub(crate) enum DefaultDefinition {
    /// An expression's text.
    Expression(String),
    /// The numbers of a sequence of its own: SERIAL and IDENTITY.
    Sequence(SequenceDefinition),
}

/// A sequence's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SequenceDefinition {
    pub(crate) start: Option<i64>,
    pub(crate) increment: i64,
    pub(crate) least: Option<i64>,
    pub(crate) greatest: Option<i64>,
    pub(crate) cycle: bool,
}

impl Default for SequenceDefinition {
    fn default() -> Self {
        Self {
            start: None,
            increment: 1,
            least: None,
            greatest: None,
            cycle: false,
        }
    }
}

/// PRIMARY KEY or UNIQUE.
#[derive(Clone, Debug)]
pub(crate) struct KeyDefinition {
    pub(crate) name: Option<String>,
    pub(crate) columns: Vec<String>,
    pub(crate) is_primary: bool,
}

/// CREATE INDEX.
#[derive(Clone, Debug)]
pub(crate) struct CreateIndex {
    pub(crate) name: Option<String>,
    pub(crate) table: QualifiedName,
    pub(crate) columns: Vec<String>,
    pub(crate) unique: bool,
    pub(crate) if_not_exists: bool,
}

/// A column of ADD COLUMN, and its constraints.
#[derive(Clone, Debug)]
pub(crate) struct NewColumn {
    pub(crate) column: ColumnDefinition,
    /// PRIMARY KEY and UNIQUE.
    pub(crate) keys: Vec<KeyDefinition>,
    /// CHECK: names, if they are said, and texts.
    pub(crate) checks: Vec<(Option<String>, String)>,
}

/// A part of ALTER TABLE.
#[derive(Clone, Debug)]
pub(crate) enum AlterOperation {
    /// ADD PRIMARY KEY or UNIQUE.
    AddKey(KeyDefinition),
    /// ADD CHECK.
    AddCheck(Option<String>, String),
    /// ADD COLUMN.
    AddColumn {
        new: Box<NewColumn>,
        if_not_exists: bool,
    },
    /// DROP COLUMN.
    DropColumn { name: String, if_exists: bool },
    /// RENAME TO.
    Rename(String),
    /// RENAME COLUMN.
    RenameColumn { from: String, to: String },
    /// ALTER COLUMN … SET DEFAULT; `None`: DROP DEFAULT.
    SetDefault {
        column: String,
        default: Option<String>,
    },
    /// ALTER COLUMN … SET NOT NULL or DROP NOT NULL.
    SetNotNull { column: String, not_null: bool },
    /// ALTER COLUMN … TYPE.
    SetType { column: String, sql_type: SqlType },
    /// RENAME CONSTRAINT.
    RenameConstraint { from: String, to: String },
    /// DROP CONSTRAINT.
    DropConstraint { name: String, if_exists: bool },
    /// OWNER TO and what else changes nothing here.
    Nothing,
}

impl DdlCommand {
    /// The command's tag.
    pub(crate) fn tag(&self) -> &'static str {
        match self {
            Self::CreateTable(_) => "CREATE TABLE",
            Self::CreateIndex(_) => "CREATE INDEX",
            Self::CreateSequence { .. } => "CREATE SEQUENCE",
            Self::Drop { kind, .. } => match kind {
                ObjectKind::Table => "DROP TABLE",
                ObjectKind::Index => "DROP INDEX",
                ObjectKind::Sequence => "DROP SEQUENCE",
                ObjectKind::View => "DROP VIEW",
                ObjectKind::MaterializedView => "DROP MATERIALIZED VIEW",
            },
            Self::Truncate { .. } => "TRUNCATE TABLE",
            Self::AlterTable { .. } => "ALTER TABLE",
        }
    }
}
