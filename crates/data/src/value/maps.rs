//! Maps: the number of entries, then key and value of each as components, in ascending order of the
//! keys.
//!
//! So equal maps have equal bytes: a `HashMap` is encoded as the `BTreeMap` of the same entries,
//! and each decodes the other's bytes.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, Hash};

use super::lists::refuse_nesting;
use super::nesting::nested;
use super::{Value, ValueBytes, put_length, take_length};

fn name<K: Value, V: Value>() -> Cow<'static, str> {
    Cow::Owned(format!("map<{}, {}>", K::type_name(), V::type_name()))
}

/// Encodes entries, which are in order.
fn encode_sorted<'m, K: Value + 'm, V: Value + 'm>(
    entries: impl ExactSizeIterator<Item = (&'m K, &'m V)>,
    into: &mut ValueBytes,
) {
    put_length(entries.len(), into);
    let encoded = nested(|| {
        for (key, value) in entries {
            key.encode_component(into);
            value.encode_component(into);
        }
    });
    if encoded.is_none() {
        refuse_nesting(into);
    }
}

/// Decodes entries. Their keys must ascend.
fn decode_sorted<K: Value<Owned = K> + Ord, V: Value<Owned = V>>(
    bytes: &mut &[u8],
) -> Option<Vec<(K, V)>> {
    let count = take_length(bytes)?;
    nested(|| {
        // The count may be damaged: the bytes limit the first allocation.
        let mut entries: Vec<(K, V)> = Vec::with_capacity(count.min(bytes.len()).min(1 << 10));
        for _ in 0..count {
            let key = K::decode_component(bytes)?;
            if entries.last().is_some_and(|(last, _)| *last >= key) {
                return None;
            }
            entries.push((key, V::decode_component(bytes)?));
        }
        Some(entries)
    })?
}

macro_rules! map_value {
    ($map:ty, [$($parameters:tt)*], $entries:expr) => {
        impl<$($parameters)*> Value for $map {
            type Owned = Self;
            const NAME: &'static str = "map";

            fn type_name() -> Cow<'static, str> {
                name::<K, V>()
            }
            fn encode(&self, into: &mut ValueBytes) {
                self.encode_component(into);
            }
            fn decode(mut bytes: &[u8]) -> Option<Self> {
                Self::decode_component(&mut bytes).filter(|_| bytes.is_empty())
            }
            fn encode_component(&self, into: &mut ValueBytes) {
                let entries: fn(&Self) -> Vec<(&K, &V)> = $entries;
                encode_sorted(entries(self).into_iter(), into);
            }
            fn decode_component(bytes: &mut &[u8]) -> Option<Self> {
                decode_sorted(bytes).map(Self::from_iter)
            }
        }
    };
}

map_value!(
    BTreeMap<K, V>,
    [K: Value<Owned = K> + Ord, V: Value<Owned = V>],
    |map| map.iter().collect()
);
map_value!(
    HashMap<K, V, S>,
    [
        K: Value<Owned = K> + Ord + Hash,
        V: Value<Owned = V>,
        S: BuildHasher + Default
    ],
    |map| {
        let mut entries: Vec<_> = map.iter().collect();
        entries.sort_unstable_by_key(|(key, _)| *key);
        entries
    }
);

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded<V: Value>(value: &V) -> Vec<u8> {
        let mut bytes = ValueBytes::new();
        value.encode(&mut bytes);
        bytes.to_vec()
    }

    #[test]
    fn both_maps_have_one_encoding_and_one_name() {
        type Hashed = HashMap<String, Option<u16>>;
        type Sorted = BTreeMap<String, Option<u16>>;
        assert_eq!(Hashed::type_name(), "map<string, option<u16>>");
        assert_eq!(Sorted::type_name(), Hashed::type_name());
        let entries = (0..100_u16).map(|it| (it.to_string(), (it % 2 == 0).then_some(it)));
        let sorted: Sorted = entries.clone().collect();
        let bytes = encoded(&sorted);
        // Each hash map has its own order.
        for _ in 0..3 {
            let hashed: Hashed = entries.clone().collect();
            assert_eq!(encoded(&hashed), bytes);
            assert_eq!(Hashed::decode(&bytes), Some(hashed));
        }
        assert_eq!(Sorted::decode(&bytes), Some(sorted));
        assert_eq!(encoded(&Hashed::new()), [0]);
    }

    #[test]
    fn keys_out_of_order_and_twice_are_no_map() {
        type Map = BTreeMap<u8, u8>;
        let read = |bytes: &[u8]| Map::decode(bytes);
        assert_eq!(read(&[2, 1, 9, 2, 8]), Some(Map::from([(1, 9), (2, 8)])));
        assert_eq!(read(&[2, 2, 8, 1, 9]), None);
        assert_eq!(read(&[2, 1, 9, 1, 8]), None);
        assert_eq!(read(&[1, 1, 9, 0]), None);
        assert_eq!(read(&[0xff, 0xff, 0xff, 0xff, 0x0f]), None);
        assert_eq!(BTreeMap::<(), ()>::decode(&[0xff, 0xff, 0x03]), None);
    }

    #[test]
    fn maps_in_maps_are_nested_so_deep_at_most() {
        #[derive(Default)]
        struct Folder(BTreeMap<u8, Box<Folder>>);

        impl Value for Folder {
            type Owned = Self;
            const NAME: &'static str = "folder";
            fn encode(&self, into: &mut ValueBytes) {
                self.0.encode(into);
            }
            fn decode(bytes: &[u8]) -> Option<Self> {
                BTreeMap::decode(bytes).map(Self)
            }
            fn encode_component(&self, into: &mut ValueBytes) {
                self.0.encode_component(into);
            }
            fn decode_component(bytes: &mut &[u8]) -> Option<Self> {
                BTreeMap::decode_component(bytes).map(Self)
            }
        }

        let deep = [1, 7].repeat(100_000);
        assert!(Folder::decode(&deep).is_none());
        let shallow = [&[1, 7].repeat(50)[..], &[0]].concat();
        assert_eq!(encoded(&Folder::decode(&shallow).unwrap()), shallow);
    }
}
