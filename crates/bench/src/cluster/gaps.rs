//! Gaps between acknowledgements around faults.

use std::time::{Duration, Instant};

/// A fault explains gaps for this long.
const NEAR: Duration = Duration::from_secs(5);
/// Shorter gaps are normal.
const SHORTEST: Duration = Duration::from_millis(5);

/// The long gaps between acknowledgements.
#[derive(Debug)]
pub(super) struct Gaps {
    last: Instant,
    gaps: Vec<(Instant, Instant)>,
}

impl Gaps {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            last: now,
            gaps: Vec::new(),
        }
    }

    /// Records an acknowledgement.
    pub(super) fn acknowledged(&mut self, now: Instant) {
        if now.saturating_duration_since(self.last) >= SHORTEST {
            self.gaps.push((self.last, now));
        }
        self.last = now;
    }

    /// The longest gap in a part of the run that is not near one of these moments.
    pub(super) fn longest(&self, (from, to): (Instant, Instant), faults: &[Instant]) -> Duration {
        let is_near = |(begin, end): &&(Instant, Instant)| {
            let mut faults = faults.iter();
            faults.any(|at| end > at && *begin < *at + NEAR)
        };
        let within = self
            .gaps
            .iter()
            .filter(|(begin, end)| *begin >= from && *end <= to);
        let gaps = within.filter(|gap| !is_near(gap));
        gaps.map(|(begin, end)| *end - *begin)
            .max()
            .unwrap_or_default()
    }

    /// For each fault, the longest gap that ended after it and began before the next one, if there
    /// is one. A gap is the time from the last acknowledgement before to the first after.
    pub(super) fn around(&self, faults: &[Instant]) -> Vec<Option<Duration>> {
        let nexts = faults.iter().skip(1).map(Some).chain([None]);
        let longest = |fault: &Instant, next: Option<&Instant>| {
            let gaps = self.gaps.iter();
            let around =
                gaps.filter(|(begin, end)| end > fault && next.is_none_or(|next| begin < next));
            around.map(|(begin, end)| *end - *begin).max()
        };
        faults
            .iter()
            .zip(nexts)
            .map(|(fault, next)| longest(fault, next))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fault_has_its_longest_gap() {
        let begin = Instant::now();
        let ms = |ms| begin + Duration::from_millis(ms);
        let mut gaps = Gaps::new(begin);
        // Faults at 100 and at 1000.
        for at in [1, 90, 101, 420, 440, 999, 1001, 1700] {
            gaps.acknowledged(ms(at));
        }
        let around = gaps.around(&[ms(100), ms(1000)]);
        assert_eq!(around, [559, 699].map(|ms| Some(Duration::from_millis(ms))));
        assert!(gaps.around(&[]).is_empty());
        let all = (begin, ms(2000));
        assert_eq!(gaps.longest(all, &[]), Duration::from_millis(699));
        assert_eq!(
            gaps.longest((begin, ms(1000)), &[]),
            Duration::from_millis(559)
        );
        assert_eq!(gaps.longest(all, &[ms(50)]), Duration::ZERO);
    }
}
