//! Waits for locks under strict two-phase locking: which policy is asked for.
//!
//! Paper: pwal §5.4

use clap::ValueEnum;
use namiki::WaitPolicy;

/// What a transaction does when it wants a lock that another one has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Waiting {
    /// It waits, unless the other one is younger and waits, too: then that gives way.
    WoundWait,
    /// It aborts at once.
    NoWait,
}

impl Waiting {
    /// The engine's word for it.
    pub(crate) fn policy(self) -> WaitPolicy {
        match self {
            Self::WoundWait => WaitPolicy::WoundWait,
            Self::NoWait => WaitPolicy::NoWait,
        }
    }

    /// The flag's word for it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::WoundWait => "wound-wait",
            Self::NoWait => "no-wait",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_named_as_on_the_command_line_and_the_first_is_the_engines() {
        for waiting in Waiting::value_variants() {
            let flag = waiting.to_possible_value().unwrap();
            assert_eq!(flag.get_name(), waiting.name());
        }
        assert_eq!(Waiting::WoundWait.policy(), WaitPolicy::default());
        assert_eq!(Waiting::NoWait.policy(), WaitPolicy::NoWait);
    }
}
