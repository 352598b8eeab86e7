//! A reference or a pointer represents the keys that its target represents.

use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;

use super::{AsKey, KeyBytes};

macro_rules! pointer {
    ($($pointer:ty),*) => {$(
        impl<K: ?Sized, Q: AsKey<K> + ?Sized> AsKey<K> for $pointer {
            #[inline]
            fn encode(&self, into: &mut KeyBytes) {
                Q::encode(self, into);
            }
            #[inline]
            fn with_bytes<T>(&self, read: impl FnOnce(&[u8]) -> T) -> T {
                Q::with_bytes(self, read)
            }
            #[inline]
            fn encode_component(&self, into: &mut KeyBytes) {
                Q::encode_component(self, into);
            }
        }
    )*};
}
pointer!(&Q, &mut Q, Box<Q>, Rc<Q>, Arc<Q>);

impl<K: ?Sized, Q: AsKey<K> + ToOwned + ?Sized> AsKey<K> for Cow<'_, Q> {
    fn encode(&self, into: &mut KeyBytes) {
        Q::encode(self, into);
    }
    fn with_bytes<T>(&self, read: impl FnOnce(&[u8]) -> T) -> T {
        Q::with_bytes(self, read)
    }
    fn encode_component(&self, into: &mut KeyBytes) {
        Q::encode_component(self, into);
    }
}
