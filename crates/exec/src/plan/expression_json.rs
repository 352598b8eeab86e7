//! Expressions in plan files: a column is a string, an operation an object of one entry.
//!
//! ```json
//! { "and": [ { "=": [ "c_mktsegment", { "text": "AUTOMOBILE" } ] }, { ">": [ "c_acctbal", 9980 ] } ] }
//! ```

use std::str::FromStr;

use namiki_data::columns::{Arithmetic, Datum};
use serde::ser::Error as _;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};

use super::comparison::Comparison;
use super::expression::{Expr, ExprNode, column};
use super::json_text::{self, Json, JsonValue, PlanTextError, TextProblem, Wrong};

const ARITHMETIC: [Arithmetic; 3] = [Arithmetic::Add, Arithmetic::Subtract, Arithmetic::Multiply];

const LITERALS: &str = "a literal is a number, true, false, null, or an object with one of `text`, `date`, `decimal`, `f64`, `u64`, `hex`";

/// Reads a literal: a number, true, false, null, or `{"text"|"date"|"decimal"|"f64"|"u64"|"hex": "…"}`.
pub(super) fn datum_from_json(json: Json) -> Result<Datum, Wrong> {
    let at = json.at;
    match json.value {
        JsonValue::Null => Ok(Datum::Null),
        JsonValue::Bool(value) => Ok(Datum::Bool(value)),
        JsonValue::Number(number) => exact(&number).ok_or_else(|| {
            let why = format!(
                "{number} is not exact as a value: at most 30 digits behind the point, at most 38 in all, and no exponent"
            );
            Wrong::plan(at, why)
        }),
        JsonValue::Text(text) => Err(Wrong::plan(
            at,
            format!("\"{text}\" alone names a column; write text as {{\"text\": \"{text}\"}}"),
        )),
        JsonValue::List(_) => Err(Wrong::plan(at, format!("a list is no literal; {LITERALS}"))),
        JsonValue::Object(entries) => {
            let (name, of) = only_entry(at, entries)?;
            typed_literal(&name, of)
        }
    }
}

/// The value of a number by its digits: an integer, or else a decimal with the digits that are
/// written.
fn exact(number: &str) -> Option<Datum> {
    if let Ok(value) = number.parse() {
        return Some(Datum::I64(value));
    }
    if let Ok(value) = number.parse() {
        return Some(Datum::U64(value));
    }
    Datum::parse_decimal(number)
}

/// A literal that says its type.
fn typed_literal(name: &str, of: Json) -> Result<Datum, Wrong> {
    let wrong = |why: String| Wrong::plan(of.at, why);
    match (name, &of.value) {
        ("text", JsonValue::Text(text)) => Ok(Datum::Text(text.clone())),
        ("date", JsonValue::Text(text)) => Datum::parse_date(text)
            .ok_or_else(|| wrong(format!("`{text}` is no date; write it as 1995-03-15"))),
        ("decimal", JsonValue::Text(text)) => Datum::parse_decimal(text)
            .ok_or_else(|| wrong(format!("`{text}` is no decimal number; write it as -12.50"))),
        ("f64", JsonValue::Text(text)) => text.parse::<f64>().map(Datum::from).map_err(|_| {
            wrong(format!(
                "`{text}` is no floating-point number; write it as 1.5e3"
            ))
        }),
        ("u64", JsonValue::Number(number)) => number
            .parse()
            .map(Datum::U64)
            .map_err(|_| wrong(format!("{number} is no unsigned integer of eight bytes"))),
        ("hex", JsonValue::Text(text)) => from_hex(text)
            .map(Datum::Bytes)
            .ok_or_else(|| wrong(format!("`{text}` is no bytes in hexadecimal digits"))),
        _ => {
            let kind = of.value.kind();
            Err(wrong(format!(
                "`{name}` of {kind} is no literal; {LITERALS}"
            )))
        }
    }
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let pairs = text.as_bytes().chunks(2);
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let byte = |pair: &[u8]| match *pair {
        [high, low] => u8::try_from(digit(high)? << 4 | digit(low)?).ok(),
        _ => None,
    };
    pairs.map(byte).collect()
}

fn datum_to_json(value: &Datum) -> Value {
    match value {
        Datum::Null => Value::Null,
        Datum::Bool(value) => json!(value),
        Datum::I64(value) => json!(value),
        Datum::U64(value) => json!({ "u64": value }),
        Datum::Decimal { .. } => json!({ "decimal": value.to_string() }),
        Datum::F64(_) => json!({ "f64": value.to_string() }),
        Datum::Date(_) => json!({ "date": value.to_string() }),
        Datum::Text(text) => json!({ "text": text }),
        Datum::Bytes(_) => json!({ "hex": value.to_string() }),
    }
}

/// The entry of an object that has one.
fn only_entry(at: usize, mut entries: Vec<(String, Json)>) -> Result<(String, Json), Wrong> {
    match (entries.pop(), entries.len()) {
        (Some(entry), 0) => Ok(entry),
        (last, others) => {
            let count = others + usize::from(last.is_some());
            let why = format!(
                "an object of one entry is expected, an operation and what it is of; this one has {count}"
            );
            Err(Wrong::plan(at, why))
        }
    }
}

/// The entries of a list.
pub(super) fn list(json: Json, of: &str) -> Result<Vec<Json>, Wrong> {
    match json.value {
        JsonValue::List(entries) => Ok(entries),
        other => {
            let why = format!("`{of}` takes a list, and this is {}", other.kind());
            Err(Wrong::plan(json.at, why))
        }
    }
}

/// The entries of a list of two.
pub(super) fn two(json: Json, of: &str) -> Result<[Json; 2], Wrong> {
    let at = json.at;
    let entries = list(json, of)?;
    let wrong = |entries: Vec<Json>| {
        let why = format!("`{of}` takes a list of two, and this has {}", entries.len());
        Wrong::plan(at, why)
    };
    entries.try_into().map_err(wrong)
}

/// Reads an expression.
pub(super) fn expr_from_json(json: Json) -> Result<Expr, Wrong> {
    from_json(json, 1)
}

/// Reads one level of an expression.
fn from_json(json: Json, level: u32) -> Result<Expr, Wrong> {
    if level > Expr::DEPTH_MAX {
        let problem = TextProblem::TooDeep {
            what: "levels in an expression",
            max: Expr::DEPTH_MAX as usize,
        };
        return Err(Wrong {
            at: json.at,
            problem,
        });
    }
    let at = json.at;
    let entries = match json.value {
        JsonValue::Text(name) => return Ok(column(&name)),
        JsonValue::Object(entries) => entries,
        value => return datum_from_json(Json { at, value }).map(|it| ExprNode::Literal(it).into()),
    };
    let (name, of) = only_entry(at, entries)?;
    operation(at, &name, of, level)
}

/// Reads an operation; its operands are a level below.
fn operation(at: usize, name: &str, of: Json, level: u32) -> Result<Expr, Wrong> {
    let operand = |json: Json| from_json(json, level + 1);
    if let Some(comparison) = Comparison::ALL.iter().find(|it| it.symbol() == name) {
        let [left, right] = two(of, name)?;
        return Ok(operand(left)?.compare(*comparison, operand(right)?));
    }
    if let Some(op) = ARITHMETIC.iter().find(|it| it.symbol() == name) {
        return calculation(*op, of, &operand);
    }
    match name {
        "and" | "or" => {
            let parts = list(of, name)?.into_iter().map(operand);
            let parts: Vec<Expr> = parts.collect::<Result<_, _>>()?;
            Ok(match name {
                "and" => Expr::all(parts),
                _ => Expr::any(parts),
            })
        }
        "not" => operand(of).map(|inner| !inner),
        "is_null" => operand(of).map(Expr::is_null),
        "in" => {
            let at = of.at;
            let mut entries = list(of, name)?.into_iter();
            let Some(value) = entries.next() else {
                return Err(Wrong::plan(
                    at,
                    "`in` takes a list: an expression, then the literals",
                ));
            };
            let value = operand(value)?;
            let values: Vec<Datum> = entries.map(datum_from_json).collect::<Result<_, _>>()?;
            Ok(value.is_in(values))
        }
        "starts_with" | "contains" => {
            let [value, text] = two(of, name)?;
            let (value, at) = (operand(value)?, text.at);
            match datum_from_json(text)? {
                Datum::Text(text) if name == "contains" => Ok(value.contains(&text)),
                Datum::Text(text) => Ok(value.starts_with(&text)),
                other => {
                    let why = format!("`{name}` looks for text, not for {other}");
                    Err(Wrong::plan(at, why))
                }
            }
        }
        "literal" => datum_from_json(of).map(|it| ExprNode::Literal(it).into()),
        "text" | "date" | "decimal" | "u64" | "hex" => {
            typed_literal(name, of).map(|it| ExprNode::Literal(it).into())
        }
        _ => Err(Wrong::plan(
            at,
            format!("there is no operator `{name}`; docs/plan-files.md lists them"),
        )),
    }
}

fn calculation(
    op: Arithmetic,
    of: Json,
    operand: &dyn Fn(Json) -> Result<Expr, Wrong>,
) -> Result<Expr, Wrong> {
    let at = of.at;
    let mut entries = list(of, op.symbol())?.into_iter();
    let (Some(first), Some(second)) = (entries.next(), entries.next()) else {
        let why = format!("`{}` takes a list of two expressions or more", op.symbol());
        return Err(Wrong::plan(at, why));
    };
    let first = operand(first)?.calculate(op, operand(second)?);
    entries.try_fold(first, |left, right| Ok(left.calculate(op, operand(right)?)))
}

fn to_json(expr: &Expr) -> Value {
    let entry = |name: &str, of: Value| Value::Object(Map::from_iter([(name.to_owned(), of)]));
    match expr.node() {
        ExprNode::Column(name) => json!(name),
        ExprNode::Literal(value) => datum_to_json(value),
        ExprNode::Compare(comparison, left, right) => {
            entry(comparison.symbol(), json!([to_json(left), to_json(right)]))
        }
        ExprNode::Calculate(op, parts) => entry(op.symbol(), parts.iter().map(to_json).collect()),
        ExprNode::And(parts) => entry("and", parts.iter().map(to_json).collect()),
        ExprNode::Or(parts) => entry("or", parts.iter().map(to_json).collect()),
        ExprNode::Not(inner) => entry("not", to_json(inner)),
        ExprNode::IsNull(inner) => entry("is_null", to_json(inner)),
        ExprNode::In(inner, values) => {
            let values = values.written().iter().map(datum_to_json);
            entry(
                "in",
                std::iter::once(to_json(inner)).chain(values).collect(),
            )
        }
        ExprNode::StartsWith(inner, text) => {
            entry("starts_with", json!([to_json(inner), { "text": text }]))
        }
        ExprNode::Contains(inner, text) => {
            entry("contains", json!([to_json(inner), { "text": text }]))
        }
    }
}

/// Reads an expression in the syntax of plan files.
impl FromStr for Expr {
    type Err = PlanTextError;

    fn from_str(text: &str) -> Result<Self, PlanTextError> {
        let read = json_text::read(text).and_then(expr_from_json);
        read.map_err(|wrong| wrong.in_text(text))
    }
}

impl Serialize for Expr {
    fn serialize<S: Serializer>(&self, into: S) -> Result<S::Ok, S::Error> {
        self.check().map_err(S::Error::custom)?;
        to_json(self).serialize(into)
    }
}

/// Literals in a field, for `#[serde(serialize_with)]`.
pub(super) fn literals<S: Serializer>(list: &[Datum], into: S) -> Result<S::Ok, S::Error> {
    into.collect_seq(list.iter().map(datum_to_json))
}

/// Lists of literals in a field, for `#[serde(serialize_with)]`.
pub(super) fn literal_lists<S: Serializer>(
    lists: &[Vec<Datum>],
    into: S,
) -> Result<S::Ok, S::Error> {
    let list = |list: &Vec<Datum>| -> Value { list.iter().map(datum_to_json).collect() };
    into.collect_seq(lists.iter().map(list))
}

/// A literal that may be absent, for `#[serde(serialize_with)]`.
pub(super) fn optional_literal<S: Serializer>(
    value: &Option<Datum>,
    into: S,
) -> Result<S::Ok, S::Error> {
    value.as_ref().map(datum_to_json).serialize(into)
}

#[cfg(test)]
mod tests {
    use super::super::{column, literal};
    use super::*;

    #[test]
    fn expressions_come_back_from_json() {
        let price = column("l_extendedprice").times(literal(1).minus(column("l_discount")));
        let all = [
            column("a")
                .equal(literal("x"))
                .and(column("b").greater(literal(5))),
            price.less(literal(Datum::parse_decimal("0.05").unwrap())),
            (!column("c").is_null()).or(literal(true)),
            column("d").is_in([Datum::Date(0), Datum::Null, Datum::U64(1)]),
            column("e").starts_with("PROMO"),
            column("t.e").contains("x"),
            column("f").not_equal(literal(Datum::Bytes(vec![0, 255]))),
            column("a")
                .plus(column("b"))
                .plus(column("c"))
                .minus(literal(1)),
            Expr::all([]).or(Expr::any([])),
        ];
        for expression in all {
            let text = serde_json::to_string(&expression).unwrap();
            assert_eq!(text.parse(), Ok(expression), "{text}");
        }
    }

    /// `90071992547409.931` is 90071992547409.9375 as a binary number of eight bytes.
    #[test]
    fn numbers_are_what_is_written() {
        for text in [
            "0.07",
            "90071992547409.931",
            "0.1000000000000000055511151231",
            "-92233720368547758.08",
            "18446744073709551616",
            "-9223372036854775809",
            "12345678901234567890123456789012345678",
            "1.50",
        ] {
            let decimal = Datum::parse_decimal(text).unwrap();
            assert_eq!(decimal.to_string(), text);
            assert_eq!(text.parse(), Ok(literal(decimal)));
        }
        assert_eq!("-9223372036854775808".parse(), Ok(literal(i64::MIN)));
        assert_eq!("18446744073709551615".parse(), Ok(literal(u64::MAX)));
        assert_eq!("-0".parse(), Ok(literal(0)));
        let long = format!("0.{}", "1".repeat(31));
        for text in ["1e3", "1.5E-2", &long, &"9".repeat(40)] {
            let error = text.parse::<Expr>().unwrap_err().to_string();
            assert!(error.contains("not exact"), "{error}");
        }
    }

    #[test]
    fn a_wrong_expression_says_what_is_wrong() {
        for (text, says) in [
            (r#"{"=": ["a"]}"#, "`=` takes a list of two"),
            (r#"{"like": ["a", "b"]}"#, "no operator `like`"),
            (
                r#"{"=": ["a", {"date": "yesterday"}]}"#,
                "`yesterday` is no date",
            ),
            (r#"{"in": ["a", "b"]}"#, r#"{"text": "b"}"#),
            (r#"{"and": [], "or": []}"#, "one entry"),
            (r#"{"+": ["a"]}"#, "two expressions or more"),
            (r#"{"not": 1, "not": 2}"#, "two entries `not`"),
            (r#"{"in": []}"#, "then the literals"),
            (r#"{"u64": -1}"#, "-1 is no unsigned"),
            (r#"{"hex": "+f"}"#, "no bytes in hexadecimal"),
        ] {
            let error = text.parse::<Expr>().unwrap_err().to_string();
            assert!(error.contains(says), "{text}: {error}");
        }
    }
}
