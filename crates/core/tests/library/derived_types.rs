//! Keys and values of a program's own types: their order, encoding, shapes and versions.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use namiki::{
    AsKey, Database, Error, Key, KeyBytes, KeyPrefix, OpenError, Serde, Value, ValueBytes,
};
use namiki_platform::disk::SimDisk;
use namiki_platform::disk::sim::{Fault, Loss, Step};
use namiki_platform::seeded_random::Random;
use serde::{Deserialize, Serialize};

fn open(disk: &Arc<SimDisk>) -> Result<Database, OpenError> {
    let disk: Arc<SimDisk> = Arc::clone(disk);
    Database::builder().disk(disk).open("/db")
}

fn key_bytes<K: ?Sized>(key: &(impl AsKey<K> + ?Sized)) -> Vec<u8> {
    let mut bytes = KeyBytes::new();
    key.encode(&mut bytes);
    bytes.to_vec()
}

fn value_bytes(value: &impl Value) -> Vec<u8> {
    let mut bytes = ValueBytes::new();
    value.encode(&mut bytes);
    assert_eq!(bytes.take_refusal(), None);
    bytes.to_vec()
}

mod keys {
    use super::*;

    #[derive(Key, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub(super) struct Named {
        pub(super) text: String,
        pub(super) number: i16,
        pub(super) bytes: Vec<u8>,
    }

    #[derive(Key, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub(super) struct Alone(pub(super) String);

    #[derive(Key, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub(super) struct Nothing;

    #[derive(Key, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub(super) enum Kind {
        Nothing,
        One(Alone),
        Two {
            first: Option<Named>,
            second: Nothing,
            third: bool,
        },
        Three([u8; 2], char, u128),
    }

    /// Its parameters are keys.
    #[derive(Key, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub(super) struct Pair<A, B: Copy, const N: usize>(
        pub(super) A,
        pub(super) B,
        pub(super) [u8; N],
    )
    where
        B: Debug;

    #[derive(Key, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub(super) struct Id(pub(super) u64);
}

use keys::{Alone, Id, Kind, Named, Nothing, Pair};

/// Draws keys that are often equal in their first parts.
fn named(random: &mut Random) -> Named {
    let texts = ["", "\0", "\0\u{1}", "a", "a\0", "a\0\u{1}", "aa", "é"];
    let bytes: [&[u8]; 6] = [&[], &[0], &[0, 0], &[0, 255], &[1], &[255]];
    Named {
        text: texts[random.index(texts.len())].to_owned(),
        number: [-300, -1, 0, 1, 300][random.index(5)],
        bytes: bytes[random.index(bytes.len())].to_vec(),
    }
}

fn kind(random: &mut Random) -> Kind {
    match random.below(4) {
        0 => Kind::Nothing,
        1 => Kind::One(Alone(named(random).text)),
        2 => Kind::Two {
            first: random.chance(0.5).then(|| named(random)),
            second: Nothing,
            third: random.chance(0.5),
        },
        _ => Kind::Three(
            [random.below(2) as u8, random.below(2) as u8],
            ['a', 'é', '\u{10ffff}'][random.index(3)],
            u128::from(random.below(3)) << 100,
        ),
    }
}

fn are_in_order<K: Key<Owned = K> + Ord + Debug>(seed: u64, draw: impl Fn(&mut Random) -> K) {
    let mut random = Random::seeded(seed);
    for _ in 0..3000 {
        let (a, b) = (draw(&mut random), draw(&mut random));
        let (bytes_a, bytes_b) = (key_bytes::<K>(&a), key_bytes::<K>(&b));
        assert_eq!(
            bytes_a.cmp(&bytes_b),
            a.cmp(&b),
            "{a:?} and {b:?}, seed {seed}"
        );
        assert_eq!(K::decode(&bytes_a), Some(a), "seed {seed}");
        let mut longer = bytes_b;
        longer.push(7);
        assert_ne!(K::decode(&longer), Some(b), "seed {seed}");
    }
}

#[test]
fn derived_keys_are_in_the_order_of_their_parts() {
    let seed = RandomState::new().hash_one(0);
    println!("seed {seed}");
    are_in_order(seed, named);
    are_in_order(seed, kind);
    are_in_order(seed, |random| Alone(named(random).text));
    are_in_order(seed, |random| (kind(random), named(random)));
    are_in_order(seed, |random| {
        Some(kind(random)).filter(|_| random.chance(0.8))
    });
    are_in_order(seed, |random| {
        Pair(kind(random), random.below(2), [random.below(2) as u8; 3])
    });
}

/// More variants than a byte can count.
#[test]
fn variants_of_large_enums_are_in_their_order() {
    macro_rules! large {
        ($($variant:ident)*) => {
            #[derive(Key, Value, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
            enum Large { $($variant),* }
            const ALL: &[Large] = &[$(Large::$variant),*];
        };
    }
    macro_rules! times_sixteen {
        ($($head:ident)*; $($tail:ident)*) => { large!($($head)* $($tail)*); };
    }
    times_sixteen! {
        A00 A01 A02 A03 A04 A05 A06 A07 A08 A09 A0A A0B A0C A0D A0E A0F A10 A11 A12 A13 A14 A15 A16 A17 A18 A19
        A1A A1B A1C A1D A1E A1F A20 A21 A22 A23 A24 A25 A26 A27 A28 A29 A2A A2B A2C A2D A2E A2F A30 A31 A32 A33
        A34 A35 A36 A37 A38 A39 A3A A3B A3C A3D A3E A3F A40 A41 A42 A43 A44 A45 A46 A47 A48 A49 A4A A4B A4C A4D
        A4E A4F A50 A51 A52 A53 A54 A55 A56 A57 A58 A59 A5A A5B A5C A5D A5E A5F A60 A61 A62 A63 A64 A65 A66 A67
        A68 A69 A6A A6B A6C A6D A6E A6F A70 A71 A72 A73 A74 A75 A76 A77 A78 A79 A7A A7B A7C A7D A7E A7F;
        B00 B01 B02 B03 B04 B05 B06 B07 B08 B09 B0A B0B B0C B0D B0E B0F B10 B11 B12 B13 B14 B15 B16 B17 B18 B19
        B1A B1B B1C B1D B1E B1F B20 B21 B22 B23 B24 B25 B26 B27 B28 B29 B2A B2B B2C B2D B2E B2F B30 B31 B32 B33
        B34 B35 B36 B37 B38 B39 B3A B3B B3C B3D B3E B3F B40 B41 B42 B43 B44 B45 B46 B47 B48 B49 B4A B4B B4C B4D
        B4E B4F B50 B51 B52 B53 B54 B55 B56 B57 B58 B59 B5A B5B B5C B5D B5E B5F B60 B61 B62 B63 B64 B65 B66 B67
        B68 B69 B6A B6B B6C B6D B6E B6F B70 B71 B72 B73 B74 B75 B76 B77 B78 B79 B7A B7B B7C B7D B7E B7F B80
    }
    assert_eq!(ALL.len(), 257);
    for pair in ALL.windows(2) {
        assert!(key_bytes::<Large>(&pair[0]) < key_bytes::<Large>(&pair[1]));
    }
    for it in ALL {
        assert_eq!(<Large as Key>::decode(&key_bytes::<Large>(it)), Some(*it));
        assert_eq!(<Large as Value>::decode(&value_bytes(it)), Some(*it));
    }
}

/// The library under another name, names of fields that are keywords, and parameters with defaults.
#[test]
fn types_may_be_declared_in_unusual_ways() {
    use namiki as elsewhere;
    #[derive(elsewhere::Key, elsewhere::Value, Debug, PartialEq)]
    #[namiki(crate = elsewhere)]
    struct Unusual<A = u8, const N: usize = 2> {
        r#type: A,
        into: [u8; N],
        bytes: (),
    }
    let it = Unusual {
        r#type: 7_u8,
        into: [1, 2],
        bytes: (),
    };
    assert_eq!(
        <Unusual as Key>::decode(&key_bytes(&it)).as_ref(),
        Some(&it)
    );
    assert_eq!(<Unusual as Value>::decode(&value_bytes(&it)), Some(it));
    let named = <Unusual as Value>::type_name();
    assert!(named.starts_with("Unusual@1#"), "{named}");
}

#[test]
fn a_type_of_one_field_is_written_as_that_field() {
    assert_eq!(key_bytes::<Id>(&Id(7)), key_bytes::<u64>(&7_u64));
    const { assert!(Id::EIGHT_BYTES && !Named::EIGHT_BYTES && !Kind::EIGHT_BYTES) };
    assert_eq!(key_bytes::<Alone>(&Alone("a\0b".to_owned())), b"a\0b");
}

#[test]
fn tuples_of_fields_stand_for_derived_keys() {
    let named = Named {
        text: "a\0".to_owned(),
        number: -1,
        bytes: vec![0, 9],
    };
    let bytes = key_bytes::<Named>(&named);
    let (number, slice) = (&-1_i16, &named.bytes[..]);
    assert_eq!(key_bytes::<Named>(&("a\0", number, slice)), bytes);
    assert_eq!(key_bytes::<Named>(&(&named.text, number, &[0, 9])), bytes);
    assert_eq!(key_bytes::<Alone>(&("x",)), key_bytes::<str>("x"));
    assert_eq!(
        key_bytes::<Pair<String, u8, 1>>(&("x", 1, [2])),
        b"x\0\x01\x01\x02"
    );
    let prefix = |prefix: &dyn Fn(&mut KeyBytes)| {
        let mut into = KeyBytes::new();
        prefix(&mut into);
        assert!(bytes.starts_with(&into) && !into.is_empty());
        into.len()
    };
    let one = prefix(&|into| KeyPrefix::<Named>::encode_prefix(&("a\0",), into));
    let two = prefix(&|into| KeyPrefix::<Named>::encode_prefix(&(&named.text, -1), into));
    assert!(one < two && two < bytes.len());

    let db = open(&Arc::new(SimDisk::new())).unwrap();
    let table = db.table::<Named, u8>("named").unwrap();
    let alone = db.table::<Alone, u8>("alone").unwrap();
    let mut tx = db.begin().unwrap();
    tx.put(&table, &named, &1).unwrap();
    assert_eq!(tx.get(&table, &("a\0", number, slice)).unwrap(), Some(1));
    let rows = tx.range(&table, ("a\0", -1, &[][..])..("a\0", 0, &[]));
    let rows: Result<Vec<_>, Error> = rows.collect();
    assert_eq!(rows.unwrap(), [(named, 1)]);
    for name in ["ab", "ac", "b"] {
        tx.put(&alone, &(name,), &1).unwrap();
    }
    assert_eq!(tx.prefix(&alone, &("a",)).count(), 2);
}

mod values {
    use std::marker::PhantomData;

    use super::*;

    #[derive(Value, Clone, Debug, PartialEq)]
    pub(super) struct All {
        pub(super) small: u8,
        pub(super) float: f64,
        pub(super) truth: bool,
        pub(super) letter: char,
        pub(super) text: String,
        pub(super) bytes: Vec<u8>,
        pub(super) fixed: [u8; 3],
        pub(super) arrays: [[u16; 2]; 2],
        pub(super) list: Vec<(String, Option<i32>)>,
        pub(super) nothing: Vec<()>,
        pub(super) uuid: uuid::Uuid,
        pub(super) by_serde: Serde<BTreeMap<String, u8>>,
        pub(super) tree: Tree,
        pub(super) generic: Generic<u8, String, 2>,
        pub(super) r#type: Unit,
    }

    #[derive(Value, Clone, Debug, Default, PartialEq)]
    pub(super) struct Tree {
        pub(super) name: Option<Box<Tree>>,
        pub(super) children: Vec<Tree>,
    }

    #[derive(Value, Clone, Debug, PartialEq)]
    pub(super) enum Generic<A, B, const N: usize> {
        A([A; N]),
        B { b: B, marker: PhantomData<A> },
        Neither,
    }

    #[derive(Value, Clone, Copy, Debug, PartialEq)]
    pub(super) struct Unit;
}

#[test]
fn derived_values_come_back() {
    use values::{All, Generic, Tree, Unit};
    let tree = |children| Tree {
        name: None,
        children,
    };
    let all = All {
        small: 1,
        float: -0.5,
        truth: true,
        letter: 'é',
        text: "text".repeat(100),
        bytes: vec![0; 300],
        fixed: [1, 2, 3],
        arrays: [[1, 2], [3, 4]],
        list: vec![("a".to_owned(), Some(-1)), (String::new(), None)],
        nothing: vec![(), (), ()],
        uuid: uuid::Uuid::from_u128(1 << 90),
        by_serde: Serde(BTreeMap::from([("b".to_owned(), 7)])),
        tree: Tree {
            name: Some(Box::new(tree(vec![]))),
            children: vec![tree(vec![tree(vec![])]), tree(vec![])],
        },
        generic: Generic::B {
            b: "b".to_owned(),
            marker: std::marker::PhantomData,
        },
        r#type: Unit,
    };
    let disk = Arc::new(SimDisk::new());
    let db = open(&disk).unwrap();
    let table = db.table::<u8, All>("all").unwrap();
    db.transact(|tx| tx.put(&table, &1, &all)).unwrap();
    drop((db, table));
    let db = open(&disk).unwrap();
    let table = db.table::<u8, All>("all").unwrap();
    let found = db.transact(|tx| tx.get(&table, &1)).unwrap();
    assert_eq!(found.as_ref(), Some(&all));

    let bytes = value_bytes(&all);
    for length in 0..bytes.len() {
        assert_eq!(All::decode(&bytes[..length]), None, "{length}");
    }
    assert_eq!(All::decode(&[&bytes[..], &[0]].concat()), None);
    for it in [Generic::<u8, String, 2>::A([1, 2]), Generic::Neither] {
        assert_eq!(Generic::decode(&value_bytes(&it)), Some(it));
    }
}

/// Whether a table that was made for `A` opens with `B`.
fn opens_as<A: Value, B: Value>() -> bool {
    let disk = Arc::new(SimDisk::new());
    let db = open(&disk).unwrap();
    db.table::<u64, A>("table").unwrap();
    drop(db);
    match open(&disk).unwrap().table::<u64, B>("table") {
        Ok(_) => true,
        Err(Error::TableType { .. }) => false,
        Err(other) => panic!("{other:?}"),
    }
}

/// Declares types with the same name, each in a module of its own.
macro_rules! shapes {
    ($($module:ident { $($declaration:tt)* })*) => {$(
        mod $module {
            #![allow(dead_code, reason = "only their shapes count")]
            #![allow(unused_imports, reason = "not all declarations need all of them")]
            use super::*;
            $($declaration)*
        }
    )*};
}

shapes! {
    plain { #[derive(Value)] pub(super) struct Row { pub(super) from: u64, pub(super) to: u64 } }
    same { #[derive(Value)] pub(super) struct Row { from: u64, to: u64 } }
    swapped { #[derive(Value)] pub(super) struct Row { to: u64, from: u64 } }
    renamed { #[derive(Value)] pub(super) struct Row { from: u64, payee: u64 } }
    named_as_before {
        #[derive(Value)]
        #[namiki(name = "Row")]
        pub(super) struct Other { from: u64, #[namiki(name = "to")] payee: u64 }
    }
    longer { #[derive(Value)] pub(super) struct Row { from: u64, to: u64, by: u8 } }
    signed { #[derive(Value)] pub(super) struct Row { from: u64, to: i64 } }
    deep { #[derive(Value)] pub(super) struct Row { from: u64, to: Option<super::plain::Row> } }
    deeper { #[derive(Value)] pub(super) struct Row { from: u64, to: Option<super::longer::Row> } }
    one { #[derive(Value)] pub(super) enum Row { From(u64), To } }
    other { #[derive(Value)] pub(super) enum Row { To, From(u64) } }
    by_serde { #[derive(Serialize, Deserialize)] pub(super) struct Row { from: u64, to: Vec<Kind> }
               #[derive(Serialize, Deserialize)] pub(super) enum Kind { A, B(u8) } }
    by_serde_other { #[derive(Serialize, Deserialize)] pub(super) struct Row { from: u64, to: Vec<Kind> }
                     #[derive(Serialize, Deserialize)] pub(super) enum Kind { A, B(i8) } }
}

#[test]
fn a_table_opens_with_the_shape_it_has() {
    assert!(opens_as::<plain::Row, same::Row>());
    assert!(opens_as::<plain::Row, named_as_before::Other>());
    assert!(!opens_as::<plain::Row, swapped::Row>());
    assert!(!opens_as::<plain::Row, renamed::Row>());
    assert!(!opens_as::<plain::Row, longer::Row>());
    assert!(!opens_as::<plain::Row, signed::Row>());
    assert!(!opens_as::<deep::Row, deeper::Row>());
    assert!(!opens_as::<one::Row, other::Row>());
    assert!(!opens_as::<Vec<plain::Row>, Vec<swapped::Row>>());
    assert!(!opens_as::<(plain::Row, u8), (swapped::Row, u8)>());
    assert!(opens_as::<Serde<by_serde::Row>, Serde<by_serde::Row>>());
    assert!(!opens_as::<Serde<by_serde::Row>, Serde<by_serde_other::Row>>());
}

#[test]
fn keys_of_another_shape_are_refused_too() {
    #[derive(Key)]
    struct Row {
        _account: String,
        _number: u64,
    }
    mod other {
        #[derive(namiki::Key)]
        pub(super) struct Row {
            _number: u64,
            _account: String,
        }
    }
    let db = open(&Arc::new(SimDisk::new())).unwrap();
    db.table::<Row, u8>("rows").unwrap();
    let error = db.table::<other::Row, u8>("rows").unwrap_err().to_string();
    assert!(error.contains("the key type has changed"), "{error}");
    assert!(db.table::<(String, u64), u8>("rows").is_err());
}

shapes! {
    first { #[derive(Value, Clone, Debug, PartialEq)] pub(super) struct Row { pub(super) amount: u32 } }
    second {
        #[derive(Value, Clone, Debug, PartialEq)]
        #[namiki(name = "Row")]
        pub(super) struct RowV1 { pub(super) amount: u32 }

        #[derive(Value, Clone, Debug, PartialEq)]
        #[namiki(version = 2, from = RowV1)]
        pub(super) struct Row { pub(super) amount: u64, pub(super) note: String }

        impl From<RowV1> for Row {
            fn from(old: RowV1) -> Self {
                Self { amount: old.amount.into(), note: "v1".to_owned() }
            }
        }
    }
    third {
        use super::second::Row as RowV2;

        #[derive(Value, Clone, Debug, PartialEq)]
        #[namiki(version = 3, from = RowV2, with = convert)]
        pub(super) enum Row { Old(String), New(i64) }

        fn convert(old: RowV2) -> Row {
            Row::Old(format!("{} {}", old.amount, old.note))
        }
    }
}

#[test]
fn old_rows_are_read_through_all_conversions() {
    let disk = Arc::new(SimDisk::new());
    let db = open(&disk).unwrap();
    let rows = db.table::<u64, first::Row>("rows").unwrap();
    db.transact(|tx| (1..=4).try_for_each(|at| tx.put(&rows, &at, &first::Row { amount: 7 })))
        .unwrap();
    drop((db, rows));

    let v2 = |amount, note: &str| second::Row {
        amount,
        note: note.to_owned(),
    };
    let db = open(&disk).unwrap();
    let rows = db.table::<u64, second::Row>("rows").unwrap();
    db.transact(|tx| {
        assert_eq!(tx.get(&rows, &1)?, Some(v2(7, "v1")));
        tx.put(&rows, &2, &v2(1 << 40, "new"))?;
        tx.update(&rows, &3, |row| v2(row.amount + 1, "changed"))
    })
    .unwrap();
    // Once more, as nothing that was written tells another opening.
    assert!(db.table::<u64, second::Row>("rows").is_ok());
    let refused = |db: &Database| match db.table::<u64, first::Row>("rows") {
        Err(error @ Error::TableType { .. }) => {
            assert!(error.to_string().contains("by a later release"), "{error}");
        }
        other => panic!("{other:?}"),
    };
    refused(&db);
    drop((db, rows));

    let db = open(&disk).unwrap();
    refused(&db);
    let rows = db.table::<u64, third::Row>("rows").unwrap();
    db.transact(|tx| tx.put(&rows, &4, &third::Row::New(-1)))
        .unwrap();
    let found = db.transact(|tx| tx.scan(&rows, ..)).unwrap();
    let old = |text: &str| third::Row::Old(text.to_owned());
    let expected = [
        (1, old("7 v1")),
        (2, old("1099511627776 new")),
        (3, old("8 changed")),
        (4, third::Row::New(-1)),
    ];
    assert_eq!(found, expected);
    assert!(db.table::<u64, second::Row>("rows").is_err());
}

/// The latest release opens the tables of every earlier one, and no others.
#[test]
fn a_version_opens_tables_of_those_it_is_made_from() {
    assert!(opens_as::<first::Row, second::Row>());
    assert!(opens_as::<first::Row, third::Row>());
    assert!(opens_as::<second::Row, third::Row>());
    assert!(!opens_as::<third::Row, second::Row>());
    assert!(!opens_as::<second::Row, first::Row>());
    // A type with the earlier one's name, but another shape.
    #[derive(Value)]
    #[namiki(name = "Row")]
    struct Old {
        _amount: u64,
    }
    assert!(!opens_as::<Old, second::Row>());
    #[derive(Value)]
    #[namiki(version = 2, from = Serde<u8>)]
    struct FromSerde(u8);
    impl From<Serde<u8>> for FromSerde {
        fn from(old: Serde<u8>) -> Self {
            Self(old.0)
        }
    }
    assert!(opens_as::<Serde<u8>, FromSerde>());
    let old = value_bytes(&Serde(7_u8));
    assert_eq!(FromSerde::decode(&old).map(|it| it.0), Some(7));
}

/// After a crashed or failed change of a type, the table has the rows that were acknowledged before
/// these marks.
fn assert_rows(image: &SimDisk, marks: &[u64], context: &str) {
    let image = Arc::new(image.clone());
    let db = open(&image).unwrap_or_else(|error| panic!("{context}: {error:?}"));
    if marks.contains(&2) && db.table::<u64, first::Row>("rows").is_ok() {
        panic!("{context}: the first release opens what has rows of the second");
    }
    let rows = db.table::<u64, second::Row>("rows").unwrap();
    let found = db.transact(|tx| tx.scan(&rows, ..)).unwrap();
    let amounts: BTreeMap<u64, u64> = found
        .into_iter()
        .map(|(key, row)| (key, row.amount))
        .collect();
    for mark in marks {
        assert_eq!(amounts.get(mark), Some(&(mark * 10)), "{context}");
    }
    if marks.contains(&3) {
        assert!(db.tables().contains(&"later".to_owned()), "{context}");
    }
}

fn write_first(db: &Database) -> Result<(), Error> {
    let old = db.table::<u64, first::Row>("rows")?;
    db.transact(|tx| tx.put(&old, &1, &first::Row { amount: 10 }))
}

fn write_second(db: &Database) -> Result<(), Error> {
    let rows = db.table::<u64, second::Row>("rows")?;
    let row = second::Row {
        amount: 20,
        note: "second".to_owned(),
    };
    db.transact(|tx| tx.put(&rows, &2, &row))
}

#[test]
fn a_crash_at_any_event_keeps_rows_of_both_types() {
    let disk = Arc::new(SimDisk::new());
    let db = open(&disk).unwrap();
    write_first(&db).unwrap();
    disk.mark(1);
    let begun = disk.events();
    write_second(&db).unwrap();
    disk.mark(2);
    db.table::<u64, u64>("later").unwrap();
    // Its row is that of the second.
    let rows = db.table::<u64, second::Row>("rows").unwrap();
    db.transact(|tx| {
        let row = tx.get(&rows, &2)?.unwrap();
        tx.put(&rows, &3, &second::Row { amount: 30, ..row })
    })
    .unwrap();
    disk.mark(3);
    for at in begun..=disk.events() {
        let marks = disk.marks_before(at);
        let seeded = (0..4).map(|seed| Loss::Seeded(at as u64 + seed * 7919));
        for loss in [Loss::All, Loss::None].into_iter().chain(seeded) {
            let context = format!("event {at}, {loss:?}");
            assert_rows(&disk.crash_image(at, loss), &marks, &context);
        }
    }
}

#[test]
fn a_type_that_was_not_changed_is_the_earlier_one() {
    for step in [
        Step::Write,
        Step::Create,
        Step::SyncDir,
        Step::Rename,
        Step::Remove,
        Step::Read,
    ] {
        for after in 0..4 {
            let disk = Arc::new(SimDisk::new());
            let db = open(&disk).unwrap();
            write_first(&db).unwrap();
            let fault = Fault::once(step, after, std::io::ErrorKind::Other).and_ever_after();
            disk.inject(fault.torn(after));
            let changed = db.table::<u64, second::Row>("rows");
            let context = format!("{step:?}, {after}");
            let of_manifest = matches!(changed, Ok(_) | Err(Error::Manifest { .. }));
            assert!(of_manifest, "{context}: {changed:?}");
            if changed.is_err() {
                assert!(db.table::<u64, first::Row>("rows").is_ok(), "{context}");
            }
            for loss in [Loss::All, Loss::None, Loss::Seeded(after)] {
                let image = disk.crash_image(disk.events(), loss);
                assert_rows(&image, &[1], &context);
            }
            disk.heal();
            write_second(&db).unwrap();
            for loss in [Loss::All, Loss::None, Loss::Seeded(after)] {
                let image = disk.crash_image(disk.events(), loss);
                assert_rows(&image, &[1, 2], &context);
            }
        }
    }
}

/// A handle of the earlier type outlives the change, and meets values that it does not know.
#[test]
fn an_old_handle_does_not_misread_new_rows() {
    let db = open(&Arc::new(SimDisk::new())).unwrap();
    let old = db.table::<u64, first::Row>("rows").unwrap();
    let new = db.table::<u64, second::Row>("rows").unwrap();
    let row = second::Row {
        amount: 0,
        note: String::new(),
    };
    db.transact(|tx| tx.put(&new, &1, &row)).unwrap();
    let read = db.transact(|tx| tx.get(&old, &1));
    assert!(matches!(read, Err(Error::Undecodable { .. })), "{read:?}");
    db.transact(|tx| tx.put(&old, &2, &first::Row { amount: 3 }))
        .unwrap();
    let read = db.transact(|tx| tx.get(&new, &2)).unwrap();
    assert_eq!(read.map(|row| row.note), Some("v1".to_owned()));
}

#[test]
fn a_value_that_serde_cannot_write_is_an_error() {
    #[derive(Serialize, Deserialize)]
    struct Flat {
        #[serde(flatten)]
        rest: BTreeMap<String, u8>,
    }
    let db = open(&Arc::new(SimDisk::new())).unwrap();
    let table = db.table::<u64, Serde<Flat>>("flat").unwrap();
    let flat = || {
        Serde(Flat {
            rest: BTreeMap::new(),
        })
    };
    let mut tx = db.begin().unwrap();
    let refused = |done: Result<(), Error>| match done {
        Err(Error::Unencodable { table, .. }) => assert_eq!(table, "flat"),
        other => panic!("{other:?}"),
    };
    refused(tx.put(&table, &1, &flat()));
    refused(tx.insert(&table, &1, &flat()));
    // The transaction can continue without it.
    let other = db.table::<u64, [u8; 4]>("other").unwrap();
    tx.put(&other, &1, b"fine").unwrap();
    tx.commit().unwrap();
    assert!(!db.transact(|tx| tx.contains_key(&table, &1)).unwrap());
    assert_eq!(
        db.transact(|tx| tx.get(&other, &1)).unwrap(),
        Some(*b"fine")
    );
}

#[test]
fn uuids_and_byte_arrays_are_keys() {
    let db = open(&Arc::new(SimDisk::new())).unwrap();
    let uuids = db.table::<uuid::Uuid, uuid::Uuid>("uuids").unwrap();
    let arrays = db.table::<[u8; 3], [u8; 3]>("arrays").unwrap();
    let pairs = db.table::<([u8; 2], String), u128>("pairs").unwrap();
    let bytes = db.table::<Vec<u8>, i128>("bytes").unwrap();
    let (low, high) = (uuid::Uuid::from_u128(1), uuid::Uuid::from_u128(u128::MAX));
    db.transact(|tx| {
        tx.put(&uuids, &high, &low)?;
        tx.put(&uuids, &low, &high)?;
        tx.put(&arrays, b"abc", b"def")?;
        tx.put(&pairs, &([0, 0], "x"), &7)?;
        tx.put(&bytes, b"abc", &-7)?;
        assert_eq!(tx.scan(&uuids, ..)?, [(low, high), (high, low)]);
        assert_eq!(tx.get(&arrays, b"abc")?, Some(*b"def"));
        assert_eq!(tx.prefix(&pairs, &([0, 0],)).count(), 1);
        assert_eq!(tx.get(&bytes, &[97, 98, 99][..])?, Some(-7));
        Ok(())
    })
    .unwrap();
    let error = db.table::<[u8; 4], [u8; 3]>("arrays").unwrap_err();
    assert!(matches!(error, Error::TableType { .. }));
}
