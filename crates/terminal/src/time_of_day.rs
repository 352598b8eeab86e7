//! Times of the wall clock as people write them, in UTC: `2026-11-26T11:54:29.120Z`; and lengths of time.

use std::time::Duration;

const MS_PER_DAY: u64 = 86_400_000;

/// A length of time, as `90s`, `30m`, `12h` or `7d`.
///
/// # Errors
/// A sentence with the expected format.
pub fn parse_length(text: &str) -> Result<Duration, String> {
    let units = [('s', 1), ('m', 60), ('h', 3600), ('d', 86_400)];
    let parsed = units.iter().find_map(|(unit, seconds)| {
        let number: u64 = text.strip_suffix(*unit)?.parse().ok()?;
        number.checked_mul(*seconds).map(Duration::from_secs)
    });
    parsed.ok_or_else(|| "expected a number with s, m, h or d, as 7d".to_owned())
}

/// A time in milliseconds since 1970 began.
#[must_use]
pub fn utc(ms: u64) -> String {
    let (year, month, day) = date(ms / MS_PER_DAY);
    let in_day = ms % MS_PER_DAY;
    let (hours, minutes) = (in_day / 3_600_000, in_day / 60_000 % 60);
    let (seconds, ms) = (in_day / 1000 % 60, in_day % 1000);
    format!("{year:04}-{month:02}-{day:02}T{hours:02}:{minutes:02}:{seconds:02}.{ms:03}Z")
}

/// Parses the same format. A blank instead of the `T`, a time with missing parts (0), and a missing
/// `Z` are accepted.
#[must_use]
pub fn parse_utc(text: &str) -> Option<u64> {
    let text = text.strip_suffix('Z').unwrap_or(text);
    let (day, time) = text.split_once(['T', ' ']).unwrap_or((text, "0:0"));
    let mut parts = day.split('-').map(|part| part.parse::<u64>().ok());
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    if parts.next().is_some() || !(1970..=9999).contains(&year) {
        return None;
    }
    let days = (0..)
        .take(366)
        .map(|after| (days_before(year) + after, date(days_before(year) + after)));
    let (days, _) = days
        .into_iter()
        .find(|(_, found)| *found == (year, month, day))?;
    let mut parts = time.split(':');
    let hours = parts.next()?.parse::<u64>().ok().filter(|it| *it < 24)?;
    let minutes = parts.next()?.parse::<u64>().ok().filter(|it| *it < 60)?;
    let seconds = parts.next().unwrap_or("0").parse::<f64>().ok()?;
    if parts.next().is_some() || !(0.0..60.0).contains(&seconds) {
        return None;
    }
    let in_day = (hours * 60 + minutes) * 60_000 + (seconds * 1000.0).round() as u64;
    Some(days * MS_PER_DAY + in_day)
}

/// Days from 1970 to the beginning of a year.
fn days_before(year: u64) -> u64 {
    let leap_days = |year: u64| year / 4 - year / 100 + year / 400;
    (year - 1970) * 365 + leap_days(year - 1) - leap_days(1969)
}

/// The year, month and day that are `days` days after 1970 began.
fn date(days: u64) -> (u64, u64, u64) {
    let mut year = 1970 + days / 366;
    while days_before(year + 1) <= days {
        year += 1;
    }
    let is_leap = days_before(year + 1) - days_before(year) == 366;
    let february = if is_leap { 29 } else { 28 };
    let months = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let (mut month, mut day) = (1, days - days_before(year));
    for length in months {
        if day < length {
            break;
        }
        day -= length;
        month += 1;
    }
    (year, month, day + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_they_are_written() {
        for (ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399_000, "2000-02-28T23:59:59.000Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (951_868_799_999, "2000-02-29T23:59:59.999Z"),
            (1_795_694_069_120, "2026-11-26T11:54:29.120Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(utc(ms), text);
            assert_eq!(parse_utc(text), Some(ms));
        }
        for day in (0..60_000).step_by(7) {
            assert_eq!(parse_utc(&utc(day * MS_PER_DAY)), Some(day * MS_PER_DAY));
        }
        assert_eq!(parse_utc("2000-02-29 23:59"), Some(951_868_740_000));
        assert_eq!(parse_utc("2000-02-29"), Some(951_782_400_000));
        for wrong in [
            "",
            "now",
            "2001-02-29",
            "2026-13-01",
            "2026-11-26T24:00",
            "1",
            "-1",
        ] {
            assert_eq!(parse_utc(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn lengths_have_a_unit() {
        for (text, seconds) in [
            ("0s", 0),
            ("90s", 90),
            ("30m", 1800),
            ("12h", 43_200),
            ("7d", 604_800),
        ] {
            assert_eq!(parse_length(text), Ok(Duration::from_secs(seconds)));
        }
        for wrong in ["", "7", "d", "-1d", "1.5h", "7w", "99999999999999999d"] {
            assert!(parse_length(wrong).is_err(), "{wrong}");
        }
    }
}
