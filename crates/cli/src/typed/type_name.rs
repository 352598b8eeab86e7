//! Names of types, taken apart.

use std::fmt;

/// Types deeper within each other than this are not looked into: names are read from files.
const DEPTH_MAX: usize = 32;

/// A type that keys or values have.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Type {
    /// `u8` to `u128`, by their bits.
    Unsigned(u32),
    /// `i8` to `i128`, by their bits.
    Signed(u32),
    F32,
    F64,
    Bool,
    Char,
    Text,
    Bytes,
    /// `[u8; N]`.
    ByteArray(usize),
    Uuid,
    Nothing,
    Option(Box<Type>),
    Tuple(Vec<Type>),
    List(Box<Type>),
    Array(Box<Type>, usize),
    /// A type of the program's own.
    Unknown(String),
}

impl Type {
    /// The type of this name.
    pub(crate) fn parse(name: &str) -> Self {
        parse(name, 0).unwrap_or_else(|| Self::Unknown(name.to_owned()))
    }

    /// Whether the type's keys all have eight bytes, as the engine has it.
    pub(crate) fn has_eight_byte_keys(&self) -> bool {
        matches!(
            self,
            Self::Unsigned(64) | Self::Signed(64) | Self::ByteArray(8)
        )
    }

    /// The room that its values mostly need, as the engine has it.
    pub(crate) fn room_bytes(&self) -> usize {
        match self {
            Self::Unsigned(bits) | Self::Signed(bits) => *bits as usize / 8,
            Self::F32 | Self::Char => 4,
            Self::Bool => 1,
            Self::Uuid => 16,
            Self::Nothing => 0,
            Self::ByteArray(bytes) => *bytes,
            Self::Array(item, count) => item.room_bytes().saturating_mul(*count),
            Self::Option(inner) => inner.room_bytes().saturating_add(1),
            Self::Tuple(parts) => parts
                .iter()
                .fold(0, |sum, part| sum.saturating_add(part.room_bytes())),
            Self::F64 | Self::Text | Self::Bytes | Self::List(_) | Self::Unknown(_) => 8,
        }
    }

    /// Whether all that the type is made of is known.
    pub(crate) fn is_known(&self) -> bool {
        match self {
            Self::Unknown(_) => false,
            Self::Option(inner) | Self::List(inner) | Self::Array(inner, _) => inner.is_known(),
            Self::Tuple(parts) => parts.iter().all(Self::is_known),
            _ => true,
        }
    }

    /// Whether there are keys of the type.
    pub(crate) fn can_be_key(&self) -> bool {
        match self {
            Self::F32 | Self::F64 | Self::List(_) | Self::Array(..) => false,
            Self::Option(inner) => inner.can_be_key(),
            Self::Tuple(parts) => parts.iter().all(Self::can_be_key),
            _ => true,
        }
    }

    /// Whether one of its values takes a byte at least: a list of others could be of any length.
    fn has_bytes(&self) -> bool {
        match self {
            Self::Nothing | Self::ByteArray(0) | Self::Array(_, 0) => false,
            Self::Array(item, _) => item.has_bytes(),
            Self::Tuple(parts) => parts.iter().any(Self::has_bytes),
            _ => true,
        }
    }
}

fn parse(name: &str, depth: usize) -> Option<Type> {
    if depth > DEPTH_MAX {
        return None;
    }
    let inner = |name: &str| parse(name, depth + 1).map(Box::new);
    if let Some(parts) = name.strip_prefix('(').and_then(|it| it.strip_suffix(')')) {
        let parts = split(parts)?
            .into_iter()
            .map(|part| parse(part, depth + 1))
            .collect::<Option<Vec<_>>>()?;
        return (2..=6).contains(&parts.len()).then_some(Type::Tuple(parts));
    }
    if let Some(array) = name.strip_prefix('[').and_then(|it| it.strip_suffix(']')) {
        let (item, count) = array.rsplit_once("; ")?;
        let count = count.parse().ok()?;
        return match item {
            "u8" => Some(Type::ByteArray(count)),
            item => inner(item)
                .filter(|item| item.has_bytes())
                .map(|item| Type::Array(item, count)),
        };
    }
    if let Some(item) = within(name, "option") {
        return inner(item).map(Type::Option);
    }
    if let Some(item) = within(name, "list") {
        return inner(item).filter(|item| item.has_bytes()).map(Type::List);
    }
    Some(match name {
        "f32" => Type::F32,
        "f64" => Type::F64,
        "bool" => Type::Bool,
        "char" => Type::Char,
        "string" => Type::Text,
        "bytes" => Type::Bytes,
        "uuid" => Type::Uuid,
        "nothing" => Type::Nothing,
        name => {
            let bits = |digits: &str| match digits {
                "8" => Some(8),
                "16" => Some(16),
                "32" => Some(32),
                "64" => Some(64),
                "128" => Some(128),
                _ => None,
            };
            let signed = name.strip_prefix('i').and_then(bits).map(Type::Signed);
            let unsigned = || name.strip_prefix('u').and_then(bits).map(Type::Unsigned);
            return signed.or_else(unsigned);
        }
    })
}

/// `T` of `option<T>`.
fn within<'n>(name: &'n str, generic: &str) -> Option<&'n str> {
    name.strip_prefix(generic)?
        .strip_prefix('<')?
        .strip_suffix('>')
}

/// The parts between commas that are within no brackets.
fn split(parts: &str) -> Option<Vec<&str>> {
    let (mut depth, mut from, mut found) = (0_usize, 0, Vec::new());
    for (at, char) in parts.char_indices() {
        match char {
            '(' | '[' | '<' => depth += 1,
            ')' | ']' | '>' => depth = depth.checked_sub(1)?,
            ',' if depth == 0 => {
                found.push(parts[from..at].trim());
                from = at + 1;
            }
            _ => {}
        }
    }
    found.push(parts[from..].trim());
    (depth == 0).then_some(found)
}

/// The name, as the manifest has it.
impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsigned(bits) => write!(f, "u{bits}"),
            Self::Signed(bits) => write!(f, "i{bits}"),
            Self::F32 => f.write_str("f32"),
            Self::F64 => f.write_str("f64"),
            Self::Bool => f.write_str("bool"),
            Self::Char => f.write_str("char"),
            Self::Text => f.write_str("string"),
            Self::Bytes => f.write_str("bytes"),
            Self::ByteArray(count) => write!(f, "[u8; {count}]"),
            Self::Uuid => f.write_str("uuid"),
            Self::Nothing => f.write_str("nothing"),
            Self::Option(inner) => write!(f, "option<{inner}>"),
            Self::List(item) => write!(f, "list<{item}>"),
            Self::Array(item, count) => write!(f, "[{item}; {count}]"),
            Self::Tuple(parts) => {
                for (at, part) in parts.iter().enumerate() {
                    f.write_str(if at == 0 { "(" } else { ", " })?;
                    write!(f, "{part}")?;
                }
                f.write_str(")")
            }
            Self::Unknown(name) => f.write_str(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use namiki::{Key, Value};

    #[test]
    fn names_that_the_engine_gives_are_understood() {
        fn key<K: Key>() {
            let name = K::type_name();
            let parsed = Type::parse(&name);
            assert!(parsed.is_known() && parsed.can_be_key(), "{name}");
            assert_eq!(parsed.to_string(), name);
            assert_eq!(parsed.has_eight_byte_keys(), K::EIGHT_BYTES, "{name}");
        }
        fn value<V: Value>() {
            let name = V::type_name();
            let parsed = Type::parse(&name);
            assert!(parsed.is_known(), "{name}");
            assert_eq!(parsed.to_string(), name);
            assert_eq!(parsed.room_bytes(), V::ROOM_BYTES, "{name}");
        }
        macro_rules! both {
            ($($type:ty),*) => {$( key::<$type>(); value::<$type>(); )*};
        }
        both!(
            u8,
            u16,
            u32,
            u64,
            u128,
            i8,
            i16,
            i32,
            i64,
            i128,
            bool,
            char,
            (),
            String,
            Vec<u8>
        );
        both!(
            [u8; 8],
            [u8; 16],
            (u64, i64),
            (String, (u8, Vec<u8>), Option<u64>),
            Option<String>
        );
        value::<f32>();
        value::<f64>();
        value::<Vec<(f64, Option<String>)>>();
        value::<[[u16; 3]; 2]>();
        value::<(u8, u8, u8, u8, u8, Vec<Vec<u64>>)>();
    }

    #[test]
    fn a_programs_own_types_keep_their_names() {
        for name in [
            "Account@1#6b1a0123456789ab",
            "Serde<Page>@1#c8a63b4ba9818ed8",
            "(u64, Id#0123456789abcdef)",
            "list<nothing>",
            "[nothing; 99999999999]",
            "u65",
            "(u64)",
            "(u64, ",
            "",
        ] {
            let parsed = Type::parse(name);
            assert!(!parsed.is_known(), "{name}");
            assert_eq!(parsed.to_string(), name);
        }
        let deep = format!("{}u8{}", "option<".repeat(99), ">".repeat(99));
        assert!(!Type::parse(&deep).is_known());
    }
}
