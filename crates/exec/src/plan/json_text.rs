//! A reader of JSON text that keeps numbers by their digits, entries in their order, and positions.
//!
//! The usual reader turns numbers with a fraction into the nearest binary one, keeps the last of
//! several entries of one name, and calls itself for each level. Reading a file must not change its
//! plan. So numbers stay text here, duplicate entries are refused, and so is nesting that no plan
//! that can run has.

use std::collections::HashSet;
use std::fmt;

use super::limits::{EXPRESSION_DEPTH_MAX, PLAN_DEPTH_MAX};

/// Levels of lists and objects: an operator and an operation of an expression are two of them, an
/// object and a list of it.
const NESTING_MAX: usize = 2 * (PLAN_DEPTH_MAX + EXPRESSION_DEPTH_MAX) as usize + 16;

/// The reason why text is not a plan, and its position, counted from 1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{problem} (line {line}, column {column})")]
pub struct PlanTextError {
    /// The problem.
    pub problem: TextProblem,
    /// The line of the problem.
    pub line: usize,
    /// The byte of the line at which it begins.
    pub column: usize,
}

/// A defect of a plan text.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TextProblem {
    /// It is not JSON.
    NotJson(String),
    /// An object has two entries of one name, and only one can be meant.
    TwoEntries {
        /// The name.
        name: String,
    },
    /// It nests deeper than a plan that can be run.
    TooDeep {
        /// The part with too many levels.
        what: &'static str,
        /// The limit.
        max: usize,
    },
    /// It is JSON, but not a plan.
    NotAPlan(String),
}

impl fmt::Display for TextProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotJson(why) => write!(f, "this is no JSON: {why}"),
            Self::TwoEntries { name } => {
                write!(
                    f,
                    "there are two entries `{name}` in one object; leave one out"
                )
            }
            Self::TooDeep { what, max } => {
                write!(f, "there are more than {max} {what}; nest less")
            }
            Self::NotAPlan(why) => f.write_str(why),
        }
    }
}

/// A defect at a byte of the text.
pub(super) struct Wrong {
    pub(super) at: usize,
    pub(super) problem: TextProblem,
}

impl Wrong {
    pub(super) fn plan(at: usize, why: impl Into<String>) -> Self {
        let problem = TextProblem::NotAPlan(why.into());
        Self { at, problem }
    }

    fn json(at: usize, why: impl Into<String>) -> Self {
        let problem = TextProblem::NotJson(why.into());
        Self { at, problem }
    }

    /// Adds the line and the column.
    pub(super) fn in_text(self, text: &str) -> PlanTextError {
        let before = &text.as_bytes()[..self.at.min(text.len())];
        let line_start = before.iter().rposition(|byte| *byte == b'\n');
        PlanTextError {
            problem: self.problem,
            line: before.iter().filter(|byte| **byte == b'\n').count() + 1,
            column: self.at - line_start.map_or(0, |at| at + 1) + 1,
        }
    }
}

/// A value, and the byte at which it begins.
pub(super) struct Json {
    pub(super) at: usize,
    pub(super) value: JsonValue,
}

pub(super) enum JsonValue {
    Null,
    Bool(bool),
    /// The text of the number.
    Number(String),
    Text(String),
    List(Vec<Json>),
    /// The members in their written order, with different names.
    Object(Vec<(String, Json)>),
}

impl JsonValue {
    /// Its name in messages.
    pub(super) const fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a truth value",
            Self::Number(_) => "a number",
            Self::Text(_) => "a string",
            Self::List(_) => "a list",
            Self::Object(_) => "an object",
        }
    }
}

/// A list or an object that is not over.
struct Open {
    at: usize,
    value: OpenValue,
}

enum OpenValue {
    List(Vec<Json>),
    Object {
        entries: Vec<(String, Json)>,
        names: HashSet<String>,
        /// The name of the entry with the value that comes next.
        name: String,
    },
}

/// Reads one value; nothing but spaces may follow.
pub(super) fn read(text: &str) -> Result<Json, Wrong> {
    let mut reader = Reader { text, at: 0 };
    let mut open: Vec<Open> = Vec::new();
    loop {
        let Some(mut done) = reader.begin(&mut open)? else {
            continue;
        };
        // The value may be the last of what is open, and that of what is open around it.
        loop {
            let Some(mut around) = open.pop() else {
                reader.skip_spaces();
                return match reader.next_byte() {
                    None => Ok(done),
                    Some(_) => Err(Wrong::json(reader.at, "something follows the plan")),
                };
            };
            around.value.push(done);
            if reader.goes_on(&mut around)? {
                open.push(around);
                break;
            }
            done = around.close();
        }
    }
}

impl OpenValue {
    fn push(&mut self, value: Json) {
        match self {
            Self::List(values) => values.push(value),
            Self::Object { entries, name, .. } => entries.push((std::mem::take(name), value)),
        }
    }
}

impl Open {
    fn close(self) -> Json {
        Json {
            at: self.at,
            value: match self.value {
                OpenValue::List(values) => JsonValue::List(values),
                OpenValue::Object { entries, .. } => JsonValue::Object(entries),
            },
        }
    }
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
}

impl Reader<'_> {
    fn next_byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_spaces(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.next_byte() {
            self.at += 1;
        }
    }

    fn is_next(&mut self, byte: u8) -> bool {
        self.skip_spaces();
        let is_next = self.next_byte() == Some(byte);
        self.at += usize::from(is_next);
        is_next
    }

    /// Begins a value: gives one that is complete, or opens a list or an object.
    fn begin(&mut self, open: &mut Vec<Open>) -> Result<Option<Json>, Wrong> {
        self.skip_spaces();
        let at = self.at;
        let value = match self.next_byte() {
            Some(b'[') => {
                self.at += 1;
                if !self.is_next(b']') {
                    self.check_nesting(open, at)?;
                    let value = OpenValue::List(Vec::new());
                    open.push(Open { at, value });
                    return Ok(None);
                }
                JsonValue::List(Vec::new())
            }
            Some(b'{') => {
                self.at += 1;
                if !self.is_next(b'}') {
                    self.check_nesting(open, at)?;
                    let mut names = HashSet::new();
                    let value = OpenValue::Object {
                        entries: Vec::new(),
                        name: self.entry_name(&mut names)?,
                        names,
                    };
                    open.push(Open { at, value });
                    return Ok(None);
                }
                JsonValue::Object(Vec::new())
            }
            Some(b'"') => JsonValue::Text(self.string()?),
            Some(b'-' | b'0'..=b'9') => JsonValue::Number(self.number()?),
            Some(_) => self.word()?,
            None => return Err(Wrong::json(at, "it ends where a value is expected")),
        };
        Ok(Some(Json { at, value }))
    }

    fn check_nesting(&self, open: &[Open], at: usize) -> Result<(), Wrong> {
        if open.len() < NESTING_MAX {
            return Ok(());
        }
        let problem = TextProblem::TooDeep {
            what: "levels of lists and objects",
            max: NESTING_MAX,
        };
        Err(Wrong { at, problem })
    }

    /// Reads the end of a value in a list or an object. Returns whether another one follows.
    fn goes_on(&mut self, open: &mut Open) -> Result<bool, Wrong> {
        let end = match &open.value {
            OpenValue::List(_) => b']',
            OpenValue::Object { .. } => b'}',
        };
        if self.is_next(end) {
            return Ok(false);
        }
        if !self.is_next(b',') {
            let why = format!("`,` or `{}` is expected", char::from(end));
            return Err(Wrong::json(self.at, why));
        }
        if let OpenValue::Object { names, name, .. } = &mut open.value {
            self.skip_spaces();
            *name = self.entry_name(names)?;
        }
        Ok(true)
    }

    /// The name of an entry, and the colon behind it.
    fn entry_name(&mut self, names: &mut HashSet<String>) -> Result<String, Wrong> {
        self.skip_spaces();
        let at = self.at;
        if self.next_byte() != Some(b'"') {
            return Err(Wrong::json(at, "the name of an entry is expected"));
        }
        let name = self.string()?;
        if !self.is_next(b':') {
            return Err(Wrong::json(self.at, "`:` is expected"));
        }
        if !names.insert(name.clone()) {
            let problem = TextProblem::TwoEntries { name };
            return Err(Wrong { at, problem });
        }
        Ok(name)
    }

    fn string(&mut self) -> Result<String, Wrong> {
        let begin = self.at;
        self.at += 1;
        loop {
            match self.next_byte() {
                Some(b'"') => break,
                // It does not end the string, whatever it is.
                Some(b'\\') => self.at += 2,
                Some(_) => self.at += 1,
                None => return Err(Wrong::json(begin, "a string does not end")),
            }
        }
        self.at += 1;
        serde_json::from_str(&self.text[begin..self.at]).map_err(|_| {
            Wrong::json(
                begin,
                "a string has an escape or a character that it must not have",
            )
        })
    }

    fn number(&mut self) -> Result<String, Wrong> {
        let begin = self.at;
        let is_part = |byte: u8| matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9');
        while self.next_byte().is_some_and(is_part) {
            self.at += 1;
        }
        let number = &self.text[begin..self.at];
        if !is_number(number) {
            return Err(Wrong::json(begin, format!("`{number}` is no number")));
        }
        Ok(number.to_owned())
    }

    fn word(&mut self) -> Result<JsonValue, Wrong> {
        let rest = &self.text[self.at..];
        let words = [
            ("null", JsonValue::Null),
            ("true", JsonValue::Bool(true)),
            ("false", JsonValue::Bool(false)),
        ];
        for (word, value) in words {
            if rest.starts_with(word) {
                self.at += word.len();
                return Ok(value);
            }
        }
        Err(Wrong::json(self.at, "a value is expected"))
    }
}

/// Whether text is a number as JSON has them.
fn is_number(text: &str) -> bool {
    let are_digits = |text: &str| !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
    let text = text.strip_prefix('-').unwrap_or(text);
    let (digits, exponent) = match text.split_once(['e', 'E']) {
        Some((digits, exponent)) => (
            digits,
            exponent.strip_prefix(['+', '-']).unwrap_or(exponent),
        ),
        None => (text, "0"),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
    let has_no_leading_zero = whole == "0" || !whole.starts_with('0');
    are_digits(whole) && has_no_leading_zero && are_digits(fraction) && are_digits(exponent)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        match read(text) {
            Ok(_) => panic!("{text} was read"),
            Err(wrong) => wrong.in_text(text).to_string(),
        }
    }

    /// The text, read and written again by `serde_json`.
    fn plain(json: &Json) -> serde_json::Value {
        match &json.value {
            JsonValue::Null => serde_json::Value::Null,
            JsonValue::Bool(value) => (*value).into(),
            JsonValue::Number(number) => number.parse::<serde_json::Number>().unwrap().into(),
            JsonValue::Text(text) => text.as_str().into(),
            JsonValue::List(values) => values.iter().map(plain).collect(),
            JsonValue::Object(entries) => {
                let entries = entries
                    .iter()
                    .map(|(name, value)| (name.clone(), plain(value)));
                serde_json::Value::Object(entries.collect())
            }
        }
    }

    #[test]
    fn reads_and_refuses_what_the_usual_reader_does() {
        for text in [
            "null",
            " true ",
            "false",
            "0",
            "-0",
            "12",
            "-1.50",
            "1e3",
            "1.5E-3",
            "\"\"",
            "[]",
            "{}",
            "[ ]",
            "{ }",
            "[1,[2,{\"a\":[]}],\"x\"]",
            "{\"a\":{\"b\":null},\"c\":[true]}",
            "\"\\u00e4\\n\\\\\\\"\"",
            "\"並木\"",
            "\n[\t1\r, 2 ]",
        ] {
            let usual: serde_json::Value = serde_json::from_str(text).unwrap();
            assert_eq!(
                read(text).map(|json| plain(&json)).ok(),
                Some(usual),
                "{text}"
            );
        }
        for text in [
            "",
            " ",
            "nul",
            "nulll",
            "tru",
            "01",
            "-",
            "1.",
            ".5",
            "1e",
            "+1",
            "--1",
            "1-1",
            "\"",
            "\"a",
            "\"\\",
            "\"\\x\"",
            "\"\\ud800\"",
            "\"\n\"",
            "[",
            "[1",
            "[1,",
            "[1,]",
            "[,1]",
            "[1 2]",
            "]",
            "{",
            "{\"a\"",
            "{\"a\":",
            "{\"a\":1",
            "{\"a\":1,",
            "{\"a\":1,}",
            "{a:1}",
            "{1:1}",
            "{\"a\" 1}",
            "1 1",
            "{} x",
            "[}",
            "\u{feff}1",
            "\"並",
        ] {
            assert!(
                serde_json::from_str::<serde_json::Value>(text).is_err(),
                "{text}"
            );
            assert!(read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn two_entries_of_one_name_are_refused() {
        assert_eq!(
            error("{\n  \"a\": {\"b\": 1,\n \"b\": 1} }"),
            "there are two entries `b` in one object; leave one out (line 3, column 2)"
        );
        assert!(error(r#"{"a": 1, "\u0061": 2}"#).contains("two entries `a`"));
    }

    #[test]
    fn what_nests_too_deeply_is_refused_in_a_small_stack() {
        let deep = |depth| "[".repeat(depth);
        let small = std::thread::Builder::new().stack_size(64 << 10);
        let thread = small.spawn(move || {
            assert!(error(&deep(1_000_000)).contains("levels of lists and objects"));
            assert!(error(&"{\"a\":".repeat(1_000_000)).contains("levels of lists and objects"));
            assert!(error(&deep(NESTING_MAX)).contains("it ends"));
        });
        thread.unwrap().join().unwrap();
    }
}
