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
