//! The declaration of a type that is to be a key or a value, and its validation.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote};
use syn::spanned::Spanned;
use syn::{
    Data, DeriveInput, Error, Expr, ExprLit, ExprUnary, Fields, GenericParam, Generics, Lit,
    Member, Path, Result, UnOp,
};

use crate::attributes::{OfType, name_of_part};

/// The derived trait.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trait {
    Key,
    Value,
}

/// A struct or an enum.
pub(crate) struct Type {
    pub(crate) ident: Ident,
    /// The generics, with a bound for each parameter.
    pub(crate) generics: Generics,
    pub(crate) name: String,
    /// The path of the crate `namiki`.
    pub(crate) namiki: Path,
    pub(crate) version: u32,
    pub(crate) from: Option<From>,
    pub(crate) is_enum: bool,
    /// The variants; a struct has one without a name.
    pub(crate) variants: Vec<Variant>,
}

/// The earlier version of a type.
pub(crate) struct From {
    pub(crate) earlier: syn::Type,
    /// The function that converts it, if it is not `From::from`.
    pub(crate) with: Option<Path>,
}

/// A variant, or the whole of a struct.
pub(crate) struct Variant {
    /// `Self`, or `Self::Variant`.
    pub(crate) path: TokenStream,
    pub(crate) name: String,
    pub(crate) fields: Vec<Field>,
}

pub(crate) struct Field {
    pub(crate) member: Member,
    /// Its name in the generated code.
    pub(crate) binding: Ident,
    pub(crate) name: String,
    pub(crate) its_type: syn::Type,
}

impl Type {
    pub(crate) fn read(input: &DeriveInput, to_be: Trait) -> Result<Self> {
        let said = OfType::read(&input.attrs)?;
        let namiki = said.namiki.unwrap_or_else(|| syn::parse_quote!(::namiki));
        let version = said.version.map_or(1, |(version, _)| version);
        if to_be == Trait::Key {
            let of_values = said.version.map(|(_, span)| span);
            let of_values = of_values.or_else(|| said.from.as_ref().map(Spanned::span));
            if let Some(span) = of_values.or_else(|| said.with.as_ref().map(Spanned::span)) {
                return Err(Error::new(
                    span,
                    "only values have versions: all keys of a table have one shape, which defines their order. Create a table with \
                     the new key type and move the rows",
                ));
            }
        }
        let from = match (said.from, said.with) {
            (Some(earlier), with) => Some(From { earlier, with }),
            (None, None) => None,
            (None, Some(with)) => {
                let why = "`with` names the function that converts an earlier type: name that type with `from = …`";
                return Err(Error::new(with.span(), why));
            }
        };
        if let Some(from) = &from
            && version == 1
        {
            let why = "a type with `from` is a later version of that type: number it, usually with `version = 2`";
            return Err(Error::new(from.earlier.span(), why));
        }
        let variants = variants(input, to_be)?;
        Ok(Self {
            ident: input.ident.clone(),
            generics: bounded(&input.generics, &namiki, to_be)?,
            name: said.name.unwrap_or_else(|| plain(&input.ident)),
            namiki,
            version,
            from,
            is_enum: matches!(input.data, Data::Enum(_)),
            variants,
        })
    }

    /// The only field of a struct that has just one.
    pub(crate) fn only_field(&self) -> Option<&Field> {
        match &self.variants[..] {
            [Variant { fields, .. }] if !self.is_enum && fields.len() == 1 => fields.first(),
            _ => None,
        }
    }

    /// The code for a `Shape`, with this code for the name of each field's type.
    pub(crate) fn shape(
        &self,
        version: &TokenStream,
        type_name: impl Fn(&Field) -> TokenStream,
    ) -> TokenStream {
        let (namiki, name, is_enum) = (&self.namiki, &self.name, self.is_enum);
        let variants = self.variants.iter().map(|variant| {
            let fields = variant.fields.iter().map(|field| {
                let (name, type_name) = (&field.name, type_name(field));
                quote! { (#name, #type_name as fn() -> ::std::borrow::Cow<'static, str>) }
            });
            let name = &variant.name;
            quote! { (#name, &[#(#fields),*]) }
        });
        quote! {
            #namiki::__derive::Shape {
                name: #name,
                version: #version,
                is_enum: #is_enum,
                variants: &[#(#variants),*],
            }
        }
    }
}

impl Variant {
    /// `Self::Variant { a: field_0, 0: field_1 }`: as a pattern, and as an expression.
    pub(crate) fn with_fields(&self) -> TokenStream {
        let path = &self.path;
        let fields = self.fields.iter().map(
            |Field {
                 member, binding, ..
             }| {
                quote! { #member: #binding }
            },
        );
        quote! { #path { #(#fields),* } }
    }
}

/// Adds a bound to each type parameter. Refuses types that borrow.
fn bounded(generics: &Generics, namiki: &Path, to_be: Trait) -> Result<Generics> {
    let mut generics = generics.clone();
    let mut bounds = Vec::new();
    for parameter in &mut generics.params {
        match parameter {
            GenericParam::Lifetime(lifetime) => {
                let what = match to_be {
                    Trait::Key => {
                        "a key that borrows cannot be read back: let the type own its contents, as `String` \
                                   does, and look it up by a tuple of borrowed fields"
                    }
                    Trait::Value => {
                        "a value that borrows cannot be read back: let the type own its contents, as \
                                     `String` does"
                    }
                };
                return Err(Error::new(lifetime.span(), what));
            }
            GenericParam::Type(parameter) => {
                parameter.default = None;
                bounds.push(parameter.ident.clone());
            }
            GenericParam::Const(parameter) => parameter.default = None,
        }
    }
    let predicates = &mut generics.make_where_clause().predicates;
    for it in bounds {
        predicates.push(match to_be {
            Trait::Key => syn::parse_quote!(#it: #namiki::Key<Owned = #it>),
            Trait::Value => syn::parse_quote!(#it: #namiki::Value<Owned = #it>),
        });
    }
    Ok(generics)
}

fn variants(input: &DeriveInput, to_be: Trait) -> Result<Vec<Variant>> {
    let data = match &input.data {
        Data::Struct(data) => {
            let fields = fields(&data.fields)?;
            return Ok(vec![Variant {
                path: quote!(Self),
                name: String::new(),
                fields,
            }]);
        }
        Data::Enum(data) => data,
        Data::Union(data) => {
            let why = "a union does not say which of its fields it holds: make it an enum";
            return Err(Error::new(data.union_token.span, why));
        }
    };
    if data.variants.is_empty() {
        let why = "an enum without variants has no values that a table could hold";
        return Err(Error::new(input.ident.span(), why));
    }
    if to_be == Trait::Key {
        check_discriminants(data)?;
    }
    let variants = data.variants.iter().map(|variant| {
        let ident = &variant.ident;
        Ok(Variant {
            path: quote!(Self::#ident),
            name: name_of_part(&variant.attrs)?.unwrap_or_else(|| plain(ident)),
            fields: fields(&variant.fields)?,
        })
    });
    let variants: Vec<Variant> = variants.collect::<Result<_>>()?;
    check_names(
        variants.iter().map(|it| &it.name),
        data.variants.iter().map(|it| it.ident.span()),
    )?;
    Ok(variants)
}

/// Variants of keys are ordered by their declaration. Their discriminants have to be in the same
/// order, as the language's derived traits compare by them.
fn check_discriminants(data: &syn::DataEnum) -> Result<()> {
    let mut last: Option<i128> = None;
    for variant in &data.variants {
        let number = match &variant.discriminant {
            None => last.map_or(0, |last| last + 1),
            Some((_, said)) => integer(said).ok_or_else(|| {
                let why = "keys are in the order of their variants, so a discriminant has to be a plain number: write \
                           it out, or omit it";
                Error::new(said.span(), why)
            })?,
        };
        if last.is_some_and(|last| last >= number) {
            let why = "keys are in the order in which their variants are declared: declare them in the order of their \
                       discriminants";
            return Err(Error::new(variant.ident.span(), why));
        }
        last = Some(number);
    }
    Ok(())
}

fn integer(said: &Expr) -> Option<i128> {
    match said {
        Expr::Lit(ExprLit {
            lit: Lit::Int(number),
            ..
        }) => number.base10_parse().ok(),
        Expr::Unary(ExprUnary {
            op: UnOp::Neg(_),
            expr,
            ..
        }) => integer(expr).map(|number| -number),
        _ => None,
    }
}

fn fields(fields: &Fields) -> Result<Vec<Field>> {
    let read = fields.iter().zip(fields.members()).enumerate();
    let read = read.map(|(at, (field, member))| {
        let name = match &member {
            Member::Named(ident) => plain(ident),
            Member::Unnamed(index) => index.index.to_string(),
        };
        Ok(Field {
            name: name_of_part(&field.attrs)?.unwrap_or(name),
            member,
            binding: format_ident!("field_{at}"),
            its_type: field.ty.clone(),
        })
    });
    let read: Vec<Field> = read.collect::<Result<_>>()?;
    check_names(
        read.iter().map(|it| &it.name),
        fields.iter().map(Spanned::span),
    )?;
    Ok(read)
}

/// Refuses two parts with one name.
fn check_names<'n>(
    names: impl Iterator<Item = &'n String>,
    spans: impl Iterator<Item = Span>,
) -> Result<()> {
    let mut met = std::collections::BTreeSet::new();
    for (name, span) in names.zip(spans) {
        if !met.insert(name) {
            return Err(Error::new(span, format!("two parts are called `{name}`")));
        }
    }
    Ok(())
}

/// An identifier's name, without `r#`.
fn plain(ident: &Ident) -> String {
    let name = ident.to_string();
    name.strip_prefix("r#").map(str::to_owned).unwrap_or(name)
}
