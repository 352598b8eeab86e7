//! The types that statements name.

use datafusion::sql::sqlparser::ast::{
    CharacterLength, DataType, ExactNumberInfo, ObjectNamePart, TimezoneInfo,
};

use crate::error::{SqlError, SqlResult};
use crate::sqlstate;
use crate::types::{NUMERIC_PRECISION, SqlType};

/// The type of a column or a cast.
///
/// # Errors
/// 0A000 for a type that there is not; 22023 for limits that none has.
pub(super) fn sql_type_of_ast(data_type: &DataType) -> SqlResult<SqlType> {
    Ok(match data_type {
        DataType::Bool | DataType::Boolean => SqlType::Bool,
        DataType::SmallInt(_) | DataType::Int2(_) => SqlType::Int2,
        DataType::Int(_) | DataType::Integer(_) | DataType::Int4(_) => SqlType::Int4,
        DataType::BigInt(_) | DataType::Int8(_) => SqlType::Int8,
        DataType::Real | DataType::Float4 => SqlType::Float4,
        DataType::Double(_) | DataType::DoublePrecision | DataType::Float8 => SqlType::Float8,
        DataType::Float(ExactNumberInfo::Precision(digits)) if *digits <= 24 => SqlType::Float4,
        DataType::Float(_) => SqlType::Float8,
        DataType::Numeric(info) | DataType::Decimal(info) | DataType::Dec(info) => numeric(info)?,
        DataType::Text => SqlType::Text,
        DataType::Varchar(length)
        | DataType::CharacterVarying(length)
        | DataType::CharVarying(length) => SqlType::Varchar {
            limit: characters(length.as_ref())?.unwrap_or(0),
        },
        DataType::Char(length) | DataType::Character(length) => SqlType::Char {
            length: characters(length.as_ref())?.unwrap_or(1),
        },
        DataType::Date => SqlType::Date,
        DataType::Timestamp(_, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => {
            SqlType::Timestamp
        }
        DataType::Timestamp(_, _) => SqlType::Timestamptz,
        DataType::Uuid => SqlType::Uuid,
        DataType::Bytea => SqlType::Bytea,
        DataType::JSON | DataType::JSONB => SqlType::Json,
        DataType::Regclass => SqlType::Oid,
        DataType::Custom(name, _) => custom(&name.0).ok_or_else(|| unknown(data_type))?,
        _ => return Err(unknown(data_type)),
    })
}

fn custom(name: &[ObjectNamePart]) -> Option<SqlType> {
    let ObjectNamePart::Identifier(name) = name.last()? else {
        return None;
    };
    Some(match name.value.to_ascii_lowercase().as_str() {
        "name" => SqlType::Name,
        "oid" | "regclass" | "regtype" | "regproc" | "regnamespace" => SqlType::Oid,
        "int2" => SqlType::Int2,
        "int4" => SqlType::Int4,
        "int8" => SqlType::Int8,
        "bpchar" | "varchar" => SqlType::VARCHAR,
        "timestamptz" => SqlType::Timestamptz,
        _ => return None,
    })
}

/// Types of PostgreSQL's that there are not here; other names are of no type at all.
const UNSUPPORTED: [&str; 22] = [
    "bit", "varbit", "box", "cidr", "circle", "hstore", "inet", "jsonpath", "line", "lseg",
    "macaddr", "macaddr8", "money", "path", "pg_lsn", "point", "polygon", "time", "timetz",
    "tsquery", "tsvector", "xml",
];

fn unknown(data_type: &DataType) -> SqlError {
    let shown = data_type.to_string().to_lowercase();
    match data_type {
        DataType::Custom(..) if !UNSUPPORTED.contains(&shown.as_str()) => SqlError::new(
            sqlstate::UNDEFINED_OBJECT,
            format!("type \"{shown}\" does not exist"),
        ),
        _ => SqlError::unsupported(format!("type {shown}")),
    }
}

fn numeric(info: &ExactNumberInfo) -> SqlResult<SqlType> {
    let (precision, scale) = match *info {
        ExactNumberInfo::None => return Ok(SqlType::NUMERIC),
        ExactNumberInfo::Precision(precision) => (precision, 0),
        ExactNumberInfo::PrecisionAndScale(precision, scale) => (precision, scale),
    };
    let most = u64::from(NUMERIC_PRECISION);
    if precision == 0 || precision > most {
        return Err(SqlError::new(
            sqlstate::INVALID_PARAMETER_VALUE,
            format!("NUMERIC precision {precision} must be between 1 and {most}"),
        ));
    }
    let scales = 0..=precision.min(u64::from(namiki_data::columns::SCALE_MAX)) as i64;
    if !scales.contains(&scale) {
        return Err(SqlError::new(
            sqlstate::INVALID_PARAMETER_VALUE,
            format!(
                "NUMERIC scale {scale} must be between 0 and {}",
                scales.end()
            ),
        ));
    }
    Ok(SqlType::Numeric {
        precision: precision as u8,
        scale: scale as u8,
    })
}

fn characters(length: Option<&CharacterLength>) -> SqlResult<Option<u32>> {
    match length {
        None | Some(CharacterLength::Max) => Ok(None),
        Some(CharacterLength::IntegerLength { length, .. }) => {
            let most = 10_485_760;
            if *length == 0 || *length > most {
                return Err(SqlError::new(
                    sqlstate::INVALID_PARAMETER_VALUE,
                    format!("length for a character type must be between 1 and {most}"),
                ));
            }
            Ok(Some(*length as u32))
        }
    }
}
