//! Expressions in plan files: a column is a string, an operator an object of one entry.
//!
//! ```json
//! { "and": [ { "=": [ "c_mktsegment", { "text": "AUTOMOBILE" } ] }, { ">": [ "c_acctbal", 9980 ] } ] }
//! ```

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use serde_json::{Map, Value as Json, json};

use super::expression::{Comparison, Expr};
use crate::data::{Arithmetic, Datum};

const ARITHMETIC: [Arithmetic; 3] = [Arithmetic::Add, Arithmetic::Subtract, Arithmetic::Multiply];

/// Reads a literal: a number, true, false, null, or `{"text"|"date"|"decimal"|"u64"|"hex": "…"}`.
pub(super) fn datum_from_json(json: &Json) -> Result<Datum, String> {
    match json {
        Json::Null => Ok(Datum::Null),
        Json::Bool(value) => Ok(Datum::Bool(*value)),
        Json::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(value), _) => Ok(Datum::I64(value)),
            (None, Some(value)) => Ok(Datum::U64(value)),
            // The shortest decimal that is this number: what was written, up to 15 digits.
            (None, None) => Datum::parse_decimal(&number.to_string()).ok_or_else(|| {
                format!("{number} is not exact: write it as {{\"decimal\": \"…\"}}")
            }),
        },
        Json::Object(entries) => match only_entry(entries) {
            Some(("text", Json::String(text))) => Ok(Datum::Text(text.clone())),
            Some(("date", Json::String(text))) => Datum::parse_date(text)
                .ok_or_else(|| format!("`{text}` is no date; write it as 1995-03-15")),
            Some(("decimal", Json::String(text))) => Datum::parse_decimal(text)
                .ok_or_else(|| format!("`{text}` is no decimal number; write it as -12.50")),
            Some(("u64", Json::Number(number))) => number
                .as_u64()
                .map(Datum::U64)
                .ok_or_else(|| format!("{number} is no unsigned integer of eight bytes")),
            Some(("hex", Json::String(text))) => from_hex(text)
                .map(Datum::Bytes)
                .ok_or_else(|| format!("`{text}` is no bytes in hexadecimal digits")),
            _ => Err(format!(
                "{json} is no literal; a literal is a number, true, false, null, or an object with one of \
                 `text`, `date`, `decimal`, `u64`, `hex`"
            )),
        },
        Json::String(text) => Err(format!(
            "\"{text}\" alone names a column; write text as {{\"text\": \"{text}\"}}"
        )),
        Json::Array(_) => Err(format!("{json} is no literal")),
    }
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let pairs = text.as_bytes().chunks(2);
    let byte = |pair: &[u8]| {
        let pair = str::from_utf8(pair).ok().filter(|pair| pair.len() == 2)?;
        u8::from_str_radix(pair, 16).ok()
    };
    pairs.map(byte).collect()
}

pub(super) fn datum_to_json(value: &Datum) -> Json {
    match value {
        Datum::Null => Json::Null,
        Datum::Bool(value) => json!(value),
        Datum::I64(value) => json!(value),
        Datum::U64(value) => json!({ "u64": value }),
        Datum::Decimal { .. } => json!({ "decimal": value.to_string() }),
        Datum::Date(_) => json!({ "date": value.to_string() }),
        Datum::Text(text) => json!({ "text": text }),
        Datum::Bytes(_) => json!({ "hex": value.to_string() }),
    }
}

fn only_entry(entries: &Map<String, Json>) -> Option<(&str, &Json)> {
    let (name, value) = entries.iter().next()?;
    (entries.len() == 1).then_some((name.as_str(), value))
}

impl Expr {
    fn from_json(json: &Json) -> Result<Self, String> {
        let entries = match json {
            Json::String(name) => return Ok(Self::Column(name.clone())),
            Json::Object(entries) => entries,
            literal => return datum_from_json(literal).map(Self::Literal),
        };
        let Some((name, of)) = only_entry(entries) else {
            return Err(format!(
                "an expression is an object of one entry, the operator; {json} has {}",
                entries.len()
            ));
        };
        if let Some(comparison) = Comparison::ALL.iter().find(|it| it.symbol() == name) {
            let (left, right) = two(name, of)?;
            return Ok(Self::Compare(*comparison, Box::new(left), Box::new(right)));
        }
        if let Some(op) = ARITHMETIC.iter().find(|it| it.symbol() == name) {
            let (left, right) = two(name, of)?;
            return Ok(Self::Calculate(*op, Box::new(left), Box::new(right)));
        }
        let list = |of: &Json| match of {
            Json::Array(parts) => parts.iter().map(Self::from_json).collect(),
            _ => Err(format!("`{name}` takes a list of expressions")),
        };
        match name {
            "and" => list(of).map(Self::And),
            "or" => list(of).map(Self::Or),
            "not" => Self::from_json(of).map(|inner| Self::Not(Box::new(inner))),
            "is_null" => Self::from_json(of).map(|inner| Self::IsNull(Box::new(inner))),
            "in" => match of.as_array().map(Vec::as_slice) {
                Some([value, list @ ..]) => {
                    let list: Result<_, _> = list.iter().map(datum_from_json).collect();
                    Ok(Self::In(Box::new(Self::from_json(value)?), list?))
                }
                _ => Err("`in` takes a list: an expression, then the literals".to_owned()),
            },
            "starts_with" | "contains" => match of.as_array().map(Vec::as_slice) {
                Some([value, text]) => {
                    let value = Box::new(Self::from_json(value)?);
                    match datum_from_json(text)? {
                        Datum::Text(text) if name == "contains" => Ok(Self::Contains(value, text)),
                        Datum::Text(text) => Ok(Self::StartsWith(value, text)),
                        other => Err(format!("`{name}` looks for text, not for {other}")),
                    }
                }
                _ => Err(format!("`{name}` takes an expression and text")),
            },
            "literal" => datum_from_json(of).map(Self::Literal),
            "text" | "date" | "decimal" | "u64" | "hex" => datum_from_json(json).map(Self::Literal),
            _ => Err(format!(
                "there is no operator `{name}`; docs/plan-files.md lists them"
            )),
        }
    }

    fn to_json(&self) -> Json {
        let entry = |name: &str, of: Json| Json::Object(Map::from_iter([(name.to_owned(), of)]));
        let list = |parts: &[Self]| Json::Array(parts.iter().map(Self::to_json).collect());
        match self {
            Self::Column(name) => json!(name),
            Self::Literal(value) => datum_to_json(value),
            Self::Compare(comparison, left, right) => entry(
                comparison.symbol(),
                json!([left.to_json(), right.to_json()]),
            ),
            Self::Calculate(op, left, right) => {
                entry(op.symbol(), json!([left.to_json(), right.to_json()]))
            }
            Self::And(parts) => entry("and", list(parts)),
            Self::Or(parts) => entry("or", list(parts)),
            Self::Not(inner) => entry("not", inner.to_json()),
            Self::IsNull(inner) => entry("is_null", inner.to_json()),
            Self::In(inner, values) => {
                let values = values.iter().map(datum_to_json);
                entry(
                    "in",
                    std::iter::once(inner.to_json()).chain(values).collect(),
                )
            }
            Self::StartsWith(inner, text) => {
                entry("starts_with", json!([inner.to_json(), { "text": text }]))
            }
            Self::Contains(inner, text) => {
                entry("contains", json!([inner.to_json(), { "text": text }]))
            }
        }
    }
}

fn two(name: &str, of: &Json) -> Result<(Expr, Expr), String> {
    match of.as_array().map(Vec::as_slice) {
        Some([left, right]) => Ok((Expr::from_json(left)?, Expr::from_json(right)?)),
        _ => Err(format!("`{name}` takes a list of two expressions")),
    }
}

impl<'de> Deserialize<'de> for Expr {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Self::from_json(&Json::deserialize(from)?).map_err(D::Error::custom)
    }
}

impl Serialize for Expr {
    fn serialize<S: Serializer>(&self, into: S) -> Result<S::Ok, S::Error> {
        self.to_json().serialize(into)
    }
}

/// Literals in a field, for `#[serde(with)]`.
pub(super) mod literals {
    use super::*;

    pub(in crate::plan) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Vec<Datum>, D::Error> {
        let list = Vec::<Json>::deserialize(from)?;
        let list: Result<_, _> = list.iter().map(datum_from_json).collect();
        list.map_err(D::Error::custom)
    }

    pub(in crate::plan) fn serialize<S: Serializer>(
        list: &[Datum],
        into: S,
    ) -> Result<S::Ok, S::Error> {
        into.collect_seq(list.iter().map(datum_to_json))
    }
}

/// A literal that may be absent, for `#[serde(with)]`.
pub(super) mod optional_literal {
    use super::*;

    pub(in crate::plan) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Datum>, D::Error> {
        let value = datum_from_json(&Json::deserialize(from)?);
        value.map(Some).map_err(D::Error::custom)
    }

    pub(in crate::plan) fn serialize<S: Serializer>(
        value: &Option<Datum>,
        into: S,
    ) -> Result<S::Ok, S::Error> {
        value.as_ref().map(datum_to_json).serialize(into)
    }
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
            price.less(Expr::Literal(Datum::parse_decimal("0.05").unwrap())),
            Expr::Not(Box::new(Expr::IsNull(Box::new(column("c"))))).or(literal(true)),
            Expr::In(
                Box::new(column("d")),
                vec![Datum::Date(0), Datum::Null, Datum::U64(1)],
            ),
            Expr::StartsWith(Box::new(column("e")), "PROMO".to_owned()),
            Expr::Contains(Box::new(column("t.e")), "x".to_owned()),
            column("f").not_equal(Expr::Literal(Datum::Bytes(vec![0, 255]))),
        ];
        for expression in all {
            let text = serde_json::to_string(&expression).unwrap();
            assert_eq!(
                serde_json::from_str::<Expr>(&text).unwrap(),
                expression,
                "{text}"
            );
        }
    }

    #[test]
    fn fractions_are_exact_decimals() {
        let read: Expr = serde_json::from_str("0.07").unwrap();
        assert_eq!(read, Expr::Literal(Datum::parse_decimal("0.07").unwrap()));
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
        ] {
            let error = serde_json::from_str::<Expr>(text).unwrap_err().to_string();
            assert!(error.contains(says), "{text}: {error}");
        }
    }
}
