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

/// Values come back when they are encoded one after the other as components, and fewer bytes are
/// refused.
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
fn a_list_of_bytes_is_bytes() {
    assert_eq!(Vec::<u8>::type_name(), "bytes");
    assert_eq!(<[u8]>::NAME, "bytes");
    assert_eq!(Vec::<u16>::type_name(), "list<u16>");
    assert_eq!(<[u8; 3]>::type_name(), "[u8; 3]");
    let mut bytes = ValueBytes::new();
    vec![1_u8, 2].encode(&mut bytes);
    assert_eq!(bytes[..], [1, 2]);
    // A count of more items than bytes does not allocate for them.
    let mut length = ValueBytes::new();
    put_length(1 << 40, &mut length);
    assert_eq!(Vec::<()>::decode(&length), None);
    assert_eq!(Vec::<u64>::decode(&length), None);
}

/// A type that contains itself, in boxes and in lists.
#[derive(Debug, Default, PartialEq)]
struct Tree {
    only: Option<Box<Tree>>,
    many: Vec<Tree>,
}

impl Value for Tree {
    type Owned = Self;
    const NAME: &'static str = "Tree";

    fn encode(&self, into: &mut ValueBytes) {
        self.encode_component(into);
    }
    fn decode(mut bytes: &[u8]) -> Option<Self> {
        Self::decode_component(&mut bytes)
    }
    fn encode_component(&self, into: &mut ValueBytes) {
        self.only.encode_component(into);
        self.many.encode_component(into);
    }
    fn decode_component(bytes: &mut &[u8]) -> Option<Self> {
        Some(Self {
            only: Option::decode_component(bytes)?,
            many: Vec::decode_component(bytes)?,
        })
    }
}

fn grown(levels: u32, in_boxes: bool) -> Tree {
    (0..levels).fold(Tree::default(), |tree, _| {
        if in_boxes {
            Tree {
                only: Some(Box::new(tree)),
                many: Vec::new(),
            }
        } else {
            Tree {
                only: None,
                many: vec![tree],
            }
        }
    })
}

#[test]
fn values_nested_too_deep_are_refused_both_ways() {
    for in_boxes in [true, false] {
        // The last level's list counts, too.
        let deepest = grown(nesting::NESTED_MAX - 1, in_boxes);
        assert_eq!(there_and_back(&deepest).as_ref(), Some(&deepest));
        let mut bytes = ValueBytes::new();
        grown(nesting::NESTED_MAX + 1, in_boxes).encode(&mut bytes);
        let why = bytes.take_refusal().unwrap();
        assert!(why.contains("200 levels"), "{why}");
    }
    // Damaged bytes: a million boxes, and a million lists.
    assert_eq!(Tree::decode(&[1; 1_000_000]), None);
    let lists: Vec<u8> = [0, 1].repeat(1_000_000);
    assert_eq!(Tree::decode(&lists), None);
    // Refused values leave no level behind.
    assert_eq!(there_and_back(&grown(3, true)), Some(grown(3, true)));
}

#[test]
fn lists_of_nothing_are_not_endless() {
    let most = vec![(); lists::WITHOUT_BYTES_MAX];
    assert_eq!(
        there_and_back(&most).map(|list| list.len()),
        Some(most.len())
    );
    let mut bytes = ValueBytes::new();
    vec![(); lists::WITHOUT_BYTES_MAX + 1].encode(&mut bytes);
    assert!(bytes.take_refusal().is_some());
    bytes.clear();
    put_length(1 << 29, &mut bytes);
    assert_eq!(Vec::<()>::decode(&bytes), None);
}

#[test]
fn clearing_forgets_a_refusal() {
    let mut bytes = ValueBytes::new();
    bytes.push(1);
    bytes.refuse("it is wrong");
    bytes.clear();
    assert!(bytes.is_empty() && bytes.take_refusal().is_none());
}
