//! Names of derived types. They contain a hash of the type's shape, so that a table does not open
//! with another type.
//!
//! The shape is a text: variants and fields in their order, by name, and the names of the fields'
//! types, which contain the shapes of these in turn. Its hash is FNV-1a. The names are in
//! manifests, so they are the same in every release.

use std::borrow::Cow;
use std::cell::RefCell;
use std::fmt::Write;

use crate::row_layout::{TypeLayout, VariantLayout};

/// A field: its name, and the name of its type.
pub type Field = (&'static str, fn() -> Cow<'static, str>);

/// A variant, or the whole of a struct, without a name.
pub type Variant<'a> = (&'static str, &'a [Field]);

/// The shape of a derived type.
#[derive(Clone, Copy, Debug)]
pub struct Shape<'a> {
    /// The type's name without the hash.
    pub name: &'static str,
    /// The version of values; keys have none.
    pub version: Option<u32>,
    /// Whether it is an enum, which may have a single variant.
    pub is_enum: bool,
    /// The variants, or the one of a struct.
    pub variants: &'a [Variant<'a>],
}

impl Shape<'_> {
    /// The name of the type `T`, which has this shape: `Account@1#6b1a…`.
    #[must_use]
    pub fn type_name<T: ?Sized>(&self) -> Cow<'static, str> {
        let Some((shape, variants)) = within::<T, _>(|| self.written_out()) else {
            // A type that contains itself: its name is being made.
            return Cow::Borrowed("^");
        };
        let name = named(self.name, self.version, &shape);
        COLLECTED.with_borrow_mut(|collected| {
            if let Some(collected) = collected
                && !collected.layouts.iter().any(|layout| layout.name == name)
            {
                let name = name.clone();
                collected.layouts.push(TypeLayout { name, variants });
            }
        });
        Cow::Owned(name)
    }

    /// The text to be hashed, and the layout.
    fn written_out(&self) -> (String, Vec<VariantLayout>) {
        let mut shape = String::from(if self.is_enum { "enum" } else { "struct" });
        let mut variants = Vec::new();
        for (variant, fields) in self.variants {
            let _ = write!(shape, " {variant}{{");
            let mut layout = VariantLayout {
                name: self.is_enum.then(|| (*variant).to_owned()),
                fields: Vec::new(),
            };
            for (field, type_name) in *fields {
                let type_name = type_name();
                let _ = write!(shape, "{field}:{type_name};");
                layout
                    .fields
                    .push(((*field).to_owned(), type_name.into_owned()));
            }
            shape.push('}');
            variants.push(layout);
        }
        (shape, variants)
    }
}

/// The layouts of all derived types that are named within `run`. `None` without derived types, or
/// if a type contains itself through another one: `^` would be ambiguous.
pub(crate) fn layouts_within(run: impl FnOnce()) -> Option<Vec<TypeLayout>> {
    COLLECTED.set(Some(Collected::default()));
    run();
    let Collected {
        layouts,
        is_ambiguous,
    } = COLLECTED.take()?;
    (!layouts.is_empty() && !is_ambiguous).then_some(layouts)
}

/// The findings of [`layouts_within`].
#[derive(Default)]
struct Collected {
    layouts: Vec<TypeLayout>,
    is_ambiguous: bool,
}

/// A type's name with its version and the hash of its shape.
pub(crate) fn named(name: &str, version: Option<u32>, shape: &str) -> String {
    let hash = fnv_1a(shape.as_bytes());
    match version {
        Some(version) => format!("{name}@{version}#{hash:016x}"),
        None => format!("{name}#{hash:016x}"),
    }
}

fn fnv_1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

thread_local! {
    /// The types being named, as Rust calls them.
    static WITHIN: RefCell<Vec<&'static str>> = const { RefCell::new(Vec::new()) };
    /// Present while layouts are collected.
    static COLLECTED: RefCell<Option<Collected>> = const { RefCell::new(None) };
}

/// Runs this, unless a caller already runs it for the type.
fn within<T: ?Sized, R>(run: impl FnOnce() -> R) -> Option<R> {
    struct Leave;
    impl Drop for Leave {
        fn drop(&mut self) {
            WITHIN.with_borrow_mut(Vec::pop);
        }
    }

    let it = std::any::type_name::<T>();
    let is_new = WITHIN.with_borrow_mut(|within| {
        let is_new = !within.contains(&it);
        if is_new {
            within.push(it);
        } else if within.last() != Some(&it) {
            COLLECTED.with_borrow_mut(|collected| {
                if let Some(collected) = collected {
                    collected.is_ambiguous = true;
                }
            });
        }
        is_new
    });
    is_new.then(|| {
        let _leave = Leave;
        run()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn u64_name() -> Cow<'static, str> {
        "u64".into()
    }

    const POINT: Shape<'_> = Shape {
        name: "Point",
        version: Some(1),
        is_enum: false,
        variants: &[("", &[("x", u64_name), ("y", u64_name)])],
    };

    struct Point;
    struct List;

    #[test]
    fn names_are_those_that_manifests_have() {
        assert_eq!(fnv_1a(b"foobar"), 0x8594_4171_f739_67e8);
        assert_eq!(POINT.type_name::<Point>(), "Point@1#ad789f0bec7d2c4f");
        let key = Shape {
            version: None,
            ..POINT
        };
        assert_eq!(key.type_name::<Point>(), "Point#ad789f0bec7d2c4f");
    }

    #[test]
    fn each_part_of_a_shape_counts() {
        let of = |variants: &[Variant<'_>], is_enum| {
            let shape = Shape {
                variants,
                is_enum,
                ..POINT
            };
            shape.type_name::<Point>()
        };
        let names = [
            of(&[("", &[("x", u64_name), ("y", u64_name)])], false),
            of(&[("", &[("y", u64_name), ("x", u64_name)])], false),
            of(&[("", &[("x", u64_name)])], false),
            of(&[("", &[("x", || "i64".into()), ("y", u64_name)])], false),
            of(&[("", &[])], false),
            of(&[("", &[])], true),
            of(&[("A", &[])], true),
            of(&[("B", &[])], true),
            of(&[("A", &[]), ("B", &[])], true),
            of(&[("B", &[]), ("A", &[])], true),
            of(&[("A", &[("0", u64_name)]), ("B", &[])], true),
            of(&[("A", &[]), ("B", &[("0", u64_name)])], true),
        ];
        for (at, name) in names.iter().enumerate() {
            assert!(!names[..at].contains(name), "shape {at} looks like another");
        }
    }

    #[test]
    fn a_type_that_contains_itself_has_a_name() {
        fn list_name() -> Cow<'static, str> {
            const LIST: Shape<'_> = Shape {
                name: "List",
                version: Some(1),
                is_enum: false,
                variants: &[("", &[("next", list_name)])],
            };
            LIST.type_name::<List>()
        }
        let name = list_name();
        assert!(name.starts_with("List@1#"), "{name}");
        assert_eq!(list_name(), name);
        let layouts = layouts_within(|| drop(list_name())).unwrap();
        let fields = vec![("next".to_owned(), "^".to_owned())];
        let variants = vec![VariantLayout { name: None, fields }];
        let name = name.into_owned();
        assert_eq!(layouts, [TypeLayout { name, variants }]);
        assert_eq!(layouts_within(|| drop(u64_name())), None);
    }
}
