//! Refusals: the message, and its place in the type's declaration.

use crate::input::{Trait, Type};

/// The refusals of a declaration: the code at which each is, and what it says.
fn refused(to_be: Trait, declaration: &str) -> Vec<(String, String)> {
    let declaration = match syn::parse_str(declaration) {
        Ok(declaration) => declaration,
        Err(error) => panic!("{declaration} is no declaration: {error}"),
    };
    match Type::read(&declaration, to_be) {
        Ok(_) => Vec::new(),
        Err(errors) => errors
            .into_iter()
            .map(|error| {
                let at = error.span().source_text().unwrap_or_default();
                (at, error.to_string())
            })
            .collect(),
    }
}

#[track_caller]
fn is_refused(to_be: Trait, declaration: &str, at: &str, says: &str) {
    let found = refused(to_be, declaration);
    let [(found_at, found_says)] = &found[..] else {
        panic!("{declaration}: {found:?}");
    };
    assert_eq!(found_at, at, "{declaration}: {found_says}");
    assert!(found_says.contains(says), "{declaration}: {found_says}");
}

#[track_caller]
fn both_refuse(declaration: &str, at: &str, says: &str) {
    is_refused(Trait::Key, declaration, at, says);
    is_refused(Trait::Value, declaration, at, says);
}

#[test]
fn types_that_cannot_be_read_back_are_refused() {
    both_refuse(
        "struct A<'a> { text: &'a str }",
        "'a",
        "borrows cannot be read back",
    );
    both_refuse("union A { one: u8, other: i8 }", "union", "make it an enum");
    both_refuse("enum Never {}", "Never", "without variants");
}

#[test]
fn attributes_are_checked_where_they_stand() {
    both_refuse(
        "#[namiki(nam = \"B\")] struct A;",
        "nam",
        "a type takes `name`, `version`",
    );
    both_refuse(
        "#[namiki(name = \"B\", name = \"C\")] struct A;",
        "name",
        "repeated",
    );
    both_refuse(
        "#[namiki(name = \"a, b\")] struct A;",
        "\"a, b\"",
        "letters, digits",
    );
    both_refuse("#[namiki(name = \"\")] struct A;", "\"\"", "at least one");
    both_refuse("#[namiki(version = 0)] struct A;", "0", "a number from 1");
    both_refuse(
        "struct A { #[namiki(version = 2)] b: u8 }",
        "version",
        "takes only `name`",
    );
    both_refuse(
        "enum A { #[namiki(from = B)] B }",
        "from",
        "takes only `name`",
    );
    both_refuse(
        "struct A { b: u8, #[namiki(name = \"b\")] c: u8 }",
        "#[namiki(name = \"b\")] c: u8",
        "two parts are called `b`",
    );
    both_refuse(
        "enum A { B, #[namiki(name = \"B\")] C }",
        "C",
        "two parts are called `B`",
    );
}

#[test]
fn keys_have_no_versions() {
    let says = "only values have versions";
    is_refused(Trait::Key, "#[namiki(version = 2)] struct A;", "2", says);
    is_refused(Trait::Key, "#[namiki(from = B)] struct A;", "B", says);
    is_refused(Trait::Key, "#[namiki(with = b)] struct A;", "b", says);
}

#[test]
fn versions_are_made_from_something() {
    let of = |attribute: &str| format!("#[namiki({attribute})] struct A;");
    let value = |attribute, at, says| is_refused(Trait::Value, &of(attribute), at, says);
    value("from = B", "B", "usually with `version = 2`");
    value(
        "version = 1, from = B<C>",
        "B<C>",
        "usually with `version = 2`",
    );
    value(
        "version = 2, with = from_b",
        "from_b",
        "name that type with `from = …`",
    );
    for fine in [
        "version = 1",
        "version = 2",
        "version = 2, from = B",
        "version = 9, from = B, with = b::from_b",
    ] {
        assert_eq!(refused(Trait::Value, &of(fine)), []);
    }
}

#[test]
fn discriminants_of_keys_are_in_the_order_of_the_variants() {
    is_refused(
        Trait::Key,
        "enum A { B = 2, C = 1 }",
        "C",
        "in the order of their discriminants",
    );
    is_refused(
        Trait::Key,
        "enum A { B, C = 0 }",
        "C",
        "in the order of their discriminants",
    );
    is_refused(
        Trait::Key,
        "enum A { B = 1 + 1 }",
        "1 + 1",
        "a plain number",
    );
    assert_eq!(refused(Trait::Key, "enum A { B = -3, C, D = 0x10 }"), []);
    // Values have no order.
    assert_eq!(refused(Trait::Value, "enum A { B = 2, C = 1 + 0 }"), []);
}

/// The compiler tells one error once if it is the same at the same place. So all code asks a field's type for its trait by the
/// same words.
#[test]
fn a_field_without_the_trait_is_one_error() {
    let declaration = "struct A { owner: String, plain: Plain }";
    let variants = "enum A { B, C { plain: Plain } }";
    for declaration in [declaration, variants] {
        let declaration = syn::parse_str(declaration).unwrap_or_else(|error| panic!("{error}"));
        for (to_be, asked) in [
            (Trait::Key, ":: key_field :: < Plain >"),
            (Trait::Value, ":: value_field :: < Plain >"),
        ] {
            let read = Type::read(&declaration, to_be);
            let it = read.unwrap_or_else(|error| panic!("{error}"));
            let code = match to_be {
                Trait::Key => crate::key::derive(&it),
                Trait::Value => crate::value::derive(&it),
            };
            let code = code.to_string();
            // A tuple stands for a key: its part stands for the field.
            let stands_for = code.matches("AsKey < Plain >").count();
            let named = code.matches("Plain").count() - stands_for;
            assert!(named > 1, "{code}");
            assert_eq!(code.matches(asked).count(), named, "{code}");
        }
    }
}
