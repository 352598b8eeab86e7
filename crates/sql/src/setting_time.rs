//! Times as settings have them: a number with a unit.

use std::time::Duration;

/// The units, and how many microseconds each has; from the smallest.
const UNITS: [(&str, u64); 6] = [
    ("us", 1),
    ("ms", 1_000),
    ("s", 1_000_000),
    ("min", 60_000_000),
    ("h", 3_600_000_000),
    ("d", 86_400_000_000),
];
/// Milliseconds: a setting's greatest value.
const LONGEST: u64 = i32::MAX as u64;

/// Reads `250`, `5s` or `1.5 min`: milliseconds if there is no unit.
///
/// # Errors
/// If it is no time, with a remedy if there is one.
pub(crate) fn read_time(text: &str) -> Result<Duration, Option<String>> {
    let text = text.trim();
    let end = text
        .find(|it: char| !it.is_ascii_digit() && it != '.')
        .unwrap_or(text.len());
    let (number, unit) = (&text[..end], text[end..].trim());
    let number: f64 = number.parse().map_err(|_| None)?;
    let unit = if unit.is_empty() { "ms" } else { unit };
    let Some((_, micros)) = UNITS.iter().find(|(name, _)| *name == unit) else {
        return Err(Some(
            "Valid units for this parameter are \"us\", \"ms\", \"s\", \"min\", \"h\", and \"d\"."
                .to_owned(),
        ));
    };
    let millis = (number * *micros as f64 / 1000.0).round_ties_even();
    if millis > LONGEST as f64 {
        return Err(Some(format!("It is at most {LONGEST} ms.")));
    }
    Ok(Duration::from_millis(millis as u64))
}

/// The time in the largest unit in which it is a whole number.
pub(crate) fn write_time(time: Duration) -> String {
    let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    if micros == 0 {
        return "0".to_owned();
    }
    let whole = UNITS.iter().rev().find(|(_, unit)| micros % unit == 0);
    match whole {
        Some((name, unit)) => format!("{}{name}", micros / unit),
        None => format!("{micros}us"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_with_their_units() {
        for (text, millis) in [
            ("0", 0),
            ("250", 250),
            ("5s", 5_000),
            (" 1.5 min ", 90_000),
            ("2h", 7_200_000),
            ("1d", 86_400_000),
            ("1500us", 2),
        ] {
            assert_eq!(read_time(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "x", "-1", "5 parsecs", "5 S", "1e9", "25d", "1.2.3"] {
            assert!(read_time(text).is_err(), "{text}");
        }
    }

    #[test]
    fn times_are_shown_in_the_largest_unit() {
        for (millis, text) in [
            (0, "0"),
            (1500, "1500ms"),
            (5000, "5s"),
            (90_000, "90s"),
            (120_000, "2min"),
            (86_400_000, "1d"),
        ] {
            assert_eq!(write_time(Duration::from_millis(millis)), text);
        }
    }
}
