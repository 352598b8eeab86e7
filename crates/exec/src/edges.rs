//! Values at the edges of each type, which tests compare the columns of keys with.
//!
//! The edges are the least and the greatest value, bytes of 00 and FF (where a bound grows longer
//! or shorter as bytes), text that is a prefix of another one, and values that no column of the
//! type can hold, such as text that is longer than any key.

use namiki_data::columns::{ColumnType, Datum};

use crate::plan::{Comparison, KeyRange};

/// Values of a type that a key holds.
#[must_use]
pub fn values(column_type: ColumnType) -> Vec<Datum> {
    const U64: [u64; 10] = [
        0,
        1,
        254,
        255,
        256,
        65_535,
        1 << 63,
        u64::MAX - 255,
        u64::MAX - 1,
        u64::MAX,
    ];
    const DATES: [i32; 9] = [
        i32::MIN,
        i32::MIN + 1,
        -256,
        -1,
        0,
        255,
        256,
        i32::MAX - 1,
        i32::MAX,
    ];
    let decimal = |unscaled: i64, scale| Datum::Decimal {
        unscaled: unscaled.into(),
        scale,
    };
    match column_type {
        ColumnType::Bool => vec![Datum::Bool(false), Datum::Bool(true)],
        ColumnType::I64 => SIGNED.map(Datum::I64).into(),
        ColumnType::U64 => U64.map(Datum::U64).into(),
        ColumnType::Decimal { scale } => SIGNED.map(|unscaled| decimal(unscaled, scale)).into(),
        ColumnType::LongDecimal { scale } => {
            let long = [i128::MIN, -(1 << 64), 1 << 64, i128::MAX];
            let long = long.map(|unscaled| Datum::Decimal { unscaled, scale });
            let mut all: Vec<Datum> = SIGNED.map(|unscaled| decimal(unscaled, scale)).into();
            all.extend(long);
            all
        }
        ColumnType::F64 => FLOATS.map(Datum::from).into(),
        ColumnType::Date => DATES.map(Datum::Date).into(),
        ColumnType::Text => text_edges(),
        ColumnType::Bytes => byte_edges(),
    }
}

const FLOATS: [f64; 11] = [
    f64::NEG_INFINITY,
    f64::MIN,
    -1.0,
    -f64::MIN_POSITIVE,
    0.0,
    5e-324,
    1.0,
    2.0,
    f64::MAX,
    f64::INFINITY,
    f64::NAN,
];

const SIGNED: [i64; 16] = [
    i64::MIN,
    i64::MIN + 1,
    -65_536,
    -256,
    -255,
    -2,
    -1,
    0,
    1,
    127,
    254,
    255,
    256,
    65_535,
    i64::MAX - 1,
    i64::MAX,
];

fn text_edges() -> Vec<Datum> {
    let long = "x".repeat(700);
    let texts = [
        "",
        "\0",
        "\0\0",
        "\0\u{1}",
        "\u{1}",
        "a",
        "a\0",
        "a\0\0",
        "a\0b",
        "a\u{1}",
        "aa",
        "b",
        "ÿ",
        "\u{10ffff}",
        "\u{10ffff}\u{10ffff}",
        "x",
        &long,
    ];
    texts.map(Datum::from).into()
}

fn byte_edges() -> Vec<Datum> {
    let bytes: [&[u8]; 17] = [
        &[],
        &[0],
        &[0, 0],
        &[0, 1],
        &[0, 2],
        &[0, 255],
        &[0, 255, 0],
        &[1],
        &[1, 255],
        &[254, 255],
        &[255],
        &[255, 0],
        &[255, 255],
        &[255; 7],
        &[255; 8],
        &[255; 9],
        &[255; 700],
    ];
    bytes.map(|bytes| Datum::Bytes(bytes.to_vec())).into()
}

/// Values that no key of the column holds, to compare it with.
#[must_use]
pub fn beyond(column_type: ColumnType) -> Vec<Datum> {
    let huge = Datum::Decimal {
        unscaled: 10_i128.pow(30),
        scale: 0,
    };
    let minus_huge = Datum::Decimal {
        unscaled: -10_i128.pow(30),
        scale: 0,
    };
    let between = Datum::Decimal {
        unscaled: 500_001,
        scale: 6,
    };
    match column_type {
        ColumnType::Bool | ColumnType::Date => Vec::new(),
        ColumnType::I64 => vec![
            huge,
            minus_huge,
            between,
            Datum::U64(1 << 63),
            Datum::U64(u64::MAX),
        ],
        ColumnType::U64 => vec![
            huge,
            minus_huge,
            between,
            Datum::I64(-1),
            Datum::I64(i64::MIN),
        ],
        ColumnType::Decimal { .. } | ColumnType::LongDecimal { .. } => vec![
            huge,
            minus_huge,
            between,
            Datum::I64(i64::MAX),
            Datum::U64(u64::MAX),
        ],
        // It is equal to zero, and written otherwise.
        ColumnType::F64 => vec![Datum::from(-0.0), Datum::from(0.5)],
        ColumnType::Text => [
            ("x", 70_000),
            ("x", 65_537),
            ("x", 65_536),
            ("x", 2_000),
            ("x", 1_537),
            ("\0", 70_000),
            ("\u{7f}", 70_000),
        ]
        .map(|(text, times)| text.repeat(times).into())
        .into(),
        ColumnType::Bytes => [(0, 70_000), (255, 70_000), (255, 2_000), (255, 701)]
            .map(|(byte, length)| Datum::Bytes(vec![byte; length]))
            .into(),
    }
}

/// Adds a bound, which is this comparison with a value; `None` for an inequality.
#[must_use]
pub fn bounded(mut range: KeyRange, comparison: Comparison, value: &Datum) -> Option<KeyRange> {
    let value = value.clone();
    match comparison {
        Comparison::Equal => range.equal.push(value),
        Comparison::GreaterOrEqual => range.from = Some(value),
        Comparison::Greater => range.above = Some(value),
        Comparison::LessOrEqual => range.to = Some(value),
        Comparison::Less => range.below = Some(value),
        Comparison::NotEqual => return None,
    }
    Some(range)
}
