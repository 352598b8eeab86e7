//! The number of tasks of a thread: fixed, or adapted by the executor.

use std::fmt;
use std::str::FromStr;

use namiki_exec::Degree;
use serde::{Serialize, Serializer};

/// Maximal number of tasks of a thread.
const TASKS_MAX: usize = 1 << 20;

/// The number of tasks of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tasks(pub(crate) Degree);

impl FromStr for Tasks {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "adaptive" {
            return Ok(Self(Degree::Adaptive));
        }
        let number = text
            .parse()
            .ok()
            .filter(|number| (1..=TASKS_MAX).contains(number));
        let number = number.ok_or_else(|| format!("neither \"adaptive\" nor 1 to {TASKS_MAX}"))?;
        Ok(Self(Degree::Fixed(number)))
    }
}

impl fmt::Display for Tasks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Degree::Adaptive => f.write_str("adaptive"),
            Degree::Fixed(number) => number.fmt(f),
        }
    }
}

impl Serialize for Tasks {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Degree::Adaptive => serializer.serialize_str("adaptive"),
            Degree::Fixed(number) => serializer.serialize_u64(number as u64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_are_printed_as_they_are_parsed() {
        for text in ["1", "256", "adaptive"] {
            assert_eq!(text.parse::<Tasks>().unwrap().to_string(), text);
        }
        for bad in ["", "0", "-1", "many", "1048577"] {
            assert!(bad.parse::<Tasks>().is_err(), "{bad}");
        }
    }
}
