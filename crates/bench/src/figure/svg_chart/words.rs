//! The room that words take in a chart, and their lines where one is too short.
//!
//! The reader's font is unknown, so each character counts as wide as in the widest of the common
//! sans-serif fonts. Words then have more room than they need, and are never cut.

/// Sizes of the chart's words, in pixels.
pub(super) const PLAIN: f64 = 13.0;
pub(super) const SMALL: f64 = 12.0;
pub(super) const TITLE: f64 = 16.0;
/// A bold character is wider by this factor.
const BOLD: f64 = 1.12;

/// The width of words of a size, in pixels, at the most.
pub(super) fn width(words: &str, size: f64) -> f64 {
    let ems: f64 = words.chars().map(em).sum();
    ems * size * if size == TITLE { BOLD } else { 1.0 }
}

/// The width of a character, relative to the size of the font.
fn em(character: char) -> f64 {
    match character {
        ' ' | '.' | ',' | ':' | ';' | '\'' | '|' | 'i' | 'j' | 'l' | '!' => 0.36,
        '(' | ')' | '[' | ']' | '-' | '/' | 'f' | 'r' | 't' | 'I' => 0.45,
        'm' | 'w' | 'M' | 'W' | '%' | '@' | '→' => 1.0,
        '+' | '=' | '<' | '>' | '×' | '~' => 0.84,
        'A'..='Z' => 0.79,
        character if character.is_ascii() => 0.64,
        character if (character as u32) < 0x1100 => 0.7,
        _ => 1.0,
    }
}

/// Lines of words, none wider than `room`. A word that is too long alone is broken.
pub(super) fn wrapped(words: &str, size: f64, room: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut line = String::new();
    for word in words.split_whitespace() {
        let longer = if line.is_empty() {
            word.to_owned()
        } else {
            format!("{line} {word}")
        };
        if width(&longer, size) <= room {
            line = longer;
            continue;
        }
        if !line.is_empty() {
            lines.push(std::mem::take(&mut line));
        }
        for character in word.chars() {
            line.push(character);
            if width(&line, size) > room && line.chars().count() > 1 {
                line.pop();
                lines.push(std::mem::take(&mut line));
                line.push(character);
            }
        }
    }
    if !line.is_empty() {
        lines.push(line);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrapped_lines_fit_and_lose_no_word() {
        let words =
            "GrpSize 1, one group on its way, Japan; 並木並木並木 AnEnormousWordWithoutASpaceAtAll";
        for room in [40.0, 90.0, 200.0, 5000.0] {
            let lines = wrapped(words, PLAIN, room);
            assert!(
                lines.iter().all(|line| width(line, PLAIN) <= room),
                "{lines:?}"
            );
            let bare = |text: &str| text.replace(' ', "");
            assert_eq!(bare(&lines.concat()), bare(words));
        }
        assert_eq!(wrapped(words, PLAIN, 5000.0), [words]);
        assert!(wrapped("", PLAIN, 10.0).is_empty());
    }

    /// DejaVu Sans, the widest of the common fonts: these are its advances.
    #[test]
    fn characters_count_as_wide_as_in_a_wide_font() {
        for (character, advance) in [
            ('0', 0.636),
            ('e', 0.615),
            ('m', 0.974),
            ('w', 0.818),
            ('W', 0.989),
            ('P', 0.603),
            ('A', 0.684),
            ('i', 0.278),
            ('r', 0.411),
            ('t', 0.392),
            (',', 0.32),
            (' ', 0.32),
            ('(', 0.39),
            ('+', 0.838),
            ('%', 0.95),
            ('-', 0.361),
            ('G', 0.775),
            ('²', 0.401),
            ('k', 0.579),
            ('O', 0.787),
        ] {
            assert!(em(character) >= advance, "{character}");
        }
    }
}
