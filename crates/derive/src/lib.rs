//! `#[derive(Key)]` and `#[derive(Value)]` for a program's own types.
//!
//! Programs use this crate through `namiki` or `namiki-data` (feature `derive`). The traits in
//! `namiki-data` define the encodings; the macros generate code that calls them for each field. A
//! type is parsed and validated once, into an `input::Type`; `key.rs` and `value.rs`
//! generate code from that and refuse nothing more.
//!
//! The generated code requires `Key` or `Value` of a field's type in only one form, so that a
//! missing trait is one error, at the type of that field.

mod attributes;
mod input;
mod key;
#[cfg(test)]
mod refusal_tests;
mod value;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

/// Implements `namiki::Key`, for structs and enums with fields that are keys.
///
/// Keys compare by their fields, one after the other, and those of an enum by their variants first,
/// in the order in which these are declared. A tuple of a struct's fields, or of types that can
/// stand for them, can stand for the struct. A tuple of some of the first fields is a prefix.
///
/// - `#[namiki(name = "…")]` for the type, a variant or a field: its name in the manifest. Names
///   are compared when a table is opened, so a type, variant or field that is renamed in the
///   program keeps its old name by this attribute.
/// - `#[namiki(crate = path)]`: the path of `namiki`, if it is not `::namiki`.
#[proc_macro_derive(Key, attributes(namiki))]
pub fn derive_key(item: TokenStream) -> TokenStream {
    let item = parse_macro_input!(item as DeriveInput);
    let written = input::Type::read(&item, input::Trait::Key).map(|it| key::derive(&it));
    written
        .unwrap_or_else(|refused| refused.into_compile_error())
        .into()
}

/// Implements `namiki::Value`, for structs and enums with fields that are values.
///
/// - `#[namiki(version = 2, from = Old)]`: the type's second shape, converted from `Old` by
///   `From<Old>`. See `namiki::Versioned`.
/// - `#[namiki(with = path)]` in addition: a function that converts `Old`.
/// - `#[namiki(name = "…")]` for the type, a variant or a field: its name in the manifest. Names
///   are compared when a table is opened, so a type, variant or field that is renamed in the
///   program keeps its old name by this attribute.
/// - `#[namiki(crate = path)]`: the path of `namiki`, if it is not `::namiki`.
#[proc_macro_derive(Value, attributes(namiki))]
pub fn derive_value(item: TokenStream) -> TokenStream {
    let item = parse_macro_input!(item as DeriveInput);
    let written = input::Type::read(&item, input::Trait::Value).map(|it| value::derive(&it));
    written
        .unwrap_or_else(|refused| refused.into_compile_error())
        .into()
}
