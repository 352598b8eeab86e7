//! Cities: emulated latencies between them.
//!
//! A node of a test cluster on one machine can delay what it sends as if the others were far away.
//! A delay does not serialize: messages wait concurrently, so the throughput of a link is
//! unchanged. (The paper's prototype sleeps in the follower's handler, one message after the
//! other.)
//!
//! The paper gives the round trips from Tokyo. The others are ours: the cities lie on one line, so
//! the latency between two of them is the difference, or the sum if Tokyo lies between them.
//!
//! Paper: raft-pwal §4.2, table 2

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// The city of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum City {
    /// The paper's leader.
    Tokyo,
    /// 8 ms from Tokyo and back.
    Nagoya,
    /// 15 ms.
    Osaka,
    /// 20 ms.
    Fukuoka,
    /// 22 ms, to the other side.
    Sapporo,
}

impl City {
    /// The paper's cities: a leader and its four followers.
    pub const ALL: [Self; 5] = [
        Self::Tokyo,
        Self::Nagoya,
        Self::Osaka,
        Self::Fukuoka,
        Self::Sapporo,
    ];

    /// Milliseconds of a round trip from Tokyo, to the west positive.
    const fn west_of_tokyo(self) -> i64 {
        match self {
            Self::Tokyo => 0,
            Self::Nagoya => 8,
            Self::Osaka => 15,
            Self::Fukuoka => 20,
            Self::Sapporo => -22,
        }
    }

    /// The time of a message one way.
    #[must_use]
    pub fn delay_to(self, other: Self) -> Duration {
        let round_trip = (self.west_of_tokyo() - other.west_of_tokyo()).unsigned_abs();
        Duration::from_millis(round_trip) / 2
    }

    /// The name in a configuration.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tokyo => "tokyo",
            Self::Nagoya => "nagoya",
            Self::Osaka => "osaka",
            Self::Fukuoka => "fukuoka",
            Self::Sapporo => "sapporo",
        }
    }
}

impl fmt::Display for City {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for City {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let city = Self::ALL.into_iter().find(|city| city.name() == name);
        city.ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("there is no city {name:?}; write one of {names}")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Paper: raft-pwal, table 2.
    #[test]
    fn round_trips_from_tokyo_are_the_papers() {
        let round_trips = City::ALL.map(|city| 2 * City::Tokyo.delay_to(city));
        let expected = [0, 8, 15, 20, 22].map(Duration::from_millis);
        assert_eq!(round_trips, expected);
    }

    #[test]
    fn a_way_is_as_long_in_both_directions() {
        for one in City::ALL {
            for other in City::ALL {
                assert_eq!(one.delay_to(other), other.delay_to(one));
            }
            assert_eq!(one.name().parse(), Ok(one));
        }
        assert!(
            "kyoto"
                .parse::<City>()
                .unwrap_err()
                .contains("write one of")
        );
    }
}
