//! Keys and values as text, for output and the command line.
//!
//! | type | text |
//! |---|---|
//! | numbers | `-7`, `1.5`, `NaN`, `inf` |
//! | `bool`, `nothing` | `true`, `nothing` |
//! | texts, `char` | quoted, with JSON's escapes; alone, or without commas and brackets, unquoted |
//! | bytes, `[u8; N]`, other types of a program's own | `0x00ff` |
//! | UUIDs | `00112233-4455-6677-8899-aabbccddeeff` |
//! | `option` | `none`, `some(7)` |
//! | tuples | `("alice", 7)` |
//! | lists, arrays | `[1, 2]` |
//! | maps | `{"a": 1, "b": 2}` |
//! | `duration`, `time` | `1.5s`, `2026-11-26T11:54:29.5Z` |
//! | derived types | `{owner: "alice", limit: none}`, `Card{number: 7}`, `Cash`; fields without names in round brackets; or `0x00ff` |

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use super::datum::{Fields, from_hex, hex, order, uuid_from_text, uuid_text};
use super::derived::NESTED_MAX;
use super::moment::{Moment, duration_from_text, duration_text};
use super::type_name::Derived;
use super::{Datum, Type};

impl fmt::Display for Datum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let several = |f: &mut fmt::Formatter<'_>, items: &[Self], open, close| {
            f.write_str(open)?;
            for (at, item) in items.iter().enumerate() {
                f.write_str(if at == 0 { "" } else { ", " })?;
                item.fmt(f)?;
            }
            f.write_str(close)
        };
        match self {
            Self::Unsigned(number) => number.fmt(f),
            Self::Signed(number) => number.fmt(f),
            Self::F32(number) => number.fmt(f),
            Self::F64(number) => number.fmt(f),
            Self::Bool(value) => value.fmt(f),
            Self::Char(char) => f.write_str(&quoted(&char.to_string())),
            Self::Text(text) => f.write_str(&quoted(text)),
            Self::Bytes(bytes) | Self::Raw(bytes) => f.write_str(&hex(bytes)),
            Self::Uuid(uuid) => f.write_str(&uuid_text(uuid)),
            Self::Nothing => f.write_str("nothing"),
            Self::Option(None) => f.write_str("none"),
            Self::Option(Some(inner)) => write!(f, "some({inner})"),
            Self::Tuple(parts) => several(f, parts, "(", ")"),
            Self::List(items) => several(f, items, "[", "]"),
            Self::Map(entries) => {
                let entries = entries.iter().map(|(key, value)| format!("{key}: {value}"));
                write!(f, "{{{}}}", entries.collect::<Vec<_>>().join(", "))
            }
            Self::Duration(length) => f.write_str(&duration_text(length)),
            Self::Time(moment) => f.write_str(&moment.text()),
            Self::Fields(fields) => write_fields(fields, f),
        }
    }
}

/// `{owner: "alice"}`, or `(7)` if the fields have no names, after the name of a variant if there
/// is one; only the name if the variant has no fields.
fn write_fields(of: &Fields, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str(of.variant.as_deref().unwrap_or_default())?;
    if of.variant.is_some() && of.fields.is_empty() {
        return Ok(());
    }
    let is_tuple = of.is_tuple();
    let fields = of.fields.iter().map(|(name, datum)| {
        if is_tuple {
            datum.to_string()
        } else {
            format!("{name}: {datum}")
        }
    });
    let fields = fields.collect::<Vec<_>>().join(", ");
    if is_tuple {
        write!(f, "({fields})")
    } else {
        write!(f, "{{{fields}}}")
    }
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// The reason for which a text is not a key or value of a type.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{text:?} is not of type {of}: {why}")]
pub(crate) struct TextError {
    text: String,
    of: String,
    why: String,
}

/// Parses a key or value of this type.
pub(crate) fn from_text(of: &Type, text: &str) -> Result<Datum, TextError> {
    whole(of, text, |reader| reader.datum(of))
}

/// Parses a prefix of keys of this type: some first parts of a tuple are enough, with or without a
/// comma after them.
pub(crate) fn prefix_from_text(of: &Type, text: &str) -> Result<Datum, TextError> {
    match of {
        Type::Tuple(types) if of.is_known() => {
            whole(of, text, |reader| reader.tuple(types, 1..=types.len()))
        }
        Type::Text | Type::Bytes => from_text(of, text),
        Type::ByteArray(_) => from_text(&Type::Bytes, text),
        Type::Derived(_) if text.starts_with("0x") => from_text(of, text),
        _ if !of.is_known() => from_text(of, text),
        _ => Err(TextError {
            text: text.to_owned(),
            of: of.to_string(),
            why: "keys of this type have no prefixes; use --from and --to".to_owned(),
        }),
    }
}

fn whole(
    of: &Type,
    text: &str,
    read: impl FnOnce(&mut Reader<'_>) -> Result<Datum, String>,
) -> Result<Datum, TextError> {
    let failed = |why: String| TextError {
        text: text.to_owned(),
        of: of.to_string(),
        why,
    };
    match of {
        // A text by itself needs no quotes, whatever it contains.
        Type::Text if !text.starts_with('"') => return Ok(Datum::Text(text.to_owned())),
        Type::Char if !text.starts_with('"') => {
            return one_char(text).map(Datum::Char).map_err(failed);
        }
        // It may also be given by its bytes.
        Type::Derived(_) if text.starts_with("0x") => {
            let bytes = from_hex(text).map(Datum::Raw);
            return bytes.ok_or_else(|| failed("bytes are given as 0x00ff".to_owned()));
        }
        of if !of.is_known() => {
            let bytes = from_hex(text).map(Datum::Raw);
            return bytes.ok_or_else(|| {
                failed("a type of the program's own is given by its bytes, as 0x00ff".to_owned())
            });
        }
        _ => {}
    }
    let mut reader = Reader {
        rest: text,
        inside: None,
    };
    let datum = read(&mut reader).map_err(failed)?;
    match reader.rest.trim() {
        "" => Ok(datum),
        rest => Err(failed(format!("{rest:?} is left over"))),
    }
}

fn one_char(text: &str) -> Result<char, String> {
    let mut chars = text.chars();
    match (chars.next(), chars.next()) {
        (Some(char), None) => Ok(char),
        _ => Err("it must be one character".to_owned()),
    }
}

struct Reader<'t> {
    rest: &'t str,
    /// The derived type that is read, and how deep it is within itself.
    inside: Option<(Arc<Derived>, u32)>,
}

impl<'t> Reader<'t> {
    fn take(&mut self, what: &str) -> bool {
        let rest = self.rest.trim_start();
        let taken = rest.strip_prefix(what);
        self.rest = taken.unwrap_or(rest);
        taken.is_some()
    }

    fn expect(&mut self, what: &str) -> Result<(), String> {
        if self.take(what) {
            Ok(())
        } else if self.rest.is_empty() {
            Err(format!("{what:?} is missing at its end"))
        } else {
            Err(format!("{what:?} is missing before {:?}", self.rest))
        }
    }

    /// The text up to the next comma or bracket, or a colon followed by a blank, as after a map's
    /// key.
    fn word(&mut self) -> &'t str {
        let rest = self.rest.trim_start();
        let end = rest
            .find([',', '(', ')', '[', ']', '{', '}', '"'])
            .unwrap_or(rest.len());
        let end = rest[..end].find(": ").unwrap_or(end);
        let (word, rest) = rest.split_at(end);
        self.rest = rest;
        word.trim_end()
    }

    fn parsed<T: std::str::FromStr<Err: fmt::Display>>(&mut self) -> Result<T, String> {
        self.word()
            .parse()
            .map_err(|error: T::Err| error.to_string())
    }

    /// A text in quotes, or without quotes as a part of something.
    fn text(&mut self) -> Result<String, String> {
        let rest = self.rest.trim_start();
        if !rest.starts_with('"') {
            return match self.word() {
                "" => Err("a text is missing; an empty one is \"\"".to_owned()),
                word => Ok(word.to_owned()),
            };
        }
        let mut texts = serde_json::Deserializer::from_str(rest).into_iter::<String>();
        let text = texts
            .next()
            .unwrap_or(Ok(String::new()))
            .map_err(|error| error.to_string())?;
        self.rest = &rest[texts.byte_offset()..];
        Ok(text)
    }

    fn bytes(&mut self) -> Result<Vec<u8>, String> {
        let word = self.word();
        from_hex(word).ok_or_else(|| format!("bytes are given as 0x00ff, not as {word:?}"))
    }

    fn datum(&mut self, of: &Type) -> Result<Datum, String> {
        let beyond = |of: &Type| format!("{of} does not reach that far");
        Ok(match of {
            Type::Unsigned(bits) => {
                let number: u128 = self.parsed()?;
                if *bits < 128 && number >> bits != 0 {
                    return Err(beyond(of));
                }
                Datum::Unsigned(number)
            }
            Type::Signed(bits) => {
                let number: i128 = self.parsed()?;
                let unused = 128 - bits;
                if number << unused >> unused != number {
                    return Err(beyond(of));
                }
                Datum::Signed(number)
            }
            Type::F32 => Datum::F32(self.parsed()?),
            Type::F64 => Datum::F64(self.parsed()?),
            Type::Bool => Datum::Bool(self.parsed()?),
            Type::Char => Datum::Char(one_char(&self.text()?)?),
            Type::Text => Datum::Text(self.text()?),
            Type::Bytes => Datum::Bytes(self.bytes()?),
            Type::ByteArray(count) => {
                let bytes = self.bytes()?;
                if bytes.len() != *count {
                    return Err(format!("it has {} bytes", bytes.len()));
                }
                Datum::Bytes(bytes)
            }
            Type::Uuid => {
                let word = self.word();
                let uuid = uuid_from_text(word);
                Datum::Uuid(uuid.ok_or_else(|| format!("{word:?} is not a UUID"))?)
            }
            Type::Nothing => {
                self.expect("nothing")?;
                Datum::Nothing
            }
            Type::Option(inner) => match self.word() {
                "none" => Datum::Option(None),
                "some" => {
                    self.expect("(")?;
                    let inner = self.datum(inner)?;
                    self.expect(")")?;
                    Datum::Option(Some(Box::new(inner)))
                }
                word => return Err(format!("it must be none or some(…), not {word:?}")),
            },
            Type::Tuple(types) => self.tuple(types, types.len()..=types.len())?,
            Type::List(item) => self.list(item, None)?,
            Type::Array(item, count) => self.list(item, Some(*count))?,
            Type::Map(key, value) => self.map(key, value)?,
            Type::Duration => {
                let word = self.word();
                let length = duration_from_text(word);
                Datum::Duration(length.ok_or_else(|| format!("it is given as 1.5s, not {word:?}"))?)
            }
            Type::Time => {
                let word = self.word();
                let moment = Moment::from_text(word);
                Datum::Time(
                    moment.ok_or_else(|| {
                        format!(
                            "it is given as 2026-11-26T11:54:29Z, or as seconds since 1970, @-1.5, not {word:?}"
                        )
                    })?,
                )
            }
            Type::Derived(derived) => self.fields(derived, 0)?,
            Type::Itself => {
                let Some((derived, depth)) = self.inside.clone() else {
                    return Err("a type within itself is alone here".to_owned());
                };
                if depth >= NESTED_MAX {
                    return Err(format!("it is nested more than {NESTED_MAX} levels deep"));
                }
                self.fields(&derived, depth + 1)?
            }
            Type::Unknown(_) => return Err("it contains a type of the program's own".to_owned()),
        })
    }

    fn tuple(
        &mut self,
        types: &[Type],
        parts: std::ops::RangeInclusive<usize>,
    ) -> Result<Datum, String> {
        let wanted = types.len();
        self.expect("(")?;
        let mut found = Vec::new();
        for of in types {
            found.push(self.datum(of)?);
            let more = self.take(",");
            if self.take(")") {
                return if parts.contains(&found.len()) {
                    Ok(Datum::Tuple(found))
                } else {
                    Err(format!("it has {} parts of {wanted}", found.len()))
                };
            }
            if !more {
                self.expect(",")?;
            }
        }
        Err(format!("it has more than {wanted} parts"))
    }

    fn map(&mut self, key: &Type, value: &Type) -> Result<Datum, String> {
        self.expect("{")?;
        let mut entries: Vec<(Datum, Datum)> = Vec::new();
        while !self.take("}") {
            let key = self.datum(key)?;
            match entries.last().map(|(last, _)| order(last, &key)) {
                None | Some(Some(Ordering::Less)) => {}
                Some(Some(_)) => {
                    return Err(format!(
                        "{key} is not above the key before it: keys are in ascending order, each once"
                    ));
                }
                Some(None) => {
                    return Err(format!(
                        "only the program knows whether {key} is above the key before it: give the whole map by its bytes, as 0x00ff"
                    ));
                }
            }
            self.expect(":")?;
            entries.push((key, self.datum(value)?));
            if !self.take(",") {
                self.expect("}")?;
                break;
            }
        }
        Ok(Datum::Map(entries))
    }

    /// All fields of a derived type, in their order.
    fn fields(&mut self, of: &Arc<Derived>, depth: u32) -> Result<Datum, String> {
        let before = self.inside.replace((Arc::clone(of), depth));
        let read = self.fields_inside(of);
        self.inside = before;
        read
    }

    fn fields_inside(&mut self, of: &Derived) -> Result<Datum, String> {
        let variant = if of.is_enum() {
            let word = self.word();
            let mut variants = of.variants.iter();
            variants.find(|variant| variant.name.as_deref() == Some(word))
        } else {
            of.variants.first()
        };
        let variants = || of.variants.iter().filter_map(|it| it.name.as_deref());
        let variant = variant.ok_or_else(|| {
            let names = variants().collect::<Vec<_>>().join(", ");
            format!("it must be one of {names}")
        })?;
        if variant.name.is_some() && variant.fields.is_empty() {
            return Ok(variant.with(None, Vec::new()));
        }
        let is_tuple = variant.is_tuple();
        let (open, close) = if is_tuple { ("(", ")") } else { ("{", "}") };
        self.expect(open)?;
        let mut data = Vec::new();
        for (at, (name, field)) in variant.fields.iter().enumerate() {
            if at > 0 {
                self.expect(",")?;
            }
            if !is_tuple {
                self.expect(name)?;
                self.expect(":")?;
            }
            data.push(self.datum(field)?);
        }
        self.take(",");
        self.expect(close)?;
        Ok(variant.with(None, data))
    }

    fn list(&mut self, item: &Type, count: Option<usize>) -> Result<Datum, String> {
        self.expect("[")?;
        let mut items = Vec::new();
        while !self.take("]") {
            items.push(self.datum(item)?);
            if !self.take(",") {
                self.expect("]")?;
                break;
            }
        }
        match count {
            Some(count) if count != items.len() => Err(format!("it has {} items", items.len())),
            _ => Ok(Datum::List(items)),
        }
    }
}

#[cfg(test)]
mod tests {
    use namiki::{TypeLayout, TypeLayouts, VariantLayout};

    use super::*;
    use crate::typed::{read_value, value_bytes};

    #[test]
    fn what_is_shown_can_be_given_back() {
        for (of, text) in [
            ("u64", "18446744073709551615"),
            ("i8", "-128"),
            ("i128", "-170141183460469231731687303715884105728"),
            ("f64", "-0"),
            ("f64", "1.5"),
            ("f32", "0.1"),
            ("f64", "inf"),
            ("bool", "true"),
            ("char", "\"並\""),
            ("string", "\"a\\\"b\\n\""),
            ("bytes", "0x00ff"),
            ("[u8; 2]", "0x00ff"),
            ("uuid", "00112233-4455-6677-8899-aabbccddeeff"),
            ("nothing", "nothing"),
            ("option<u64>", "none"),
            ("option<option<u64>>", "some(some(7))"),
            ("(string, u64)", "(\"a, (b)\", 7)"),
            ("list<(string, bool)>", "[(\"\", true), (\"x\", false)]"),
            ("list<u64>", "[]"),
            ("[u16; 2]", "[1, 2]"),
            ("Id#0123456789abcdef", "0x01"),
            ("(u64, Id#0123456789abcdef)", "0x01"),
        ] {
            let datum = from_text(&Type::parse(of), text).unwrap();
            assert_eq!(datum.to_string(), text, "{of}");
        }
    }

    /// `map<…>` with keys of a derived type with two fields.
    fn map_of_points(key: &str) -> Type {
        let field = |name: &str| (name.to_owned(), "u8".to_owned());
        let variant = VariantLayout {
            name: None,
            fields: vec![field("x"), field("y")],
        };
        let types = TypeLayouts {
            layouts: vec![TypeLayout {
                name: "Point#0123456789abcdef".to_owned(),
                variants: vec![variant],
            }],
            earlier: Vec::new(),
        };
        Type::parse_with(&format!("map<{key}, bool>"), &types)
    }

    /// A program may order its own types in any way, so a map in an order that it could reject must
    /// not be written.
    #[test]
    fn keys_that_the_program_alone_can_order_are_refused() {
        let of = map_of_points("Point#0123456789abcdef");
        assert!(of.is_known());
        let one = "{{x: 1, y: 2}: true}";
        let read = from_text(&of, one).unwrap();
        assert_eq!(read.to_string(), one);
        assert!(value_bytes(&of, &read).is_some());
        for (text, why) in [
            (
                "{{x: 1, y: 2}: true, {x: 1, y: 3}: true}",
                "only the program",
            ),
            (
                "{{x: 1, y: 3}: true, {x: 1, y: 2}: true}",
                "only the program",
            ),
            ("{{x: 1, y: 2}: true, {x: 1, y: 2}: false}", "each once"),
        ] {
            let said = from_text(&of, text).unwrap_err().to_string();
            assert!(said.contains(why), "{said}");
        }
        // A map in the order of the program that wrote it is accepted; one with a repeated key is
        // not a map.
        let bytes = |keys: &[[u8; 2]]| {
            let entries = keys.iter().flat_map(|[x, y]| [*x, *y, 1]);
            [keys.len() as u8]
                .into_iter()
                .chain(entries)
                .collect::<Vec<_>>()
        };
        let is_map = |bytes: &[u8]| matches!(read_value(&of, bytes), Datum::Map(_));
        assert!(is_map(&bytes(&[[1, 2], [1, 3]])) && is_map(&bytes(&[[1, 3], [1, 2]])));
        assert!(!is_map(&bytes(&[[1, 2], [1, 2]])));
        // Parts before the one with the unknown order may decide, and so may parts after equal
        // ones.
        let of = map_of_points("(u8, Point#0123456789abcdef, u8)");
        for (text, is_fine) in [
            (
                "{(1, {x: 9, y: 9}, 1): true, (2, {x: 1, y: 1}, 1): true}",
                true,
            ),
            (
                "{(1, {x: 9, y: 9}, 1): true, (1, {x: 9, y: 9}, 2): true}",
                true,
            ),
            (
                "{(1, {x: 9, y: 9}, 2): true, (1, {x: 9, y: 9}, 1): true}",
                false,
            ),
            (
                "{(1, {x: 8, y: 9}, 1): true, (1, {x: 9, y: 9}, 2): true}",
                false,
            ),
        ] {
            assert_eq!(from_text(&of, text).is_ok(), is_fine, "{text}");
        }
    }

    #[test]
    fn plain_words_are_texts() {
        let text = |text: &str| Datum::Text(text.to_owned());
        let read = |of: &str, text: &str| from_text(&Type::parse(of), text).unwrap();
        assert_eq!(read("string", "a, \"b\""), text("a, \"b\""));
        assert_eq!(read("string", ""), text(""));
        assert_eq!(read("char", "x"), Datum::Char('x'));
        assert_eq!(
            read("(string, u64)", "( alice smith,7 )"),
            Datum::Tuple(vec![text("alice smith"), Datum::Unsigned(7)])
        );
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (of, text, why) in [
            ("u8", "256", "u8 does not reach that far"),
            ("i8", "-129", "i8 does not reach that far"),
            ("u64", "x", "invalid digit"),
            ("[u8; 2]", "0x00", "it has 1 bytes"),
            ("(string, u64)", "(alice)", "it has 1 parts of 2"),
            ("(string, u64)", "(alice, 7, 8)", "it has more than 2 parts"),
            ("(string, u64)", "(alice, 7", "is missing at its end"),
            ("list<u8>", "1", "is missing before"),
            ("u64", "7, 8", "is left over"),
            ("Id#0123456789abcdef", "7", "as 0x00ff"),
            ("bytes", "7", "as 0x00ff"),
        ] {
            let said = from_text(&Type::parse(of), text).unwrap_err().to_string();
            assert!(said.contains(why), "{of}: {said}");
        }
    }

    #[test]
    fn some_parts_of_a_tuple_are_a_prefix() {
        let of = Type::parse("(string, u64)");
        let alice = Datum::Tuple(vec![Datum::Text("alice".to_owned())]);
        for text in ["(alice)", "(\"alice\",)"] {
            assert_eq!(prefix_from_text(&of, text).unwrap(), alice);
        }
        assert!(prefix_from_text(&of, "()").is_err());
        assert!(prefix_from_text(&Type::Unsigned(64), "1").is_err());
    }
}
