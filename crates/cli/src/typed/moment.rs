//! Durations and points in time as text: `1.5s`; `2026-11-26T11:54:29.5Z`. Times before 1970 and
//! after the year 9999 are written as seconds since 1970: `@-1.5` is a second and a half before it.

use std::time::Duration;

use namiki_terminal::time_of_day::{parse_utc, utc};

/// The first second of the year 10000.
const DATED_SECONDS_MAX: i64 = 253_402_300_800;
const NANOS_DIGITS: usize = 9;
const NANOS_PER_SECOND: u32 = 1_000_000_000;

/// A point in time: seconds since 1970, and nanoseconds after that second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment {
    pub(crate) seconds: i64,
    pub(crate) nanos: u32,
}

/// `.5`, or nothing.
fn fraction(nanos: u32) -> String {
    match nanos {
        0 => String::new(),
        nanos => format!(".{nanos:09}").trim_end_matches('0').to_owned(),
    }
}

/// A number and its fraction, in nanoseconds.
fn split_fraction(text: &str) -> Option<(&str, u32)> {
    let Some((whole, digits)) = text.split_once('.') else {
        return Some((text, 0));
    };
    let is_fraction = (1..=NANOS_DIGITS).contains(&digits.len())
        && digits.bytes().all(|digit| digit.is_ascii_digit());
    let nanos = format!("{digits:0<NANOS_DIGITS$}").parse().ok()?;
    is_fraction.then_some((whole, nanos))
}

pub(crate) fn duration_text(length: &Duration) -> String {
    format!("{}{}s", length.as_secs(), fraction(length.subsec_nanos()))
}

pub(crate) fn duration_from_text(text: &str) -> Option<Duration> {
    let (seconds, nanos) = split_fraction(text.strip_suffix('s')?)?;
    Some(Duration::new(seconds.parse().ok()?, nanos))
}

impl Moment {
    pub(crate) fn text(self) -> String {
        let fraction = fraction(self.nanos);
        match u64::try_from(self.seconds) {
            Ok(seconds) if self.seconds < DATED_SECONDS_MAX => {
                let whole = utc(seconds * 1000);
                format!("{}{fraction}Z", whole.trim_end_matches(".000Z"))
            }
            Ok(seconds) => format!("@{seconds}{fraction}"),
            // The fraction counts away from 1970, as the seconds do.
            Err(_) if self.nanos == 0 => format!("@{}", self.seconds),
            Err(_) => {
                let (seconds, left) = (!self.seconds, NANOS_PER_SECOND - self.nanos);
                format!("@-{seconds}{}", self::fraction(left))
            }
        }
    }

    pub(crate) fn from_text(text: &str) -> Option<Self> {
        if let Some(since) = text.strip_prefix('@') {
            let (seconds, nanos) = split_fraction(since)?;
            if seconds.starts_with('-') && nanos > 0 {
                // Down to the second before.
                let seconds: i64 = seconds.parse().ok()?;
                return Some(Self {
                    seconds: seconds.checked_sub(1)?,
                    nanos: NANOS_PER_SECOND - nanos,
                });
            }
            let seconds = seconds.parse().ok()?;
            return Some(Self { seconds, nanos });
        }
        let (whole, nanos) = split_fraction(text.strip_suffix('Z').unwrap_or(text))?;
        let seconds = (parse_utc(whole)? / 1000).cast_signed();
        Some(Self { seconds, nanos })
    }
}

#[cfg(test)]
mod tests {
    use namiki::{Value, ValueBytes};

    use super::*;
    use crate::typed::{Type, read_value};

    #[test]
    fn moments_and_lengths_are_read_as_they_are_written() {
        for (seconds, nanos, text) in [
            (0, 0, "1970-01-01T00:00:00Z"),
            (1_795_694_069, 120_000_000, "2026-11-26T11:54:29.12Z"),
            (253_402_300_799, 1, "9999-12-31T23:59:59.000000001Z"),
            (253_402_300_800, 0, "@253402300800"),
            (253_402_300_800, 500_000_000, "@253402300800.5"),
            (-1, 0, "@-1"),
            (-1, 500_000_000, "@-0.5"),
            (-1, 999_999_999, "@-0.000000001"),
            (-2, 500_000_000, "@-1.5"),
            (i64::MIN, 0, "@-9223372036854775808"),
            (i64::MIN, 1, "@-9223372036854775807.999999999"),
        ] {
            let moment = Moment { seconds, nanos };
            assert_eq!(moment.text(), text);
            assert_eq!(Moment::from_text(text), Some(moment));
        }
        // The text means the same moment as the system clock does.
        let before = std::time::UNIX_EPOCH - Duration::from_millis(500);
        let mut bytes = ValueBytes::new();
        before.encode(&mut bytes);
        assert_eq!(read_value(&Type::Time, &bytes).to_string(), "@-0.5");
        for wrong in [
            "",
            "@",
            "@1.",
            "@1.0000000001",
            "@-",
            "@--1",
            "@-9223372036854775808.5",
            "now",
            "@x",
            "1.5",
        ] {
            assert_eq!(Moment::from_text(wrong), None, "{wrong}");
        }
        for (length, text) in [
            (Duration::ZERO, "0s"),
            (Duration::from_millis(1500), "1.5s"),
            (Duration::MAX, "18446744073709551615.999999999s"),
        ] {
            assert_eq!(duration_text(&length), text);
            assert_eq!(duration_from_text(text), Some(length));
        }
        assert_eq!(duration_from_text("1"), None);
        assert_eq!(duration_from_text("-1s"), None);
    }
}
