//! Code generation for `#[derive(Key)]`.
//!
//! A struct of one field is encoded as that field, and so keeps its length: an `AccountId(u64)` has
//! eight bytes. Other types are the components of their fields; in an enum, the number of the
//! variant precedes them, in one byte or two.

use proc_macro2::{Ident, Literal, TokenStream};
use quote::{format_ident, quote, quote_spanned};
use syn::spanned::Spanned;

use crate::input::{Field, Type, Variant};

pub(crate) fn derive(it: &Type) -> TokenStream {
    let Type {
        ident,
        generics,
        namiki,
        name,
        ..
    } = it;
    let (parameters, arguments, bounds) = generics.split_for_impl();
    let type_name = it.shape(&quote!(::std::option::Option::None), |field| {
        let field = codec(it, field);
        quote! { #field.name }
    });
    let encode = encoded(it, Form::Alone);
    let encode_component = encoded(it, Form::Component);
    let decode_component = decoded(it);
    let (decode, eight_bytes) = match it.only_field() {
        Some(field) => {
            let (codec, member) = (codec(it, field), &field.member);
            (
                quote! { ::std::option::Option::Some(Self { #member: (#codec.decode)(bytes)? }) },
                quote! { #codec.eight_bytes },
            )
        }
        None => (
            quote! {
                let mut bytes = bytes;
                let key = <Self as #namiki::Key>::decode_component(&mut bytes)?;
                ::std::option::Option::Some(key).filter(|_| bytes.is_empty())
            },
            quote! { false },
        ),
    };
    let stand_ins = if it.is_enum {
        TokenStream::new()
    } else {
        stand_ins(it, &it.variants[0])
    };
    quote! {
        #[automatically_derived]
        impl #parameters #namiki::AsKey<#ident #arguments> for #ident #arguments #bounds {
            fn encode(&self, into: &mut #namiki::KeyBytes) {
                #encode
            }
            fn encode_component(&self, into: &mut #namiki::KeyBytes) {
                #encode_component
            }
        }

        #[automatically_derived]
        impl #parameters #namiki::Key for #ident #arguments #bounds {
            type Owned = Self;
            const NAME: &'static str = #name;
            const EIGHT_BYTES: bool = #eight_bytes;

            fn type_name() -> ::std::borrow::Cow<'static, str> {
                #type_name.type_name::<Self>()
            }
            fn decode(bytes: &[u8]) -> ::std::option::Option<Self> {
                #decode
            }
            fn decode_component(bytes: &mut &[u8]) -> ::std::option::Option<Self> {
                #decode_component
            }
        }

        #stand_ins
    }
}

/// Selects one of the two encodings.
#[derive(Clone, Copy)]
enum Form {
    Alone,
    Component,
}

impl Form {
    /// The encoding of the fields of a type in this form.
    fn of_fields(self, it: &Type) -> Self {
        match it.only_field() {
            Some(_) => self,
            None => Self::Component,
        }
    }

    fn function(self) -> &'static str {
        match self {
            Self::Alone => "encode",
            Self::Component => "encode_component",
        }
    }
}

/// The codec calls for a field: the only place that requires the trait of its type, so that a
/// missing trait is one error, at that type.
fn codec(it: &Type, field: &Field) -> TokenStream {
    let (namiki, its_type) = (&it.namiki, &field.its_type);
    quote_spanned! { its_type.span() => #namiki::__derive::key_field::<#its_type>() }
}

fn encoded(it: &Type, form: Form) -> TokenStream {
    let of_fields = form.of_fields(it);
    let arms = it.variants.iter().enumerate().map(|(number, variant)| {
        let pattern = variant.with_fields();
        let number = it.is_enum.then(|| {
            let bytes = number_bytes(it, number);
            quote! { into.extend_from_slice(&[#(#bytes),*]); }
        });
        let fields = variant.fields.iter().map(|field| {
            let (codec, binding) = (codec(it, field), &field.binding);
            let encode = format_ident!("{}", of_fields.function());
            quote! { (#codec.#encode)(#binding, into); }
        });
        quote! { #pattern => { let _ = &into; #number #(#fields)* } }
    });
    quote! { match self { #(#arms),* } }
}

/// The leading bytes of a variant: its number, big-endian, in as many bytes as all variants need.
fn number_bytes(it: &Type, number: usize) -> Vec<Literal> {
    let bytes = (number as u32).to_be_bytes();
    let width = if it.variants.len() <= 1 << 8 { 1 } else { 2 };
    let bytes = bytes[4 - width..].iter();
    bytes.map(|byte| Literal::u8_suffixed(*byte)).collect()
}

fn decoded(it: &Type) -> TokenStream {
    let some = quote! { ::std::option::Option::Some };
    let built = |variant: &Variant| {
        let path = &variant.path;
        let fields = variant.fields.iter().map(|field| {
            let (codec, member) = (codec(it, field), &field.member);
            quote! { #member: (#codec.decode_component)(bytes)? }
        });
        // In the order in which they are declared.
        quote! { #some(#path { #(#fields),* }) }
    };
    if !it.is_enum {
        let built = built(&it.variants[0]);
        return quote! { let _ = &bytes; #built };
    }
    let arms = it.variants.iter().enumerate().map(|(number, variant)| {
        let (bytes, built) = (number_bytes(it, number), built(variant));
        quote! { [#(#bytes),*] => #built }
    });
    let width = number_bytes(it, 0).len();
    quote! {
        match bytes.split_off(..#width)? {
            #(#arms,)*
            _ => ::std::option::Option::None,
        }
    }
}

/// Implementations for tuples that can stand for a struct, or are a prefix of it.
fn stand_ins(it: &Type, whole: &Variant) -> TokenStream {
    let Type { ident, namiki, .. } = it;
    let given: Vec<Ident> = (0..whole.fields.len())
        .map(|at| format_ident!("__Given{at}"))
        .collect();
    if given.is_empty() {
        return TokenStream::new();
    }
    let (_, arguments, _) = it.generics.split_for_impl();
    // An implementation for a tuple of the first fields, each of which implements this for the field's type.
    let implemented =
        |count: usize, implemented: TokenStream, of_each: TokenStream, body: TokenStream| {
            let mut generics = it.generics.clone();
            for (given, field) in given.iter().zip(&whole.fields).take(count) {
                let its_type = &field.its_type;
                generics
                    .params
                    .push(syn::parse_quote!(#given: #of_each<#its_type>));
            }
            let (parameters, _, bounds) = generics.split_for_impl();
            let given = &given[..count];
            quote! {
                #[automatically_derived]
                impl #parameters #implemented<#ident #arguments> for (#(#given,)*) #bounds {
                    #body
                }
            }
        };
    let calls = |count: usize, of_each: &TokenStream, function: &str| {
        let function = format_ident!("{function}");
        let calls = whole
            .fields
            .iter()
            .take(count)
            .enumerate()
            .map(|(at, field)| {
                let (place, its_type) = (syn::Index::from(at), &field.its_type);
                let given = &given[at];
                quote! { <#given as #of_each<#its_type>>::#function(&self.#place, into); }
            });
        quote! { #(#calls)* }
    };
    let as_key = quote! { #namiki::AsKey };
    let prefix = quote! { #namiki::KeyPrefix };
    let count = given.len();
    let alone = match it.only_field() {
        Some(_) => calls(count, &as_key, "encode"),
        None => calls(count, &as_key, "encode_component"),
    };
    let component = calls(count, &as_key, "encode_component");
    let stands_for = implemented(
        count,
        as_key.clone(),
        as_key.clone(),
        quote! {
            fn encode(&self, into: &mut #namiki::KeyBytes) {
                #alone
            }
            fn encode_component(&self, into: &mut #namiki::KeyBytes) {
                #component
            }
        },
    );
    let of_prefix = |calls: TokenStream| {
        quote! {
            fn encode_prefix(&self, into: &mut #namiki::KeyBytes) {
                #calls
            }
        }
    };
    let prefixes: Vec<TokenStream> = match it.only_field() {
        // A prefix of the one field.
        Some(_) => vec![implemented(
            1,
            prefix.clone(),
            prefix.clone(),
            of_prefix(calls(1, &prefix, "encode_prefix")),
        )],
        None => (1..count)
            .map(|count| {
                let calls = calls(count, &as_key, "encode_component");
                implemented(count, prefix.clone(), as_key.clone(), of_prefix(calls))
            })
            .collect(),
    };
    quote! { #stands_for #(#prefixes)* }
}
