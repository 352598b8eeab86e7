//! Finds the paths in a Rust file that name other modules of its crate, resolved from the crate's
//! root.

use crate::rust_lexer::{Token, starts_with};

/// A path: `a`, `b`, `C` for `crate::a::b::C`, and for `super::b::C` in a module of `a`. A group
/// yields one path for each of its names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Import {
    /// Segments from the crate's root. The last one is `*` for a glob; `self` stands only for the
    /// root itself.
    pub(crate) segments: Vec<Token>,
    /// The name that a `use` binds it to: `C`, or the name after `as`.
    pub(crate) bound: Option<String>,
}

impl Import {
    /// The names of the segments.
    pub(crate) fn names(&self) -> Vec<&str> {
        self.segments
            .iter()
            .map(|part| part.text.as_str())
            .collect()
    }

    /// The line of the path.
    pub(crate) fn line(&self) -> usize {
        self.segments.last().map_or(0, |part| part.line)
    }
}

/// The module of a crate's file, from its path inside `src/`; empty for the root.
pub(crate) fn module_of(inside: &str) -> Vec<&str> {
    let mut parts: Vec<&str> = inside.trim_end_matches(".rs").split('/').collect();
    if matches!(parts[..], ["lib" | "main"]) || parts.last() == Some(&"mod") {
        parts.pop();
    }
    parts
}

/// All paths in the file of `module` that start with `crate`, `self` or `super`, and those of its
/// `use` items that start with one of its own `children`.
pub(crate) fn imports(tokens: &[Token], module: &[&str], children: &[&str]) -> Vec<Import> {
    let mut reader = Reader {
        module: module.iter().map(|part| name_at(part, 0)).collect(),
        found: Vec::new(),
    };
    // Each inline module with the depth of braces inside it.
    let mut inline_modules: Vec<usize> = Vec::new();
    let mut braces: usize = 0;
    let mut at = 0;
    while at < tokens.len() {
        let here = &tokens[at..];
        let in_path = at >= 2 && starts_with(&tokens[at - 2..], &[":", ":"]);
        match here[0].text.as_str() {
            "{" => {
                braces += 1;
                if at >= 2 && tokens[at - 2].text == "mod" {
                    inline_modules.push(braces);
                    reader.module.push(tokens[at - 1].clone());
                }
            }
            "}" => {
                if inline_modules.last() == Some(&braces) {
                    inline_modules.pop();
                    reader.module.pop();
                }
                braces = braces.saturating_sub(1);
            }
            "use" => {
                let end = here.iter().position(|token| token.text == ";");
                let item = &here[1..end.unwrap_or(here.len())];
                let in_file = inline_modules.is_empty();
                let child = item
                    .first()
                    .filter(|first| in_file && children.contains(&first.text.as_str()));
                if child.is_some() {
                    let own = reader.module.clone();
                    reader.tree(own, item, true);
                } else {
                    reader.path(item, true);
                }
                at += item.len();
            }
            "crate" | "super" | "self" if !in_path => {
                at += reader.path(here, false).saturating_sub(1);
            }
            _ => {}
        }
        at += 1;
    }
    reader.found
}

struct Reader {
    /// The module that contains the tokens.
    module: Vec<Token>,
    found: Vec<Import>,
}

impl Reader {
    /// Reads a path that starts here, if it leads into this crate. Returns the number of tokens of
    /// its prefix.
    fn path(&mut self, tokens: &[Token], is_use: bool) -> usize {
        let steps = |word: &str, from: usize| starts_with(&tokens[from..], &[word, ":", ":"]);
        if steps("crate", 0) {
            self.tree(Vec::new(), &tokens[3..], is_use);
            return 3;
        }
        let mut read = if steps("self", 0) { 3 } else { 0 };
        let mut ups = 0;
        while steps("super", read) {
            read += 3;
            ups += 1;
        }
        if read > 0 && ups <= self.module.len() {
            let base = self.module[..self.module.len() - ups].to_vec();
            self.tree(base, &tokens[read..], is_use);
        }
        read
    }

    /// Reads the rest after `base::`: names, then possibly a group, a glob or an alias.
    fn tree(&mut self, base: Vec<Token>, tokens: &[Token], is_use: bool) {
        let mut segments = base;
        let mut rest = tokens;
        while let Some(first) = rest.first() {
            match first.text.as_str() {
                "{" => {
                    for part in parts_of_group(rest) {
                        self.tree(segments.clone(), part, is_use);
                    }
                    return;
                }
                "self" if !segments.is_empty() => {}
                text if text == "*"
                    || text.starts_with(|c: char| c.is_alphabetic() || c == '_') =>
                {
                    segments.push(first.clone());
                }
                _ => break,
            }
            rest = &rest[1..];
            if !starts_with(rest, &[":", ":"]) {
                break;
            }
            rest = &rest[2..];
        }
        if segments.is_empty() {
            return;
        }
        let renamed = match rest {
            [as_, name, ..] if as_.text == "as" => Some(name.text.clone()),
            _ => None,
        };
        let last = segments.last().map(|part| part.text.clone());
        let bound = renamed.or(last).filter(|_| is_use);
        self.found.push(Import { segments, bound });
    }
}

fn name_at(text: &str, line: usize) -> Token {
    Token {
        text: text.to_owned(),
        line,
    }
}

/// The parts between the commas of the group at the start of `tokens`.
fn parts_of_group(tokens: &[Token]) -> Vec<&[Token]> {
    let mut parts = Vec::new();
    let mut depth = 0;
    let mut begins = 1;
    for (at, token) in tokens.iter().enumerate() {
        match token.text.as_str() {
            "{" => depth += 1,
            "}" => {
                depth -= 1;
                if depth == 0 {
                    parts.push(&tokens[begins..at]);
                    break;
                }
            }
            "," if depth == 1 => {
                parts.push(&tokens[begins..at]);
                begins = at + 1;
            }
            _ => {}
        }
    }
    parts.retain(|part| !part.is_empty());
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rust_lexer::tokens;

    fn paths(module: &[&str], text: &str) -> Vec<String> {
        let found = imports(&tokens(text), module, &["child"]);
        let spelt = |import: &Import| {
            let bound = import.bound.as_ref().map(|name| format!(" as {name}"));
            import.names().join("::") + &bound.unwrap_or_default()
        };
        found.iter().map(spelt).collect()
    }

    #[test]
    fn groups_are_taken_apart() {
        assert_eq!(
            paths(&[], "use crate::{a::{self, B}, c::D as E, f::*};"),
            ["a as a", "a::B as B", "c::D as E", "f::* as *"]
        );
    }

    #[test]
    fn super_and_self_are_resolved() {
        let module = ["a", "b"];
        assert_eq!(paths(&module, "use super::c::D;"), ["a::c::D as D"]);
        assert_eq!(paths(&module, "fn f() { self::g() }"), ["a::b::g"]);
        assert_eq!(paths(&module, "use super::super::x;"), ["x as x"]);
        assert_eq!(
            paths(&module, "mod t { use super::super::x; }"),
            ["a::x as x"]
        );
        assert_eq!(paths(&module, "mod t {} use super::x;"), ["a::x as x"]);
        assert!(paths(&module, "pub(super) struct A(super::super::super::B);").is_empty());
        assert!(paths(&module, "fn f(&self) { self.x }").is_empty());
    }

    #[test]
    fn paths_in_code_bind_nothing() {
        assert_eq!(paths(&["a"], "struct A { b: super::C }"), ["C"]);
        assert_eq!(paths(&["a"], "fn f() { crate::b::c::<T>() }"), ["b::c"]);
    }

    #[test]
    fn a_use_of_a_child_is_from_the_own_module() {
        assert_eq!(
            paths(&["a"], "pub use child::{B, C};"),
            ["a::child::B as B", "a::child::C as C"]
        );
        assert!(paths(&["a"], "use stranger::B;").is_empty());
    }

    #[test]
    fn files_are_modules() {
        assert!(module_of("lib.rs").is_empty());
        assert_eq!(module_of("a/mod.rs"), ["a"]);
        assert_eq!(module_of("a/b.rs"), ["a", "b"]);
    }
}
