//! Values that are read in place, without a copy.

use super::Value;

/// A value with a borrowed form, for `Transaction::get_with`: `&str` for texts, `&[u8]` for bytes.
#[diagnostic::on_unimplemented(
    message = "values of type `{Self}` have no borrowed form",
    label = "no text and no bytes",
    note = "`get_with` is for texts and bytes; read other values with `get`"
)]
pub trait ValueView: Value {
    /// The borrowed form.
    type View: ?Sized;

    /// The value in these bytes, in place.
    fn view(bytes: &[u8]) -> Option<&Self::View>;
}

macro_rules! views {
    ($([$($generics:tt)*] $type:ty, $view:ty, $bytes:ident => $from_bytes:expr;)*) => {$(
        impl $($generics)* ValueView for $type {
            type View = $view;

            #[inline]
            fn view($bytes: &[u8]) -> Option<&$view> {
                $from_bytes
            }
        }
    )*};
}
views! {
    [] str, str, bytes => std::str::from_utf8(bytes).ok();
    [] String, str, bytes => std::str::from_utf8(bytes).ok();
    [] [u8], [u8], bytes => Some(bytes);
    [] Vec<u8>, [u8], bytes => Some(bytes);
    [<const N: usize>] [u8; N], [u8; N], bytes => bytes.try_into().ok();
}
