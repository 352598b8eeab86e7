//! The rows of `pg_catalog` and `information_schema`, as far as psql, pgbench, psycopg and SQLAlchemy ask for them.

use std::sync::Arc;

use namiki_data::columns::Datum;

use super::run_context::RunContext;
use super::system_definition::{Rows, SystemColumns, SystemDefinition};
use crate::catalogue::{DefaultRow, Identity, Relation};
use crate::error::SqlResult;
use crate::syntax::quoted;
use crate::types::SqlType;

use SqlType::{Bool, Int2, Int4, Int8, Name, Oid, Text};

/// The numbers of the schemas.
const PG_CATALOG: i64 = 11;
const PUBLIC: i64 = 2200;
const INFORMATION_SCHEMA: i64 = 13_000;
/// The number of the one role, of the tables' and the indexes' access methods, and of the database.
const OWNER: i64 = 10;
const HEAP: i64 = 2;
const BTREE: i64 = 403;
const DATABASE: i64 = 5;

fn text(text: impl Into<String>) -> Datum {
    Datum::Text(text.into())
}

fn number(number: impl Into<i64>) -> Datum {
    Datum::I64(number.into())
}

fn flag(value: bool) -> Datum {
    Datum::Bool(value)
}

fn relations(context: &RunContext) -> SqlResult<Vec<Arc<Relation>>> {
    context
        .handle
        .with(|reader| context.catalogue.relations(reader))
}

/// All tables.
pub(super) static TABLES: &[SystemDefinition] = &[
    table("pg_namespace", NAMESPACE, Some(namespaces)),
    table("pg_class", CLASS, Some(classes)),
    table("pg_attribute", ATTRIBUTE, Some(attributes)),
    table("pg_attrdef", ATTRDEF, Some(defaults)),
    table("pg_index", INDEX, Some(indexes)),
    table("pg_constraint", CONSTRAINT, Some(constraints)),
    table("pg_type", TYPE, Some(types)),
    table("pg_am", AM, Some(access_methods)),
    table("pg_roles", ROLES, Some(roles)),
    table("pg_database", DATABASES, Some(databases)),
    table("pg_tables", PG_TABLES, Some(pg_tables)),
    table("pg_sequence", SEQUENCE, Some(sequences)),
    table("pg_settings", SETTINGS, Some(settings)),
    table("pg_collation", COLLATION, None),
    table("pg_inherits", INHERITS, None),
    table("pg_partitioned_table", PARTITIONED, None),
    table("pg_policy", POLICY, None),
    table("pg_statistic_ext", STATISTIC_EXT, None),
    table("pg_publication", PUBLICATION, None),
    table("pg_publication_rel", PUBLICATION_REL, None),
    table("pg_publication_namespace", PUBLICATION_NAMESPACE, None),
    table("pg_trigger", TRIGGER, None),
    table("pg_rewrite", REWRITE, None),
    table("pg_foreign_table", FOREIGN_TABLE, None),
    table("pg_description", DESCRIPTION, None),
    table("pg_auth_members", AUTH_MEMBERS, None),
    table("pg_enum", ENUM, None),
    table("pg_range", RANGE, None),
    table("pg_extension", EXTENSION, None),
    table("pg_proc", PROC, None),
    table("pg_views", VIEWS, None),
    SystemDefinition {
        schema: "information_schema",
        name: "tables",
        columns: INFORMATION_TABLES,
        rows: Some(information_tables),
    },
    SystemDefinition {
        schema: "information_schema",
        name: "columns",
        columns: INFORMATION_COLUMNS,
        rows: Some(information_columns),
    },
];

const fn table(
    name: &'static str,
    columns: SystemColumns,
    rows: Option<fn(&RunContext) -> SqlResult<Rows>>,
) -> SystemDefinition {
    SystemDefinition {
        schema: "pg_catalog",
        name,
        columns,
        rows,
    }
}

const NAMESPACE: SystemColumns = &[
    ("oid", Oid),
    ("nspname", Name),
    ("nspowner", Oid),
    ("nspacl", Text),
];

fn namespaces(_: &RunContext) -> SqlResult<Rows> {
    let schemas = [
        (PG_CATALOG, "pg_catalog"),
        (PUBLIC, "public"),
        (INFORMATION_SCHEMA, "information_schema"),
    ];
    let row = |(oid, name): (i64, &str)| vec![number(oid), text(name), number(OWNER), Datum::Null];
    Ok(schemas.into_iter().map(row).collect())
}

const CLASS: SystemColumns = &[
    ("oid", Oid),
    ("relname", Name),
    ("relnamespace", Oid),
    ("reltype", Oid),
    ("reloftype", Oid),
    ("relowner", Oid),
    ("relam", Oid),
    ("relfilenode", Oid),
    ("reltablespace", Oid),
    ("relpages", Int4),
    ("reltuples", SqlType::Float4),
    ("reltoastrelid", Oid),
    ("relhasindex", Bool),
    ("relisshared", Bool),
    ("relpersistence", Text),
    ("relkind", Text),
    ("relnatts", Int2),
    ("relchecks", Int2),
    ("relhasrules", Bool),
    ("relhastriggers", Bool),
    ("relhassubclass", Bool),
    ("relrowsecurity", Bool),
    ("relforcerowsecurity", Bool),
    ("relispopulated", Bool),
    ("relreplident", Text),
    ("relispartition", Bool),
    ("relacl", Text),
    ("reloptions", Text),
    ("relpartbound", Text),
];

fn class(
    oid: u32,
    name: &str,
    kind: &str,
    columns: usize,
    checks: usize,
    has_index: bool,
) -> Vec<Datum> {
    let access_method = match kind {
        "r" => HEAP,
        "i" => BTREE,
        _ => 0,
    };
    vec![
        number(oid),
        text(name),
        number(PUBLIC),
        number(0),
        number(0),
        number(OWNER),
        number(access_method),
        number(oid),
        number(0),
        number(0),
        Datum::F64(namiki_data::columns::Float(-1.0)),
        number(0),
        flag(has_index),
        flag(false),
        text("p"),
        text(kind),
        number(columns as i64),
        number(checks as i64),
        flag(false),
        flag(false),
        flag(false),
        flag(false),
        flag(false),
        flag(true),
        text("d"),
        flag(false),
        Datum::Null,
        Datum::Null,
        Datum::Null,
    ]
}

fn classes(context: &RunContext) -> SqlResult<Rows> {
    let mut rows = Vec::new();
    for relation in relations(context)? {
        let row = &relation.row;
        let has_index = row.key.is_some() || !row.indexes.is_empty();
        rows.push(class(
            row.id,
            &row.name,
            "r",
            row.columns.len(),
            row.checks.len(),
            has_index,
        ));
        if let Some(key) = &row.key {
            rows.push(class(key.id, &key.name, "i", key.columns.len(), 0, false));
        }
        for index in &row.indexes {
            rows.push(class(
                index.id,
                &index.name,
                "i",
                index.columns.len(),
                0,
                false,
            ));
        }
    }
    let sequences = context
        .handle
        .with(|reader| context.catalogue.sequences(reader))?;
    rows.extend(
        sequences
            .iter()
            .map(|it| class(it.id, &it.name, "S", 3, 0, false)),
    );
    Ok(rows)
}

const ATTRIBUTE: SystemColumns = &[
    ("attrelid", Oid),
    ("attname", Name),
    ("atttypid", Oid),
    ("attstattarget", Int4),
    ("attlen", Int2),
    ("attnum", Int2),
    ("attndims", Int4),
    ("atttypmod", Int4),
    ("attnotnull", Bool),
    ("atthasdef", Bool),
    ("attidentity", Text),
    ("attgenerated", Text),
    ("attisdropped", Bool),
    ("attcollation", Oid),
    ("attstorage", Text),
    ("attcompression", Text),
];

fn attributes(context: &RunContext) -> SqlResult<Rows> {
    let mut rows = Vec::new();
    for relation in relations(context)? {
        let row = &relation.row;
        let mut attribute = |owner: u32, at: usize, column: usize, is_index: bool| {
            let described = &row.columns[column];
            let of = described.sql_type;
            let identity = match described.identity {
                Some(Identity::Always) if !is_index => "a",
                Some(Identity::ByDefault) if !is_index => "d",
                _ => "",
            };
            let has_default =
                described.default.is_some() && described.identity.is_none() && !is_index;
            rows.push(vec![
                number(owner),
                text(&described.name),
                number(of.oid()),
                number(-1),
                number(of.size()),
                number(at as i64 + 1),
                number(0),
                number(of.modifier()),
                flag(!row.is_nullable(column) && !is_index),
                flag(has_default),
                text(identity),
                text(""),
                flag(false),
                number(0),
                text("p"),
                text(""),
            ]);
        };
        for at in 0..row.columns.len() {
            attribute(row.id, at, at, false);
        }
        let key = row.key.iter().map(|key| (key.id, &key.columns));
        for (id, columns) in key.chain(row.indexes.iter().map(|index| (index.id, &index.columns))) {
            for (at, column) in columns.iter().enumerate() {
                attribute(id, at, *column, true);
            }
        }
    }
    Ok(rows)
}

const ATTRDEF: SystemColumns = &[
    ("oid", Oid),
    ("adrelid", Oid),
    ("adnum", Int2),
    ("adbin", Text),
];

fn defaults(context: &RunContext) -> SqlResult<Rows> {
    let mut rows = Vec::new();
    let sequences = context
        .handle
        .with(|reader| context.catalogue.sequences(reader))?;
    for relation in relations(context)? {
        for (at, column) in relation.columns().iter().enumerate() {
            let shown = match &column.default {
                Some(DefaultRow::Expression(expression)) => expression.clone(),
                Some(DefaultRow::Sequence(id)) if column.identity.is_none() => {
                    let sequence = sequences.iter().find(|it| it.id == *id);
                    let name = sequence.map_or_else(String::new, |it| quoted(&it.name));
                    format!("nextval('{name}'::regclass)")
                }
                _ => continue,
            };
            let id = number(relation.id());
            rows.push(vec![id.clone(), id, number(at as i64 + 1), text(shown)]);
        }
    }
    Ok(rows)
}

const INDEX: SystemColumns = &[
    ("indexrelid", Oid),
    ("indrelid", Oid),
    ("indnatts", Int2),
    ("indnkeyatts", Int2),
    ("indisunique", Bool),
    ("indisprimary", Bool),
    ("indisexclusion", Bool),
    ("indimmediate", Bool),
    ("indisclustered", Bool),
    ("indisvalid", Bool),
    ("indisready", Bool),
    ("indislive", Bool),
    ("indisreplident", Bool),
    ("indkey", Text),
    ("indoption", Text),
    ("indexprs", Text),
    ("indpred", Text),
    // What pg_get_indexdef() answers.
    ("indexdef", Text),
];

fn indexes(context: &RunContext) -> SqlResult<Rows> {
    let mut rows = Vec::new();
    for relation in relations(context)? {
        let row = &relation.row;
        let mut index = |id: u32, name: &str, columns: &[usize], unique: bool, primary: bool| {
            let numbers: Vec<String> = columns.iter().map(|at| (at + 1).to_string()).collect();
            let options: Vec<&str> = columns.iter().map(|_| "0").collect();
            let unique_word = if unique { "UNIQUE " } else { "" };
            let definition = format!(
                "CREATE {unique_word}INDEX {} ON public.{} USING btree ({})",
                quoted(name),
                quoted(&row.name),
                names(&relation, columns)
            );
            rows.push(vec![
                number(id),
                number(row.id),
                number(columns.len() as i64),
                number(columns.len() as i64),
                flag(unique),
                flag(primary),
                flag(false),
                flag(true),
                flag(false),
                flag(true),
                flag(true),
                flag(true),
                flag(false),
                text(numbers.join(" ")),
                text(options.join(" ")),
                Datum::Null,
                Datum::Null,
                text(definition),
            ]);
        };
        if let Some(key) = &row.key {
            index(key.id, &key.name, &key.columns, true, true);
        }
        for entry in &row.indexes {
            index(entry.id, &entry.name, &entry.columns, entry.unique, false);
        }
    }
    Ok(rows)
}

/// The names of columns with commas between.
fn names(relation: &Relation, columns: &[usize]) -> String {
    let names: Vec<String> = columns
        .iter()
        .map(|at| quoted(&relation.columns()[*at].name))
        .collect();
    names.join(", ")
}

const CONSTRAINT: SystemColumns = &[
    ("oid", Oid),
    ("conname", Name),
    ("connamespace", Oid),
    ("contype", Text),
    ("condeferrable", Bool),
    ("condeferred", Bool),
    ("convalidated", Bool),
    ("conrelid", Oid),
    ("contypid", Oid),
    ("conindid", Oid),
    ("conparentid", Oid),
    ("confrelid", Oid),
    ("conkey", Text),
    ("conbin", Text),
    // What pg_get_constraintdef() answers.
    ("condef", Text),
];

fn constraints(context: &RunContext) -> SqlResult<Rows> {
    let mut rows = Vec::new();
    for relation in relations(context)? {
        let row = &relation.row;
        let mut constraint =
            |id: u32, name: &str, kind: &str, index: u32, columns: &[usize], shown: String| {
                let numbers: Vec<String> = columns.iter().map(|at| (at + 1).to_string()).collect();
                rows.push(vec![
                    number(id),
                    text(name),
                    number(PUBLIC),
                    text(kind),
                    flag(false),
                    flag(false),
                    flag(true),
                    number(row.id),
                    number(0),
                    number(index),
                    number(0),
                    number(0),
                    text(format!("{{{}}}", numbers.join(","))),
                    Datum::Null,
                    text(shown),
                ]);
            };
        if let Some(key) = &row.key {
            let shown = format!("PRIMARY KEY ({})", names(&relation, &key.columns));
            constraint(key.id, &key.name, "p", key.id, &key.columns, shown);
        }
        for index in row.indexes.iter().filter(|index| index.constraint) {
            let shown = format!("UNIQUE ({})", names(&relation, &index.columns));
            constraint(index.id, &index.name, "u", index.id, &index.columns, shown);
        }
        for check in &row.checks {
            constraint(
                row.id,
                &check.name,
                "c",
                0,
                &[],
                format!("CHECK ({})", check.expression),
            );
        }
    }
    Ok(rows)
}

const TYPE: SystemColumns = &[
    ("oid", Oid),
    ("typname", Name),
    ("typnamespace", Oid),
    ("typowner", Oid),
    ("typlen", Int2),
    ("typbyval", Bool),
    ("typtype", Text),
    ("typcategory", Text),
    ("typisdefined", Bool),
    ("typdelim", Text),
    ("typrelid", Oid),
    ("typelem", Oid),
    ("typarray", Oid),
    ("typnotnull", Bool),
    ("typbasetype", Oid),
    ("typtypmod", Int4),
    ("typndims", Int4),
    ("typcollation", Oid),
    ("typdefault", Text),
];

/// The types, with the numbers of their arrays and their categories.
pub(super) const TYPES: &[(SqlType, &str, u32, &str)] = &[
    (Bool, "bool", 1000, "B"),
    (SqlType::Bytea, "bytea", 1001, "U"),
    (Name, "name", 1003, "S"),
    (Int8, "int8", 1016, "N"),
    (Int2, "int2", 1005, "N"),
    (Int4, "int4", 1007, "N"),
    (Text, "text", 1009, "S"),
    (Oid, "oid", 1028, "N"),
    (SqlType::Json, "json", 199, "U"),
    (SqlType::Float4, "float4", 1021, "N"),
    (SqlType::Float8, "float8", 1022, "N"),
    (SqlType::Char { length: 1 }, "bpchar", 1014, "S"),
    (SqlType::VARCHAR, "varchar", 1015, "S"),
    (SqlType::Date, "date", 1182, "D"),
    (SqlType::Timestamp, "timestamp", 1115, "D"),
    (SqlType::Timestamptz, "timestamptz", 1185, "D"),
    (SqlType::Interval, "interval", 1187, "T"),
    (SqlType::NUMERIC, "numeric", 1231, "N"),
    (SqlType::Uuid, "uuid", 2951, "U"),
];

fn types(_: &RunContext) -> SqlResult<Rows> {
    let row = |(of, name, array, category): &(SqlType, &str, u32, &str)| {
        vec![
            number(of.oid()),
            text(*name),
            number(PG_CATALOG),
            number(OWNER),
            number(of.size()),
            flag((1..=8).contains(&of.size())),
            text("b"),
            text(*category),
            flag(true),
            text(","),
            number(0),
            number(0),
            number(*array),
            flag(false),
            number(0),
            number(-1),
            number(0),
            number(0),
            Datum::Null,
        ]
    };
    Ok(TYPES.iter().map(row).collect())
}

const AM: SystemColumns = &[
    ("oid", Oid),
    ("amname", Name),
    ("amhandler", Oid),
    ("amtype", Text),
];

fn access_methods(_: &RunContext) -> SqlResult<Rows> {
    let row =
        |(oid, name, kind): (i64, &str, &str)| vec![number(oid), text(name), number(0), text(kind)];
    Ok([(HEAP, "heap", "t"), (BTREE, "btree", "i")]
        .into_iter()
        .map(row)
        .collect())
}

const ROLES: SystemColumns = &[
    ("oid", Oid),
    ("rolname", Name),
    ("rolsuper", Bool),
    ("rolinherit", Bool),
    ("rolcreaterole", Bool),
    ("rolcreatedb", Bool),
    ("rolcanlogin", Bool),
    ("rolreplication", Bool),
    ("rolconnlimit", Int4),
    ("rolvaliduntil", SqlType::Timestamptz),
    ("rolbypassrls", Bool),
];

fn roles(context: &RunContext) -> SqlResult<Rows> {
    let mut row = vec![number(OWNER), text(context.user.as_str())];
    row.extend([true, true, false, false, true, false].map(flag));
    row.extend([number(-1), Datum::Null, flag(false)]);
    Ok(vec![row])
}

const DATABASES: SystemColumns = &[
    ("oid", Oid),
    ("datname", Name),
    ("datdba", Oid),
    ("encoding", Int4),
    ("datlocprovider", Text),
    ("datistemplate", Bool),
    ("datallowconn", Bool),
    ("datconnlimit", Int4),
    ("datcollate", Text),
    ("datctype", Text),
    ("daticulocale", Text),
    ("datacl", Text),
];

fn databases(_: &RunContext) -> SqlResult<Rows> {
    Ok(vec![vec![
        number(DATABASE),
        text("namiki"),
        number(OWNER),
        number(6),
        text("c"),
        flag(false),
        flag(true),
        number(-1),
        text("C"),
        text("C"),
        Datum::Null,
        Datum::Null,
    ]])
}

const PG_TABLES: SystemColumns = &[
    ("schemaname", Name),
    ("tablename", Name),
    ("tableowner", Name),
    ("tablespace", Name),
    ("hasindexes", Bool),
    ("hasrules", Bool),
    ("hastriggers", Bool),
    ("rowsecurity", Bool),
];

fn pg_tables(context: &RunContext) -> SqlResult<Rows> {
    let row = |relation: &Arc<Relation>| {
        let row = &relation.row;
        let has_index = row.key.is_some() || !row.indexes.is_empty();
        vec![
            text(&row.schema),
            text(&row.name),
            text(context.user.as_str()),
            Datum::Null,
            flag(has_index),
            flag(false),
            flag(false),
            flag(false),
        ]
    };
    Ok(relations(context)?.iter().map(row).collect())
}

const SEQUENCE: SystemColumns = &[
    ("seqrelid", Oid),
    ("seqtypid", Oid),
    ("seqstart", Int8),
    ("seqincrement", Int8),
    ("seqmax", Int8),
    ("seqmin", Int8),
    ("seqcache", Int8),
    ("seqcycle", Bool),
];

fn sequences(context: &RunContext) -> SqlResult<Rows> {
    let sequences = context
        .handle
        .with(|reader| context.catalogue.sequences(reader))?;
    let row = |it: &crate::catalogue::SequenceRow| {
        vec![
            number(it.id),
            number(20),
            number(it.start),
            number(it.increment),
            number(it.greatest),
            number(it.least),
            number(1),
            flag(it.cycle),
        ]
    };
    Ok(sequences.iter().map(row).collect())
}

const SETTINGS: SystemColumns = &[("name", Text), ("setting", Text)];

fn settings(_: &RunContext) -> SqlResult<Rows> {
    let settings = crate::settings::default_settings();
    Ok(settings
        .into_iter()
        .map(|(name, value)| vec![text(name), text(value)])
        .collect())
}

const COLLATION: SystemColumns = &[("oid", Oid), ("collname", Name), ("collnamespace", Oid)];
const INHERITS: SystemColumns = &[
    ("inhrelid", Oid),
    ("inhparent", Oid),
    ("inhseqno", Int4),
    ("inhdetachpending", Bool),
];
const PARTITIONED: SystemColumns = &[("partrelid", Oid), ("partstrat", Text), ("partnatts", Int2)];
const POLICY: SystemColumns = &[("oid", Oid), ("polname", Name), ("polrelid", Oid)];
const STATISTIC_EXT: SystemColumns = &[("oid", Oid), ("stxrelid", Oid), ("stxname", Name)];
const PUBLICATION: SystemColumns = &[("oid", Oid), ("pubname", Name), ("puballtables", Bool)];
const PUBLICATION_REL: SystemColumns = &[("oid", Oid), ("prpubid", Oid), ("prrelid", Oid)];
const PUBLICATION_NAMESPACE: SystemColumns = &[("oid", Oid), ("pnpubid", Oid), ("pnnspid", Oid)];
const TRIGGER: SystemColumns = &[
    ("oid", Oid),
    ("tgrelid", Oid),
    ("tgname", Name),
    ("tgisinternal", Bool),
];
const REWRITE: SystemColumns = &[("oid", Oid), ("rulename", Name), ("ev_class", Oid)];
const FOREIGN_TABLE: SystemColumns = &[("ftrelid", Oid), ("ftserver", Oid)];
const DESCRIPTION: SystemColumns = &[
    ("objoid", Oid),
    ("classoid", Oid),
    ("objsubid", Int4),
    ("description", Text),
];
const AUTH_MEMBERS: SystemColumns = &[("roleid", Oid), ("member", Oid), ("grantor", Oid)];
const ENUM: SystemColumns = &[
    ("oid", Oid),
    ("enumtypid", Oid),
    ("enumlabel", Name),
    ("enumsortorder", SqlType::Float4),
];
const RANGE: SystemColumns = &[("rngtypid", Oid), ("rngsubtype", Oid)];
const EXTENSION: SystemColumns = &[("oid", Oid), ("extname", Name), ("extversion", Text)];
const PROC: SystemColumns = &[("oid", Oid), ("proname", Name), ("pronamespace", Oid)];
const VIEWS: SystemColumns = &[
    ("schemaname", Name),
    ("viewname", Name),
    ("viewowner", Name),
    ("definition", Text),
];

const INFORMATION_TABLES: SystemColumns = &[
    ("table_catalog", Name),
    ("table_schema", Name),
    ("table_name", Name),
    ("table_type", Text),
];

fn information_tables(context: &RunContext) -> SqlResult<Rows> {
    let row = |relation: &Arc<Relation>| {
        let row = &relation.row;
        vec![
            text("namiki"),
            text(&row.schema),
            text(&row.name),
            text("BASE TABLE"),
        ]
    };
    Ok(relations(context)?.iter().map(row).collect())
}

const INFORMATION_COLUMNS: SystemColumns = &[
    ("table_catalog", Name),
    ("table_schema", Name),
    ("table_name", Name),
    ("column_name", Name),
    ("ordinal_position", Int4),
    ("column_default", Text),
    ("is_nullable", Text),
    ("data_type", Text),
    ("character_maximum_length", Int4),
    ("numeric_precision", Int4),
    ("numeric_scale", Int4),
];

fn information_columns(context: &RunContext) -> SqlResult<Rows> {
    let mut rows = Vec::new();
    for relation in relations(context)? {
        let row = &relation.row;
        for (at, column) in row.columns.iter().enumerate() {
            let default = match &column.default {
                Some(DefaultRow::Expression(expression)) => text(expression),
                _ => Datum::Null,
            };
            let length = match column.sql_type {
                SqlType::Varchar { limit } if limit > 0 => number(limit),
                SqlType::Char { length } => number(length),
                _ => Datum::Null,
            };
            let (precision, scale) = match column.sql_type {
                SqlType::Numeric { precision, scale } => (number(precision), number(scale)),
                _ => (Datum::Null, Datum::Null),
            };
            rows.push(vec![
                text("namiki"),
                text(&row.schema),
                text(&row.name),
                text(&column.name),
                number(at as i64 + 1),
                default,
                text(if row.is_nullable(at) { "YES" } else { "NO" }),
                text(column.sql_type.name()),
                length,
                precision,
                scale,
            ]);
        }
    }
    Ok(rows)
}
