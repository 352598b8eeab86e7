//! The part of Rust's lexical grammar that separates code from comments and literals.

/// A name, a keyword or a single punctuation character, with its line number (from 1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) text: String,
    pub(crate) line: usize,
}

/// Whether `tokens` start with these texts.
pub(crate) fn starts_with(tokens: &[Token], texts: &[&str]) -> bool {
    tokens.len() >= texts.len()
        && tokens
            .iter()
            .zip(texts)
            .all(|(token, text)| token.text == *text)
}

/// The code of a Rust file.
#[cfg(test)]
pub(crate) fn tokens(text: &str) -> Vec<Token> {
    code_and_comments(text).0
}

/// The code of a Rust file, and the text of each comment. Comments, strings, characters, numbers
/// and lifetimes leave no token in the code.
pub(crate) fn code_and_comments(text: &str) -> (Vec<Token>, Vec<Token>) {
    let mut scanner = Scanner {
        rest: text,
        line: 1,
    };
    let mut tokens = Vec::new();
    let mut comments = Vec::new();
    while let Some(next) = scanner.rest.chars().next() {
        let line = scanner.line;
        if let Some(comment) = scanner.take_comment() {
            comments.push(Token {
                text: comment.to_owned(),
                line,
            });
            continue;
        }
        if scanner.skip_literal() {
            continue;
        }
        if next.is_alphabetic() || next == '_' {
            tokens.push(Token {
                text: scanner.take_name().to_owned(),
                line,
            });
        } else {
            if !next.is_whitespace() {
                tokens.push(Token {
                    text: next.to_string(),
                    line,
                });
            }
            scanner.take(next.len_utf8());
        }
    }
    (tokens, comments)
}

/// The words of an identifier, in lower case: `lock`, `wait`, `max` for `lock_wait_max`,
/// `LockWaitMax` and `LOCK_WAIT_MAX`.
pub(crate) fn words_of_identifier(name: &str) -> Vec<String> {
    let mut words = Vec::new();
    for part in name.split('_') {
        let mut word = String::new();
        let mut before = None;
        let mut rest = part.chars().peekable();
        while let Some(c) = rest.next() {
            // `IOError` is `io` and `error`.
            let begins = c.is_uppercase()
                && before.is_some_and(|before: char| {
                    !before.is_uppercase() || rest.peek().is_some_and(|next| next.is_lowercase())
                });
            if begins {
                words.push(std::mem::take(&mut word));
            }
            word.extend(c.to_lowercase());
            before = Some(c);
        }
        words.push(word);
    }
    words.retain(|word| !word.is_empty());
    words
}

struct Scanner<'t> {
    rest: &'t str,
    line: usize,
}

impl<'t> Scanner<'t> {
    fn take(&mut self, bytes: usize) -> &'t str {
        let (taken, rest) = self.rest.split_at(bytes);
        self.line += taken.matches('\n').count();
        self.rest = rest;
        taken
    }

    fn take_name(&mut self) -> &'t str {
        self.take(name_length(self.rest))
    }

    fn take_comment(&mut self) -> Option<&'t str> {
        if self.rest.starts_with("//") {
            return Some(self.take(self.rest.find('\n').unwrap_or(self.rest.len())));
        }
        if !self.rest.starts_with("/*") {
            return None;
        }
        // Block comments nest.
        let mut depth = 0;
        let mut at = 0;
        while at < self.rest.len() {
            if self.rest[at..].starts_with("/*") {
                depth += 1;
                at += 2;
            } else if self.rest[at..].starts_with("*/") {
                depth -= 1;
                at += 2;
                if depth == 0 {
                    break;
                }
            } else {
                at += self.rest[at..].chars().next().map_or(1, char::len_utf8);
            }
        }
        Some(self.take(at))
    }

    fn skip_literal(&mut self) -> bool {
        let prefix = ["br", "cr", "r", "b", "c", ""].into_iter().find(|prefix| {
            let after = self.rest.strip_prefix(prefix).unwrap_or_default();
            let raw = prefix.ends_with('r') && after.trim_start_matches('#').starts_with('"');
            let plain = !prefix.ends_with('r') && after.starts_with('"');
            let byte = matches!(*prefix, "b" | "") && after.starts_with('\'');
            raw || plain || byte
        });
        let Some(prefix) = prefix else {
            return self.skip_number();
        };
        let after = &self.rest[prefix.len()..];
        let length = if prefix.ends_with('r') {
            let fences = after.len() - after.trim_start_matches('#').len();
            let end = format!("\"{}", "#".repeat(fences));
            let body = &after[fences + 1..];
            fences + 1 + body.find(&end).map_or(body.len(), |at| at + end.len())
        } else if after.starts_with('"') {
            quoted_length(after, '"')
        } else {
            character_or_lifetime_length(after)
        };
        self.take(prefix.len() + length);
        true
    }

    fn skip_number(&mut self) -> bool {
        if !self.rest.starts_with(|first: char| first.is_ascii_digit()) {
            return false;
        }
        self.take(name_length(self.rest));
        true
    }
}

fn name_length(text: &str) -> usize {
    text.find(|c: char| !c.is_alphanumeric() && c != '_')
        .unwrap_or(text.len())
}

/// The length of a quoted literal with both its quotes.
fn quoted_length(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return at + c.len_utf8(),
            _ => {}
        }
    }
    text.len()
}

/// `'a'`, `'\n'` and `'static` all begin with a quote; only the first two end with one.
fn character_or_lifetime_length(text: &str) -> usize {
    let inside = &text[1..];
    let first = inside.chars().next().map_or(0, char::len_utf8);
    if inside.starts_with('\\') || inside[first..].starts_with('\'') {
        quoted_length(text, '\'')
    } else {
        1 + name_length(inside)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(text: &str) -> Vec<String> {
        tokens(text).into_iter().map(|token| token.text).collect()
    }

    #[test]
    fn comments_and_literals_leave_nothing() {
        assert_eq!(
            texts("a // unsafe\nb /* unsafe /* x */ unsafe */ c"),
            ["a", "b", "c"]
        );
        assert_eq!(
            texts(r#"f("unsafe \" unsafe", b"unsafe")"#),
            ["f", "(", ",", ")"]
        );
        assert_eq!(
            texts(r###"r#"unsafe " unsafe"# x br"unsafe" y"###),
            ["x", "y"]
        );
        assert_eq!(texts(r"'a' '\'' '\u{1f}' b'x' z"), ["z"]);
        assert_eq!(texts("&'static str"), ["&", "str"]);
        assert_eq!(texts("0xFF_u8 + 1e5 - x1"), ["+", "-", "x1"]);
    }

    #[test]
    fn comments_are_kept_apart() {
        let (_, comments) = code_and_comments("a // b\n\"// c\"\n/* d\n/* e */ f */ g //! h");
        let comments: Vec<_> = comments
            .iter()
            .map(|it| (it.line, it.text.as_str()))
            .collect();
        assert_eq!(
            comments,
            [(1, "// b"), (3, "/* d\n/* e */ f */"), (4, "//! h")]
        );
    }

    #[test]
    fn what_looks_like_a_prefix_is_a_name() {
        assert_eq!(
            texts("raw br c::b r"),
            ["raw", "br", "c", ":", ":", "b", "r"]
        );
        assert_eq!(texts("r#type"), ["r", "#", "type"]);
    }

    #[test]
    fn lines_are_counted_through_everything() {
        let text = "a\n\"x\ny\"\n/* \n */ b\n// c\nd";
        let lines: Vec<_> = tokens(text).into_iter().map(|token| token.line).collect();
        assert_eq!(lines, [1, 5, 7]);
    }

    #[test]
    fn identifiers_have_words() {
        for name in [
            "lock_wait_max",
            "LockWaitMax",
            "LOCK_WAIT_MAX",
            "__lockWait_max",
        ] {
            assert_eq!(words_of_identifier(name), ["lock", "wait", "max"], "{name}");
        }
        assert_eq!(words_of_identifier("IOError2"), ["io", "error2"]);
    }

    #[test]
    fn an_unfinished_literal_ends_with_the_file() {
        assert_eq!(texts("a \"b"), ["a"]);
        assert_eq!(texts("a /* b"), ["a"]);
        assert_eq!(texts("a r#\"b\""), ["a"]);
        assert_eq!(texts("a '"), ["a"]);
    }
}
