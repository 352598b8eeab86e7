//! Beginnings that keys have in common.

use std::ops::Bound;

use super::{AsKey, KeyBytes};

/// What keys of type `K` can begin with: a text of the texts that begin with it, bytes of bytes, and the first parts of
/// a tuple, or of a derived struct, of all that have them. A single part is a tuple, too: `("alice",)`.
#[diagnostic::on_unimplemented(
    message = "keys of type `{K}` do not begin with `{Self}`",
    label = "no beginning of this table's keys",
    note = "text begins with text, bytes begin with bytes, and a tuple or a derived struct begins with a tuple of its \
            first parts, such as `(a,)`"
)]
pub trait KeyPrefix<K: ?Sized> {
    /// Adds the bytes that all these keys begin with, and no others.
    fn encode_prefix(&self, into: &mut KeyBytes);
}

impl<K: ?Sized, P: KeyPrefix<K> + ?Sized> KeyPrefix<K> for &P {
    fn encode_prefix(&self, into: &mut KeyBytes) {
        P::encode_prefix(self, into);
    }
}

macro_rules! begins {
    ($([$($generics:tt)*] $type:ty => $key:ty;)*) => {$(
        impl $($generics)* KeyPrefix<$key> for $type {
            fn encode_prefix(&self, into: &mut KeyBytes) {
                let bytes: &[u8] = self.as_ref();
                into.extend_from_slice(bytes);
            }
        }
    )*};
}
begins! {
    [] str => str;
    [] str => String;
    [] String => str;
    [] String => String;
    [] [u8] => [u8];
    [] [u8] => Vec<u8>;
    [] Vec<u8> => [u8];
    [] Vec<u8> => Vec<u8>;
    [<const N: usize>] [u8; N] => [u8];
    [<const N: usize>] [u8; N] => Vec<u8>;
}

macro_rules! tuple_prefix {
    ($($part:ident $given:ident $index:tt),*; $($rest:ident),*) => {
        impl<$($part, $given: AsKey<$part>,)* $($rest),*> KeyPrefix<($($part,)* $($rest,)*)> for ($($given,)*) {
            fn encode_prefix(&self, into: &mut KeyBytes) {
                $(self.$index.encode_component(into);)*
            }
        }
    };
}
tuple_prefix!(A P 0; B);
tuple_prefix!(A P 0; B, C);
tuple_prefix!(A P 0; B, C, D);
tuple_prefix!(A P 0; B, C, D, E);
tuple_prefix!(A P 0; B, C, D, E, F);
tuple_prefix!(A P 0, B Q 1; C);
tuple_prefix!(A P 0, B Q 1; C, D);
tuple_prefix!(A P 0, B Q 1; C, D, E);
tuple_prefix!(A P 0, B Q 1; C, D, E, F);
tuple_prefix!(A P 0, B Q 1, C R 2; D);
tuple_prefix!(A P 0, B Q 1, C R 2; D, E);
tuple_prefix!(A P 0, B Q 1, C R 2; D, E, F);
tuple_prefix!(A P 0, B Q 1, C R 2, D S 3; E);
tuple_prefix!(A P 0, B Q 1, C R 2, D S 3; E, F);
tuple_prefix!(A P 0, B Q 1, C R 2, D S 3, E T 4; F);

/// The range of all keys that begin with these bytes.
pub(crate) fn range_of_prefix(prefix: KeyBytes) -> (Bound<KeyBytes>, Bound<KeyBytes>) {
    let mut after = prefix.clone();
    // The least bytes that are greater than all of them: the last byte that can be raised is, and ends them.
    while let Some(last) = after.pop() {
        if last < u8::MAX {
            after.push(last + 1);
            return (Bound::Included(prefix), Bound::Excluded(after));
        }
    }
    (Bound::Included(prefix), Bound::Unbounded)
}
