use super::*;

fn there_and_back<V: Value + ?Sized>(value: &V) -> Option<V::Owned> {
    let mut bytes = ValueBytes::new();
    value.encode(&mut bytes);
    V::decode(&bytes)
}

#[test]
fn values_come_back_and_wrong_bytes_are_none() {
    assert_eq!(there_and_back(&-7_i64), Some(-7));
    assert_eq!(there_and_back(&1.5_f64), Some(1.5));
    assert_eq!(there_and_back(&true), Some(true));
    assert_eq!(there_and_back("並木").as_deref(), Some("並木"));
    assert_eq!(there_and_back(&[1_u8, 2, 3]), Some([1, 2, 3]));
    assert_eq!(u64::decode(&[1]), None);
    assert_eq!(bool::decode(&[2]), None);
    assert_eq!(<str as Value>::decode(&[0xff]), None);
}

/// Whether values are the same after they were written one after the other as components, and whether fewer bytes are not enough for them.
fn components_come_back<V: Value<Owned = V> + PartialEq + std::fmt::Debug>(values: &[V]) {
    let mut bytes = ValueBytes::new();
    for value in values {
        value.encode_component(&mut bytes);
        assert_eq!(there_and_back(value).as_ref(), Some(value));
    }
    let mut rest = &bytes[..];
    for value in values {
        assert_eq!(V::decode_component(&mut rest).as_ref(), Some(value));
    }
    assert!(rest.is_empty());
    for end in 0..bytes.len() {
        let mut cut = &bytes[..end];
        let mut read = values.iter().map(|_| V::decode_component(&mut cut));
        assert!(read.any(|value| value.is_none()), "{end} bytes were enough");
    }
}

#[test]
fn components_say_where_they_end() {
    components_come_back(&[0_u8, 255]);
    components_come_back(&[-1_i128, 0, i128::MAX]);
    components_come_back(&[true, false]);
    components_come_back(&['a', '\u{10ffff}']);
    components_come_back(&[(), ()]);
    components_come_back(&[
        String::new(),
        "a".repeat(127),
        "b".repeat(128),
        "c".repeat(20_000),
    ]);
    components_come_back(&[vec![0_u8; 300], vec![]]);
    components_come_back(&[vec![(), ()], vec![]]);
    components_come_back(&[vec![Some("a".to_owned()), None], vec![]]);
    components_come_back(&[[[1_u16, 2], [3, 4]], [[0; 2]; 2]]);
    components_come_back(&[
        (1_u8, "a".to_owned(), Box::new(vec![1_u8])),
        (2, String::new(), Box::default()),
    ]);
}

#[test]
fn a_length_has_one_encoding() {
    for length in [
        0,
        1,
        127,
        128,
        16_383,
        16_384,
        u32::MAX as usize,
        usize::MAX,
    ] {
        let mut bytes = ValueBytes::new();
        put_length(length, &mut bytes);
        let mut rest = &bytes[..];
        assert_eq!(take_length(&mut rest), Some(length));
        assert!(rest.is_empty());
        assert_eq!(take_length(&mut &bytes[..bytes.len() - 1]), None);
    }
    for wrong in [&[0x80, 0][..], &[0xff; 10], &[0xff; 11], &[]] {
        assert_eq!(take_length(&mut &wrong[..]), None, "{wrong:?}");
    }
}

#[test]
fn a_list_of_bytes_is_bytes() {
    assert_eq!(Vec::<u8>::type_name(), "bytes");
    assert_eq!(<[u8]>::NAME, "bytes");
    assert_eq!(Vec::<u16>::type_name(), "list<u16>");
    assert_eq!(<[u8; 3]>::type_name(), "[u8; 3]");
    let mut bytes = ValueBytes::new();
    vec![1_u8, 2].encode(&mut bytes);
    assert_eq!(bytes[..], [1, 2]);
    // More items than bytes are no reason to allocate.
    let mut length = ValueBytes::new();
    put_length(1 << 40, &mut length);
    assert_eq!(Vec::<()>::decode(&length), None);
    assert_eq!(Vec::<u64>::decode(&length), None);
}
