//! The name of a test says what holds, in a few words; its story is in its doc comment.

use super::Finding;
use crate::rust_text::{Token, starts_with};
use crate::tree::Tree;

const WORDS_MAX: usize = 10;

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &tree.files {
        for name in test_names(&file.tokens) {
            let words = name.text.split('_').filter(|word| !word.is_empty()).count();
            if words > WORDS_MAX {
                let advice = format!(
                    "the test `{}` has a name of {words} words, more than {WORDS_MAX}; say what holds, and the \
                     rest in a doc comment",
                    name.text
                );
                findings.push(Finding::new(&file.path, name.line, advice));
            }
        }
    }
    findings
}

/// The names of the functions under `#[test]` or another attribute with a path that ends so, whatever other attributes
/// there are, models for loom and tests in macros included.
fn test_names(tokens: &[Token]) -> Vec<&Token> {
    let mut names = Vec::new();
    let mut is_test = false;
    let mut at = 0;
    while at < tokens.len() {
        let here = &tokens[at..];
        if starts_with(here, &["#", "["]) {
            let inside = attribute(&here[2..]);
            is_test |= is_test_attribute(inside);
            at += 2 + inside.len() + 1;
            continue;
        }
        match here[0].text.as_str() {
            "fn" => {
                names.extend(here.get(1).filter(|_| is_test));
                is_test = false;
            }
            // What may stand between the attributes and `fn`.
            "pub" | "(" | "crate" | "super" | ")" | "const" | "async" | "unsafe" | "extern" => {}
            _ => is_test = false,
        }
        at += 1;
    }
    names
}

/// What stands before the bracket that closes the attribute.
fn attribute(tokens: &[Token]) -> &[Token] {
    let mut depth = 1;
    for (at, token) in tokens.iter().enumerate() {
        match token.text.as_str() {
            "[" => depth += 1,
            "]" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return &tokens[..at];
        }
    }
    tokens
}

/// `test`, `framework::test`, `framework::test(settings)`, `cfg_attr(condition, test)`.
fn is_test_attribute(tokens: &[Token]) -> bool {
    if starts_with(tokens, &["cfg_attr", "("]) {
        let parts = tokens[2..tokens.len() - 1].split(|token| token.text == ",");
        return parts.skip(1).any(is_test_attribute);
    }
    let path = tokens.split(|token| token.text == "(").next();
    let mut path = path.unwrap_or_default().iter().rev();
    path.next().is_some_and(|last| last.text == "test") && path.all(|token| token.text != "=")
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: &str = "one_two_three_four_five_six_seven_eight_nine_ten_eleven";

    fn findings(text: &str) -> Vec<String> {
        let found = check(&Tree::of(&[("a.rs", text)]));
        found.iter().map(Finding::to_string).collect()
    }

    #[test]
    fn long_names_of_tests_are_found() {
        for attributes in [
            "#[test]",
            "#[test] #[should_panic(expected = \"[test]\")]",
            "#[should_panic] #[test] pub(crate)",
            "#[tokio::test(flavor = \"x\")] async",
            "#[cfg_attr(not(loom), test)]",
            "macro_rules! m { () => { #[test] ",
        ] {
            let found = findings(&format!("\n{attributes} fn {LONG}() {{}}"));
            assert_eq!(found.len(), 1, "{attributes}");
            assert!(
                found[0].starts_with("a.rs:2: the test `one_two_"),
                "{found:?}"
            );
            assert!(found[0].contains("11 words"), "{found:?}");
        }
    }

    #[test]
    fn ten_words_are_fine() {
        let ten = LONG.trim_end_matches("_eleven");
        assert!(
            findings(&format!(
                "#[test] fn {ten}() {{}} #[test] fn __{ten}__() {{}}"
            ))
            .is_empty()
        );
    }

    #[test]
    fn other_functions_may_be_called_anything() {
        for text in [
            format!("fn {LONG}() {{}}"),
            format!("#[cfg(test)] fn {LONG}() {{}}"),
            format!("#[cfg(feature = \"test\")] fn {LONG}() {{}}"),
            format!("#[test] fn short() {{}} fn {LONG}() {{}}"),
            format!("#[doc = \"test\"] fn {LONG}() {{}}"),
        ] {
            assert!(findings(&text).is_empty(), "{text}");
        }
    }
}
