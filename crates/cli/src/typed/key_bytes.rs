//! Keys and their bytes, by the engine's own encodings.

use namiki::{AsKey, Key, KeyBytes};

use super::type_name::Derived;
use super::{Datum, Type};

/// Decodes a key of this type.
pub(crate) fn read_key(of: &Type, bytes: &[u8]) -> Datum {
    let read = match decode(of, bytes) {
        Some(read) => read,
        None => return Datum::Raw(bytes.to_vec()),
    };
    match key_bytes(of, &read) {
        Some(same) if same == bytes => read,
        _ => Datum::Raw(bytes.to_vec()),
    }
}

/// The bytes of a key, if it is one of the type.
pub(crate) fn key_bytes(of: &Type, key: &Datum) -> Option<Vec<u8>> {
    if let Datum::Raw(bytes) = key {
        return Some(bytes.clone());
    }
    let mut bytes = KeyBytes::new();
    encode(of, key, &mut bytes)?;
    Some(bytes.to_vec())
}

/// The common first bytes of the keys with this prefix: the beginning of a text, or the first parts
/// of a tuple.
pub(crate) fn key_prefix_bytes(of: &Type, prefix: &Datum) -> Option<Vec<u8>> {
    match (of, prefix) {
        (_, Datum::Raw(bytes)) | (Type::Bytes | Type::ByteArray(_), Datum::Bytes(bytes)) => {
            Some(bytes.clone())
        }
        (Type::Text, Datum::Text(text)) => Some(text.as_bytes().to_vec()),
        (Type::Tuple(types), Datum::Tuple(parts)) if parts.len() <= types.len() => {
            let mut bytes = KeyBytes::new();
            for (of, part) in types.iter().zip(parts) {
                encode_component(of, part, &mut bytes)?;
            }
            Some(bytes.to_vec())
        }
        _ => None,
    }
}

/// Number of bytes of a variant's number in a key.
fn number_bytes(of: &Derived) -> usize {
    if of.variants.len() <= 1 << 8 { 1 } else { 2 }
}

/// Decodes a key that stands alone.
fn decode(of: &Type, bytes: &[u8]) -> Option<Datum> {
    match of {
        Type::Text => <String as Key>::decode(bytes).map(Datum::Text),
        Type::Bytes => Some(Datum::Bytes(bytes.to_vec())),
        Type::Option(inner) => match bytes {
            [0] => Some(Datum::Option(None)),
            [1, key @ ..] => Some(Datum::Option(Some(Box::new(decode(inner, key)?)))),
            _ => None,
        },
        Type::Derived(derived) if derived.only_field().is_some() => {
            let (_, field) = derived.only_field()?;
            Some(derived.variants[0].with(None, vec![decode(field, bytes)?]))
        }
        _ => {
            let mut rest = bytes;
            let key = decode_component(of, &mut rest)?;
            rest.is_empty().then_some(key)
        }
    }
}

fn decode_component(of: &Type, bytes: &mut &[u8]) -> Option<Datum> {
    macro_rules! integer {
        ($type:ty, $datum:ident) => {
            <$type as Key>::decode_component(bytes).map(|key| Datum::$datum(key.into()))
        };
    }
    macro_rules! other {
        ($type:ty, $datum:ident) => {
            <$type as Key>::decode_component(bytes).map(Datum::$datum)
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
        Type::Bool => other!(bool, Bool),
        Type::Char => other!(char, Char),
        Type::Text => other!(String, Text),
        Type::Bytes => other!(Vec<u8>, Bytes),
        Type::ByteArray(count) => Some(Datum::Bytes(bytes.split_off(..*count)?.to_vec())),
        Type::Uuid => other!([u8; 16], Uuid),
        Type::Nothing => Some(Datum::Nothing),
        Type::Option(inner) => match bytes.split_off_first()? {
            0 => Some(Datum::Option(None)),
            1 => Some(Datum::Option(Some(Box::new(decode_component(
                inner, bytes,
            )?)))),
            _ => None,
        },
        Type::Tuple(types) => {
            let parts = types.iter().map(|of| decode_component(of, bytes));
            parts.collect::<Option<_>>().map(Datum::Tuple)
        }
        Type::Derived(derived) => {
            let variant = if derived.is_enum() {
                let number = bytes.split_off(..number_bytes(derived))?.iter();
                let number = number.fold(0, |high, low| high << 8 | usize::from(*low));
                derived.variants.get(number)?
            } else {
                derived.variants.first()?
            };
            let fields = variant.fields.iter();
            let fields = fields.map(|(_, field)| decode_component(field, bytes));
            Some(variant.with(None, fields.collect::<Option<_>>()?))
        }
        Type::F32
        | Type::F64
        | Type::List(_)
        | Type::Array(..)
        | Type::Map(..)
        | Type::Duration
        | Type::Time
        | Type::Itself
        | Type::Unknown(_) => None,
    }
}

fn encode(of: &Type, key: &Datum, into: &mut KeyBytes) -> Option<()> {
    match (of, key) {
        (Type::Text, Datum::Text(text)) => into.extend_from_slice(text.as_bytes()),
        (Type::Bytes, Datum::Bytes(bytes)) => into.extend_from_slice(bytes),
        (Type::Option(inner), Datum::Option(Some(key))) => {
            into.push(1);
            encode(inner, key, into)?;
        }
        (Type::Derived(derived), Datum::Fields(given)) if derived.only_field().is_some() => {
            let (_, mut fields) = derived.variant_of(given)?;
            fields.try_for_each(|(field, datum)| encode(field, datum, into))?;
        }
        _ => encode_component(of, key, into)?,
    }
    Some(())
}

fn encode_component(of: &Type, key: &Datum, into: &mut KeyBytes) -> Option<()> {
    macro_rules! integer {
        ($type:ty, $number:expr) => {
            AsKey::<$type>::encode_component(&<$type>::try_from(*$number).ok()?, into)
        };
    }
    match (of, key) {
        (Type::Text, Datum::Text(text)) => AsKey::<String>::encode_component(text, into),
        (Type::Bytes, Datum::Bytes(bytes)) => AsKey::<Vec<u8>>::encode_component(bytes, into),
        (Type::ByteArray(count), Datum::Bytes(bytes)) if bytes.len() == *count => {
            into.extend_from_slice(bytes);
        }
        (Type::Uuid, Datum::Uuid(uuid)) => into.extend_from_slice(uuid),
        (Type::Nothing, Datum::Nothing) => {}
        (Type::Option(_), Datum::Option(None)) => into.push(0),
        (Type::Option(inner), Datum::Option(Some(key))) => {
            into.push(1);
            encode_component(inner, key, into)?;
        }
        (Type::Tuple(types), Datum::Tuple(parts)) if types.len() == parts.len() => {
            for (of, part) in types.iter().zip(parts) {
                encode_component(of, part, into)?;
            }
        }
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
        (Type::Derived(derived), Datum::Fields(given)) => {
            let (number, mut fields) = derived.variant_of(given)?;
            if derived.is_enum() {
                let number = (number as u32).to_be_bytes();
                into.extend_from_slice(&number[number.len() - number_bytes(derived)..]);
            }
            fields.try_for_each(|(field, datum)| encode_component(field, datum, into))?;
        }
        (Type::Bool, Datum::Bool(value)) => AsKey::<bool>::encode_component(value, into),
        (Type::Char, Datum::Char(value)) => AsKey::<char>::encode_component(value, into),
        _ => return None,
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A key, its type by name, and its decoded datum.
    fn check<K: Key<Owned = K>>(key: &K, read: Datum) {
        let name = K::type_name();
        let of = Type::parse(&name);
        let mut bytes = KeyBytes::new();
        key.encode(&mut bytes);
        assert_eq!(read_key(&of, &bytes), read, "{name}");
        assert_eq!(key_bytes(&of, &read).unwrap(), bytes.to_vec(), "{name}");
    }

    #[test]
    fn keys_are_read_as_their_types_write_them() {
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
            &("a\0b".to_owned(), Some(vec![0_u8]), (7_u64, [9_u8; 16])),
            Datum::Tuple(vec![
                text("a\0b"),
                some(Datum::Bytes(vec![0])),
                Datum::Tuple(vec![Datum::Unsigned(7), Datum::Bytes(vec![9; 16])]),
            ]),
        );
    }

    #[test]
    fn what_a_type_would_not_write_stays_bytes() {
        let raw = |of: &str, bytes: &[u8]| {
            assert_eq!(
                read_key(&Type::parse(of), bytes),
                Datum::Raw(bytes.to_vec())
            );
        };
        raw("u64", &[1]);
        raw("bool", &[2]);
        raw("string", &[0xff]);
        raw("(string, u8)", &[b'a', 0, 7]);
        raw("(u8, u8)", &[1, 2, 3]);
        raw("Id#0123456789abcdef", &[1, 2]);
        assert_eq!(key_bytes(&Type::Unsigned(8), &Datum::Unsigned(256)), None);
    }
}
