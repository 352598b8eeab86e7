//! Keys and values as JSON, without loss.
//!
//! Integers beyond ±2⁵³ are strings, as many programs read JSON's numbers as floats; numbers are
//! accepted, too. Bytes and UUIDs are strings as in `text.rs`, `none` and `nothing` are `null`, the
//! content of an option is written directly (or as `{"some": …}` if it could be `null`), tuples and
//! lists are arrays. Bytes that are not a value of their type are `{"raw": "0x…"}`.

use serde_json::{Map, Number, Value};

use super::datum::{Fields, from_hex, hex, uuid_from_text, uuid_text};
use super::moment::{Moment, duration_from_text};
use super::{Datum, Type};

/// The largest integer up to which a float represents every integer exactly.
const EXACT_MAX: u128 = 1 << 53;

/// A key or a value of this type as JSON.
pub(crate) fn to_json(of: &Type, datum: &Datum) -> Value {
    match (of, datum) {
        (_, Datum::Unsigned(number)) => match u64::try_from(*number) {
            Ok(small) if *number <= EXACT_MAX => small.into(),
            _ => number.to_string().into(),
        },
        (_, Datum::Signed(number)) => match i64::try_from(*number) {
            Ok(small) if number.unsigned_abs() <= EXACT_MAX => small.into(),
            _ => number.to_string().into(),
        },
        (_, Datum::F32(number)) => float(f64::from(*number)),
        (_, Datum::F64(number)) => float(*number),
        (_, Datum::Bool(value)) => (*value).into(),
        (_, Datum::Char(char)) => char.to_string().into(),
        (_, Datum::Text(text)) => text.clone().into(),
        (_, Datum::Bytes(bytes)) => hex(bytes).into(),
        (_, Datum::Uuid(uuid)) => uuid_text(uuid).into(),
        (_, Datum::Nothing | Datum::Option(None)) => Value::Null,
        (Type::Option(inner), Datum::Option(Some(datum))) => {
            let json = to_json(inner, datum);
            if may_be_null(inner) {
                object("some", json)
            } else {
                json
            }
        }
        (Type::Tuple(types), Datum::Tuple(parts)) => {
            let parts = types.iter().zip(parts);
            parts.map(|(of, part)| to_json(of, part)).collect()
        }
        (Type::List(item) | Type::Array(item, _), Datum::List(items)) => {
            items.iter().map(|datum| to_json(item, datum)).collect()
        }
        (of, Datum::Raw(bytes)) if !of.is_known() => hex(bytes).into(),
        (_, Datum::Raw(bytes)) => object("raw", hex(bytes).into()),
        (_, Datum::Duration(_) | Datum::Time(_)) => datum.to_string().into(),
        (Type::Map(key, value), Datum::Map(entries)) => entries
            .iter()
            .map(|(its_key, its_value)| {
                Value::Array(vec![to_json(key, its_key), to_json(value, its_value)])
            })
            .collect(),
        (_, Datum::Fields(fields)) => fields_to_json(fields),
        (of, Datum::Option(_) | Datum::Tuple(_) | Datum::List(_) | Datum::Map(_)) => {
            unreachable!("{datum} was read as {of}")
        }
    }
}

/// An object with the fields of a derived type, or an array if they have no names; for an enum,
/// within an object with the name of the variant. For programs that process the output: it is not
/// read back.
fn fields_to_json(of: &Fields) -> Value {
    let inner = of.fields.iter();
    let inner = if of.is_tuple() {
        inner.map(|(_, datum)| untyped_to_json(datum)).collect()
    } else {
        Value::Object(
            inner
                .map(|(name, datum)| (name.clone(), untyped_to_json(datum)))
                .collect(),
        )
    };
    match &of.variant {
        None => inner,
        Some(variant) if of.fields.is_empty() => variant.clone().into(),
        Some(variant) => object(variant, inner),
    }
}

/// A part of a derived type as JSON.
fn untyped_to_json(datum: &Datum) -> Value {
    match datum {
        Datum::Option(Some(inner)) => match untyped_to_json(inner) {
            Value::Null => object("some", Value::Null),
            other => other,
        },
        Datum::Tuple(parts) | Datum::List(parts) => parts.iter().map(untyped_to_json).collect(),
        Datum::Map(entries) => entries
            .iter()
            .map(|(key, value)| Value::Array(vec![untyped_to_json(key), untyped_to_json(value)]))
            .collect(),
        // The other kinds need no type.
        other => to_json(&Type::Nothing, other),
    }
}

fn float(number: f64) -> Value {
    match Number::from_f64(number) {
        Some(finite) => finite.into(),
        None => number.to_string().into(),
    }
}

fn object(name: &str, value: Value) -> Value {
    Value::Object(Map::from_iter([(name.to_owned(), value)]))
}

/// The value of an object's only member, if it has this name.
fn member<'v>(json: &'v Value, name: &str) -> Option<&'v Value> {
    let object = json.as_object().filter(|object| object.len() == 1)?;
    object.get(name)
}

/// Whether a value of the type may be `null`.
fn may_be_null(of: &Type) -> bool {
    matches!(of, Type::Option(_) | Type::Nothing)
}

/// The reason for which JSON is not a key or value of a type.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{json} is not of type {of}")]
pub(crate) struct JsonError {
    json: String,
    of: String,
}

/// The key or value of this type from JSON.
pub(crate) fn from_json(of: &Type, json: &Value) -> Result<Datum, JsonError> {
    if let Some(raw) = member(json, "raw") {
        let bytes = raw.as_str().and_then(from_hex);
        return bytes.map(Datum::Raw).ok_or_else(|| refused(of, json));
    }
    if !of.is_known() {
        let bytes = json.as_str().and_then(from_hex);
        return bytes.map(Datum::Raw).ok_or_else(|| refused(of, json));
    }
    datum(of, json)
}

fn refused(of: &Type, json: &Value) -> JsonError {
    let mut json = json.to_string();
    if json.len() > 200 {
        json.truncate(json.floor_char_boundary(200));
        json.push('…');
    }
    JsonError {
        json,
        of: of.to_string(),
    }
}

fn datum(of: &Type, json: &Value) -> Result<Datum, JsonError> {
    let refused = || refused(of, json);
    let items = |json: &Value, item: &Type| -> Result<Vec<Datum>, JsonError> {
        let items = json.as_array().ok_or_else(refused)?;
        items.iter().map(|json| datum(item, json)).collect()
    };
    let found = match of {
        Type::Unsigned(bits) => {
            let number = match json {
                Value::String(text) => text.parse().ok(),
                _ => json.as_u64().map(u128::from),
            };
            number
                .filter(|number| *bits == 128 || number >> bits == 0)
                .map(Datum::Unsigned)
        }
        Type::Signed(bits) => {
            let number: Option<i128> = match json {
                Value::String(text) => text.parse().ok(),
                _ => (json.as_i64().map(i128::from)).or(json.as_u64().map(i128::from)),
            };
            let unused = 128 - bits;
            number
                .filter(|number| number << unused >> unused == *number)
                .map(Datum::Signed)
        }
        Type::F32 => match json {
            Value::String(text) => not_finite(text).map(|number| Datum::F32(number as f32)),
            _ => json.as_f64().map(|number| Datum::F32(number as f32)),
        },
        Type::F64 => match json {
            Value::String(text) => not_finite(text).map(Datum::F64),
            _ => json.as_f64().map(Datum::F64),
        },
        Type::Bool => json.as_bool().map(Datum::Bool),
        Type::Char => json.as_str().and_then(|text| {
            let mut chars = text.chars();
            chars
                .next()
                .filter(|_| chars.next().is_none())
                .map(Datum::Char)
        }),
        Type::Text => json.as_str().map(|text| Datum::Text(text.to_owned())),
        Type::Bytes => json.as_str().and_then(from_hex).map(Datum::Bytes),
        Type::ByteArray(count) => {
            let bytes = json.as_str().and_then(from_hex);
            bytes
                .filter(|bytes| bytes.len() == *count)
                .map(Datum::Bytes)
        }
        Type::Uuid => json.as_str().and_then(uuid_from_text).map(Datum::Uuid),
        Type::Nothing => json.is_null().then_some(Datum::Nothing),
        Type::Option(_) if json.is_null() => Some(Datum::Option(None)),
        Type::Option(inner) => {
            let inside = if may_be_null(inner) {
                member(json, "some").ok_or_else(refused)?
            } else {
                json
            };
            Some(Datum::Option(Some(Box::new(datum(inner, inside)?))))
        }
        Type::Tuple(types) => {
            let parts = json.as_array().filter(|parts| parts.len() == types.len());
            let parts = types.iter().zip(parts.ok_or_else(refused)?);
            let parts = parts.map(|(of, part)| datum(of, part));
            Some(Datum::Tuple(parts.collect::<Result<_, _>>()?))
        }
        Type::List(item) => Some(Datum::List(items(json, item)?)),
        Type::Array(item, count) => Some(Datum::List(items(json, item)?))
            .filter(|list| matches!(list, Datum::List(items) if items.len() == *count)),
        Type::Map(key, value) => {
            let entries = json.as_array().ok_or_else(refused)?.iter().map(|entry| {
                let [its_key, its_value] = &**entry.as_array()? else {
                    return None;
                };
                Some((datum(key, its_key).ok()?, datum(value, its_value).ok()?))
            });
            entries.collect::<Option<_>>().map(Datum::Map)
        }
        Type::Duration => json
            .as_str()
            .and_then(duration_from_text)
            .map(Datum::Duration),
        Type::Time => json.as_str().and_then(Moment::from_text).map(Datum::Time),
        // In files, they are their bytes.
        Type::Derived(_) | Type::Itself | Type::Unknown(_) => None,
    };
    found.ok_or_else(refused)
}

/// A float that JSON cannot represent as a number.
fn not_finite(text: &str) -> Option<f64> {
    let number: f64 = text.parse().ok()?;
    (!number.is_finite()).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_read_as_it_was_written() {
        for (of, text) in [
            ("u64", "9007199254740992"),
            ("u64", "\"18446744073709551615\""),
            ("i64", "\"-9223372036854775808\""),
            ("i128", "\"-170141183460469231731687303715884105728\""),
            ("f64", "0.1"),
            ("f64", "-0.0"),
            ("f64", "\"NaN\""),
            ("f32", "\"-inf\""),
            ("f64", "5e-324"),
            ("f64", "1.7976931348623157e+308"),
            ("bool", "true"),
            ("char", "\"並\""),
            ("string", "\"a\\n\\u0000\""),
            ("bytes", "\"0x00ff\""),
            ("[u8; 2]", "\"0x00ff\""),
            ("uuid", "\"00112233-4455-6677-8899-aabbccddeeff\""),
            ("nothing", "null"),
            ("option<u64>", "null"),
            ("option<u64>", "7"),
            ("option<option<u64>>", "{\"some\":7}"),
            ("option<option<u64>>", "{\"some\":null}"),
            ("(string, option<nothing>)", "[\"a\",{\"some\":null}]"),
            ("list<[u16; 2]>", "[[1,2],[3,4]]"),
            ("map<string, u64>", "[[\"a\",1],[\"b\",2]]"),
            ("duration", "\"1.5s\""),
            ("time", "\"2026-11-26T11:54:29.5Z\""),
            ("u64", "{\"raw\":\"0x01\"}"),
            ("Id#0123456789abcdef", "\"0x01\""),
        ] {
            let of = Type::parse(of);
            let json: Value = serde_json::from_str(text).unwrap();
            let datum = from_json(&of, &json).unwrap();
            assert_eq!(to_json(&of, &datum).to_string(), text, "{of}");
        }
    }

    #[test]
    fn a_number_too_many_is_no_value() {
        for (of, text) in [
            ("u8", "256"),
            ("u8", "-1"),
            ("i8", "\"128\""),
            ("u64", "1.5"),
            ("f64", "\"1.5\""),
            ("[u16; 2]", "[1]"),
            ("(u8, u8)", "[1]"),
            ("[u8; 2]", "\"0x00\""),
            ("string", "7"),
            ("option<nothing>", "7"),
        ] {
            let json: Value = serde_json::from_str(text).unwrap();
            assert!(from_json(&Type::parse(of), &json).is_err(), "{of}: {text}");
        }
        // Large integers are accepted as numbers, too.
        let json: Value = serde_json::from_str("18446744073709551615").unwrap();
        let found = from_json(&Type::Unsigned(64), &json).unwrap();
        assert_eq!(found, Datum::Unsigned(u64::MAX.into()));
    }
}
