//! Checks a store against the threads' transactions.
//!
//! - Blind updates: a written record holds the last write of one of its writers.
//! - Reads with updates: every record was incremented exactly as often as it was updated.
//! - No writes: every record has its loaded value.
//!
//! For a store that overwrites old data, only the remaining records are checked.

use super::workload::KvWorkload;
use crate::error::BenchError;
use crate::txn::expected_sums::tally;
use crate::txn::last_writes::{Wrong, first_wrong};
use crate::txn::record_payload::Payload;
use crate::txn::thread_commits::Done;
use crate::txn::workload::tag;

/// The transactions of a run, which determine the expected values.
pub(crate) struct Expected<'a> {
    pub(crate) workload: KvWorkload,
    pub(crate) value_bytes: u16,
    pub(crate) threads: &'a [Done],
    /// Whether the store may lack records.
    pub(crate) forgets: bool,
}

impl Expected<'_> {
    /// Compares the values found with the threads' transactions.
    pub(crate) fn check(&self, found: &[Option<Payload>]) -> Result<(), BenchError> {
        let tags = self.tags(found)?;
        let drawn = self.workload.drawn();
        if self.workload == KvWorkload::U5r5 {
            let before = (0..tags.len() as u64).collect();
            let due = tally(drawn, self.threads, before);
            same(&due, &tags, "should be")?;
        } else if let Some((key, wrong)) = first_wrong(drawn, self.threads, &tags, |key| key) {
            let holds = tags[key as usize];
            return failed(match wrong {
                Wrong::NeverWritten => {
                    format!("record {key} holds {holds:#x}: it was never written")
                }
                Wrong::NobodysLast => {
                    format!("record {key} holds {holds:#x}: no thread's last write there")
                }
            });
        }
        Ok(())
    }

    /// Compares the values found in a reopened store with those before. A store that overwrites old
    /// data must not lose more by being reopened.
    pub(crate) fn check_again(
        &self,
        before: &[Option<Payload>],
        found: &[Option<Payload>],
    ) -> Result<(), BenchError> {
        let mut both = (0..).zip(before.iter().zip(found));
        if let Some((key, _)) =
            both.find(|(_, (before, found))| before.is_some() && found.is_none())
        {
            return failed(format!("record {key} is missing after it was opened again"));
        }
        let (before, found) = (self.tags(before)?, self.tags(found)?);
        same(&before, &found, "before it was opened again")
    }

    fn tags(&self, found: &[Option<Payload>]) -> Result<Vec<u64>, BenchError> {
        let forgotten = if self.forgets && found.contains(&None) {
            self.last_tags(found.len())
        } else {
            Vec::new()
        };
        let tag = |(key, payload): (u64, &Option<Payload>)| match payload {
            None if self.forgets => Ok(forgotten[key as usize]),
            None => failed(format!("record {key} is missing")),
            Some(Payload { bytes, .. }) if *bytes != self.value_bytes => {
                failed(format!("the value of record {key} has {bytes} bytes"))
            }
            Some(Payload { tag, .. }) => Ok(*tag),
        };
        (0..).zip(found).map(tag).collect()
    }

    /// For each record, one tag that it may hold after blind writes in unknown order.
    fn last_tags(&self, records: usize) -> Vec<u64> {
        let mut tags: Vec<u64> = (0..records as u64).collect();
        for done in self.threads {
            for number in done.last_round() {
                for key in done.ring.writes(self.workload.drawn(), number) {
                    tags[key] = tag(done.thread, number);
                }
            }
        }
        tags
    }
}

fn same(due: &[u64], found: &[u64], when: &str) -> Result<(), BenchError> {
    let mut records = (0..).zip(due.iter().zip(found));
    match records.find(|(_, (due, found))| due != found) {
        None => Ok(()),
        Some((key, (due, found))) => {
            failed(format!("record {key} holds {found:#x}, {when} {due:#x}"))
        }
    }
}

fn failed<T>(what: String) -> Result<T, BenchError> {
    Err(BenchError::Check(what))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The value filled in for an overwritten record is the expected one, so a lost record would
    /// look right.
    #[test]
    fn a_record_lost_at_opening_is_missed() {
        for forgets in [false, true] {
            let expected = Expected {
                workload: KvWorkload::U1,
                value_bytes: 20,
                threads: &[],
                forgets,
            };
            let payload = |tag| Some(Payload { tag, bytes: 20 });
            let before = [payload(0), payload(1)];
            assert!(expected.check(&before).is_ok());
            assert!(expected.check_again(&before, &before).is_ok());
            assert!(expected.check_again(&before, &[payload(0), None]).is_err());
            assert!(
                expected
                    .check_again(&before, &[payload(0), payload(7)])
                    .is_err()
            );
            let half = [payload(0), None];
            assert_eq!(expected.check_again(&half, &half).is_ok(), forgets);
        }
    }
}
