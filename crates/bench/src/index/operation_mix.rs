//! The six operations and their frequencies.
//!
//! Paper: bwtree §5.1 d)

use std::fmt;
use std::str::FromStr;

use namiki_platform::seeded_random::Random;

/// An operation of the paper's benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Operation {
    /// Looks a key up.
    Read,
    /// Visits keys in ascending order, from a given key on.
    Scan,
    /// Sets a key's payload, adding the key if it is absent (the paper's upsert).
    Write,
    /// Adds a key if it is absent.
    Insert,
    /// Sets a key's payload if it is present.
    Update,
    /// Removes a key if it is present.
    Delete,
}

impl Operation {
    /// All operations, in the order in which a mix is printed.
    pub(crate) const ALL: [Self; 6] = [
        Self::Read,
        Self::Scan,
        Self::Write,
        Self::Insert,
        Self::Update,
        Self::Delete,
    ];

    /// Its name in a mix.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Scan => "scan",
            Self::Write => "write",
            Self::Insert => "insert",
            Self::Update => "update",
            Self::Delete => "delete",
        }
    }

    /// Whether it may leave its payload at its key.
    pub(crate) const fn leaves_payload(self) -> bool {
        matches!(self, Self::Write | Self::Insert | Self::Update)
    }
}

/// Percent of each operation; 100 in all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mix([u8; Operation::ALL.len()]);

impl Mix {
    /// The percentage of this operation.
    pub(crate) const fn percent(self, operation: Operation) -> u8 {
        self.0[operation as usize]
    }

    /// Whether the mix contains this operation.
    pub(crate) const fn has(self, operation: Operation) -> bool {
        self.percent(operation) > 0
    }

    /// The operations that the mix contains.
    pub(crate) fn operations(self) -> impl Iterator<Item = Operation> {
        let all = Operation::ALL.into_iter();
        all.filter(move |operation| self.has(*operation))
    }

    /// Draws operations with reads in batches of `batch`. A drawn read stands for a whole batch and
    /// is drawn proportionally less often, so that each operation keeps its share.
    pub(crate) fn draws(self, batch: u64) -> Draws {
        let mut ends = [0; Operation::ALL.len()];
        let mut end = 0;
        for operation in Operation::ALL {
            let percent = u64::from(self.percent(operation));
            end += match operation {
                Operation::Read => percent,
                _ => percent * batch,
            };
            ends[operation as usize] = end;
        }
        Draws { ends }
    }
}

/// Draws operations in the proportions of a mix.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Draws {
    /// Cumulative bounds: numbers below the first are reads, and so on; the last is the total.
    ends: [u64; Operation::ALL.len()],
}

impl Draws {
    /// The next operation; if it is a read, a whole batch of them.
    pub(crate) fn draw(&self, random: &mut Random) -> Operation {
        let last = Operation::ALL.len() - 1;
        let number = random.below(self.ends[last]);
        let at = self.ends.iter().position(|end| number < *end);
        Operation::ALL[at.unwrap_or(last)]
    }
}

impl FromStr for Mix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut percents = [None; Operation::ALL.len()];
        for part in text.split(',') {
            let Some((name, percent)) = part.split_once('=') else {
                return Err(format!(
                    "\"{part}\" is not an operation and its percentage, as in read=50,write=50"
                ));
            };
            let known = Operation::ALL.into_iter().find(|op| op.name() == name);
            let Some(operation) = known else {
                let names = Operation::ALL.map(Operation::name).join(", ");
                return Err(format!("no operation \"{name}\"; there are {names}"));
            };
            let percent: Option<u8> = percent.parse().ok().filter(|percent| *percent <= 100);
            let Some(percent) = percent else {
                return Err(format!("{part}: not a whole number from 0 to 100"));
            };
            if percents[operation as usize].replace(percent).is_some() {
                return Err(format!("{name} comes twice"));
            }
        }
        let percents = percents.map(|percent| percent.unwrap_or(0));
        match percents.iter().map(|percent| u32::from(*percent)).sum() {
            100 => Ok(Self(percents)),
            sum => Err(format!("the percentages make {sum}, not 100")),
        }
    }
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = self.operations();
        let parts = parts.map(|op| format!("{}={}", op.name(), self.percent(op)));
        f.pad(&parts.collect::<Vec<_>>().join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mix(text: &str) -> Mix {
        text.parse().unwrap()
    }

    #[test]
    fn a_mix_is_printed_as_it_is_parsed() {
        assert_eq!(mix("write=50,read=50").to_string(), "read=50,write=50");
        let all = "read=1,scan=2,write=3,insert=4,update=5,delete=85";
        assert_eq!(mix(all).to_string(), all);
        assert_eq!(mix("read=100,delete=0").to_string(), "read=100");
    }

    #[test]
    fn a_senseless_mix_is_refused_with_a_reason() {
        for (text, says) in [
            ("", "\"\" is not an operation"),
            ("read", "\"read\" is not"),
            ("read=50,", "\"\" is not"),
            ("reed=100", "no operation \"reed\""),
            ("read=x", "read=x: not a whole number"),
            ("read=-1", "not a whole number"),
            ("read=101", "not a whole number"),
            ("read=50.5,write=49.5", "not a whole number"),
            ("read=50,read=50", "read comes twice"),
            ("read=50,write=60", "make 110, not 100"),
            ("read=50,write=40", "make 90, not 100"),
            ("read=0", "make 0, not 100"),
        ] {
            let said = text.parse::<Mix>().unwrap_err();
            assert!(said.contains(says), "{text}: {said}");
        }
    }

    /// Each operation has its share of all operations, whatever the size of a batch.
    #[test]
    fn operations_come_as_often_as_the_mix_says() {
        for (text, batch) in [
            ("read=50,write=50", 1),
            ("read=50,write=50", 16),
            ("read=100", 8),
            ("scan=5,insert=20,update=30,delete=45", 4),
            ("read=1,scan=2,write=3,insert=4,update=5,delete=85", 3),
        ] {
            let mix = mix(text);
            let draws = mix.draws(batch);
            let mut random = Random::seeded(1);
            let mut counts = [0_u64; 6];
            for _ in 0..200_000 {
                let operation = draws.draw(&mut random);
                let reads = operation == Operation::Read;
                counts[operation as usize] += if reads { batch } else { 1 };
            }
            let all: u64 = counts.iter().sum();
            for operation in Operation::ALL {
                let percent = 100.0 * counts[operation as usize] as f64 / all as f64;
                let expected = f64::from(mix.percent(operation));
                assert!(
                    (percent - expected).abs() < 0.7,
                    "{text} by {batch}: {percent} % of {operation:?}"
                );
            }
        }
    }
}
