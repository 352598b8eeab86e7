//! Dates as days since 1970-01-01 in the proleptic Gregorian calendar, and as text.
//!
//! Years are counted from March, so that the leap day is the last of its year and the days before a
//! month are a linear formula.

/// The days of 400 years.
const ERA_DAYS: i64 = 146_097;
/// From 0000-03-01 to 1970-01-01.
const EPOCH_OFFSET_DAYS: i64 = 719_468;

/// Days since 1970-01-01 of a date. `None` if there is no such day.
pub(super) fn days_of(year: i32, month: u32, day: u32) -> Option<i32> {
    if !(1..=12).contains(&month) || day < 1 || day > days_in(year, month) {
        return None;
    }
    let year = i64::from(year) - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let month_from_march = i64::from((month + 9) % 12);
    let day_of_year = (153 * month_from_march + 2) / 5 + i64::from(day) - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    i32::try_from(era * ERA_DAYS + day_of_era - EPOCH_OFFSET_DAYS).ok()
}

/// Year, month and day of a number of days since 1970-01-01.
pub(super) fn date_of(days: i32) -> (i64, u32, u32) {
    let days = i64::from(days) + EPOCH_OFFSET_DAYS;
    let era = days.div_euclid(ERA_DAYS);
    let day_of_era = days.rem_euclid(ERA_DAYS);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = (day_of_year - (153 * month_from_march + 2) / 5 + 1) as u32;
    let month = if month_from_march < 10 {
        month_from_march + 3
    } else {
        month_from_march - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month as u32, day)
}

fn days_in(year: i32, month: u32) -> u32 {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Reads `1995-03-15`.
pub(super) fn parse(text: &str) -> Option<i32> {
    let mut parts = text.split('-');
    let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
    let digits = |part: &str, len: usize| {
        (part.len() == len && part.bytes().all(|byte| byte.is_ascii_digit())).then_some(())
    };
    digits(year, 4)?;
    digits(month, 2)?;
    digits(day, 2)?;
    if parts.next().is_some() {
        return None;
    }
    days_of(year.parse().ok()?, month.parse().ok()?, day.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_days_have_their_dates() {
        for (text, days) in [
            ("1970-01-01", 0),
            ("1969-12-31", -1),
            ("2000-02-29", 11_016),
            ("1992-01-01", 8_035),
            ("1998-12-31", 10_591),
        ] {
            assert_eq!(parse(text), Some(days), "{text}");
        }
        for text in [
            "1999-02-29",
            "1900-02-29",
            "2000-13-01",
            "2000-1-01",
            "x",
            "",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn every_day_of_a_millennium_comes_back() {
        let mut previous = None;
        for days in -200_000..200_000 {
            let (year, month, day) = date_of(days);
            assert_eq!(days_of(year as i32, month, day), Some(days));
            assert!(previous < Some((year, month, day)));
            previous = Some((year, month, day));
        }
    }
}
