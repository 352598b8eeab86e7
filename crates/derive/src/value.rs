//! Code generation for `#[derive(Value)]`.
//!
//! A value alone is encoded as its version and its component. The component consists of those of
//! its fields, after the number of the variant in an enum.

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;

use crate::input::{Field, From, Type, Variant};

pub(crate) fn derive(it: &Type) -> TokenStream {
    let Type {
        ident,
        generics,
        namiki,
        name,
        version,
        ..
    } = it;
    let (parameters, arguments, bounds) = generics.split_for_impl();
    let type_name = it.shape(&quote!(::std::option::Option::Some(#version)), |field| {
        let field = codec(it, field);
        quote! { #field.name }
    });
    let lengths = arms(it, |_, variant| {
        let lengths = variant.fields.iter().map(|field| {
            let (codec, binding) = (codec(it, field), &field.binding);
            quote! { + (#codec.bytes_min)(#binding) }
        });
        quote! { 1 #(#lengths)* }
    });
    let encode = arms(it, |number, variant| {
        let number = it
            .is_enum
            .then(|| quote! { #namiki::__derive::put_length(#number, into); });
        let fields = variant.fields.iter().map(|field| {
            let (codec, binding) = (codec(it, field), &field.binding);
            quote! { (#codec.encode_component)(#binding, into); }
        });
        quote! { { let _ = &into; #number #(#fields)* } }
    });
    let decode = decoded(it);
    let rooms = it.variants.iter().map(|variant| {
        let rooms = variant.fields.iter().map(|field| {
            let codec = codec(it, field);
            quote! { + #codec.room_bytes }
        });
        quote! { 0 #(#rooms)* }
    });
    let number_bytes = usize::from(it.is_enum);
    let Earlier {
        decode: decode_earlier,
        names,
        check,
    } = earlier(it);
    quote! {
        #[automatically_derived]
        impl #parameters #namiki::Value for #ident #arguments #bounds {
            type Owned = Self;
            const NAME: &'static str = #name;
            const ROOM_BYTES: usize = 1 + #number_bytes + #namiki::__derive::max(&[#(#rooms),*]);

            fn type_name() -> ::std::borrow::Cow<'static, str> {
                #type_name.type_name::<Self>()
            }
            #names
            fn encoded_bytes_min(&self) -> usize {
                #lengths
            }
            fn encode(&self, into: &mut #namiki::ValueBytes) {
                #namiki::__derive::encode_versioned(self, into);
            }
            fn decode(bytes: &[u8]) -> ::std::option::Option<Self> {
                #namiki::__derive::decode_versioned(bytes, #decode_earlier)
            }
            fn encode_component(&self, into: &mut #namiki::ValueBytes) {
                #encode
            }
            fn decode_component(bytes: &mut &[u8]) -> ::std::option::Option<Self> {
                #decode
            }
        }

        #[automatically_derived]
        impl #parameters #namiki::Versioned for #ident #arguments #bounds {
            const VERSION: u32 = #version;
        }

        #check
    }
}

/// The generated code for the earlier version of a type.
struct Earlier {
    decode: TokenStream,
    names: Option<TokenStream>,
    check: Option<TokenStream>,
}

fn earlier(it: &Type) -> Earlier {
    let Type {
        namiki, version, ..
    } = it;
    let Some(From { earlier, with }) = &it.from else {
        return Earlier {
            decode: quote! { |_| ::std::option::Option::None },
            names: None,
            check: None,
        };
    };
    let convert = match with {
        Some(with) => quote! { #with },
        None => quote_spanned! { earlier.span() =>
            <Self as ::std::convert::From<#earlier>>::from
        },
    };
    let decode = quote_spanned! { earlier.span() => #namiki::__derive::decode_earlier::<#earlier> };
    let names =
        quote_spanned! { earlier.span() => #namiki::__derive::names_with_earlier::<#earlier> };
    let is_less = format!(
        "the type that version {version} is converted from has to have a lower version: every shape has a number of its own"
    );
    let assertion = quote_spanned! { earlier.span() =>
        ::std::assert!(<#earlier as #namiki::Versioned>::VERSION < #version, #is_less);
    };
    // A constant that depends on the type's parameters is evaluated when the function is compiled
    // for them.
    let (inner_check, check) = if it.generics.params.is_empty() {
        (None, Some(quote! { const _: () = #assertion }))
    } else {
        (Some(quote! { const { #assertion } }), None)
    };
    Earlier {
        decode: quote! { |bytes| { #inner_check #decode(bytes).map(#convert) } },
        names: Some(quote! {
            fn earlier_type_names() -> ::std::vec::Vec<::std::borrow::Cow<'static, str>> {
                #names()
            }
        }),
        check,
    }
}

/// The codec calls for a field: the only place that requires the trait of its type, so that a
/// missing trait is one error, at that type.
fn codec(it: &Type, field: &Field) -> TokenStream {
    let (namiki, its_type) = (&it.namiki, &field.its_type);
    quote_spanned! { its_type.span() => #namiki::__derive::value_field::<#its_type>() }
}

fn arms(it: &Type, arm: impl Fn(usize, &Variant) -> TokenStream) -> TokenStream {
    let arms = it.variants.iter().enumerate().map(|(number, variant)| {
        let (pattern, arm) = (variant.with_fields(), arm(number, variant));
        quote! { #pattern => #arm }
    });
    quote! { match self { #(#arms),* } }
}

fn decoded(it: &Type) -> TokenStream {
    let namiki = &it.namiki;
    let built = |variant: &Variant| {
        let path = &variant.path;
        let fields = variant.fields.iter().map(|field| {
            let (codec, member) = (codec(it, field), &field.member);
            quote! { #member: (#codec.decode_component)(bytes)? }
        });
        quote! { ::std::option::Option::Some(#path { #(#fields),* }) }
    };
    if !it.is_enum {
        let built = built(&it.variants[0]);
        return quote! { let _ = &bytes; #built };
    }
    let arms = it.variants.iter().enumerate().map(|(number, variant)| {
        let built = built(variant);
        quote! { #number => #built }
    });
    quote! {
        match #namiki::__derive::take_length(bytes)? {
            #(#arms,)*
            _ => ::std::option::Option::None,
        }
    }
}
