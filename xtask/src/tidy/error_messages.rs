//! An error must not have its cause both in its message and as its source: errors are printed with
//! their causes, so the cause would appear twice.

use super::Finding;
use crate::repository_files::Tree;

/// The start of the attribute with a message. It is concatenated so that this file does not match
/// itself.
const MESSAGE: &str = concat!("#[", "error(");

const ADVICE: &str = "the message has the error's source in it, which is printed behind it once more; leave it out of the message, \
                      or say `transparent`";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.files.iter().filter(|file| file.is_rust()) {
        for (at, _) in file.text.match_indices(MESSAGE) {
            if says_its_source(&file.text[at..]) {
                let line = file.text[..at].lines().count() + 1;
                findings.push(Finding::new(&file.path, line, ADVICE));
            }
        }
    }
    findings
}

/// Whether the attribute that starts here has the source of its variant in its message.
fn says_its_source(text: &str) -> bool {
    let Some(message) = brackets(&text[1..]) else {
        return false;
    };
    let mut rest = &text[1 + message.len()..];
    // Comments and other attributes may be in between.
    loop {
        rest = rest.trim_start();
        if rest.starts_with("//") {
            rest = rest.split_once('\n').map_or("", |(_, rest)| rest);
        } else if rest.starts_with('#') {
            match brackets(&rest[1..]) {
                Some(attribute) => rest = &rest[1 + attribute.len()..],
                None => return false,
            }
        } else {
            break;
        }
    }
    let name_end = rest.find(|of: char| !of.is_alphanumeric() && of != '_');
    let Some(fields) = brackets(rest[name_end.unwrap_or(rest.len())..].trim_start()) else {
        return false;
    };
    source_of(fields).is_some_and(|source| message.contains(&format!("{{{source}")))
}

/// The text from an opening bracket to its closing one.
fn brackets(text: &str) -> Option<&str> {
    let mut depth = 0_usize;
    let mut in_text = false;
    let mut is_escaped = false;
    for (at, of) in text.char_indices() {
        match of {
            _ if is_escaped => is_escaped = false,
            '\\' if in_text => is_escaped = true,
            '"' => in_text = !in_text,
            _ if in_text => {}
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(&text[..=at]);
                }
            }
            _ if depth == 0 => return None,
            _ => {}
        }
    }
    None
}

/// The source's name in a message: the name of a field, or the number of an unnamed one.
fn source_of(fields: &str) -> Option<String> {
    let marks = [concat!("#[", "from]"), concat!("#[", "source]")];
    let marked = marks.iter().find_map(|mark| {
        fields
            .split_once(mark)
            .map(|(_, behind)| behind.trim_start())
    });
    if fields.starts_with('(') {
        return marked.map(|_| "0".to_owned());
    }
    let named = marked.and_then(|field| field.split_once(':'));
    let named = named.map(|(name, _)| name.rsplit(' ').next().unwrap_or(name).to_owned());
    let has_source = fields.lines().any(|line| {
        line.trim_start()
            .trim_start_matches("pub ")
            .starts_with("source:")
    });
    named.or_else(|| has_source.then(|| "source".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(variant: &str) -> usize {
        let text = format!("enum E {{\n    {MESSAGE}{variant}\n}}\n");
        check(&Tree::of(&[("a.rs", &text)])).len()
    }

    #[test]
    fn messages_with_their_source_are_found() {
        for variant in [
            "\"failed: {0}\")]\n A(#[from] io::Error),",
            "\"{0}\")]\n A(#[source] Box<B>),",
            "\"{path} (see {source:?})\")]\n /// Text.\n #[cfg(x)]\n A {\n path: String,\n source: B,\n },",
            "\n \"a \\\" {cause}\", path.display()\n )]\n A {\n #[source]\n cause: B,\n },",
        ] {
            assert_eq!(found(variant), 1, "{variant}");
        }
    }

    #[test]
    fn others_are_left_alone() {
        for variant in [
            "\"failed: {0}\")]\n A(String),",
            "transparent)]\n A(#[from] io::Error),",
            "\"cannot read {path}\")]\n A {\n path: String,\n source: B,\n },",
            "\"{why}\")]\n A {\n why: String,\n #[source]\n cause: B,\n },",
            "\"it is closed\")]\n Closed,",
        ] {
            assert_eq!(found(variant), 0, "{variant}");
        }
    }
}
