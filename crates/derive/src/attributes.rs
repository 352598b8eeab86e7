//! The `#[namiki(…)]` attributes of a type, and of a variant or a field.

use proc_macro2::Span;
use syn::meta::ParseNestedMeta;
use syn::spanned::Spanned;
use syn::{Attribute, Error, LitInt, LitStr, Path, Result, Type};

/// The attributes of a type.
#[derive(Default)]
pub(crate) struct OfType {
    pub(crate) name: Option<String>,
    pub(crate) version: Option<(u32, Span)>,
    pub(crate) from: Option<Type>,
    pub(crate) with: Option<Path>,
    pub(crate) namiki: Option<Path>,
}

impl OfType {
    pub(crate) fn read(attributes: &[Attribute]) -> Result<Self> {
        let mut said = Self::default();
        each(attributes, |meta| {
            if meta.path.is_ident("name") {
                once(&mut said.name, &meta, name(&meta)?)
            } else if meta.path.is_ident("version") {
                let number: LitInt = meta.value()?.parse()?;
                let version = number.base10_parse::<u32>().ok().filter(|it| *it > 0);
                let version = version.ok_or_else(|| {
                    Error::new(number.span(), "a version is a number from 1 to 4294967295")
                })?;
                once(&mut said.version, &meta, (version, number.span()))
            } else if meta.path.is_ident("from") {
                once(&mut said.from, &meta, meta.value()?.parse()?)
            } else if meta.path.is_ident("with") {
                once(&mut said.with, &meta, meta.value()?.parse()?)
            } else if meta.path.is_ident("crate") {
                once(&mut said.namiki, &meta, meta.value()?.parse()?)
            } else {
                Err(meta.error("a type takes `name`, `version`, `from`, `with` or `crate`"))
            }
        })?;
        Ok(said)
    }
}

/// The name attribute of a variant or a field, if any.
pub(crate) fn name_of_part(attributes: &[Attribute]) -> Result<Option<String>> {
    let mut said = None;
    each(attributes, |meta| {
        if meta.path.is_ident("name") {
            once(&mut said, &meta, name(&meta)?)
        } else {
            Err(meta.error("a variant or a field takes only `name`"))
        }
    })?;
    Ok(said)
}

fn each(
    attributes: &[Attribute],
    mut read: impl FnMut(ParseNestedMeta<'_>) -> Result<()>,
) -> Result<()> {
    let ours = attributes.iter().filter(|it| it.path().is_ident("namiki"));
    for attribute in ours {
        attribute.parse_nested_meta(&mut read)?;
    }
    Ok(())
}

fn name(meta: &ParseNestedMeta<'_>) -> Result<String> {
    let name: LitStr = meta.value()?.parse()?;
    let text = name.value();
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    if !text.is_empty() && text.chars().all(is_name) {
        Ok(text)
    } else {
        Err(Error::new(
            name.span(),
            "a name consists of letters, digits and underscores, at least one",
        ))
    }
}

fn once<T>(said: &mut Option<T>, meta: &ParseNestedMeta<'_>, value: T) -> Result<()> {
    match said.replace(value) {
        None => Ok(()),
        Some(_) => Err(Error::new(meta.path.span(), "this attribute is repeated")),
    }
}
