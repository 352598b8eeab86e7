//! Checks of what clients are told.

use namiki_client::protocol::{Command, Outcome, ScanRange, Scanned, SessionId};

use super::checks::Checks;
use super::client::{Answer, Answered};
use super::model::{RowValue, tables_of};

impl Checks {
    /// Checks an answer to a client.
    pub(super) fn answered(&mut self, answered: Answered) -> Result<(), String> {
        let Answered { floor, answer } = answered;
        let seen = match answer {
            Answer::Group {
                session,
                group,
                commands,
                outcomes,
                lsn,
            } => {
                if commands.len() != outcomes.len() {
                    return Err(format!("group {group} has {} outcomes", outcomes.len()));
                }
                let mut last = 0;
                for ((index, command), outcome) in (0..).zip(&commands).zip(outcomes) {
                    let id = (session, group, index);
                    let at = self.acknowledged(id, command, outcome, floor)?;
                    if at > lsn {
                        return Err(format!(
                            "{id:?} is in entry {at}, its client was told {lsn}"
                        ));
                    }
                    last = last.max(at);
                }
                self.acknowledged += commands.len();
                last
            }
            Answer::Fate {
                session,
                group,
                outcomes,
                is_given_up,
            } => {
                self.fate(session, group, outcomes.as_deref(), is_given_up)?;
                0
            }
            Answer::Rows { lsn, rows } => {
                self.rows_read(lsn, &rows)?;
                self.reads += 1;
                self.has_seen(lsn, floor)?
            }
            Answer::Scanned { range, scanned } => {
                self.scanned(&range, &scanned)?;
                self.scans += 1;
                self.has_seen(scanned.lsn, floor)?
            }
            Answer::Tables { lsn, tables } => {
                let expected = self.model.tables_at(lsn);
                if tables != expected {
                    return Err(format!(
                        "the tables after entry {lsn} were read as {tables:?}, they are {expected:?}"
                    ));
                }
                self.has_seen(lsn, floor)?
            }
            Answer::Created { lsn, name, table } => {
                let known = self.model.number_at(&name, lsn);
                if known != Some(table) {
                    return Err(format!(
                        "table {name} has the number {known:?} after entry {lsn}, a client was told {table}"
                    ));
                }
                self.has_seen(lsn, floor)?
            }
            Answer::Dropped {
                lsn,
                table,
                existed,
            } => {
                let known = self.model.dropped_at(table);
                if !known.is_some_and(|at| at <= lsn && existed == (at == lsn)) {
                    return Err(format!(
                        "table {table} was dropped by entry {known:?}, a client was told {existed} after {lsn}"
                    ));
                }
                self.has_seen(lsn, floor)?
            }
            Answer::NoSuchTable { tables } => {
                let may_miss = |table: &u32| self.model.may_miss(*table, floor, self.applied());
                if !tables.iter().any(may_miss) {
                    return Err(format!(
                        "a read of {tables:?} was refused, begun when {floor} was done"
                    ));
                }
                0
            }
        };
        self.seen_lsn = self.seen_lsn.max(seen);
        Ok(())
    }

    fn has_seen(&self, lsn: u64, floor: u64) -> Result<u64, String> {
        if lsn < floor {
            return Err(format!(
                "an answer is from entry {lsn}, begun when {floor} was done"
            ));
        }
        Ok(lsn)
    }

    /// Checks a command that was begun when `floor` was done. Returns its entry.
    fn acknowledged(
        &self,
        id: (SessionId, u64, u32),
        command: &Command,
        outcome: Outcome,
        floor: u64,
    ) -> Result<u64, String> {
        let Some((lsn, applied)) = self.commands.get(&id).copied() else {
            return Err(format!("{id:?} was acknowledged and is not committed"));
        };
        if applied != outcome {
            return Err(format!(
                "{id:?} is {applied:?}, its client was told {outcome:?}"
            ));
        }
        if lsn <= floor {
            return Err(format!(
                "{id:?} is in entry {lsn}, begun when {floor} was done"
            ));
        }
        let tables = tables_of(command);
        let is_dropped = |table: &u32| {
            let dropped = self.model.dropped_at(*table);
            dropped.is_some_and(|at| at <= floor)
        };
        let is_possible = match outcome {
            Outcome::NoSuchTable => {
                let may_miss = |table: &u32| self.model.may_miss(*table, floor, lsn);
                tables.iter().any(may_miss)
            }
            Outcome::ConditionFailed => self.model.may_fail(command, floor, lsn),
            Outcome::Invalid => false,
            _ => !tables.iter().any(is_dropped),
        };
        if !is_possible {
            return Err(format!(
                "{id:?}, {command:?}, begun when {floor} was done, is {outcome:?} in entry {lsn}"
            ));
        }
        Ok(lsn)
    }

    fn fate(
        &mut self,
        session: SessionId,
        group: u64,
        outcomes: Option<&[Option<Outcome>]>,
        is_given_up: bool,
    ) -> Result<(), String> {
        self.fates += 1;
        // Another holder has acknowledged them, perhaps without knowing of them.
        let Some(outcomes) = outcomes else {
            return Ok(());
        };
        let commands = self.sent.get(&(session, group)).map_or(0, Vec::len);
        for index in 0..commands as u32 {
            let id = (session, group, index);
            let known = self.commands.get(&id).map(|(_, outcome)| *outcome);
            let told = outcomes.get(index as usize).copied().flatten();
            if told != known {
                return Err(format!(
                    "{id:?} is {known:?}, the next holder was told {told:?}"
                ));
            }
            if told.is_none() && is_given_up {
                self.given_up.insert(id);
            }
        }
        Ok(())
    }

    fn rows_read(&self, lsn: u64, rows: &[((u32, Vec<u8>), RowValue)]) -> Result<(), String> {
        for ((table, key), value) in rows {
            let expected = self.model.row(*table, key, lsn)?;
            if value.as_deref() != expected {
                return Err(format!(
                    "row {key:?} of table {table} was read as {value:?} after entry {lsn}, it has {expected:?}"
                ));
            }
        }
        Ok(())
    }

    /// A scan is the state after its entry, as far as it goes.
    fn scanned(&self, range: &ScanRange, scanned: &Scanned) -> Result<(), String> {
        let mut rows = self.model.range(range, scanned.lsn)?;
        let all = rows.len();
        let returned = match range.rows_max {
            // They are counted alone.
            0 => 0,
            most => all.min(most as usize),
        };
        rows.truncate(returned);
        let expected = Scanned {
            count: if range.rows_max == 0 { all } else { returned } as u64,
            has_more: range.rows_max > 0 && returned < all,
            rows,
            lsn: scanned.lsn,
        };
        if *scanned != expected {
            return Err(format!(
                "{range:?} was read as {scanned:?}, it is {expected:?}"
            ));
        }
        Ok(())
    }
}
