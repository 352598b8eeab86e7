//! The name of a test states its property in a few words; the doc comment explains it.
//!
//! Macros create tests from names passed to them. Every name is therefore checked, not only those
//! after `#[test]`.

use std::collections::BTreeSet;

use super::Finding;
use crate::repository_files::Tree;

const WORDS_MAX: usize = 10;

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.files.iter().filter(|file| file.is_rust()) {
        let mut met = BTreeSet::new();
        for token in &file.tokens {
            let words = token
                .text
                .split('_')
                .filter(|word| !word.is_empty())
                .count();
            if words > WORDS_MAX && met.insert(&token.text) {
                let advice = format!(
                    "`{}` is a name of {words} words, more than {WORDS_MAX}; let a test's name say what holds, and \
                     its doc comment the rest",
                    token.text
                );
                findings.push(Finding::new(&file.path, token.line, advice));
            }
        }
    }
    findings
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
    fn long_names_are_found_once_in_a_file() {
        for text in [
            format!("\n#[test] fn {LONG}() {{}}"),
            format!("\n#[cfg_attr(not(loom), test)] async fn {LONG}() {{}}"),
            format!(
                "\nmacro_rules! m {{ ($name:ident) => {{ #[test] fn $name() {{}} }} }} m!({LONG}); m!({LONG});"
            ),
        ] {
            let found = findings(&text);
            assert_eq!(found.len(), 1, "{text}");
            assert!(found[0].starts_with("a.rs:2: `one_two_"), "{found:?}");
            assert!(found[0].contains("11 words"), "{found:?}");
        }
    }

    #[test]
    fn ten_words_are_fine_and_so_are_strings_and_comments() {
        let ten = LONG.trim_end_matches("_eleven");
        let text = format!(
            "#[test] fn {ten}() {{}} fn __{ten}__() {{}} // {LONG}\nconst A: &str = \"{LONG}\";"
        );
        assert!(findings(&text).is_empty());
    }
}
