//! Lifting literals out of a statement, so that statements that differ only in them share one plan.
//!
//! ```text
//!  UPDATE t SET c = c + -5 WHERE k = 7   →   UPDATE t SET c = c + $1 WHERE k = $2   with -5, 7
//! ```
//! Only row programs are run with lifted literals; for any other statement the original text is planned. So a literal that
//! had to stay where it was (a column's number in ORDER BY, a type's length) does no harm.

use super::lexer::{Token, TokenKind, literal_text, tokens};
use crate::error::SqlResult;

/// The kind of a literal, a part of the lifted text's identity: `1`, `1.5` and `'1'` mean different things.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum LiteralKind {
    /// A whole number that fits into four bytes.
    Int4,
    /// One that fits into eight.
    Int8,
    /// Any other number.
    Numeric,
    /// A text: its place decides on its type.
    Text,
}

/// A statement without its literals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lifted {
    /// The text with `$1`, `$2`, … in place of the literals.
    pub(crate) text: String,
    /// The kinds of the literals.
    pub(crate) kinds: Vec<LiteralKind>,
    /// Their texts.
    pub(crate) values: Vec<String>,
}

/// Most literals that are lifted: longer lists are planned as they are.
const LITERALS_MAX: usize = 256;

/// The statement without its literals; `None` if it has none, has parameters of its own, or begins with another word than
/// those of row programs.
///
/// # Errors
/// 42601 for a literal or a comment without an end.
pub(crate) fn lift(text: &str) -> SqlResult<Option<Lifted>> {
    let found = tokens(text)?;
    let Some(first) = found.first() else {
        return Ok(None);
    };
    let word = first.text(text).to_ascii_lowercase();
    if !["select", "insert", "update", "delete"].contains(&word.as_str()) {
        return Ok(None);
    }
    let mut lifted = Lifted {
        text: String::with_capacity(text.len()),
        kinds: Vec::new(),
        values: Vec::new(),
    };
    let mut copied = 0;
    for (at, token) in found.iter().enumerate() {
        if token.kind == TokenKind::Parameter {
            return Ok(None);
        }
        let Some((kind, mut value)) = literal(*token, text) else {
            continue;
        };
        if is_kept(&found[..at], text) {
            continue;
        }
        let mut start = token.start;
        // `- 1::bigint` is the opposite of a cast.
        let is_cast = text[token.end..].trim_start().starts_with("::");
        if kind != LiteralKind::Text && !is_cast && is_signed(&found[..at], text) {
            value.insert(0, '-');
            start = found[at - 1].start;
        }
        lifted.text.push_str(&text[copied..start]);
        lifted.kinds.push(if kind == LiteralKind::Text {
            kind
        } else {
            kind_of(&value)
        });
        lifted.values.push(value);
        lifted.text.push_str(&format!("${}", lifted.kinds.len()));
        copied = token.end;
        if lifted.kinds.len() > LITERALS_MAX {
            return Ok(None);
        }
    }
    lifted.text.push_str(&text[copied..]);
    Ok((!lifted.kinds.is_empty()).then_some(lifted))
}

fn literal(token: Token, text: &str) -> Option<(LiteralKind, String)> {
    let kind = match token.kind {
        TokenKind::Integer => LiteralKind::Int4,
        TokenKind::Number => LiteralKind::Numeric,
        TokenKind::Text | TokenKind::EscapedText | TokenKind::DollarText => LiteralKind::Text,
        _ => return None,
    };
    Some((kind, literal_text(token, text)?))
}

fn kind_of(number: &str) -> LiteralKind {
    match number.parse::<i64>() {
        Ok(number) if i32::try_from(number).is_ok() => LiteralKind::Int4,
        Ok(_) => LiteralKind::Int8,
        Err(_) => LiteralKind::Numeric,
    }
}

/// Whether a literal after these tokens has to stay: numbers of rows.
fn is_kept(before: &[Token], text: &str) -> bool {
    let Some(last) = before.last() else {
        return true;
    };
    last.kind == TokenKind::Word
        && ["limit", "offset", "fetch", "first", "next"]
            .iter()
            .any(|word| last.text(text).eq_ignore_ascii_case(word))
}

/// Whether a minus before the number belongs to it: after an operator or an opening bracket.
fn is_signed(before: &[Token], text: &str) -> bool {
    let [.., operator, sign] = before else {
        return false;
    };
    sign.kind == TokenKind::Symbol
        && sign.text(text) == "-"
        && operator.kind == TokenKind::Symbol
        && ![")", "]"].contains(&operator.text(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_become_parameters_with_their_signs() {
        let lifted = lift("UPDATE t SET c = c + -5, d = 'x' WHERE k = 7 - 3000000000")
            .unwrap()
            .unwrap();
        assert_eq!(
            lifted.text,
            "UPDATE t SET c = c + $1, d = $2 WHERE k = $3 - $4"
        );
        assert_eq!(lifted.values, ["-5", "x", "7", "3000000000"]);
        let kinds = [
            LiteralKind::Int4,
            LiteralKind::Text,
            LiteralKind::Int4,
            LiteralKind::Int8,
        ];
        assert_eq!(lifted.kinds, kinds);
    }

    #[test]
    fn limits_and_foreign_statements_stay() {
        assert_eq!(lift("SELECT a FROM t LIMIT 5").unwrap(), None);
        assert_eq!(lift("CREATE TABLE t (a numeric(5, 2))").unwrap(), None);
        assert_eq!(
            lift("SELECT a FROM t WHERE k = $1 AND b = 2").unwrap(),
            None
        );
    }
}
