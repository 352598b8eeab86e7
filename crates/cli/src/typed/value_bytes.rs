//! Values and their bytes, by the engine's own encodings.

use std::time::Duration;

use namiki::__derive::{put_length, take_length};
use namiki::{Value, ValueBytes};

use super::datum::{Fields, may_be_below};
use super::derived::NESTED_MAX;
use super::moment::Moment;
use super::type_name::Derived;
use super::{Datum, Type};

/// Decodes a value of this type.
pub(crate) fn read_value(of: &Type, bytes: &[u8]) -> Datum {
    let read = match decode(of, bytes) {
        Some(read) => read,
        None => return Datum::Raw(bytes.to_vec()),
    };
    match value_bytes(of, &read) {
        Some(same) if same == bytes => read,
        _ => Datum::Raw(bytes.to_vec()),
    }
}

/// The bytes of a value, if it is one of the type.
pub(crate) fn value_bytes(of: &Type, value: &Datum) -> Option<Vec<u8>> {
    if let Datum::Raw(bytes) = value {
        return Some(bytes.clone());
    }
    let mut bytes = ValueBytes::new();
    encode(of, value, &mut bytes)?;
    Some(bytes.to_vec())
}

/// Decodes a value that stands alone.
fn decode(of: &Type, bytes: &[u8]) -> Option<Datum> {
    let mut rest = bytes;
    let value = match of {
        Type::Text => return <String as Value>::decode(bytes).map(Datum::Text),
        Type::Bytes => return Some(Datum::Bytes(bytes.to_vec())),
        Type::Derived(derived) => {
            let version = u32::try_from(take_length(&mut rest)?).ok()?;
            decode_fields(derived.of_version(version)?, Some(version), 0, &mut rest)?
        }
        _ => decode_component(of, None, &mut rest)?,
    };
    rest.is_empty().then_some(value)
}

/// The enclosing derived type, and its recursion depth.
type Inside<'d> = Option<(&'d Derived, u32)>;

fn decode_fields(
    of: &Derived,
    version: Option<u32>,
    depth: u32,
    bytes: &mut &[u8],
) -> Option<Datum> {
    if depth > NESTED_MAX {
        return None;
    }
    let variant = if of.is_enum() {
        of.variants.get(take_length(bytes)?)?
    } else {
        of.variants.first()?
    };
    let fields = variant.fields.iter();
    let fields = fields.map(|(_, field)| decode_component(field, Some((of, depth)), bytes));
    Some(variant.with(version, fields.collect::<Option<_>>()?))
}

fn decode_component(of: &Type, inside: Inside<'_>, bytes: &mut &[u8]) -> Option<Datum> {
    macro_rules! integer {
        ($type:ty, $datum:ident) => {
            <$type as Value>::decode_component(bytes).map(|value| Datum::$datum(value.into()))
        };
    }
    macro_rules! other {
        ($type:ty, $datum:ident) => {
            <$type as Value>::decode_component(bytes).map(Datum::$datum)
        };
    }
    match of {
        Type::Unsigned(8) => integer!(u8, Unsigned),
        Type::Unsigned(16) => integer!(u16, Unsigned),
        Type::Unsigned(32) => integer!(u32, Unsigned),
        Type::Unsigned(64) => integer!(u64, Unsigned),
        Type::Unsigned(_) => integer!(u128, Unsigned),
        Type::Signed(8) => integer!(i8, Signed),
        Type::Signed(16) => integer!(i16, Signed),
        Type::Signed(32) => integer!(i32, Signed),
        Type::Signed(64) => integer!(i64, Signed),
        Type::Signed(_) => integer!(i128, Signed),
        // Other NaNs have no text that would restore their bits.
        Type::F32 => <f32 as Value>::decode_component(bytes)
            .filter(|value| !value.is_nan() || value.to_bits() == f32::NAN.to_bits())
            .map(Datum::F32),
        Type::F64 => <f64 as Value>::decode_component(bytes)
            .filter(|value| !value.is_nan() || value.to_bits() == f64::NAN.to_bits())
            .map(Datum::F64),
        Type::Bool => other!(bool, Bool),
        Type::Char => other!(char, Char),
        Type::Text => other!(String, Text),
        Type::Bytes => other!(Vec<u8>, Bytes),
        Type::Uuid => other!([u8; 16], Uuid),
        Type::ByteArray(count) => Some(Datum::Bytes(bytes.split_off(..*count)?.to_vec())),
        Type::Nothing => Some(Datum::Nothing),
        Type::Option(inner) => match bytes.split_off_first()? {
            0 => Some(Datum::Option(None)),
            1 => Some(Datum::Option(Some(Box::new(decode_component(
                inner, inside, bytes,
            )?)))),
            _ => None,
        },
        Type::Tuple(types) => {
            let parts = types.iter().map(|of| decode_component(of, inside, bytes));
            parts.collect::<Option<_>>().map(Datum::Tuple)
        }
        Type::List(item) => {
            let count = take_length(bytes)?;
            decode_items(item, count, inside, bytes)
        }
        Type::Array(item, count) => decode_items(item, *count, inside, bytes),
        Type::Map(key, value) => {
            let count = take_length(bytes)?;
            // An entry takes at least one byte, unless it is the only one: keys differ.
            let entries = (0..count.min(bytes.len() + 2)).map(|_| {
                let key = decode_component(key, inside, bytes)?;
                Some((key, decode_component(value, inside, bytes)?))
            });
            let entries = entries.collect::<Option<Vec<_>>>()?;
            (entries.len() == count).then_some(Datum::Map(entries))
        }
        Type::Duration => other!(Duration, Duration),
        Type::Time => {
            let seconds = <i64 as Value>::decode_component(bytes)?;
            let nanos = <u32 as Value>::decode_component(bytes)?;
            (nanos < 1_000_000_000).then_some(Datum::Time(Moment { seconds, nanos }))
        }
        Type::Derived(derived) => decode_fields(derived, None, 0, bytes),
        Type::Itself => {
            let (derived, depth) = inside?;
            decode_fields(derived, None, depth + 1, bytes)
        }
        Type::Unknown(_) => None,
    }
}

/// Items take at least one byte, so damage cannot demand more items than bytes.
fn decode_items(of: &Type, count: usize, inside: Inside<'_>, bytes: &mut &[u8]) -> Option<Datum> {
    if count > bytes.len() {
        return None;
    }
    let items = (0..count).map(|_| decode_component(of, inside, bytes));
    items.collect::<Option<_>>().map(Datum::List)
}

fn encode(of: &Type, value: &Datum, into: &mut ValueBytes) -> Option<()> {
    match (of, value) {
        (Type::Text, Datum::Text(text)) => into.extend_from_slice(text.as_bytes()),
        (Type::Bytes, Datum::Bytes(bytes)) => into.extend_from_slice(bytes),
        (Type::Derived(derived), Datum::Fields(fields)) => {
            // A value that was given by its fields has the latest version.
            let version = fields.version.or_else(|| derived.version())?;
            put_length(version as usize, into);
            encode_fields(derived.of_version(version)?, fields, into)?;
        }
        _ => encode_component(of, value, None, into)?,
    }
    Some(())
}

fn encode_fields(of: &Derived, given: &Fields, into: &mut ValueBytes) -> Option<()> {
    let (number, mut fields) = of.variant_of(given)?;
    if of.is_enum() {
        put_length(number, into);
    }
    fields.try_for_each(|(field, datum)| encode_component(field, datum, Some(of), into))
}

fn encode_component(
    of: &Type,
    value: &Datum,
    inside: Option<&Derived>,
    into: &mut ValueBytes,
) -> Option<()> {
    macro_rules! integer {
        ($type:ty, $number:expr) => {
            <$type>::try_from(*$number).ok()?.encode_component(into)
        };
    }
    match (of, value) {
        (Type::Unsigned(bits), Datum::Unsigned(number)) => match bits {
            8 => integer!(u8, number),
            16 => integer!(u16, number),
            32 => integer!(u32, number),
            64 => integer!(u64, number),
            _ => integer!(u128, number),
        },
        (Type::Signed(bits), Datum::Signed(number)) => match bits {
            8 => integer!(i8, number),
            16 => integer!(i16, number),
            32 => integer!(i32, number),
            64 => integer!(i64, number),
            _ => integer!(i128, number),
        },
        (Type::F32, Datum::F32(value)) => value.encode_component(into),
        (Type::F64, Datum::F64(value)) => value.encode_component(into),
        (Type::Bool, Datum::Bool(value)) => value.encode_component(into),
        (Type::Char, Datum::Char(value)) => value.encode_component(into),
        (Type::Text, Datum::Text(text)) => text.encode_component(into),
        (Type::Bytes, Datum::Bytes(bytes)) => bytes.encode_component(into),
        (Type::ByteArray(count), Datum::Bytes(bytes)) if bytes.len() == *count => {
            into.extend_from_slice(bytes);
        }
        (Type::Uuid, Datum::Uuid(uuid)) => into.extend_from_slice(uuid),
        (Type::Nothing, Datum::Nothing) => {}
        (Type::Option(_), Datum::Option(None)) => into.push(0),
        (Type::Option(inner), Datum::Option(Some(value))) => {
            into.push(1);
            encode_component(inner, value, inside, into)?;
        }
        (Type::Tuple(types), Datum::Tuple(parts)) if types.len() == parts.len() => {
            for (of, part) in types.iter().zip(parts) {
                encode_component(of, part, inside, into)?;
            }
        }
        (Type::List(item), Datum::List(items)) => {
            put_length(items.len(), into);
            encode_items(item, items, inside, into)?;
        }
        (Type::Array(item, count), Datum::List(items)) if items.len() == *count => {
            encode_items(item, items, inside, into)?;
        }
        (Type::Map(key, value), Datum::Map(entries)) => {
            // In ascending order, each key once: maps have one encoding.
            let mut pairs = entries.windows(2);
            if !pairs.all(|pair| may_be_below(&pair[0].0, &pair[1].0)) {
                return None;
            }
            put_length(entries.len(), into);
            for (its_key, its_value) in entries {
                encode_component(key, its_key, inside, into)?;
                encode_component(value, its_value, inside, into)?;
            }
        }
        (Type::Duration, Datum::Duration(value)) => value.encode_component(into),
        (Type::Time, Datum::Time(Moment { seconds, nanos })) => {
            seconds.encode_component(into);
            nanos.encode_component(into);
        }
        (Type::Derived(derived), Datum::Fields(fields)) => encode_fields(derived, fields, into)?,
        (Type::Itself, Datum::Fields(fields)) => encode_fields(inside?, fields, into)?,
        _ => return None,
    }
    Some(())
}

fn encode_items(
    of: &Type,
    items: &[Datum],
    inside: Option<&Derived>,
    into: &mut ValueBytes,
) -> Option<()> {
    items
        .iter()
        .try_for_each(|item| encode_component(of, item, inside, into))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<V: Value<Owned = V>>(value: &V, read: Datum) {
        let name = V::type_name();
        let of = Type::parse(&name);
        let mut bytes = ValueBytes::new();
        value.encode(&mut bytes);
        assert_eq!(read_value(&of, &bytes), read, "{name}");
        assert_eq!(value_bytes(&of, &read).unwrap(), bytes.to_vec(), "{name}");
    }

    #[test]
    fn values_are_read_as_their_types_write_them() {
        check(&7_u8, Datum::Unsigned(7));
        check(&u16::MAX, Datum::Unsigned(0xffff));
        check(&7_u32, Datum::Unsigned(7));
        check(&u64::MAX, Datum::Unsigned(u64::MAX.into()));
        check(&u128::MAX, Datum::Unsigned(u128::MAX));
        check(&-7_i8, Datum::Signed(-7));
        check(&i16::MIN, Datum::Signed(i16::MIN.into()));
        check(&-7_i32, Datum::Signed(-7));
        check(&i64::MIN, Datum::Signed(i64::MIN.into()));
        check(&i128::MIN, Datum::Signed(i128::MIN));
        check(&-0.1_f32, Datum::F32(-0.1));
        check(&f64::INFINITY, Datum::F64(f64::INFINITY));
        check(&true, Datum::Bool(true));
        check(&'並', Datum::Char('並'));
        check(&(), Datum::Nothing);
        let text = |text: &str| Datum::Text(text.to_owned());
        check(&"a\0b".to_owned(), text("a\0b"));
        check(&vec![0_u8, 255], Datum::Bytes(vec![0, 255]));
        check(&[1_u8, 2, 3], Datum::Bytes(vec![1, 2, 3]));
        let some = |datum| Datum::Option(Some(Box::new(datum)));
        check(&Some("x".to_owned()), some(text("x")));
        check(&None::<u64>, Datum::Option(None));
        check(
            &(
                vec!["a".to_owned(), String::new()],
                Some(vec![0_u8]),
                [-1_i16, 2],
            ),
            Datum::Tuple(vec![
                Datum::List(vec![text("a"), text("")]),
                some(Datum::Bytes(vec![0])),
                Datum::List(vec![Datum::Signed(-1), Datum::Signed(2)]),
            ]),
        );
    }

    #[test]
    fn what_a_type_would_not_write_stays_bytes() {
        let raw = |of: &str, bytes: &[u8]| {
            assert_eq!(
                read_value(&Type::parse(of), bytes),
                Datum::Raw(bytes.to_vec())
            );
        };
        raw("u64", &[1]);
        raw("bool", &[2]);
        raw("string", &[0xff]);
        raw("f64", &(f64::NAN.to_bits() | 1).to_le_bytes());
        raw("list<u64>", &[0xff, 0xff, 0xff, 0xff, 0x0f]);
        // A length in two bytes that would fit into one.
        raw("(string, u8)", &[0x81, 0x00, b'a', 7]);
        raw("Account@1#0123456789abcdef", &[1, 2]);
    }
}
