//! Linearizability checker: a key's history is linearizable if each operation can be assigned one
//! instant between its begin and its end, so that every answer is right in the order of these
//! instants.
//!
//! This is the search of Wing and Gong with the memory of Lowe: as time passes we keep the set of all
//! *configurations* (the payload that the key holds, and which of the operations under way have taken
//! effect) that some order leads to. An operation is made to take effect no sooner than another one's
//! end demands it, and one configuration is never explored twice for the same end. Few operations are
//! under way at a time, so the whole is nearly linear in the length of the history.
//!
//! Histories of different keys are checked apart: linearizability is local.
//!
//! Papers: Wing and Gong, *Testing and verifying concurrent objects* (1993); Lowe, *Testing for
//! linearizability* (2017), §4 just-in-time linearization; Herlihy and Wing (1990), theorem 1

use std::collections::{BTreeSet, HashSet};
use std::fmt;

use super::history::{Held, Operation};

/// Number of earlier operations that a contradiction shows.
const SHOWN_BEFORE: usize = 12;
/// Number of later operations that it shows.
const SHOWN_AFTER: usize = 4;

/// The operation with an answer that no order explains.
#[derive(Debug)]
pub(super) struct Contradiction {
    /// Its end was reached in no order.
    pub(super) operation: Operation,
    /// What the key could hold before it and those that overlap its end.
    held: BTreeSet<Option<u64>>,
    /// Operations that overlap it, and some before and after, in the order of their begins.
    around: Vec<Operation>,
}

impl fmt::Display for Contradiction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "not linearizable, no order explains")?;
        writeln!(f, "  {}", self.operation)?;
        write!(f, "Before the operations under way at its end the key held")?;
        for (i, held) in self.held.iter().enumerate() {
            let or = if i == 0 { "" } else { " or" };
            write!(f, "{or} {}", Held(*held))?;
        }
        writeln!(f, ". Around it:")?;
        for operation in &self.around {
            let mark = if *operation == self.operation {
                '>'
            } else {
                ' '
            };
            writeln!(f, "{mark} {operation}")?;
        }
        Ok(())
    }
}

/// Checks all operations on one key that was absent before them, in any order.
///
/// # Errors
/// The first end, in time, that no order of the operations so far explains.
///
/// # Panics
/// If more than 64 operations are under way at once.
pub(super) fn check(history: &[Operation]) -> Result<(), Box<Contradiction>> {
    let mut search = Search::new(history);
    for (_, event, operation) in events(history) {
        match event {
            Event::Begin => search.begin(operation),
            Event::End => search.end(operation)?,
        }
    }
    Ok(())
}

// At the same time, which a clock that counts does not show, they overlap.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Begin,
    End,
}

/// Begins and ends of operations, by their places in the history, as time passes.
fn events(history: &[Operation]) -> Vec<(u64, Event, usize)> {
    let mut events = Vec::with_capacity(2 * history.len());
    for (i, operation) in history.iter().enumerate() {
        events.push((operation.begun, Event::Begin, i));
        events.push((operation.ended, Event::End, i));
    }
    events.sort_unstable();
    events
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Configuration {
    /// The key's payload.
    held: Option<u64>,
    /// One bit for each operation under way: it has taken effect.
    done: u64,
}

struct Search<'a> {
    history: &'a [Operation],
    /// The operations under way. A place is one bit of [`Configuration::done`].
    under_way: Vec<Option<usize>>,
    configurations: HashSet<Configuration>,
}

impl<'a> Search<'a> {
    fn new(history: &'a [Operation]) -> Self {
        let start = Configuration {
            held: None,
            done: 0,
        };
        Self {
            history,
            under_way: Vec::new(),
            configurations: HashSet::from([start]),
        }
    }

    fn begin(&mut self, operation: usize) {
        match self.under_way.iter().position(Option::is_none) {
            Some(free) => self.under_way[free] = Some(operation),
            None => self.under_way.push(Some(operation)),
        }
        assert!(self.under_way.len() <= 64, "too many operations at once");
    }

    /// Keeps what is left if the operation must have taken effect by now.
    fn end(&mut self, operation: usize) -> Result<(), Box<Contradiction>> {
        let place = self.under_way.iter().position(|o| *o == Some(operation));
        let Some(place) = place else {
            unreachable!("an end without a begin")
        };
        let mut to_explore: Vec<_> = self.configurations.iter().copied().collect();
        let mut met = self.configurations.clone();
        let mut kept = HashSet::new();
        while let Some(configuration) = to_explore.pop() {
            if configuration.done & 1 << place != 0 {
                kept.insert(Configuration {
                    done: configuration.done & !(1 << place),
                    ..configuration
                });
                continue;
            }
            to_explore.extend(self.steps(configuration).filter(|next| met.insert(*next)));
        }
        if kept.is_empty() {
            return Err(Box::new(self.contradiction(operation)));
        }
        self.configurations = kept;
        self.under_way[place] = None;
        Ok(())
    }

    /// The configurations reached if one more operation takes effect.
    fn steps(&self, from: Configuration) -> impl Iterator<Item = Configuration> {
        let under_way = self.under_way.iter().enumerate();
        under_way.filter_map(move |(place, operation)| {
            let pending = operation.filter(|_| from.done & 1 << place == 0)?;
            let held = self.history[pending].action.apply(from.held)?;
            let done = from.done | 1 << place;
            Some(Configuration { held, done })
        })
    }

    fn contradiction(&self, operation: usize) -> Contradiction {
        let operation = self.history[operation];
        let mut sorted = self.history.to_vec();
        sorted.sort_unstable_by_key(|other| other.begun);
        let (mut before, other): (Vec<_>, Vec<_>) = sorted
            .into_iter()
            .partition(|other| other.ended < operation.begun);
        let (overlapping, after): (Vec<_>, Vec<_>) = other
            .into_iter()
            .partition(|other| other.begun < operation.ended);
        let mut around = before.split_off(before.len().saturating_sub(SHOWN_BEFORE));
        around.extend(overlapping);
        around.extend(after.into_iter().take(SHOWN_AFTER));
        Contradiction {
            operation,
            held: self.configurations.iter().map(|c| c.held).collect(),
            around,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::history::Action;
    use super::super::key_shapes::Random;
    use super::*;

    const fn at(begun: u64, ended: u64, action: Action) -> Operation {
        Operation {
            begun,
            ended,
            thread: 0,
            action,
        }
    }

    const fn read(found: Option<u64>) -> Action {
        Action::Read { found }
    }

    const fn insert(payload: u64, found: Option<u64>) -> Action {
        Action::Insert { payload, found }
    }

    const fn write(payload: u64, found: Option<u64>) -> Action {
        Action::Write { payload, found }
    }

    const fn delete(found: Option<u64>) -> Action {
        Action::Delete { found }
    }

    /// The place of the operation that no order explains.
    fn rejected(history: &[Operation]) -> Option<usize> {
        let contradiction = check(history).err()?;
        history.iter().position(|o| *o == contradiction.operation)
    }

    #[test]
    fn answers_in_order_are_accepted() {
        let history = [
            at(1, 2, read(None)),
            at(3, 4, insert(10, None)),
            at(5, 6, insert(11, Some(10))),
            at(7, 8, write(12, Some(10))),
            at(
                9,
                10,
                Action::RemoveIf {
                    expected: 10,
                    removed: false,
                },
            ),
            at(
                11,
                12,
                Action::Update {
                    payload: 13,
                    found: Some(12),
                },
            ),
            at(13, 14, read(Some(13))),
            at(
                15,
                16,
                Action::RemoveIf {
                    expected: 13,
                    removed: true,
                },
            ),
            at(
                17,
                18,
                Action::Update {
                    payload: 14,
                    found: None,
                },
            ),
            at(19, 20, delete(None)),
            at(21, 22, read(None)),
        ];
        assert_eq!(rejected(&history), None);
    }

    #[test]
    fn each_overlapping_order_is_accepted() {
        // Two writes at once, and readers of either, of both, and of what was before.
        for (first, second) in [(10, 11), (11, 10)] {
            let history = [
                at(1, 20, write(first, None)),
                at(2, 19, write(second, Some(first))),
                at(3, 18, read(None)),
                at(4, 5, read(Some(first))),
                at(6, 7, read(Some(second))),
                at(21, 22, read(Some(second))),
            ];
            assert_eq!(rejected(&history), None);
        }
        // Inserted and deleted while the other waited, which then inserts as well.
        let history = [
            at(1, 10, insert(10, None)),
            at(2, 9, insert(11, None)),
            at(3, 8, delete(Some(11))),
            at(11, 12, read(Some(10))),
        ];
        assert_eq!(rejected(&history), None);
    }

    #[test]
    fn a_stale_read_is_rejected() {
        let history = [
            at(1, 2, insert(10, None)),
            at(3, 4, write(11, Some(10))),
            at(5, 6, read(Some(10))),
        ];
        assert_eq!(rejected(&history), Some(2));
        // Also where the write is still under way, but a reader has seen it.
        let history = [
            at(1, 2, insert(10, None)),
            at(3, 9, write(11, Some(10))),
            at(4, 5, read(Some(11))),
            at(6, 7, read(Some(10))),
        ];
        assert_eq!(rejected(&history), Some(3));
    }

    #[test]
    fn a_read_that_misses_a_key_present_throughout_is_rejected() {
        let history = [
            at(1, 2, insert(10, None)),
            at(3, 8, write(11, Some(10))),
            at(4, 7, read(None)),
            at(9, 10, delete(Some(11))),
        ];
        assert_eq!(rejected(&history), Some(2));
    }

    #[test]
    fn a_second_successful_insert_is_rejected() {
        let history = [at(1, 4, insert(10, None)), at(2, 3, insert(11, None))];
        assert_eq!(rejected(&history), Some(0));
    }

    #[test]
    fn an_insert_that_finds_what_was_never_there_is_rejected() {
        let history = [at(1, 4, insert(10, None)), at(2, 3, insert(11, Some(12)))];
        assert_eq!(rejected(&history), Some(1));
    }

    #[test]
    fn a_delete_that_misses_a_key_present_throughout_is_rejected() {
        let history = [
            at(1, 2, insert(10, None)),
            at(3, 6, delete(None)),
            at(4, 5, write(11, Some(10))),
        ];
        assert_eq!(rejected(&history), Some(1));
        let conditional = Action::RemoveIf {
            expected: 10,
            removed: false,
        };
        let history = [at(1, 2, insert(10, None)), at(3, 4, conditional)];
        assert_eq!(rejected(&history), Some(1));
    }

    #[test]
    fn one_of_two_deletes_of_one_insert_is_rejected() {
        let history = [
            at(1, 2, insert(10, None)),
            at(3, 6, delete(Some(10))),
            at(4, 5, delete(Some(10))),
        ];
        assert_eq!(rejected(&history), Some(1));
    }

    #[test]
    fn a_lost_update_is_rejected() {
        // Both replaced the same payload.
        let history = [
            at(1, 2, insert(10, None)),
            at(3, 6, write(11, Some(10))),
            at(4, 5, write(12, Some(10))),
        ];
        assert_eq!(rejected(&history), Some(1));
        // It was never replaced, and it is gone.
        let history = [
            at(1, 2, insert(10, None)),
            at(3, 6, write(11, Some(10))),
            at(4, 5, write(12, Some(11))),
            at(7, 8, read(Some(11))),
        ];
        assert_eq!(rejected(&history), Some(3));
    }

    #[test]
    fn a_contradiction_shows_what_was_around_it() {
        let mut history: Vec<Operation> = (1..100)
            .map(|n| at(10 * n, 10 * n + 5, write(n, (n > 1).then_some(n - 1))))
            .collect();
        history.push(at(502, 503, read(Some(48))));
        let Err(contradiction) = check(&history) else {
            panic!("accepted")
        };
        let message = contradiction.to_string();
        assert!(message.contains("held 49. Around it"), "{message}");
        assert!(
            message.contains(">      502 to      503, thread 0: read: 48"),
            "{message}"
        );
        assert!(message.contains("write 49: was 48"), "{message}");
        assert!(message.contains("write 50: was 49"), "{message}");
        assert!(message.lines().count() < 25, "{message}");
    }

    /// Whether any order of all operations is right, by trying them all.
    fn some_order_is_right(
        history: &[Operation],
        left: &mut Vec<usize>,
        held: Option<u64>,
    ) -> bool {
        if left.is_empty() {
            return true;
        }
        let first_end = left.iter().map(|i| history[*i].ended).min();
        for turn in 0..left.len() {
            let next = left.remove(turn);
            let operation = history[next];
            let after = operation.action.apply(held);
            let right = Some(operation.begun) <= first_end
                && after.is_some_and(|held| some_order_is_right(history, left, held));
            left.insert(turn, next);
            if right {
                return true;
            }
        }
        false
    }

    fn any_action(random: &mut Random) -> Action {
        let payload = 10 + random.below(2);
        let found = random.chance(1, 2).then_some(10 + random.below(2));
        match random.below(6) {
            0 => insert(payload, found),
            1 => write(payload, found),
            2 => Action::Update { payload, found },
            3 => delete(found),
            4 => Action::RemoveIf {
                expected: payload,
                removed: random.chance(1, 2),
            },
            _ => read(found),
        }
    }

    #[test]
    fn the_verdict_is_that_of_trying_all_orders() {
        let mut random = Random::new(1);
        let mut accepted = 0;
        for round in 0..20_000 {
            let mut clock: Vec<u64> = (0..10).collect();
            let mut draw = || clock.remove(random.below(clock.len() as u64) as usize);
            let times: [(u64, u64); 5] = std::array::from_fn(|_| (draw(), draw()));
            let history = times.map(|(a, b)| at(a.min(b), a.max(b), any_action(&mut random)));
            let expected = some_order_is_right(&history, &mut (0..5).collect(), None);
            assert_eq!(
                check(&history).is_ok(),
                expected,
                "round {round}: {history:?}"
            );
            accepted += u32::from(expected);
        }
        assert!((100..19_900).contains(&accepted), "{accepted}");
    }
}
