//! Parser of types' names.

use std::fmt;
use std::sync::Arc;

use namiki::{TypeLayout, TypeLayouts};

/// Largest nesting depth that is parsed: names are read from files.
const DEPTH_MAX: usize = 32;
/// Largest number of types that are parsed.
const TYPES_MAX: u32 = 10_000;

/// A type of keys or values.
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
    Map(Box<Type>, Box<Type>),
    Duration,
    Time,
    /// A program's own type with a known layout.
    Derived(Arc<Derived>),
    /// Within a derived type: that type itself.
    Itself,
    /// A program's own type without a known layout.
    Unknown(String),
}

impl Type {
    /// The type of this name.
    pub(crate) fn parse(name: &str) -> Self {
        Self::parse_with(name, &TypeLayouts::default())
    }

    /// The type of this name, with these derived types.
    pub(crate) fn parse_with(name: &str, types: &TypeLayouts) -> Self {
        let mut parser = Parser {
            types,
            left: TYPES_MAX,
        };
        let unknown = || Self::Unknown(name.to_owned());
        let Some(found) = parser.parse(name, 0, false) else {
            return unknown();
        };
        let Self::Derived(derived) = found else {
            return found;
        };
        // Values that stand alone may have earlier versions. One of an unknown version is shown as
        // bytes.
        let earlier =
            Derived::earlier(types).filter_map(|name| match parser.parse(name, 0, false) {
                Some(Self::Derived(earlier)) => Some(earlier),
                _ => None,
            });
        let earlier = earlier.collect();
        match Arc::try_unwrap(derived) {
            Ok(derived) => Self::Derived(Arc::new(Derived { earlier, ..derived })),
            Err(derived) => Self::Derived(derived),
        }
    }

    /// Whether all keys of the type have eight bytes, by the engine's rule.
    pub(crate) fn has_eight_byte_keys(&self) -> bool {
        matches!(
            self,
            Self::Unsigned(64) | Self::Signed(64) | Self::ByteArray(8)
        )
    }

    /// The typical size of its values, by the engine's rule.
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
            Self::Duration | Self::Time => 12,
            Self::F64
            | Self::Text
            | Self::Bytes
            | Self::List(_)
            | Self::Map(..)
            | Self::Derived(_)
            | Self::Itself
            | Self::Unknown(_) => 8,
        }
    }

    /// Whether all parts of the type are known.
    pub(crate) fn is_known(&self) -> bool {
        match self {
            Self::Unknown(_) => false,
            Self::Option(inner) | Self::List(inner) | Self::Array(inner, _) => inner.is_known(),
            Self::Tuple(parts) => parts.iter().all(Self::is_known),
            Self::Map(key, value) => key.is_known() && value.is_known(),
            _ => true,
        }
    }

    /// Whether keys can have this type.
    pub(crate) fn can_be_key(&self) -> bool {
        match self {
            Self::F32
            | Self::F64
            | Self::List(_)
            | Self::Array(..)
            | Self::Map(..)
            | Self::Duration
            | Self::Time => false,
            Self::Option(inner) => inner.can_be_key(),
            Self::Tuple(parts) => parts.iter().all(Self::can_be_key),
            _ => true,
        }
    }

    /// Whether each of its values takes at least one byte: otherwise a list of them could have any
    /// length.
    fn has_bytes(&self) -> bool {
        match self {
            Self::Nothing | Self::ByteArray(0) | Self::Array(_, 0) => false,
            Self::Array(item, _) => item.has_bytes(),
            Self::Tuple(parts) => parts.iter().any(Self::has_bytes),
            // An enum has a number; a struct has the bytes of its fields.
            Self::Derived(derived) => {
                let mut fields = derived.variants.iter().flat_map(|it| &it.fields);
                derived.is_enum() || fields.any(|(_, of)| of.has_bytes())
            }
            _ => true,
        }
    }
}

/// A struct or an enum.
#[derive(Debug, PartialEq)]
pub(crate) struct Derived {
    /// Its name in the table: `Account@2#6b1a…`.
    pub(crate) name: String,
    pub(crate) variants: Vec<Variant>,
    /// The earlier versions of a value's type; rows of these may exist.
    pub(crate) earlier: Vec<Arc<Derived>>,
}

/// A variant, or the whole of a struct.
#[derive(Debug, PartialEq)]
pub(crate) struct Variant {
    /// `None` for a struct.
    pub(crate) name: Option<String>,
    pub(crate) fields: Vec<(String, Type)>,
}

impl Derived {
    /// The type with this layout, if `parse` knows all types of its fields.
    pub(super) fn new(
        layout: &TypeLayout,
        parse: &mut dyn FnMut(&str) -> Option<Type>,
    ) -> Option<Self> {
        let variants = layout.variants.iter().map(|variant| {
            let fields = variant.fields.iter();
            let fields = fields.map(|(name, of)| Some((name.clone(), parse(of)?)));
            Some(Variant {
                name: variant.name.clone(),
                fields: fields.collect::<Option<_>>()?,
            })
        });
        let variants = variants.collect::<Option<Vec<_>>>()?;
        // A struct is one variant without a name, and the variants of an enum have names.
        let is_sound = if variants.iter().any(|variant| variant.name.is_none()) {
            variants.len() == 1
        } else {
            !variants.is_empty()
        };
        is_sound.then_some(Self {
            name: layout.name.clone(),
            variants,
            earlier: Vec::new(),
        })
    }

    /// The earlier versions of a table's value type.
    pub(super) fn earlier(types: &TypeLayouts) -> impl Iterator<Item = &str> {
        types.earlier.iter().map(String::as_str)
    }

    /// The version in its name; keys have none.
    pub(crate) fn version(&self) -> Option<u32> {
        let (_, rest) = self.name.rsplit_once('@')?;
        rest.split('#').next()?.parse().ok()
    }

    pub(super) fn is_enum(&self) -> bool {
        self.variants.iter().any(|variant| variant.name.is_some())
    }
}

/// A parser of names.
struct Parser<'l> {
    types: &'l TypeLayouts,
    /// Number of types that may still be parsed: nested layouts could unfold to any number.
    left: u32,
}

impl Parser<'_> {
    fn parse(&mut self, name: &str, depth: usize, is_field: bool) -> Option<Type> {
        self.left = self.left.checked_sub(1)?;
        if name == "^" {
            return is_field.then_some(Type::Itself);
        }
        if let Some(layout) = self.types.of(name)
            && depth <= DEPTH_MAX
        {
            let layout = layout.clone();
            let derived = Derived::new(&layout, &mut |name| self.parse(name, depth + 1, true))?;
            return Some(Type::Derived(Arc::new(derived)));
        }
        self.of_the_engine(name, depth, is_field)
    }

    fn of_the_engine(&mut self, name: &str, depth: usize, is_field: bool) -> Option<Type> {
        if depth > DEPTH_MAX {
            return None;
        }
        let mut inner = |name: &str| self.parse(name, depth + 1, is_field).map(Box::new);
        if let Some(parts) = name.strip_prefix('(').and_then(|it| it.strip_suffix(')')) {
            let parts = split(parts)?
                .into_iter()
                .map(|part| inner(part).map(|part| *part))
                .collect::<Option<Vec<_>>>()?;
            return (2..=6).contains(&parts.len()).then_some(Type::Tuple(parts));
        }
        if let Some(parts) = within(name, "map") {
            let [key, value] = split(parts)?.try_into().ok()?;
            return Some(Type::Map(inner(key)?, inner(value)?));
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
            "duration" => Type::Duration,
            "time" => Type::Time,
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
}

/// `T` of `option<T>`.
fn within<'n>(name: &'n str, generic: &str) -> Option<&'n str> {
    name.strip_prefix(generic)?
        .strip_prefix('<')?
        .strip_suffix('>')
}

/// The parts between commas outside of brackets.
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
            Self::Map(key, value) => write!(f, "map<{key}, {value}>"),
            Self::Duration => f.write_str("duration"),
            Self::Time => f.write_str("time"),
            Self::Derived(derived) => f.write_str(&derived.name),
            Self::Itself => f.write_str("^"),
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
    use std::collections::{BTreeMap, HashMap};
    use std::time::{Duration, SystemTime};

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
        value::<Duration>();
        value::<Option<SystemTime>>();
        value::<BTreeMap<String, HashMap<(u8, u8), bool>>>();
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
