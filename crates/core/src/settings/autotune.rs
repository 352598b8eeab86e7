//! Automatic choice of the protocol: from the speed of the device, the number of processors, and
//! the requested isolation.
//!
//! The rule, with the measurements that it comes from, is in `docs/autotune.md`.

use std::fmt;
use std::num::NonZeroU16;
use std::time::Duration;

use namiki_platform::disk::DeviceProfile;
use namiki_platform::threads;

use crate::protocol_spec::{
    ConcurrencyControl, Group, Layout, LockRelease, LogStyle, Logging, ProtocolSpec,
};

/// The isolation level of transactions, see [`Isolation`](crate#isolation).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Isolation {
    /// Serializability: a serial order with the same reads and the same final state exists. It need
    /// not agree with real time: a transaction may precede one that had returned before it began.
    Serializable,
    /// Strict serializability: that order also agrees with real time.
    #[default]
    StrictlySerializable,
}

/// The protocol of a database, or its automatic choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProtocolChoice {
    /// This protocol.
    Fixed(ProtocolSpec),
    /// The best protocol for the database's device, with this isolation: the device is measured at
    /// the opening.
    Auto(Isolation),
}

impl ProtocolChoice {
    /// The best strictly serializable protocol for the database's device.
    pub const AUTO: Self = Self::Auto(Isolation::StrictlySerializable);
}

impl From<ProtocolSpec> for ProtocolChoice {
    fn from(spec: ProtocolSpec) -> Self {
        Self::Fixed(spec)
    }
}

/// Below this latency, a lock that is held during a device write costs no more than the usual
/// contention.
const MEMORY_LIKE: Duration = Duration::from_micros(5);
/// The least speed-up of several writers over one. On a device below it, log streams slow each
/// other down.
const PARALLEL: f64 = 1.3;
const WRITERS_PER_CORE: NonZeroU16 = NonZeroU16::new(2).expect("not 0");
const WRITERS_MAX: NonZeroU16 = NonZeroU16::new(16).expect("not 0");
/// The shortest and the longest epoch.
const EPOCHS: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(20)];

/// The chosen settings, and the reasons for them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TunedConfig {
    /// The protocol.
    pub spec: ProtocolSpec,
    /// The number of log streams.
    pub streams: NonZeroU16,
    /// The shortest length of an epoch.
    pub epoch_length: Duration,
    /// The measured speed of the device.
    pub device: DeviceProfile,
}

impl TunedConfig {
    /// The number of processors for the rule: those of this process.
    #[must_use]
    pub fn cores() -> NonZeroU16 {
        threads::processors().try_into().unwrap_or(NonZeroU16::MAX)
    }

    /// The number of writers in a measurement of the device.
    #[must_use]
    pub fn writers(cores: NonZeroU16) -> NonZeroU16 {
        cores.saturating_mul(WRITERS_PER_CORE).min(WRITERS_MAX)
    }

    /// Applies the rule.
    #[must_use]
    pub fn of(isolation: Isolation, device: DeviceProfile, cores: NonZeroU16) -> Self {
        let concurrency = match isolation {
            Isolation::Serializable => ConcurrencyControl::TicToc,
            Isolation::StrictlySerializable => ConcurrencyControl::Silo,
        };
        let release = if device.flush < MEMORY_LIKE {
            LockRelease::Normal
        } else {
            LockRelease::EpochEarly
        };
        let streams = match release {
            LockRelease::EpochEarly if device.parallelism < PARALLEL => NonZeroU16::MIN,
            _ => cores,
        };
        let [shortest, longest] = EPOCHS;
        Self {
            spec: ProtocolSpec {
                concurrency,
                release,
                logging: Logging::Log {
                    layout: Layout::PerWorker,
                    group: Group::Auto,
                    style: LogStyle::Redo,
                },
            },
            streams,
            epoch_length: device.flush.clamp(shortest, longest),
            device,
        }
    }
}

impl fmt::Display for TunedConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (spec, streams, device) = (self.spec, self.streams, self.device);
        write!(
            f,
            "{spec} with {streams} log streams: a flush takes {:?}, and {} writers make {:.1} times as many as one",
            device.flush, device.writers, device.parallelism
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice(isolation: Isolation, flush_us: u64, parallelism: f64) -> (String, u16) {
        choice_on(4, isolation, flush_us, parallelism)
    }

    fn choice_on(
        cores: u16,
        isolation: Isolation,
        flush_us: u64,
        parallelism: f64,
    ) -> (String, u16) {
        let device = DeviceProfile {
            flush: Duration::from_micros(flush_us),
            parallelism,
            writers: NonZeroU16::MIN,
        };
        let cores = NonZeroU16::new(cores).unwrap();
        let choice = TunedConfig::of(isolation, device, cores);
        assert!(choice.spec.contradiction().is_none());
        (choice.spec.to_string(), choice.streams.get())
    }

    #[test]
    fn what_chooses_by_itself_is_strict_unless_told_otherwise() {
        assert_eq!(
            ProtocolChoice::AUTO,
            ProtocolChoice::Auto(Isolation::default())
        );
        for flush_us in [0, 60, 8000] {
            let (spec, _) = choice(Isolation::default(), flush_us, 2.0);
            let spec: ProtocolSpec = spec.parse().unwrap();
            assert!(spec.concurrency.is_strict(), "{spec}");
        }
    }

    #[test]
    fn isolation_sets_concurrency_control_and_the_device_the_rest() {
        use Isolation::{Serializable, StrictlySerializable};
        let told = |choice: (&str, u16)| (choice.0.to_owned(), choice.1);
        let memory = choice(Serializable, 0, 2.0);
        assert_eq!(memory, told(("TT(NLR)+PWAL(auto)", 4)));
        let fast = choice(StrictlySerializable, 60, 2.0);
        assert_eq!(fast, told(("SILO(EPOCH)+PWAL(auto)", 4)));
        let slow = choice(Serializable, 8000, 1.0);
        assert_eq!(slow, told(("TT(EPOCH)+PWAL(auto)", 1)));
        for (cores, streams) in [(1, 1), (16, 16)] {
            let (_, chosen) = choice_on(cores, Serializable, 60, 2.0);
            assert_eq!(chosen, streams);
        }
    }
}
