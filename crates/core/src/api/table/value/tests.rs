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
