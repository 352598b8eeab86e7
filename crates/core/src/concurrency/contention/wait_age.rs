//! The wait age of wound-wait, which is kept over retries: it ranks transactions that wait for
//! locks.

use super::policy::BOOST_AFTER_WOUNDS;

/// The order of wounding: lower values go first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank {
    class: Class,
    age: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    /// Was wounded too often, or has waited for too long.
    Boosted,
    /// Has taken its locks in order.
    Ordered,
    Other,
}

impl Rank {
    /// Whether a waiter of this rank wounds one of that.
    pub(crate) fn wounds(self, other: Self) -> bool {
        let both_ordered = self.class == Class::Ordered && other.class == Class::Ordered;
        self < other && !both_ordered
    }

    pub(crate) fn is_boosted(self) -> bool {
        self.class == Class::Boosted
    }

    pub(crate) fn boost(&mut self) {
        self.class = Class::Boosted;
    }
}

/// A transaction's rank among all that have ever had to wait. It is kept from one attempt to the next.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WaitAge {
    age: Option<u64>,
    wounds: u32,
}

impl WaitAge {
    /// Its rank in a wait; `ordered` if it has taken all its locks in the one order of all records.
    pub(crate) fn rank(&mut self, ordered: bool, ages: &mut Ages) -> Rank {
        Rank {
            class: match (self.wounds >= BOOST_AFTER_WOUNDS, ordered) {
                (true, _) => Class::Boosted,
                (false, true) => Class::Ordered,
                (false, false) => Class::Other,
            },
            age: *self.age.get_or_insert_with(|| ages.draw()),
        }
    }

    /// Whether it was ever ranked. Nothing else changes before.
    #[inline(always)]
    pub(crate) fn has_waited(&self) -> bool {
        self.age.is_some()
    }

    pub(crate) fn note_wound(&mut self) {
        self.wounds += 1;
    }

    /// It is boosted from now on, in its retries, too.
    pub(crate) fn boost(&mut self) {
        self.wounds = self.wounds.max(BOOST_AFTER_WOUNDS);
    }
}

/// The ages that were drawn. Only a waiter draws one, so this is no counter that all commits share.
#[derive(Default)]
pub(crate) struct Ages {
    drawn: u64,
}

impl Ages {
    fn draw(&mut self) -> u64 {
        self.drawn += 1;
        self.drawn
    }
}
