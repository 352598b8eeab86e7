//! Reading a command token by token.

use super::lexer::{Token, TokenKind, literal_text, tokens};
use crate::error::{SqlError, SqlResult};

/// The tokens of a statement, read from the left.
pub(crate) struct TokenReader<'t> {
    text: &'t str,
    tokens: Vec<Token>,
    at: usize,
}

impl<'t> TokenReader<'t> {
    /// The tokens of a text.
    pub(crate) fn new(text: &'t str) -> SqlResult<Self> {
        Ok(Self {
            text,
            tokens: tokens(text)?,
            at: 0,
        })
    }

    /// The next token, which stays.
    pub(crate) fn peek(&self) -> Option<Token> {
        self.tokens.get(self.at).copied()
    }

    /// The next token.
    pub(crate) fn next(&mut self) -> Option<Token> {
        let token = self.peek();
        self.at += 1;
        token
    }

    /// Whether all tokens were read.
    pub(crate) fn is_at_end(&self) -> bool {
        self.at >= self.tokens.len()
    }

    /// Takes the next token if it is this keyword.
    pub(crate) fn takes(&mut self, keyword: &str) -> bool {
        let is_it = self.peek().is_some_and(|token| {
            token.kind == TokenKind::Word && token.text(self.text).eq_ignore_ascii_case(keyword)
        });
        self.at += usize::from(is_it);
        is_it
    }

    /// Takes the next token if it is one of these keywords, and returns it.
    pub(crate) fn takes_one<'k>(&mut self, keywords: &[&'k str]) -> Option<&'k str> {
        keywords.iter().copied().find(|keyword| self.takes(keyword))
    }

    /// Takes the next token if it is this operator or bracket.
    pub(crate) fn takes_symbol(&mut self, symbol: &str) -> bool {
        let is_it = self.peek().is_some_and(|token| {
            token.kind == TokenKind::Symbol && token.text(self.text) == symbol
        });
        self.at += usize::from(is_it);
        is_it
    }

    /// A name, in lower case unless it is quoted.
    ///
    /// # Errors
    /// 42601 if the next token is none.
    pub(crate) fn name(&mut self) -> SqlResult<String> {
        match self.peek() {
            Some(token) if matches!(token.kind, TokenKind::Word | TokenKind::QuotedName) => {
                self.at += 1;
                literal_text(token, self.text).ok_or_else(|| self.unexpected())
            }
            _ => Err(self.unexpected()),
        }
    }

    /// A name that may be qualified: the schema, if it is there, and the name.
    ///
    /// # Errors
    /// As [`name`](Self::name).
    pub(crate) fn qualified_name(&mut self) -> SqlResult<(Option<String>, String)> {
        let first = self.name()?;
        if self.takes_symbol(".") {
            return Ok((Some(first), self.name()?));
        }
        Ok((None, first))
    }

    /// A literal or a word, as text.
    ///
    /// # Errors
    /// 42601 if the next token is none.
    pub(crate) fn value(&mut self) -> SqlResult<String> {
        let negative = self.takes_symbol("-");
        let Some(token) = self.peek() else {
            return Err(self.unexpected());
        };
        let Some(text) = literal_text(token, self.text) else {
            return Err(self.unexpected());
        };
        self.at += 1;
        Ok(if negative { format!("-{text}") } else { text })
    }

    /// The text between the bracket that was just read and its partner, which is read.
    ///
    /// # Errors
    /// 42601 if there is no partner.
    pub(crate) fn in_brackets(&mut self) -> SqlResult<&'t str> {
        let Some(first) = self.peek() else {
            return Err(self.unexpected());
        };
        let mut depth = 1;
        while let Some(token) = self.next() {
            match token.text(self.text) {
                "(" if token.kind == TokenKind::Symbol => depth += 1,
                ")" if token.kind == TokenKind::Symbol => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return Ok(&self.text[first.start..token.start]);
            }
        }
        Err(self.unexpected())
    }

    /// The error at the next token.
    pub(crate) fn unexpected(&self) -> SqlError {
        match self.peek() {
            Some(token) => {
                let position = self.text[..token.start].chars().count() + 1;
                SqlError::syntax(format!(
                    "syntax error at or near \"{}\"",
                    token.text(self.text)
                ))
                .with_position(position)
            }
            None => SqlError::syntax("syntax error at end of input")
                .with_position(self.text.chars().count() + 1),
        }
    }

    /// Nothing follows.
    ///
    /// # Errors
    /// 42601 if something does.
    pub(crate) fn end(&self) -> SqlResult<()> {
        if self.is_at_end() {
            Ok(())
        } else {
            Err(self.unexpected())
        }
    }
}
