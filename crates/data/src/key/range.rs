//! Ranges of keys. Their ends may be of any type that can represent a key.

use std::ops::{Bound, Range, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

use super::{AsKey, KeyBytes, encoded};

/// A range of keys of type `K`: any of the language's ranges, `..` among them, or a pair of
/// [`Bound`]s. Its ends are values that [stand](AsKey) for such keys.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let db = namiki::Database::open(dir.path().join("data"))?;
/// use std::ops::Bound;
///
/// let ages = db.table::<String, u32>("ages")?;
/// let visits = db.table::<(String, u64), u32>("visits")?;
/// db.transact(|tx| {
///     tx.scan(&ages, ..)?;
///     tx.scan(&ages, "alice".."carol")?;
///     tx.scan(&visits, ("alice", 3)..=("alice", u64::MAX))?;
///     tx.scan(&ages, (Bound::Excluded("alice"), Bound::<&str>::Unbounded))
/// })?;
/// # Ok(())
/// # }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no range of keys of type `{K}`",
    label = "no range of this table's keys",
    note = "it is one of `a..b`, `a..=b`, `a..`, `..b`, `..=b`, `..` or a pair of `Bound`s, with ends that can stand \
            for keys"
)]
pub trait KeyRange<K: ?Sized> {
    /// The bytes of the lower end.
    fn start(&self) -> Bound<KeyBytes>;
    /// The bytes of the upper end.
    fn end(&self) -> Bound<KeyBytes>;
}

impl<K: ?Sized> KeyRange<K> for RangeFull {
    fn start(&self) -> Bound<KeyBytes> {
        Bound::Unbounded
    }
    fn end(&self) -> Bound<KeyBytes> {
        Bound::Unbounded
    }
}

macro_rules! ranges {
    ($($range:ident: $from:expr, $to:expr;)*) => {$(
        impl<K: ?Sized, Q: AsKey<K>> KeyRange<K> for $range<Q> {
            fn start(&self) -> Bound<KeyBytes> {
                $from(self)
            }
            fn end(&self) -> Bound<KeyBytes> {
                $to(self)
            }
        }
    )*};
}
ranges! {
    Range: |it: &Self| Bound::Included(encoded(&it.start)), |it: &Self| Bound::Excluded(encoded(&it.end));
    RangeFrom: |it: &Self| Bound::Included(encoded(&it.start)), |_| Bound::Unbounded;
    RangeTo: |_| Bound::Unbounded, |it: &Self| Bound::Excluded(encoded(&it.end));
    RangeToInclusive: |_| Bound::Unbounded, |it: &Self| Bound::Included(encoded(&it.end));
}

impl<K: ?Sized, Q: AsKey<K>> KeyRange<K> for RangeInclusive<Q> {
    fn start(&self) -> Bound<KeyBytes> {
        Bound::Included(encoded(self.start()))
    }
    fn end(&self) -> Bound<KeyBytes> {
        use std::ops::RangeBounds;
        // Not `end()`: a range that was iterated to its end is empty.
        self.end_bound().map(encoded)
    }
}

impl<K: ?Sized, P: AsKey<K>, Q: AsKey<K>> KeyRange<K> for (Bound<P>, Bound<Q>) {
    fn start(&self) -> Bound<KeyBytes> {
        self.0.as_ref().map(encoded)
    }
    fn end(&self) -> Bound<KeyBytes> {
        self.1.as_ref().map(encoded)
    }
}

/// A range by reference.
impl<K: ?Sized, R: KeyRange<K>> KeyRange<K> for &R {
    fn start(&self) -> Bound<KeyBytes> {
        R::start(self)
    }
    fn end(&self) -> Bound<KeyBytes> {
        R::end(self)
    }
}
