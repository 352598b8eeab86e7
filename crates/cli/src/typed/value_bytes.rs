//! Values and their bytes, by the engine's own encodings.

use namiki::{Value, ValueBytes};

use super::{Datum, Type};

/// The value of this type that has these bytes.
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

/// A value by itself.
fn decode(of: &Type, bytes: &[u8]) -> Option<Datum> {
    match of {
        Type::Text => <String as Value>::decode(bytes).map(Datum::Text),
        Type::Bytes => Some(Datum::Bytes(bytes.to_vec())),
        _ => {
            let mut rest = bytes;
            let value = decode_component(of, &mut rest)?;
            rest.is_empty().then_some(value)
        }
    }
}

fn decode_component(of: &Type, bytes: &mut &[u8]) -> Option<Datum> {
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
        // Other bits that are no number have no text that would bring them back.
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
                inner, bytes,
            )?)))),
            _ => None,
        },
        Type::Tuple(types) => {
            let parts = types.iter().map(|of| decode_component(of, bytes));
            parts.collect::<Option<_>>().map(Datum::Tuple)
        }
        Type::List(item) => {
            let count = namiki::__derive::take_length(bytes)?;
            decode_items(item, count, bytes)
        }
        Type::Array(item, count) => decode_items(item, *count, bytes),
        Type::Unknown(_) => None,
    }
}

/// Items take a byte at least, so damage cannot ask for more than there are bytes.
fn decode_items(of: &Type, count: usize, bytes: &mut &[u8]) -> Option<Datum> {
    if count > bytes.len() {
        return None;
    }
    let items = (0..count).map(|_| decode_component(of, bytes));
    items.collect::<Option<_>>().map(Datum::List)
}

fn encode(of: &Type, value: &Datum, into: &mut ValueBytes) -> Option<()> {
    match (of, value) {
        (Type::Text, Datum::Text(text)) => into.extend_from_slice(text.as_bytes()),
        (Type::Bytes, Datum::Bytes(bytes)) => into.extend_from_slice(bytes),
        _ => encode_component(of, value, into)?,
    }
    Some(())
}

fn encode_component(of: &Type, value: &Datum, into: &mut ValueBytes) -> Option<()> {
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
            encode_component(inner, value, into)?;
        }
        (Type::Tuple(types), Datum::Tuple(parts)) if types.len() == parts.len() => {
            for (of, part) in types.iter().zip(parts) {
                encode_component(of, part, into)?;
            }
        }
        (Type::List(item), Datum::List(items)) => {
            namiki::__derive::put_length(items.len(), into);
            encode_items(item, items, into)?;
        }
        (Type::Array(item, count), Datum::List(items)) if items.len() == *count => {
            encode_items(item, items, into)?;
        }
        _ => return None,
    }
    Some(())
}

fn encode_items(of: &Type, items: &[Datum], into: &mut ValueBytes) -> Option<()> {
    items
        .iter()
        .try_for_each(|item| encode_component(of, item, into))
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
        // A length in two bytes that one could say.
        raw("(string, u8)", &[0x81, 0x00, b'a', 7]);
        raw("Account@1#0123456789abcdef", &[1, 2]);
    }
}
