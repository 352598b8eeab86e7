//! Dates, timestamps and time zones.

use chrono::{DateTime, NaiveDate, NaiveDateTime, NaiveTime, Offset, TimeDelta, TimeZone as _};

/// Days from 1970-01-01 to 2000-01-01, from which the wire's binary format counts.
pub(crate) const EPOCH_2000_DAYS: i64 = 10_957;
/// The same in microseconds.
pub(crate) const EPOCH_2000_MICROS: i64 = EPOCH_2000_DAYS * 86_400_000_000;

/// The time zone of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimeZone {
    /// Coordinated universal time.
    Utc,
    /// Seconds east of it.
    Fixed(i32),
    /// One of the zones of IANA's data base.
    Named(chrono_tz::Tz),
}

impl TimeZone {
    /// Reads `UTC`, `Europe/Berlin`, `+02` or `-03:30`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if ["utc", "gmt", "z", "default", "local"].contains(&text.to_ascii_lowercase().as_str()) {
            return Some(Self::Utc);
        }
        if let Some(seconds) = parse_offset(text) {
            return Some(Self::Fixed(seconds));
        }
        let named = |name: &str| name.parse::<chrono_tz::Tz>().ok();
        named(text).map(Self::Named)
    }

    /// Its name.
    pub(crate) fn name(self) -> String {
        match self {
            Self::Utc => "UTC".to_owned(),
            Self::Fixed(seconds) => {
                let mut name = String::new();
                write_offset(seconds, &mut name);
                name
            }
            Self::Named(zone) => zone.name().to_owned(),
        }
    }

    /// Seconds east of universal time at this instant.
    pub(crate) fn offset_at(self, micros: i64) -> i32 {
        match self {
            Self::Utc => 0,
            Self::Fixed(seconds) => seconds,
            Self::Named(zone) => DateTime::from_timestamp_micros(micros).map_or(0, |at| {
                zone.offset_from_utc_datetime(&at.naive_utc())
                    .fix()
                    .local_minus_utc()
            }),
        }
    }

    /// The instant at which clocks there show this.
    pub(crate) fn instant(self, local_micros: i64) -> i64 {
        let seconds = match self {
            Self::Utc => 0,
            Self::Fixed(seconds) => seconds,
            Self::Named(zone) => local(local_micros)
                .and_then(|at| zone.offset_from_local_datetime(&at).earliest())
                .map_or_else(
                    || self.offset_at(local_micros),
                    |offset| offset.fix().local_minus_utc(),
                ),
        };
        local_micros.saturating_sub(i64::from(seconds) * 1_000_000)
    }
}

fn local(micros: i64) -> Option<NaiveDateTime> {
    DateTime::from_timestamp_micros(micros).map(|at| at.naive_utc())
}

/// Microseconds since 1970.
pub(crate) fn now_micros() -> i64 {
    chrono::Utc::now().timestamp_micros()
}

/// Seconds east, from `+02`, `-0330` or `+05:30:10`.
fn parse_offset(text: &str) -> Option<i32> {
    let (sign, rest) = match text.as_bytes().first()? {
        b'+' => (1, &text[1..]),
        b'-' => (-1, &text[1..]),
        _ => return None,
    };
    if rest.is_empty()
        || !rest
            .bytes()
            .all(|byte| byte.is_ascii_digit() || byte == b':')
    {
        return None;
    }
    let parts: Vec<&str> = if rest.contains(':') {
        rest.split(':').collect()
    } else if rest.len() == 4 {
        vec![&rest[..2], &rest[2..]]
    } else {
        vec![rest]
    };
    let mut seconds = 0;
    for (part, unit) in parts.iter().zip([3600, 60, 1]) {
        seconds += part.parse::<i32>().ok()? * unit;
    }
    (parts.len() <= 3 && seconds < 16 * 3600).then_some(sign * seconds)
}

/// Appends `+02` or `-03:30`.
pub(crate) fn write_offset(seconds: i32, into: &mut String) {
    use std::fmt::Write as _;
    let (sign, all) = if seconds < 0 {
        ('-', -seconds)
    } else {
        ('+', seconds)
    };
    // Writing to a text cannot fail.
    let _ = write!(into, "{sign}{:02}", all / 3600);
    if all % 3600 != 0 {
        let _ = write!(into, ":{:02}", all / 60 % 60);
    }
    if all % 60 != 0 {
        let _ = write!(into, ":{:02}", all % 60);
    }
}

/// The day of a text such as `2026-11-29`: days since 1970.
pub(crate) fn parse_date(text: &str) -> Option<i32> {
    let text = text.trim();
    let day = text.split([' ', 'T']).next()?;
    let date = NaiveDate::parse_from_str(day, "%Y-%m-%d")
        .or_else(|_| NaiveDate::parse_from_str(day, "%Y%m%d"))
        .or_else(|_| NaiveDate::parse_from_str(day, "%Y/%m/%d"))
        .ok()?;
    i32::try_from(date.signed_duration_since(NaiveDate::default()).num_days()).ok()
}

/// A date and a time: microseconds that the clocks show, and the seconds east of universal time if the text says them.
pub(crate) fn parse_timestamp(text: &str) -> Option<(i64, Option<i32>)> {
    let text = text.trim();
    let days = i64::from(parse_date(text)?);
    let Some(at) = text.find([' ', 'T']) else {
        return Some((days * 86_400_000_000, None));
    };
    let rest = text[at + 1..].trim();
    let end = rest.find(['+', '-', 'Z', 'z', ' ']).unwrap_or(rest.len());
    let (time, zone) = (rest[..end].trim(), rest[end..].trim());
    let time = NaiveTime::parse_from_str(time, "%H:%M:%S%.f")
        .or_else(|_| NaiveTime::parse_from_str(time, "%H:%M"))
        .ok()?;
    let since_midnight = time.signed_duration_since(NaiveTime::MIN);
    let micros = days
        .checked_mul(86_400_000_000)?
        .checked_add(rounded_micros(since_midnight)?)?;
    let offset = match zone {
        "" => None,
        "Z" | "z" | "UTC" | "utc" => Some(0),
        zone => Some(match parse_offset(zone) {
            Some(seconds) => seconds,
            None => {
                let zone = TimeZone::parse(zone)?;
                zone.offset_at(zone.instant(micros))
            }
        }),
    };
    Some((micros, offset))
}

fn rounded_micros(time: TimeDelta) -> Option<i64> {
    time.num_nanoseconds().map(|nanos| (nanos + 500) / 1000)
}

/// Appends `2026-11-29`.
pub(crate) fn write_date(days: i64, into: &mut String) {
    use std::fmt::Write as _;
    let date =
        TimeDelta::try_days(days).and_then(|days| NaiveDate::default().checked_add_signed(days));
    match date {
        Some(date) => {
            use chrono::Datelike as _;
            let year = date.year();
            let (year, era) = if year > 0 {
                (year, "")
            } else {
                (1 - year, " BC")
            };
            let _ = write!(into, "{year:04}-{:02}-{:02}{era}", date.month(), date.day());
        }
        None => into.push_str(if days < 0 { "-infinity" } else { "infinity" }),
    }
}

/// Appends `2026-11-29 12:13:14.5`.
pub(crate) fn write_timestamp(micros: i64, into: &mut String) {
    use std::fmt::Write as _;
    if micros == i64::MAX || micros == i64::MIN {
        into.push_str(if micros < 0 { "-infinity" } else { "infinity" });
        return;
    }
    write_date(micros.div_euclid(86_400_000_000), into);
    let rest = micros.rem_euclid(86_400_000_000);
    let seconds = rest / 1_000_000;
    let _ = write!(
        into,
        " {:02}:{:02}:{:02}",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60
    );
    let fraction = rest % 1_000_000;
    if fraction != 0 {
        let digits = format!("{fraction:06}");
        let _ = write!(into, ".{}", digits.trim_end_matches('0'));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(micros: i64) -> String {
        let mut text = String::new();
        write_timestamp(micros, &mut text);
        text
    }

    #[test]
    fn timestamps_come_back_as_they_were_written() {
        for text in [
            "1970-01-01 00:00:00",
            "2026-11-29 12:13:14.5",
            "1969-12-31 23:59:59.999999",
            "9999-12-31 23:59:59",
        ] {
            let (micros, offset) = parse_timestamp(text).unwrap();
            assert_eq!((written(micros).as_str(), offset), (text, None));
        }
        assert_eq!(
            parse_timestamp("2026-11-29T01:02:03+02").unwrap().1,
            Some(7200)
        );
        assert_eq!(parse_timestamp("2026-13-29"), None);
    }

    #[test]
    fn zones_have_names_and_offsets() {
        let berlin = TimeZone::parse("Europe/Berlin").unwrap();
        let (summer, _) = parse_timestamp("2026-07-01 12:00:00").unwrap();
        assert_eq!(berlin.offset_at(summer), 7200);
        assert_eq!(written(berlin.instant(summer)), "2026-07-01 10:00:00");
        assert_eq!(TimeZone::parse("-03:30"), Some(TimeZone::Fixed(-12_600)));
        assert_eq!(TimeZone::parse("nowhere"), None);
    }
}
