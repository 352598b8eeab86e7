use super::*;
use std::fmt::Debug;

fn ordered<K: Key<Owned = K> + Ord + Debug>(mut keys: Vec<K>) {
    keys.sort();
    let encode = |key: &K| {
        let mut bytes = KeyBytes::new();
        key.encode(&mut bytes);
        assert_eq!(K::decode(&bytes).as_ref(), Some(key));
        assert_eq!(key.with_bytes(<[u8]>::to_vec), bytes.to_vec());
        bytes
    };
    for pair in keys.windows(2) {
        assert_eq!(
            encode(&pair[0]).cmp(&encode(&pair[1])),
            pair[0].cmp(&pair[1]),
            "{pair:?}"
        );
    }
}

#[test]
fn bytes_compare_as_keys_do_and_come_back() {
    ordered(vec![0_u64, 1, 255, 256, u64::MAX]);
    ordered(vec![i64::MIN, -256, -1, 0, 1, i64::MAX]);
    ordered(vec![i8::MIN, -1, 0, i8::MAX]);
    let strings = [
        "", "\0", "\0\0", "\0a", "a", "a\0", "a\0b", "ab", "b", "\u{ff}",
    ];
    ordered(strings.map(str::to_owned).to_vec());
    let pairs = strings
        .iter()
        .flat_map(|a| strings.iter().map(|b| ((*a).to_owned(), (*b).to_owned())));
    ordered(pairs.collect());
    ordered(vec![
        (-1_i32, 7_u8, vec![0_u8]),
        (-1, 7, vec![0, 0]),
        (0, 0, vec![]),
    ]);
}

#[test]
fn tuples_are_told_apart_by_their_parts() {
    assert_eq!(<(u64, String)>::type_name(), "(u64, string)");
    assert_ne!(<(u64, u64)>::type_name(), <(String, u8)>::type_name());
}

#[test]
fn wrong_bytes_are_not_a_key() {
    assert_eq!(u64::decode(&[1, 2]), None);
    assert_eq!(String::decode(&[0xff]), None);
    assert_eq!(<(u8, u8)>::decode(&[1, 2, 3]), None);
    assert_eq!(<(String, u8)>::decode(&[0, 7]), None);
}

#[test]
fn other_keys_are_in_their_order_too() {
    ordered(vec![false, true]);
    ordered(vec!['\0', 'a', 'é', '\u{10ffff}']);
    ordered(vec![[0_u8, 0], [0, 1], [1, 0]]);
    ordered(vec![None, Some(i8::MIN), Some(0)]);
    ordered(vec![
        None,
        Some(String::new()),
        Some("\0".to_owned()),
        Some("a".to_owned()),
    ]);
    ordered(vec![
        (None, 1_u8),
        (Some("a".to_owned()), 0),
        (Some("a\0".to_owned()), 0),
    ]);
    ordered(vec![
        (1_u8, 2_u8, 3_u8, 4_u8, 5_u8, 6_u8),
        (1, 2, 3, 4, 5, 7),
    ]);
    ordered(vec![
        uuid::Uuid::nil(),
        uuid::Uuid::from_u128(1),
        uuid::Uuid::max(),
    ]);
    ordered(vec![((), 1_u128), ((), 2)]);
    assert_eq!(bool::decode(&[2]), None);
    assert_eq!(char::decode(&[0, 0, 0xd8, 0]), None);
    assert_eq!(Option::<u8>::decode(&[0, 0]), None);
}

#[test]
fn what_stands_for_a_key_has_its_bytes() {
    use std::borrow::Cow;
    use std::rc::Rc;
    use std::sync::Arc;

    fn stands_for<K: Key + ?Sized>(key: &K, stand_ins: &[&dyn Fn(&mut KeyBytes, bool)]) {
        for is_component in [false, true] {
            let mut bytes = KeyBytes::new();
            if is_component {
                key.encode_component(&mut bytes);
            } else {
                key.encode(&mut bytes);
            }
            for stand_in in stand_ins {
                let mut others = KeyBytes::new();
                stand_in(&mut others, is_component);
                assert_eq!(others, bytes);
            }
        }
    }
    macro_rules! all {
        ($key:ty: $first:expr $(, $other:expr)*) => {
            stands_for::<$key>(&$first, &[$(&|into, is_component| if is_component { AsKey::<$key>::encode_component(&$other, into) } else { AsKey::<$key>::encode(&$other, into) }),*])
        };
    }
    let text = String::from("a\0b");
    all!(String: text.clone(), "a\0b", *"a\0b", &&text, Box::new(text.clone()), Rc::new(text.clone()));
    all!(str: *"a\0b", "a\0b", text, Arc::<str>::from("a\0b"), Cow::Borrowed("a\0b"));
    all!(Vec<u8>: vec![0, 1], [0, 1], &[0, 1][..], &&[0, 1]);
    all!([u8; 2]: [0, 1], &[0, 1]);
    all!((String, u64): (text.clone(), 7), ("a\0b", 7), (&text, &7), &("a\0b", 7));
    all!((Vec<u8>, Option<String>): (vec![0], Some(text.clone())), ([0], Some("a\0b")));
}

#[test]
fn prefixes_are_ranges_up_to_the_next_of_their_length() {
    let range = |bytes: &[u8]| {
        let (start, end) = range_of_prefix(KeyBytes::from_slice(bytes));
        assert_eq!(
            start,
            std::ops::Bound::Included(KeyBytes::from_slice(bytes))
        );
        match end {
            std::ops::Bound::Excluded(end) => Some(end.to_vec()),
            _ => None,
        }
    };
    assert_eq!(range(b"al"), Some(b"am".to_vec()));
    assert_eq!(range(&[1, 255, 255]), Some(vec![2]));
    assert_eq!(range(&[255, 255]), None);
    assert_eq!(range(&[]), None);
}
