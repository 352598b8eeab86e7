//! Values of types that have serde's traits, encoded by postcard.
//!
//! The encoding is not self-describing: the type determines where fields are. So the manifest
//! contains the type's shape, found by `serde_shape.rs`.

use std::borrow::Cow;
use std::ops::{Deref, DerefMut};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::serde_shape::SerdeShape;
use super::versions::{Versioned, decode_versioned, encode_versioned};
use super::{Value, ValueBytes};
use crate::shape::named;

/// A value of a type that implements [serde](https://serde.rs)'s traits.
///
/// ```
/// use std::collections::BTreeMap;
///
/// use namiki::{Database, Serde};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize, Debug, PartialEq)]
/// struct Profile {
///     name: String,
///     links: BTreeMap<String, String>,
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let db = Database::open(dir.path().join("data"))?;
/// let profiles = db.table::<u64, Serde<Profile>>("profiles")?;
/// let alice = Serde(Profile { name: "Alice".to_owned(), links: BTreeMap::new() });
/// db.transact(|tx| tx.put(&profiles, &1, &alice))?;
/// assert_eq!(db.transact(|tx| tx.get(&profiles, &1))?, Some(alice));
/// # Ok(())
/// # }
/// ```
///
/// The encoding is postcard's. It is not self-describing, so types that need this cannot be decoded
/// (`#[serde(untagged)]`, `flatten`, `skip_serializing_if`). A value that cannot be encoded is
/// `Error::Unencodable`.
///
/// The type's name in the manifest contains its shape, as far as its `Deserialize` shows it: names
/// and types of fields and variants, and those within them. An implementation by hand is tried with
/// a few numbers and texts. If it refuses all of them, its contents and the fields after it are
/// unknown and **do not count**. Put such a field last, or implement `Value` for its type. To
/// change the type, make the new one from it: see [`Versioned`](crate::Versioned), with
/// `from = Serde<Old>`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Serde<T>(pub T);

impl<T> From<T> for Serde<T> {
    fn from(value: T) -> Self {
        Self(value)
    }
}

impl<T> Deref for Serde<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Serde<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

impl<T: Serialize + DeserializeOwned> Value for Serde<T> {
    type Owned = Self;
    const NAME: &'static str = "serde";

    fn type_name() -> Cow<'static, str> {
        let shape = SerdeShape::of::<T>();
        let name = format!("Serde<{}>", shape.name().unwrap_or("value"));
        Cow::Owned(named(&name, Some(Self::VERSION), &shape.to_string()))
    }
    fn encode(&self, into: &mut ValueBytes) {
        encode_versioned(self, into);
    }
    fn decode(bytes: &[u8]) -> Option<Self> {
        decode_versioned(bytes, |_| None)
    }
    fn encode_component(&self, into: &mut ValueBytes) {
        if let Err(error) = postcard::to_io(&self.0, &mut **into) {
            into.refuse(error.to_string());
        }
    }
    fn decode_component(bytes: &mut &[u8]) -> Option<Self> {
        let (value, rest) = postcard::take_from_bytes(bytes).ok()?;
        *bytes = rest;
        Some(Self(value))
    }
}

impl<T: Serialize + DeserializeOwned> Versioned for Serde<T> {
    const VERSION: u32 = 1;
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Serialize, Deserialize)]
    struct Page<T> {
        items: Vec<T>,
        kind: Kind,
    }

    #[derive(Serialize, Deserialize)]
    enum Kind {
        First,
        Later { before: Option<u64> },
    }

    /// Manifests contain them, so compiler and profile must not change them.
    #[test]
    fn names_of_shapes_are_those_that_manifests_have() {
        let names = [
            Serde::<Page<u32>>::type_name(),
            Serde::<Page<String>>::type_name(),
            Serde::<(Page<u32>, Page<String>)>::type_name(),
        ];
        assert_eq!(
            names,
            [
                "Serde<Page>@1#c8a63b4ba9818ed8",
                "Serde<Page>@1#4e05213cca66922d",
                "Serde<value>@1#bee24446ca3bfaa1"
            ]
        );
    }
}
