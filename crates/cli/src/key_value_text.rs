//! Keys and values as text, by the names that their types have in the manifest.

use namiki::{Key, TableInfo, Value};

use crate::number_format::hex;

/// A key of the table as text: by its type where that is one of the database's own, as hexadecimal
/// bytes otherwise.
pub(crate) fn key(table: &TableInfo, bytes: &[u8]) -> String {
    macro_rules! by_name {
        ($($type:ty),*) => {
            match table.key_type.as_str() {
                $(name if name == <$type as Key>::NAME => {
                    <$type as Key>::decode(bytes).map(|key| key.to_string())
                })*
                name if name == <str as Key>::NAME => {
                    <str as Key>::decode(bytes).map(|key| format!("{key:?}"))
                }
                _ => None,
            }
        };
    }
    by_name!(u8, u16, u32, u64, u128, i8, i16, i32, i64, i128)
        .unwrap_or_else(|| format!("0x{}", hex(bytes)))
}

/// A value of the table as text, like [`key`].
pub(crate) fn value(table: &TableInfo, bytes: &[u8]) -> String {
    macro_rules! by_name {
        ($($type:ty),*) => {
            match table.value_type.as_str() {
                $(name if name == <$type as Value>::NAME => {
                    <$type as Value>::decode(bytes).map(|value| value.to_string())
                })*
                name if name == <str as Value>::NAME => {
                    <str as Value>::decode(bytes).map(|value| format!("{value:?}"))
                }
                name if name == <() as Value>::NAME => {
                    <() as Value>::decode(bytes).map(|()| "nothing".to_owned())
                }
                _ => None,
            }
        };
    }
    by_name!(
        u8, u16, u32, u64, u128, i8, i16, i32, i64, i128, f32, f64, bool
    )
    .unwrap_or_else(|| format!("0x{}", hex(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use namiki::{AsKey, KeyBytes, TableId, ValueBytes};

    fn table(key_type: &str, value_type: &str) -> TableInfo {
        TableInfo {
            id: TableId(0),
            name: "t".to_owned(),
            key_type: key_type.to_owned(),
            value_type: value_type.to_owned(),
            fixed_keys: false,
            inline_bytes: 8,
        }
    }

    #[test]
    fn known_types_are_shown_as_themselves_and_others_as_bytes() {
        let info = table(<i64 as Key>::NAME, <f64 as Value>::NAME);
        let (mut k, mut v) = (KeyBytes::new(), ValueBytes::new());
        AsKey::encode(&-7_i64, &mut k);
        Value::encode(&1.5_f64, &mut v);
        assert_eq!(key(&info, &k), "-7");
        assert_eq!(value(&info, &v), "1.5");
        assert_eq!(value(&info, &[1]), "0x01");
        let info = table(<str as Key>::NAME, <str as Value>::NAME);
        assert_eq!(key(&info, "並木\n".as_bytes()), "\"並木\\n\"");
        assert_eq!(value(&info, &[0xff]), "0xff");
        let info = table("(u64, payment)", "payment");
        assert_eq!(key(&info, &[0, 1]), "0x0001");
        assert_eq!(value(&info, &[]), "0x");
    }
}
