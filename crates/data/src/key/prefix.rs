//! Prefixes of keys.

use std::ops::Bound;

use super::{AsKey, KeyBytes};

/// A prefix of keys of type `K`: text of text, bytes of bytes, a tuple of the first parts of a
/// tuple or of a derived struct. A single part is a tuple, too: `("alice",)`.
#[diagnostic::on_unimplemented(
    message = "keys of type `{K}` do not begin with `{Self}`",
    label = "no beginning of this table's keys",
    note = "text begins with text, bytes begin with bytes, and a tuple or a derived struct begins with a tuple of its \
            first parts, such as `(a,)`"
)]
pub trait KeyPrefix<K: ?Sized> {
    /// Adds the bytes that the keys with this prefix begin with, and no other key.
    fn encode_prefix(&self, into: &mut KeyBytes);
}

impl<K: ?Sized, P: KeyPrefix<K> + ?Sized> KeyPrefix<K> for &P {
    fn encode_prefix(&self, into: &mut KeyBytes) {
        P::encode_prefix(self, into);
    }
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
#[must_use]
pub fn range_of_prefix(prefix: KeyBytes) -> (Bound<KeyBytes>, Bound<KeyBytes>) {
    let end = after_prefix(&prefix);
    (Bound::Included(prefix), end)
}

/// The end of the range of all keys that begin with `prefix`: the first bytes that are greater than
/// all of them.
#[must_use]
pub fn after_prefix<B: for<'b> From<&'b [u8]> + AsMut<[u8]>>(prefix: &[u8]) -> Bound<B> {
    // The last byte below 255 is raised, and the bytes after it go.
    let Some(last) = prefix.iter().rposition(|byte| *byte < u8::MAX) else {
        return Bound::Unbounded;
    };
    let mut end = B::from(&prefix[..=last]);
    end.as_mut()[last] += 1;
    Bound::Excluded(end)
}
