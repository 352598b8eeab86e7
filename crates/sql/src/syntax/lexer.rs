//! Tokens of a statement, as PostgreSQL's scanner finds them.

use crate::error::{SqlError, SqlResult};

/// The kind of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenKind {
    /// A keyword or a name without quotation marks.
    Word,
    /// A name in quotation marks.
    QuotedName,
    /// `'…'`
    Text,
    /// `E'…'`
    EscapedText,
    /// `$tag$…$tag$`
    DollarText,
    /// `B'…'`, `X'…'` or `U&'…'`
    OtherText,
    /// Digits alone.
    Integer,
    /// A number with a point or an exponent.
    Number,
    /// `$1`
    Parameter,
    /// An operator or a bracket.
    Symbol,
}

/// A token and its place in the text, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) kind: TokenKind,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

impl Token {
    /// Its part of the statement.
    pub(crate) fn text(self, of: &str) -> &str {
        &of[self.start..self.end]
    }
}

/// The tokens of a text, without comments.
///
/// # Errors
/// 42601 for a literal or a comment without an end.
pub(crate) fn tokens(text: &str) -> SqlResult<Vec<Token>> {
    let mut scanner = Scanner { text, at: 0 };
    let mut found = Vec::with_capacity(text.len() / 4 + 4);
    while let Some(token) = scanner.next_token()? {
        found.push(token);
    }
    Ok(found)
}

struct Scanner<'t> {
    text: &'t str,
    at: usize,
}

fn begins_word(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'_' || byte >= 0x80
}

fn continues_word(byte: u8) -> bool {
    begins_word(byte) || byte.is_ascii_digit() || byte == b'$'
}

impl Scanner<'_> {
    fn byte(&self, ahead: usize) -> u8 {
        self.text
            .as_bytes()
            .get(self.at + ahead)
            .copied()
            .unwrap_or(0)
    }

    fn rest(&self) -> &[u8] {
        &self.text.as_bytes()[self.at..]
    }

    fn next_token(&mut self) -> SqlResult<Option<Token>> {
        self.skip_blanks()?;
        let start = self.at;
        if start == self.text.len() {
            return Ok(None);
        }
        let kind = self.scan()?;
        Ok(Some(Token {
            kind,
            start,
            end: self.at,
        }))
    }

    fn skip_blanks(&mut self) -> SqlResult<()> {
        loop {
            match self.rest() {
                [b'-', b'-', ..] => {
                    let line = self.rest().iter().position(|byte| *byte == b'\n');
                    self.at = line.map_or(self.text.len(), |end| self.at + end);
                }
                [b'/', b'*', ..] => self.skip_comment()?,
                [byte, ..] if byte.is_ascii_whitespace() || *byte == 0x0b => self.at += 1,
                _ => return Ok(()),
            }
        }
    }

    /// Comments in `/* … */` nest.
    fn skip_comment(&mut self) -> SqlResult<()> {
        let mut depth = 0_usize;
        loop {
            match self.rest() {
                [b'/', b'*', ..] => {
                    depth += 1;
                    self.at += 2;
                }
                [b'*', b'/', ..] => {
                    depth -= 1;
                    self.at += 2;
                    if depth == 0 {
                        return Ok(());
                    }
                }
                [] => return Err(SqlError::syntax("unterminated /* comment")),
                _ => self.at += 1,
            }
        }
    }

    fn scan(&mut self) -> SqlResult<TokenKind> {
        let first = self.byte(0);
        match first {
            b'\'' => self.quoted(b'\'', false).map(|()| TokenKind::Text),
            b'"' => self.quoted(b'"', false).map(|()| TokenKind::QuotedName),
            b'e' | b'E' if self.byte(1) == b'\'' => {
                self.at += 1;
                self.quoted(b'\'', true).map(|()| TokenKind::EscapedText)
            }
            b'b' | b'B' | b'x' | b'X' | b'n' | b'N' if self.byte(1) == b'\'' => {
                self.at += 1;
                self.quoted(b'\'', false).map(|()| TokenKind::OtherText)
            }
            b'u' | b'U' if self.byte(1) == b'&' && matches!(self.byte(2), b'\'' | b'"') => {
                self.at += 2;
                self.quoted(self.byte(0), false)
                    .map(|()| TokenKind::OtherText)
            }
            b'$' if self.byte(1).is_ascii_digit() => {
                self.at += 1;
                self.skip_while(|byte| byte.is_ascii_digit());
                Ok(TokenKind::Parameter)
            }
            b'$' => self.dollar_text(),
            b'0'..=b'9' => Ok(self.number()),
            b'.' if self.byte(1).is_ascii_digit() => Ok(self.number()),
            byte if begins_word(byte) => {
                self.skip_while(continues_word);
                Ok(TokenKind::Word)
            }
            _ => {
                self.symbol();
                Ok(TokenKind::Symbol)
            }
        }
    }

    fn skip_while(&mut self, matches: impl Fn(u8) -> bool) {
        while self.at < self.text.len() && matches(self.byte(0)) {
            self.at += 1;
        }
    }

    /// A literal or name; the mark inside is written twice. `escapes`: a backslash escapes what follows.
    fn quoted(&mut self, mark: u8, escapes: bool) -> SqlResult<()> {
        self.at += 1;
        while self.at < self.text.len() {
            let byte = self.byte(0);
            if byte == b'\\' && escapes {
                // What follows may be of several bytes: their rest is passed like any other.
                self.at = (self.at + 2).min(self.text.len());
            } else if byte != mark {
                self.at += 1;
            } else if self.byte(1) == mark {
                self.at += 2;
            } else {
                self.at += 1;
                return Ok(());
            }
        }
        Err(SqlError::syntax(if mark == b'"' {
            "unterminated quoted identifier"
        } else {
            "unterminated quoted string"
        }))
    }

    fn dollar_text(&mut self) -> SqlResult<TokenKind> {
        let tag_end = self.rest()[1..]
            .iter()
            .position(|byte| !continues_word(*byte) || *byte == b'$')
            .map(|end| self.at + 1 + end);
        let Some(tag_end) = tag_end.filter(|end| self.text.as_bytes()[*end] == b'$') else {
            self.at += 1;
            return Ok(TokenKind::Symbol);
        };
        let tag = &self.text[self.at..=tag_end];
        let body = tag_end + 1;
        let Some(end) = self.text[body..].find(tag) else {
            return Err(SqlError::syntax("unterminated dollar-quoted string"));
        };
        self.at = body + end + tag.len();
        Ok(TokenKind::DollarText)
    }

    fn number(&mut self) -> TokenKind {
        let mut kind = TokenKind::Integer;
        self.skip_while(|byte| byte.is_ascii_digit());
        if self.byte(0) == b'.' && self.byte(1) != b'.' {
            kind = TokenKind::Number;
            self.at += 1;
            self.skip_while(|byte| byte.is_ascii_digit());
        }
        let signed = usize::from(matches!(self.byte(1), b'+' | b'-'));
        if matches!(self.byte(0), b'e' | b'E') && self.byte(1 + signed).is_ascii_digit() {
            kind = TokenKind::Number;
            self.at += 1 + signed;
            self.skip_while(|byte| byte.is_ascii_digit());
        }
        kind
    }

    /// One operator. `--` and `/*` begin comments, which end it.
    fn symbol(&mut self) {
        const OPERATOR: &[u8] = b"+-*/<>=~!@#%^&|`?";
        if !OPERATOR.contains(&self.byte(0)) {
            let two = [self.byte(0), self.byte(1)];
            self.at += if two == *b"::" || two == *b":=" { 2 } else { 1 };
            return;
        }
        let start = self.at;
        while OPERATOR.contains(&self.byte(0)) && self.at < self.text.len() {
            let two = [self.byte(0), self.byte(1)];
            if self.at > start && (two == *b"--" || two == *b"/*") {
                break;
            }
            // A sign after another operator is a token of its own, unless the operator has a special character.
            let special = |byte: &u8| b"~!@#%^&|`?".contains(byte);
            let so_far = &self.text.as_bytes()[start..self.at];
            if self.at > start && matches!(self.byte(0), b'+' | b'-') && !so_far.iter().any(special)
            {
                break;
            }
            self.at += 1;
        }
    }
}

/// The text that a literal stands for; `None` for kinds that are not read here.
pub(crate) fn literal_text(token: Token, of: &str) -> Option<String> {
    let text = token.text(of);
    match token.kind {
        TokenKind::Text => Some(text[1..text.len() - 1].replace("''", "'")),
        TokenKind::DollarText => {
            let tag = text[1..].find('$')? + 2;
            Some(text[tag..text.len() - tag].to_owned())
        }
        TokenKind::EscapedText => unescape(&text[2..text.len() - 1]),
        TokenKind::QuotedName => Some(text[1..text.len() - 1].replace("\"\"", "\"")),
        TokenKind::Word => Some(text.to_lowercase()),
        TokenKind::Integer | TokenKind::Number => Some(text.to_owned()),
        _ => None,
    }
}

fn unescape(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(char) = chars.next() {
        match char {
            '\'' => {
                chars.next_if_eq(&'\'');
                out.push('\'');
            }
            '\\' => match chars.next()? {
                'n' => out.push('\n'),
                't' => out.push('\t'),
                'r' => out.push('\r'),
                'b' => out.push('\u{8}'),
                'f' => out.push('\u{c}'),
                'u' => {
                    let digits: String = chars.by_ref().take(4).collect();
                    out.push(char::from_u32(u32::from_str_radix(&digits, 16).ok()?)?);
                }
                // Bytes by number can be parts of a character: left to the planner's parser.
                'x' | 'U' | '0'..='7' => return None,
                other => out.push(other),
            },
            other => out.push(other),
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<(TokenKind, &str)> {
        let found = tokens(text).unwrap();
        found
            .iter()
            .map(|token| (token.kind, token.text(text)))
            .collect()
    }

    #[test]
    fn statements_fall_into_tokens() {
        use TokenKind::{Integer, Number, Parameter, QuotedName, Symbol, Text, Word};
        assert_eq!(
            kinds("a=-1.5e3 /* x /* y */ */ + $2||'it''s' -- end\n::\"Q\" 7"),
            [
                (Word, "a"),
                (Symbol, "="),
                (Symbol, "-"),
                (Number, "1.5e3"),
                (Symbol, "+"),
                (Parameter, "$2"),
                (Symbol, "||"),
                (Text, "'it''s'"),
                (Symbol, "::"),
                (QuotedName, "\"Q\""),
                (Integer, "7"),
            ]
        );
        assert_eq!(kinds("a>=b<>c")[3], (Symbol, "<>"));
        assert_eq!(kinds("$a$x'$a$")[0].0, TokenKind::DollarText);
    }

    #[test]
    fn literals_are_read_with_their_escapes() {
        let read = |text: &str| literal_text(tokens(text).unwrap()[0], text);
        assert_eq!(read("'it''s'").unwrap(), "it's");
        assert_eq!(read("E'a\\n\\'b'").unwrap(), "a\n'b");
        assert_eq!(read("$q$a$$b$q$").unwrap(), "a$$b");
        assert_eq!(read("E'\\x41'"), None);
    }

    #[test]
    fn texts_without_an_end_are_refused() {
        for text in ["'a", "\"a", "/* a", "$$a", "E'a\\'"] {
            assert!(tokens(text).is_err(), "{text}");
        }
    }
}
