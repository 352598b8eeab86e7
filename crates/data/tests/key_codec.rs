//! One encoding of keys: a typed key and the same row under a schema have the same bytes, and these
//! compare as the keys and the rows do.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::cmp::Ordering;
use std::fmt::Debug;

use namiki_data::columns::{Column, ColumnType, Datum, NullOrder, Schema, key_codec};
use namiki_data::{Key, encoded};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::TestRunner;

/// A type of keys that is also the type of a column.
trait ColumnKey: Key<Owned = Self> + Ord + Clone + Debug + 'static {
    const TYPE: ColumnType;
    const NULLABLE: bool = false;

    fn datum(&self) -> Datum;

    /// Few different keys, so that many are equal or begin alike.
    fn drawn() -> BoxedStrategy<Self>;
}

/// The digits of a decimal.
#[derive(Key, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[namiki(crate = namiki_data)]
struct Digits(i64);

macro_rules! column_keys {
    ($($type:ty: $column:expr, |$key:ident| $datum:expr, $drawn:expr;)*) => {$(
        impl ColumnKey for $type {
            const TYPE: ColumnType = $column;

            fn datum(&self) -> Datum {
                let $key = self.clone();
                $datum
            }
            fn drawn() -> BoxedStrategy<Self> {
                $drawn.boxed()
            }
        }
    )*};
}
column_keys! {
    bool: ColumnType::Bool, |key| Datum::Bool(key), any::<bool>();
    u64: ColumnType::U64, |key| Datum::U64(key), select(vec![0, 1, 255, 256, u64::MAX]);
    i64: ColumnType::I64, |key| Datum::I64(key), select(vec![i64::MIN, -256, -1, 0, 1, i64::MAX]);
    i32: ColumnType::Date, |key| Datum::Date(key), select(vec![i32::MIN, -1, 0, 1, i32::MAX]);
    Digits: ColumnType::Decimal { scale: 2 },
        |key| Datum::Decimal { unscaled: key.0.into(), scale: 2 },
        i64::drawn().prop_map(Digits);
    String: ColumnType::Text, |key| Datum::Text(key),
        vec(select(vec!['\0', '\u{1}', 'a', 'é']), 0..4).prop_map(String::from_iter);
    Vec<u8>: ColumnType::Bytes, |key| Datum::Bytes(key), vec(select(vec![0, 1, 255, b'a']), 0..4);
}

impl<K: ColumnKey> ColumnKey for Option<K> {
    const TYPE: ColumnType = K::TYPE;
    const NULLABLE: bool = true;

    fn datum(&self) -> Datum {
        self.as_ref().map_or(Datum::Null, K::datum)
    }
    fn drawn() -> BoxedStrategy<Self> {
        proptest::option::of(K::drawn()).boxed()
    }
}

/// A column by its type, and whether it is nullable.
type OfColumn = (ColumnType, bool);

fn of<K: ColumnKey>() -> OfColumn {
    (K::TYPE, K::NULLABLE)
}

/// A table with all columns in its key.
fn schema(columns: &[OfColumn]) -> Schema {
    let columns = columns.iter().enumerate();
    let columns = columns.map(|(at, (column_type, nullable))| {
        let column = Column::new(&format!("c{at}"), *column_type);
        if *nullable { column.nullable() } else { column }
    });
    let columns: Vec<Column> = columns.collect();
    let names: Vec<&str> = columns.iter().map(|column| &*column.name).collect();
    Schema::new(columns.clone(), &names).unwrap()
}

/// Draws keys, each with its row, and compares their bytes.
fn agree<K: Key<Owned = K> + Ord + Debug>(
    columns: &[OfColumn],
    key_and_row: impl Strategy<Value = (K, Vec<Datum>)>,
) {
    let schema = schema(columns);
    let config = ProptestConfig {
        cases: 32,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let run = TestRunner::new(config).run(&vec(key_and_row, 2..12), |drawn| {
        let mut all = Vec::new();
        for (key, row) in &drawn {
            let bytes = encoded::<K, K>(key).to_vec();
            prop_assert_eq!(&bytes, &key_codec::encode(&schema, row).unwrap());
            prop_assert!(K::decode(&bytes).as_ref() == Some(key), "{key:?}");
            prop_assert!(
                key_codec::decode(&schema, &bytes).as_ref() == Some(row),
                "{row:?}"
            );
            all.push((key, bytes));
        }
        for (a, a_bytes) in &all {
            for (b, b_bytes) in &all {
                prop_assert_eq!(a_bytes.cmp(b_bytes), a.cmp(b), "{:?} {:?}", a, b);
            }
        }
        Ok(())
    });
    run.unwrap_or_else(|error| panic!("{}: {error}", K::type_name()));
}

fn alone_agrees<A: ColumnKey>() {
    let drawn = A::drawn().prop_map(|a| {
        let row = vec![a.datum()];
        (a, row)
    });
    agree(&[of::<A>()], drawn);
}

fn pair_agrees<A: ColumnKey, B: ColumnKey>() {
    let drawn = (A::drawn(), B::drawn()).prop_map(|key| {
        let row = vec![key.0.datum(), key.1.datum()];
        (key, row)
    });
    agree(&[of::<A>(), of::<B>()], drawn);
}

/// Alone, before and after other columns.
fn type_agrees<A: ColumnKey>() {
    alone_agrees::<A>();
    pair_agrees::<A, String>();
    pair_agrees::<A, Option<Vec<u8>>>();
    pair_agrees::<i64, A>();
    pair_agrees::<Option<String>, A>();
}

#[test]
fn typed_keys_and_rows_have_the_same_bytes() {
    macro_rules! types {
        ($($type:ty),*) => {$(
            type_agrees::<$type>();
            type_agrees::<Option<$type>>();
        )*};
    }
    types!(bool, u64, i64, i32, Digits, String, Vec<u8>);
}

#[test]
fn long_tuples_and_derived_keys_have_the_bytes_of_rows() {
    #[derive(Key, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
    #[namiki(crate = namiki_data)]
    struct Payment {
        account: String,
        number: u64,
        day: Option<i32>,
        reference: Vec<u8>,
        is_paid: bool,
        amount: Digits,
    }

    type Fields = (String, u64, Option<i32>, Vec<u8>, bool, Digits);
    let columns = [
        of::<String>(),
        of::<u64>(),
        of::<Option<i32>>(),
        of::<Vec<u8>>(),
        of::<bool>(),
        of::<Digits>(),
    ];
    let drawn = || {
        let parts = (
            String::drawn(),
            u64::drawn(),
            Option::drawn(),
            Vec::drawn(),
            bool::drawn(),
            Digits::drawn(),
        );
        parts.prop_map(|key: Fields| {
            let row = vec![
                key.0.datum(),
                key.1.datum(),
                key.2.datum(),
                key.3.datum(),
                key.4.datum(),
                key.5.datum(),
            ];
            (key, row)
        })
    };
    agree(&columns, drawn());
    let payments = drawn().prop_map(|(key, row)| {
        let (account, number, day, reference, is_paid, amount) = key;
        let payment = Payment {
            account,
            number,
            day,
            reference,
            is_paid,
            amount,
        };
        (payment, row)
    });
    agree(&columns, payments);
}

/// Values for a column.
fn data_of((column_type, nullable): OfColumn) -> BoxedStrategy<Datum> {
    fn of_type<K: ColumnKey>(nullable: bool) -> BoxedStrategy<Datum> {
        if nullable {
            Option::<K>::drawn().prop_map(|key| key.datum()).boxed()
        } else {
            K::drawn().prop_map(|key| key.datum()).boxed()
        }
    }
    match column_type {
        ColumnType::Bool => of_type::<bool>(nullable),
        ColumnType::I64 => of_type::<i64>(nullable),
        ColumnType::U64 => of_type::<u64>(nullable),
        ColumnType::Decimal { .. } => of_type::<Digits>(nullable),
        ColumnType::LongDecimal { scale } => {
            let digits = select(vec![i128::MIN, -(1 << 64), -1, 0, 1, 1 << 64, i128::MAX]);
            let datum = move |unscaled| Datum::Decimal { unscaled, scale };
            some_of(digits.prop_map(datum), nullable)
        }
        ColumnType::F64 => {
            let numbers = [
                f64::NEG_INFINITY,
                -1.5,
                -5e-324,
                -0.0,
                0.0,
                1.0,
                f64::MAX,
                f64::NAN,
            ];
            some_of(select(numbers.to_vec()).prop_map(Datum::from), nullable)
        }
        ColumnType::Date => of_type::<i32>(nullable),
        ColumnType::Text => of_type::<String>(nullable),
        ColumnType::Bytes => of_type::<Vec<u8>>(nullable),
    }
}

/// Such values, and missing ones in a nullable column.
fn some_of(values: impl Strategy<Value = Datum> + 'static, nullable: bool) -> BoxedStrategy<Datum> {
    if nullable {
        let some = proptest::option::of(values);
        some.prop_map(|value| value.unwrap_or(Datum::Null)).boxed()
    } else {
        values.boxed()
    }
}

fn columns_and_rows() -> impl Strategy<Value = (Vec<OfColumn>, Vec<Vec<Datum>>)> {
    let types = vec![
        ColumnType::Bool,
        ColumnType::I64,
        ColumnType::U64,
        ColumnType::Decimal { scale: 2 },
        ColumnType::LongDecimal { scale: 2 },
        ColumnType::F64,
        ColumnType::Date,
        ColumnType::Text,
        ColumnType::Bytes,
    ];
    let columns = vec((select(types), any::<bool>()), 1..4);
    columns.prop_flat_map(|columns| {
        let row: Vec<_> = columns.iter().map(|column| data_of(*column)).collect();
        (Just(columns), vec(row, 2..30))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn keys_compare_as_their_columns_and_come_back((columns, rows) in columns_and_rows()) {
        let schema = schema(&columns);
        let encode = |row: &Vec<Datum>| key_codec::encode(&schema, row).unwrap();
        for a in &rows {
            prop_assert!(key_codec::decode(&schema, &encode(a)).as_ref() == Some(a), "{a:?}");
            for b in &rows {
                prop_assert_eq!(encode(a).cmp(&encode(b)), a.cmp(b), "{:?} {:?}", a, b);
            }
        }
    }

    #[test]
    fn missing_values_may_come_last((columns, rows) in columns_and_rows()) {
        let schema = schema(&columns).with_null_order(NullOrder::Last);
        let encode = |row: &Vec<Datum>| key_codec::encode(&schema, row).unwrap();
        let nulls_last = |a: &Datum, b: &Datum| {
            let is_null = |datum: &Datum| *datum == Datum::Null;
            is_null(a).cmp(&is_null(b)).then_with(|| a.cmp(b))
        };
        for a in &rows {
            prop_assert!(key_codec::decode(&schema, &encode(a)).as_ref() == Some(a), "{a:?}");
            for b in &rows {
                let mut columns = a.iter().zip(b).map(|(a, b)| nulls_last(a, b));
                let expected = columns.find(|order| order.is_ne()).unwrap_or(Ordering::Equal);
                prop_assert_eq!(encode(a).cmp(&encode(b)), expected, "{:?} {:?}", a, b);
            }
        }
    }

    /// A program that encodes columns itself has the bytes of the schema.
    #[test]
    fn columns_are_taken_off_one_by_one((columns, rows) in columns_and_rows()) {
        for order in [NullOrder::First, NullOrder::Last] {
            let schema = schema(&columns).with_null_order(order);
            let alone = columns.len() == 1;
            for row in &rows {
                let mut key = Vec::new();
                for (value, (column_type, nullable)) in row.iter().zip(&columns) {
                    let nulls = nullable.then_some(order);
                    key_codec::encode_column(value.value(), *column_type, nulls, alone, &mut key);
                }
                prop_assert_eq!(&key, &key_codec::encode(&schema, row).unwrap());
                let mut rest = &key[..];
                for (value, (column_type, nullable)) in row.iter().zip(&columns) {
                    let nulls = nullable.then_some(order);
                    let (mut taken_off, mut skipped, mut scratch) = (rest, rest, Vec::new());
                    let taken = key_codec::take_column(
                        &mut taken_off,
                        *column_type,
                        nulls,
                        alone,
                        &mut scratch,
                    );
                    prop_assert_eq!(taken.unwrap().to_datum(), value.clone());
                    key_codec::skip_column(&mut skipped, *column_type, nulls, alone).unwrap();
                    prop_assert_eq!(skipped.len(), taken_off.len());
                    rest = skipped;
                }
                prop_assert!(rest.is_empty());
            }
        }
    }
}

/// Files have these bytes.
#[test]
fn the_bytes_of_keys_stay_as_they_are() {
    let key = |column_type, nulls, value: Datum| {
        let mut bytes = Vec::new();
        key_codec::encode_column(value.value(), column_type, nulls, true, &mut bytes);
        bytes
    };
    let (first, last) = (Some(NullOrder::First), Some(NullOrder::Last));
    let byte = |nulls, value| key(ColumnType::Bool, nulls, value);
    assert_eq!(byte(None, Datum::Bool(true)), [1]);
    assert_eq!(byte(first, Datum::Bool(true)), [1, 1]);
    assert_eq!(byte(last, Datum::Bool(true)), [1, 1]);
    assert_eq!(byte(first, Datum::Null), [0]);
    assert_eq!(byte(last, Datum::Null), [2]);
    let float = |number: f64| key(ColumnType::F64, None, Datum::from(number));
    assert_eq!(float(1.0), [0xbf, 0xf0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(float(-0.0), [0x80, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(float(-1.0), [0x40, 0x0f, 255, 255, 255, 255, 255, 255]);
    assert_eq!(float(-f64::NAN), [0xff, 0xf8, 0, 0, 0, 0, 0, 0]);
    let decimal = |column_type| {
        let minus_one = Datum::Decimal {
            unscaled: -1,
            scale: 2,
        };
        key(column_type, None, minus_one)
    };
    let (short, long) = (
        ColumnType::Decimal { scale: 2 },
        ColumnType::LongDecimal { scale: 2 },
    );
    let minus_one = |len: usize| [vec![0x7f], vec![0xff; len - 1]].concat();
    assert_eq!(
        (decimal(short), decimal(long)),
        (minus_one(8), minus_one(16))
    );
}
