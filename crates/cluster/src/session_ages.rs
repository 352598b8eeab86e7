//! How long ago sessions were used, as far as this node has seen.
//!
//! Entries have no times. So each node notes now and then through which entry it has applied the log: a session has not
//! been used since a note if its last entry is not behind that of the note. All nodes note, so a change of the leader forgets nothing; a restart
//! does. Time is counted in ticks: while the process does not run, no session gets older.
//!
//! ```text
//!   note at tick 0: entry 70     at tick 2400: entry 90     now: tick 3000
//!   a session used by entry 80 is known to be unused for 600 ticks, one used by entry 60 for 3000
//! ```

use std::collections::VecDeque;
use std::time::Duration;

/// Time between two notes, at first.
const INTERVAL: Duration = Duration::from_secs(60);
/// Notes that are kept. With more, every second one goes, and the interval doubles.
const NOTES_MAX: usize = 1024;

/// The entries that were applied at some times.
#[derive(Debug)]
pub(crate) struct SessionAges {
    tick: Duration,
    ticks: u64,
    /// Ticks between two notes.
    interval: u64,
    notes: VecDeque<Note>,
}

#[derive(Clone, Copy, Debug)]
struct Note {
    tick: u64,
    applied: u64,
}

impl SessionAges {
    /// No notes yet. `tick`: the time between two calls of [`SessionAges::tick`].
    pub(crate) fn new(tick: Duration) -> Self {
        let ticks = INTERVAL.as_nanos() / tick.as_nanos().max(1);
        Self {
            tick,
            ticks: 0,
            interval: u64::try_from(ticks).unwrap_or(u64::MAX).max(1),
            notes: VecDeque::new(),
        }
    }

    /// Time has passed, and the log is applied through this entry. Returns whether an interval has ended.
    pub(crate) fn tick(&mut self, applied: u64) -> bool {
        let is_due = self.ticks.is_multiple_of(self.interval);
        // An earlier note with the same entry says more.
        if is_due && self.notes.back().is_none_or(|it| it.applied != applied) {
            if self.notes.len() >= NOTES_MAX {
                let mut keeps = false;
                self.notes.retain(|_| {
                    keeps = !keeps;
                    keeps
                });
                self.interval = self.interval.saturating_mul(2);
            }
            let tick = self.ticks;
            self.notes.push_back(Note { tick, applied });
        }
        self.ticks += 1;
        is_due
    }

    /// The time for which a session with this last entry is known to be unused.
    pub(crate) fn unused_for(&self, used: u64) -> Duration {
        let at = self.notes.partition_point(|it| it.applied < used);
        let ticks = self.notes.get(at).map_or(0, |it| self.ticks - it.tick);
        let nanos = self.tick.as_nanos().saturating_mul(ticks.into());
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// An entry: sessions with a last entry that is not behind it are known to be unused for this time. `None`: there are none.
    pub(crate) fn applied_before(&self, time: Duration) -> Option<u64> {
        let ticks = time.as_nanos().div_ceil(self.tick.as_nanos().max(1));
        let tick = self.ticks.checked_sub(u64::try_from(ticks).ok()?)?;
        let at = self.notes.partition_point(|it| it.tick <= tick);
        self.notes.get(at.checked_sub(1)?).map(|it| it.applied)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pass(ages: &mut SessionAges, minutes: u64, applied: u64) {
        for _ in 0..minutes * 60 {
            ages.tick(applied);
        }
    }

    #[test]
    fn a_session_gets_old_from_the_first_note_behind_it() {
        let mut ages = SessionAges::new(Duration::from_secs(1));
        assert_eq!(ages.unused_for(0), Duration::ZERO);
        assert_eq!(ages.applied_before(Duration::ZERO), None);
        pass(&mut ages, 1, 70);
        pass(&mut ages, 4, 90);
        // Notes: at second 0 with entry 70, at 60 with 90.
        assert_eq!(ages.unused_for(60), Duration::from_secs(300));
        assert_eq!(ages.unused_for(70), Duration::from_secs(300));
        assert_eq!(ages.unused_for(80), Duration::from_secs(240));
        assert_eq!(ages.unused_for(91), Duration::ZERO);
        let before = |seconds| ages.applied_before(Duration::from_secs(seconds));
        assert_eq!(before(301), None);
        assert_eq!([before(300), before(241)], [Some(70), Some(70)]);
        assert_eq!([before(240), before(0)], [Some(90), Some(90)]);
    }

    /// Seventy days with an entry in each minute.
    #[test]
    fn notes_are_bounded_and_never_make_a_session_older() {
        let mut ages = SessionAges::new(Duration::from_secs(60));
        let minutes = 100_000;
        for minute in 0..minutes {
            ages.tick(minute);
        }
        assert!(ages.notes.len() <= NOTES_MAX);
        for used in (1..minutes).step_by(997) {
            let real = Duration::from_secs(60 * (minutes - used));
            let known = ages.unused_for(used);
            assert!(known <= real, "{used}");
            assert!(known + Duration::from_secs(60 * 512) > real, "{used}");
            if let Some(entry) = ages.applied_before(known) {
                assert!(entry >= used, "{used}");
            }
        }
    }
}
