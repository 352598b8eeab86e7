//! Flags that several commands share.

use std::fmt;
use std::num::NonZeroU16;
use std::str::FromStr;
use std::time::Duration;

use clap::builder::{RangedU64ValueParser, TypedValueParser};
use clap::{Args, ValueEnum};
use namiki::{ProtocolSpec, RecordFormat, SequencerKind};
use serde::{Serialize, Serializer};

/// Upper bound for numbers of threads and of streams. More are of no use in a measurement.
const THREADS_MAX: u64 = 1024;

/// The default length of the timed part of a run.
const SECONDS: Duration = Duration::from_secs(3);

/// The format of printed results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// A table for readers, with medians at its end.
    Table,
    /// One JSON object a line, and nothing else on standard output.
    Json,
}

/// On or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Switch {
    /// Yes.
    On,
    /// No.
    Off,
}

/// Flags of every timed command.
#[derive(Args, Clone, Debug)]
pub(crate) struct TimedArgs {
    /// Length of the timed part of a run, in seconds [default: 3; of `index`, --ops 10000000]
    #[arg(long, value_name = "S", value_parser = some_seconds)]
    pub(crate) seconds: Option<Duration>,
    /// Do this many operations in all instead of running for a time
    #[arg(long, value_name = "N", conflicts_with = "seconds", value_parser = RangedU64ValueParser::<u64>::from(1..=u64::MAX))]
    pub(crate) ops: Option<u64>,
    /// Runs of each combination, interleaved (A B A B …); each is one row
    #[arg(long, default_value = "1", value_name = "N", value_parser = RangedU64ValueParser::<u32>::from(1..=u32::MAX as u64))]
    pub(crate) repeat: u32,
    /// Seconds to run before the clock starts (none with --ops)
    #[arg(long, default_value = "0.5", value_name = "S", value_parser = seconds)]
    pub(crate) warmup: Duration,
    /// Seed that makes the operations repeatable
    #[arg(long, default_value = "42", value_name = "N")]
    pub(crate) seed: u64,
    /// Pin each thread to a processor of its own if there are enough
    #[arg(long, value_enum, default_value = "on")]
    pub(crate) pin: Switch,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

/// Flags for the output of results.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct OutputArgs {
    /// A table for readers, or one JSON object a line
    #[arg(long, value_enum, default_value = "table")]
    pub(crate) format: Format,
}

/// The length of a part of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Length {
    /// For a duration.
    Time(Duration),
    /// Until all threads together have completed this number of operations.
    Operations(u64),
}

impl TimedArgs {
    /// The duration of the timed part, if it is given as time.
    pub(crate) fn seconds(&self) -> Duration {
        self.seconds.unwrap_or(SECONDS)
    }

    /// The length of the timed part.
    pub(crate) fn length(&self) -> Length {
        self.ops
            .map_or(Length::Time(self.seconds()), Length::Operations)
    }

    /// The length of the warm-up.
    pub(crate) fn warmup_length(&self) -> Length {
        match self.ops {
            Some(_) => Length::Operations(0),
            None => Length::Time(self.warmup),
        }
    }
}

/// A duration in seconds; fractions are allowed.
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    let number: f64 = text.parse().map_err(|_| "not a number of seconds")?;
    if !(0.0..=1e6).contains(&number) {
        return Err("not between 0 and 1000000 seconds".to_owned());
    }
    Ok(Duration::from_secs_f64(number))
}

/// A duration that is long enough for a measurement.
pub(crate) fn some_seconds(text: &str) -> Result<Duration, String> {
    match seconds(text)? {
        Duration::ZERO => Err("in no time nothing can be measured".to_owned()),
        length => Ok(length),
    }
}

/// Parses a protocol. `NOLOG` alone names the one protocol without a log.
pub(crate) fn spec(text: &str) -> Result<ProtocolSpec, String> {
    let text = if text.eq_ignore_ascii_case("NOLOG") {
        "TT(NLR)+NOLOG"
    } else {
        text
    };
    text.parse::<ProtocolSpec>()
        .map_err(|error| error.to_string())
}

/// The size of a commit in the log: `compact`, or the fixed size of the paper's records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordBytes(pub(crate) RecordFormat);

impl FromStr for RecordBytes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "compact" {
            return Ok(Self(RecordFormat::Compact));
        }
        let bytes: NonZeroU16 = text
            .parse()
            .map_err(|_| "neither \"compact\" nor a number of bytes up to 65535")?;
        if bytes.get() < RecordFormat::FIXED_BYTES_MIN {
            return Err(format!("at least {} bytes", RecordFormat::FIXED_BYTES_MIN));
        }
        Ok(Self(RecordFormat::Fixed(bytes)))
    }
}

impl fmt::Display for RecordBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            RecordFormat::Compact => f.write_str("compact"),
            RecordFormat::Fixed(bytes) => bytes.fmt(f),
        }
    }
}

impl Serialize for RecordBytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            RecordFormat::Compact => serializer.serialize_str("compact"),
            RecordFormat::Fixed(bytes) => serializer.serialize_u16(bytes.get()),
        }
    }
}

/// The way in which log sequence numbers are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Sequencer {
    /// One atomic addition.
    FetchAdd,
    /// The paper's compare-and-swap loop, which counts its failed attempts.
    Cas,
}

impl Sequencer {
    /// The log's name for it.
    pub(crate) fn kind(self) -> SequencerKind {
        match self {
            Self::FetchAdd => SequencerKind::FetchAdd,
            Self::Cas => SequencerKind::CompareAndSwap,
        }
    }

    /// The flag's name for it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::FetchAdd => "fetch-add",
            Self::Cas => "cas",
        }
    }
}

/// The longest time for which a commit waits for its group: microseconds, or `none` for no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GroupWait(pub(crate) Duration);

impl FromStr for GroupWait {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "none" {
            return Ok(Self(Duration::MAX));
        }
        let microseconds = text
            .parse()
            .map_err(|_| "neither \"none\" nor a number of microseconds")?;
        Ok(Self(Duration::from_micros(microseconds)))
    }
}

/// A number of threads, or of streams with one thread each.
pub(crate) fn threads() -> impl TypedValueParser<Value = NonZeroU16> {
    RangedU64ValueParser::<u16>::from(1..=THREADS_MAX).try_map(NonZeroU16::try_from)
}

/// The exponent s of Zipf's law.
pub(crate) fn skew(text: &str) -> Result<f64, String> {
    let skew: f64 = text.parse().map_err(|_| "not a number")?;
    if !(0.0..=100.0).contains(&skew) {
        return Err("not between 0 and 100".to_owned());
    }
    Ok(skew)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_may_be_fractions_and_nothing_else() {
        assert_eq!(seconds("0.25"), Ok(Duration::from_millis(250)));
        assert_eq!(seconds("3"), Ok(Duration::from_secs(3)));
        for bad in ["", "x", "-1", "nan", "inf", "1e300"] {
            assert!(seconds(bad).is_err(), "{bad}");
        }
        assert_eq!(seconds("0"), Ok(Duration::ZERO));
        for none in ["0", "0.0", "1e-30"] {
            assert!(some_seconds(none).is_err(), "{none}");
        }
    }

    #[test]
    fn record_formats_come_back_as_they_went() {
        for text in ["compact", "512", "64"] {
            assert_eq!(text.parse::<RecordBytes>().unwrap().to_string(), text);
        }
        for bad in ["63", "0", "65536", "big"] {
            assert!(bad.parse::<RecordBytes>().is_err(), "{bad}");
        }
    }

    #[test]
    fn no_log_has_a_short_name() {
        assert_eq!(spec("nolog"), spec("TT(NLR)+NOLOG"));
        assert!(spec("TT(XLR)+PWAL(1)").unwrap_err().contains("TT(XLR)"));
    }

    #[test]
    fn a_group_wait_is_microseconds_or_none() {
        assert_eq!("250".parse(), Ok(GroupWait(Duration::from_micros(250))));
        assert_eq!("none".parse(), Ok(GroupWait(Duration::MAX)));
        assert!("soon".parse::<GroupWait>().is_err());
    }
}
