//! The shape of a type that has serde's traits, found by tracing its `Deserialize`.
//!
//! `Deserialize` asks a deserializer for each part by its kind, and for structs and enums with the
//! names of all fields or variants. So a deserializer that records the requests, and answers with
//! zeros and empty texts, learns the shape. It can answer with one variant of an enum at a time, so
//! it runs until it has seen all of them.
//!
//! A type that contains itself would ask without end: inside itself it gets no options, no items,
//! and a variant that is known to end. An implementation by hand may refuse an answer. Then the
//! trace is repeated with ones instead of zeros, and with texts of many kinds. If all of them are
//! refused, the shape is what was recorded before.
//!
//! Types are told apart by Rust's names for them, with path and arguments. The names are compared
//! and not recorded, since a type may move.

use std::fmt;

use serde::de::value::U32Deserializer;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, Error, IntoDeserializer,
    MapAccess, SeqAccess, VariantAccess, Visitor,
};

/// The most requests of a trace. A longer trace counts up to here.
const STEPS_MAX: u32 = 100_000;
/// The most levels of parts within parts.
const DEPTH_MAX: u32 = 100;

/// The text of each trial. Numbers are 0 in the first trial and 1 in the others. Types that check
/// their text expect a time, a date, an address, or a version.
const TRIALS: [&str; 12] = [
    "",
    "1",
    "2000-01-01T00:00:00Z",
    "2000-01-01T00:00:00",
    "2000-01-01",
    "00:00:00",
    "http://a.example/",
    "a@a.example",
    "1.0.0",
    "127.0.0.1",
    "00000000-0000-0000-0000-000000000000",
    "UTC",
];

/// The shape of a type.
#[derive(Default)]
pub(super) struct SerdeShape {
    /// The type itself.
    whole: Part,
    /// The structs with named fields and the enums in it, in the order of their first request.
    named: Vec<Named>,
    /// The texts under construction, outermost first.
    writing: Vec<String>,
    /// The types being read, outermost first, as Rust calls them.
    open: Vec<&'static str>,
    /// The number of types among them that contain themselves.
    recursions: u32,
    /// Index into [`TRIALS`].
    trial: usize,
    steps: u32,
}

/// The record of a part.
#[derive(Default)]
struct Part {
    text: String,
    is_open: bool,
    /// It was read to its end.
    is_whole: bool,
    /// It was read in this trial.
    was_tried: bool,
}

impl Part {
    fn note(&mut self, text: String, is_whole: bool) {
        if !self.is_whole && (is_whole || text.len() > self.text.len()) {
            self.text = text;
            self.is_whole = is_whole;
        }
    }
}

/// A struct, or an enum.
struct Named {
    /// Rust's name for the type, which is unique.
    type_name: &'static str,
    name: &'static str,
    /// The names of its fields or variants.
    names: &'static [&'static str],
    is_enum: bool,
    /// One for a struct.
    variants: Vec<Part>,
}

impl SerdeShape {
    pub(super) fn of<T: DeserializeOwned>() -> Self {
        let mut shape = Self::default();
        for trial in 0..TRIALS.len() {
            shape.trial = trial;
            loop {
                let tried_before = shape.variants().filter(|it| it.was_tried).count();
                shape.writing.push(String::new());
                let read = T::deserialize(Tracer(&mut shape)).is_ok();
                let text = shape.writing.pop().unwrap_or_default();
                shape.whole.note(text, read);
                if shape.steps > STEPS_MAX || shape.is_whole() {
                    return shape;
                }
                if shape.variants().filter(|it| it.was_tried).count() == tried_before {
                    break;
                }
            }
            let variants = shape.named.iter_mut().flat_map(|it| &mut it.variants);
            variants.for_each(|it| it.was_tried = false);
        }
        shape
    }

    /// The name of the type, if it has named fields or variants.
    pub(super) fn name(&self) -> Option<&'static str> {
        let first = self.named.first()?;
        (self.whole.text == "&0").then_some(first.name)
    }

    fn is_whole(&self) -> bool {
        self.whole.is_whole && self.variants().all(|it| it.is_whole)
    }

    fn variants(&self) -> impl Iterator<Item = &Part> {
        self.named.iter().flat_map(|it| &it.variants)
    }

    fn write(&mut self, text: &str) {
        if let Some(writing) = self.writing.last_mut() {
            writing.push_str(text);
        }
    }

    /// Records the kind of the next part.
    fn step(&mut self, kind: &str) -> Result<(), Refused> {
        self.steps += 1;
        if self.steps > STEPS_MAX || self.open.len() + self.writing.len() > DEPTH_MAX as usize {
            return Err(Refused);
        }
        self.write(kind);
        Ok(())
    }

    /// Reads the type `T`, which is inside itself if it is already being read.
    fn within<T, R>(&mut self, read: impl FnOnce(&mut Self) -> R) -> R {
        let type_name = std::any::type_name::<T>();
        let is_recursion = self.open.contains(&type_name);
        self.recursions += u32::from(is_recursion);
        self.open.push(type_name);
        let read = read(self);
        self.open.pop();
        self.recursions -= u32::from(is_recursion);
        read
    }

    /// Reads a variant, or a struct as its only one, and keeps the record.
    fn variant<R>(
        &mut self,
        (at, variant): (usize, usize),
        read: impl FnOnce(&mut Self) -> Result<R, Refused>,
    ) -> Result<R, Refused> {
        let counts = self.recursions == 0;
        let part = &mut self.named[at].variants[variant];
        let was_open = std::mem::replace(&mut part.is_open, true);
        part.was_tried |= counts;
        self.writing.push(String::new());
        let read = read(self);
        let text = self.writing.pop().unwrap_or_default();
        let part = &mut self.named[at].variants[variant];
        part.is_open = was_open;
        if counts {
            part.note(text, read.is_ok());
        }
        read
    }

    /// The variant of an enum to be read: one that was not read yet, unless the enum is inside
    /// itself.
    fn choose(&self, at: usize) -> Option<usize> {
        let variants = &self.named[at].variants;
        let first = |wanted: &dyn Fn(&Part) -> bool| variants.iter().position(wanted);
        let is_new = |it: &Part| !it.is_whole && !it.was_tried && !it.is_open;
        let not_open = |it: &Part| !it.is_open;
        match self.recursions {
            0 => first(&is_new),
            _ => None,
        }
        .or_else(|| first(&|it| it.is_whole && !it.is_open))
        .or_else(|| first(&not_open))
    }

    /// The index of the type `T`, a struct or an enum, among those recorded.
    fn place_of<T>(
        &mut self,
        name: &'static str,
        names: &'static [&'static str],
        is_enum: bool,
    ) -> usize {
        let type_name = std::any::type_name::<T>();
        let known = self.named.iter().position(|it| {
            (it.type_name, it.name, it.is_enum) == (type_name, name, is_enum) && it.names == names
        });
        known.unwrap_or_else(|| {
            let variants = if is_enum { names.len() } else { 1 };
            self.named.push(Named {
                type_name,
                name,
                names,
                is_enum,
                variants: (0..variants).map(|_| Part::default()).collect(),
            });
            self.named.len() - 1
        })
    }
}

/// The whole record, in one text.
impl fmt::Display for SerdeShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.whole.text)?;
        for (at, named) in self.named.iter().enumerate() {
            let kind = if named.is_enum { "enum" } else { "struct" };
            write!(f, "\n&{at} {kind} {} {:?}", named.name, named.names)?;
            for variant in &named.variants {
                write!(f, " {{{}}}", variant.text)?;
            }
        }
        Ok(())
    }
}

/// The deserializer of one part.
struct Tracer<'s>(&'s mut SerdeShape);

/// An implementation refused an answer, or its parts have no end.
#[derive(Debug)]
struct Refused;

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the type's shape is not known any further")
    }
}

impl std::error::Error for Refused {}

impl Error for Refused {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self
    }
}

macro_rules! plain_parts {
    ($($deserialize:ident $kind:literal $visit:ident $zero:expr, $one:expr;)*) => {$(
        fn $deserialize<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
            self.0.step($kind)?;
            visitor.$visit(if self.0.trial == 0 { $zero } else { $one })
        }
    )*};
}

/// Requests that postcard does not support either.
macro_rules! unknown_parts {
    ($($deserialize:ident)*) => {$(
        fn $deserialize<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Refused> {
            self.0.step("?")?;
            Err(Refused)
        }
    )*};
}

impl<'de> Deserializer<'de> for Tracer<'_> {
    type Error = Refused;

    plain_parts! {
        deserialize_bool "bool" visit_bool false, true;
        deserialize_u8 "u8" visit_u8 0, 1;
        deserialize_u16 "u16" visit_u16 0, 1;
        deserialize_u32 "u32" visit_u32 0, 1;
        deserialize_u64 "u64" visit_u64 0, 1;
        deserialize_u128 "u128" visit_u128 0, 1;
        deserialize_i8 "i8" visit_i8 0, 1;
        deserialize_i16 "i16" visit_i16 0, 1;
        deserialize_i32 "i32" visit_i32 0, 1;
        deserialize_i64 "i64" visit_i64 0, 1;
        deserialize_i128 "i128" visit_i128 0, 1;
        deserialize_f32 "f32" visit_f32 0.0, 1.0;
        deserialize_f64 "f64" visit_f64 0.0, 1.0;
        deserialize_char "char" visit_char '0', '1';
        // Sixteen bytes are a UUID.
        deserialize_bytes "bytes" visit_bytes &[], &[1; 16];
        deserialize_byte_buf "bytes" visit_bytes &[], &[1; 16];
    }
    unknown_parts!(deserialize_any deserialize_identifier deserialize_ignored_any);

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        self.0.step("str")?;
        visitor.visit_str(TRIALS[self.0.trial])
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        self.deserialize_str(visitor)
    }

    fn is_human_readable(&self) -> bool {
        false
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        self.0.step("()")?;
        visitor.visit_unit()
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Refused> {
        self.0.step(name)?;
        visitor.visit_unit()
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        self.0.step("option ")?;
        match self.0.recursions {
            0 => visitor.visit_some(self),
            _ => visitor.visit_none(),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Refused> {
        self.0.step(name)?;
        self.0.write(" of ");
        self.0
            .within::<V::Value, _>(|shape| visitor.visit_newtype_struct(Tracer(shape)))
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        self.0.step("list of ")?;
        visitor.visit_seq(Parts::some(self.0, 1))
    }

    fn deserialize_tuple<V: Visitor<'de>>(
        self,
        count: usize,
        visitor: V,
    ) -> Result<V::Value, Refused> {
        self.0.step(&format!("{count}("))?;
        let read = visitor.visit_seq(Parts::all(self.0, count));
        self.0.write(")");
        read
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        count: usize,
        visitor: V,
    ) -> Result<V::Value, Refused> {
        self.0.step(name)?;
        self.0
            .within::<V::Value, _>(|shape| Tracer(shape).deserialize_tuple(count, visitor))
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Refused> {
        self.0.step("map of ")?;
        visitor.visit_map(Parts::some(self.0, 1))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refused> {
        let at = self.0.place_of::<V::Value>(name, fields, false);
        self.0.step(&format!("&{at}"))?;
        self.0.within::<V::Value, _>(|shape| {
            shape.variant((at, 0), |shape| {
                visitor.visit_seq(Parts::all(shape, fields.len()))
            })
        })
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refused> {
        let at = self.0.place_of::<V::Value>(name, variants, true);
        self.0.step(&format!("&{at}"))?;
        self.0.within::<V::Value, _>(|shape| {
            let variant = shape.choose(at).ok_or(Refused)?;
            shape.variant((at, variant), |shape| {
                visitor.visit_enum(OneVariant {
                    shape,
                    number: variant as u32,
                })
            })
        })
    }
}

/// The parts of a tuple, a struct, a list or a map.
struct Parts<'s> {
    shape: &'s mut SerdeShape,
    left: usize,
}

impl<'s> Parts<'s> {
    fn all(shape: &'s mut SerdeShape, count: usize) -> Self {
        Self { shape, left: count }
    }

    /// For a type inside itself, which ends without them.
    fn some(shape: &'s mut SerdeShape, count: usize) -> Self {
        let left = if shape.recursions == 0 { count } else { 0 };
        Self { shape, left }
    }

    fn part<'de, S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Refused> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        let part = seed.deserialize(Tracer(self.shape))?;
        self.shape.write(";");
        Ok(Some(part))
    }
}

impl<'de> SeqAccess<'de> for Parts<'_> {
    type Error = Refused;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Refused> {
        self.part(seed)
    }
}

impl<'de> MapAccess<'de> for Parts<'_> {
    type Error = Refused;

    fn next_key_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Refused> {
        self.part(seed)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Refused> {
        seed.deserialize(Tracer(self.shape))
    }
}

/// A variant of an enum, and its contents.
struct OneVariant<'s> {
    shape: &'s mut SerdeShape,
    number: u32,
}

impl<'de> EnumAccess<'de> for OneVariant<'_> {
    type Error = Refused;
    type Variant = Self;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Self), Refused> {
        let number: U32Deserializer<Refused> = self.number.into_deserializer();
        Ok((seed.deserialize(number)?, self))
    }
}

impl<'de> VariantAccess<'de> for OneVariant<'_> {
    type Error = Refused;

    fn unit_variant(self) -> Result<(), Refused> {
        Ok(())
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, Refused> {
        seed.deserialize(Tracer(self.shape))
    }

    fn tuple_variant<V: Visitor<'de>>(self, count: usize, visitor: V) -> Result<V::Value, Refused> {
        visitor.visit_seq(Parts::all(self.shape, count))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Refused> {
        self.shape.write(&format!("{fields:?} "));
        visitor.visit_seq(Parts::all(self.shape, fields.len()))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::num::NonZeroU32;

    use serde::Deserialize;

    use super::*;

    fn shape<T: DeserializeOwned>() -> String {
        SerdeShape::of::<T>().to_string()
    }

    #[expect(dead_code, reason = "only their shapes count")]
    mod types {
        use super::*;

        #[derive(Deserialize)]
        pub(super) struct Account {
            owner: String,
            limits: BTreeMap<String, NonZeroU32>,
            kind: Kind,
            more: Option<Vec<Kind>>,
        }

        #[derive(Deserialize)]
        pub(super) enum Kind {
            Open,
            Closed(u64),
            Moved { from: Id, to: (u8, i8) },
        }

        #[derive(Deserialize)]
        pub(super) struct Id(u128);

        #[derive(Deserialize)]
        pub(super) enum Term {
            Add(Box<Term>, Box<Term>),
            Call { name: String, arguments: Vec<Term> },
            Number(Option<i64>),
            List(List),
        }

        #[derive(Deserialize)]
        pub(super) struct List(Option<Box<List>>);
    }

    #[test]
    fn all_parts_of_a_type_are_seen() {
        let seen = "&0\n\
            &0 struct Account [\"owner\", \"limits\", \"kind\", \"more\"] {str;map of str;u32;&1;option list of &1;;}\n\
            &1 enum Kind [\"Open\", \"Closed\", \"Moved\"] {} {u64} {[\"from\", \"to\"] Id of u128;2(u8;i8;);}";
        assert_eq!(shape::<types::Account>(), seen);
        assert_eq!(SerdeShape::of::<types::Account>().name(), Some("Account"));
        assert_eq!(shape::<Vec<(bool, String)>>(), "list of 2(bool;str;);");
        assert_eq!(SerdeShape::of::<Vec<types::Kind>>().name(), None);
    }

    #[test]
    fn types_that_contain_themselves_are_seen() {
        let seen = "&0\n\
            &0 enum Term [\"Add\", \"Call\", \"Number\", \"List\"] {&0;&0;} {[\"name\", \"arguments\"] str;list of &0;;} \
            {option i64} {List of option List of option }";
        assert_eq!(shape::<types::Term>(), seen);
    }

    #[expect(dead_code, reason = "only their shapes count")]
    mod others {
        use super::*;

        #[derive(Deserialize)]
        pub(super) struct Page<T> {
            pub(super) items: T,
        }

        pub(super) mod inner {
            use super::*;

            /// It has the same name as the type around it.
            #[derive(Deserialize)]
            pub(in super::super) struct Page {
                items: Option<u32>,
            }
        }
    }

    #[test]
    fn types_of_one_name_are_told_apart() {
        use others::{Page, inner};
        let seen = "2(&0;&1;)\n&0 struct Page [\"items\"] {u32}\n&1 struct Page [\"items\"] {str}";
        assert_eq!(
            shape::<(Page<u32>, Page<String>)>(),
            seen.replace('}', ";}")
        );
        let nested = "&0\n&0 struct Page [\"items\"] {&1;}\n&1 struct Page [\"items\"] {&2;}\n\
            &2 struct Page [\"items\"] {option u32;}";
        assert_eq!(shape::<Page<Page<inner::Page>>>(), nested);
    }

    #[test]
    fn checked_texts_are_passed() {
        struct Email;
        impl<'de> Deserialize<'de> for Email {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let text = String::deserialize(from)?;
                text.contains('@')
                    .then_some(Self)
                    .ok_or_else(|| D::Error::custom("no @ in it"))
            }
        }
        assert_eq!(shape::<(u8, Email, u8)>(), "3(u8;str;u8;)");
    }

    /// It accepts a value that no trial gives.
    #[derive(Debug)]
    struct Picky;

    impl<'de> Deserialize<'de> for Picky {
        fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
            match u64::deserialize(from)? {
                4711 => Ok(Self),
                _ => Err(D::Error::custom("not 4711")),
            }
        }
    }

    #[test]
    fn what_refuses_every_trial_ends_its_part_of_the_shape() {
        assert_eq!(shape::<(u8, Picky, u8)>(), "3(u8;u64)");
        #[expect(dead_code, reason = "only its shape counts")]
        #[derive(Deserialize)]
        enum Either {
            Picky(Picky),
            Other(String),
        }
        assert_eq!(
            shape::<Either>(),
            "&0\n&0 enum Either [\"Picky\", \"Other\"] {u64} {str}"
        );
    }
}
