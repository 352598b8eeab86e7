//! `#[derive(Key)]` and `#[derive(Value)]` for types of a program's own.
//!
//! This crate is used through `namiki`, which has it with its default feature `derive`. What the encodings are, the
//! traits' own modules say; here, code is written that calls them for each field. A type is read once, into a
//! `input::Type`, with all refusals; `key.rs` and `value.rs` write code from that and refuse nothing more.
//!
//! What is written asks the type of a field for `Key` or `Value` in one way alone, so that a field with neither is one error,
//! at the type of that field.

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
/// Keys compare by their fields, one after the other, and those of an enum by their variants first, in the order in
/// which these are declared. A tuple with the fields of a struct, or with what can stand for them, can stand for the
/// struct, and a tuple with some of the first fields is a prefix.
///
/// - `#[namiki(name = "…")]` for the type, a variant or a field: what it is called in the manifest. Names count when a
///   table is opened, so one that is renamed in the program keeps its old one so.
/// - `#[namiki(crate = path)]`: where `namiki` is, if not at `::namiki`.
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
/// - `#[namiki(version = 2, from = Old)]`: the type's second shape, made from `Old` by `From<Old>`. See
///   `namiki::Versioned`.
/// - `#[namiki(with = path)]` beside these: a function that makes it from `Old`.
/// - `#[namiki(name = "…")]` for the type, a variant or a field: what it is called in the manifest. Names count when a
///   table is opened, so one that is renamed in the program keeps its old one so.
/// - `#[namiki(crate = path)]`: where `namiki` is, if not at `::namiki`.
#[proc_macro_derive(Value, attributes(namiki))]
pub fn derive_value(item: TokenStream) -> TokenStream {
    let item = parse_macro_input!(item as DeriveInput);
    let written = input::Type::read(&item, input::Trait::Value).map(|it| value::derive(&it));
    written
        .unwrap_or_else(|refused| refused.into_compile_error())
        .into()
}
