//! Checks of what clients are told.

use namiki_client::protocol::{Command, Outcome, ScanRange, Scanned, SessionId};

use super::checks::Checks;
use super::client::{Answer, Answered, Floor};
use super::model::{balance, tables_of};
use super::value_chain::RowValue;

impl Checks {
    /// Checks an answer to a client.
    pub(super) fn answered(&mut self, answered: Answered) -> Result<(), String> {
        let Answered { floor, answer } = answered;
        let is_change = matches!(
            answer,
            Answer::Group { .. } | Answer::Created { .. } | Answer::Dropped { .. }
        );
        let lsn = match answer {
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
                lsn,
                is_given_up,
            } => self.fate(session, group, outcomes.as_deref(), lsn, is_given_up)?,
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
                successor,
            } => {
                if let Some(told) = successor
                    && self.model.successor(table) != Some(told)
                {
                    return Err(format!(
                        "table {told} is not the one in the place of table {table}, as a client was told after {lsn}"
                    ));
                }
                let known = self.model.dropped_at(table);
                if !known.is_some_and(|at| at <= lsn && existed == (at == lsn)) {
                    return Err(format!(
                        "table {table} was dropped by entry {known:?}, a client was told {existed} after {lsn}"
                    ));
                }
                self.has_seen(lsn, floor)?
            }
            Answer::NoSuchTable { tables } => {
                let until = self.applied();
                let may_miss = |table: &u32| self.model.may_miss(*table, floor.seen, until);
                if !tables.iter().any(may_miss) {
                    return Err(format!(
                        "a read of tables {tables:?} was refused, begun after {floor:?}"
                    ));
                }
                0
            }
        };
        let done = &mut self.done;
        done.seen = done.seen.max(lsn);
        if is_change {
            done.acknowledged = done.acknowledged.max(lsn);
        }
        Ok(())
    }

    fn has_seen(&self, lsn: u64, floor: Floor) -> Result<u64, String> {
        if lsn < floor.seen {
            return Err(format!(
                "an answer is from entry {lsn}, begun when {} was seen",
                floor.seen
            ));
        }
        Ok(lsn)
    }

    /// Checks the outcome of a command. Returns its entry.
    fn acknowledged(
        &self,
        id: (SessionId, u64, u32),
        command: &Command,
        outcome: Outcome,
        floor: Floor,
    ) -> Result<u64, String> {
        let Some((lsn, applied)) = self.commands.get(&id).copied() else {
            return Err(format!("{id:?} was acknowledged and is not committed"));
        };
        if applied != outcome {
            return Err(format!(
                "{id:?} is {applied:?}, its client was told {outcome:?}"
            ));
        }
        if lsn <= floor.seen {
            return Err(format!("{id:?} is in entry {lsn}, begun after {floor:?}"));
        }
        if !self.may_be(command, outcome, floor, lsn) {
            return Err(format!(
                "{id:?}, {command:?}, begun after {floor:?}, is {outcome:?} in entry {lsn}"
            ));
        }
        Ok(lsn)
    }

    /// Whether a command may have had this outcome after `floor`, in the entry `lsn`.
    fn may_be(&self, command: &Command, outcome: Outcome, floor: Floor, lsn: u64) -> bool {
        let model = &self.model;
        let has_table = |table: &u32| {
            let dropped = model.dropped_at(*table);
            dropped.is_none_or(|at| at > floor.acknowledged)
        };
        let has_been = |table: u32, key: &[u8], is: &dyn Fn(Option<&[u8]>) -> bool| {
            let mut values = model.values_between(table, key, floor.seen, lsn);
            has_table(&table) && values.any(is)
        };
        match (outcome, command) {
            (Outcome::NoSuchTable, _) => {
                let may_miss = |table: &u32| model.may_miss(*table, floor.acknowledged, lsn);
                tables_of(command).iter().any(may_miss)
            }
            (Outcome::Done, Command::Write(_)) => tables_of(command).iter().all(has_table),
            (Outcome::ConditionFailed, Command::Write(write)) => {
                // It is refused at the first one that does not hold.
                write.conditions.iter().any(|it| {
                    let differs = |value: Option<&[u8]>| value != it.value.as_deref();
                    has_been(it.table, &it.key, &differs)
                })
            }
            (_, Command::Write(_)) => false,
            (
                outcome,
                Command::Transfer {
                    table, from, to, ..
                },
            ) => {
                let [from, to] = [from, to].map(|account| account.to_be_bytes());
                let one_has_been = |is: &dyn Fn(Option<&[u8]>) -> bool| {
                    has_been(*table, &from, is) || has_been(*table, &to, is)
                };
                let is_other = |value: Option<&[u8]>| value.is_some() && balance(value).is_none();
                let is_balance = |value: Option<&[u8]>| balance(value).is_some();
                match outcome {
                    Outcome::NoSuchAccount => one_has_been(&|value| value.is_none()),
                    Outcome::Invalid => one_has_been(&is_other),
                    Outcome::Done | Outcome::InsufficientBalance => {
                        has_been(*table, &from, &is_balance) && has_been(*table, &to, &is_balance)
                    }
                    _ => false,
                }
            }
        }
    }

    /// Checks what the next holder of a session was told of a group. Returns its last entry.
    fn fate(
        &mut self,
        session: SessionId,
        group: u64,
        outcomes: Option<&[Option<Outcome>]>,
        lsn: u64,
        is_given_up: bool,
    ) -> Result<u64, String> {
        self.fates += 1;
        // Another holder has acknowledged them, perhaps without knowing of them.
        let Some(outcomes) = outcomes else {
            return Ok(0);
        };
        let mut last = 0;
        let commands = self.sent.get(&(session, group)).map_or(0, Vec::len);
        for index in 0..commands as u32 {
            let id = (session, group, index);
            let known = self.commands.get(&id).copied();
            let (at, known) = known.map_or((0, None), |(at, outcome)| (at, Some(outcome)));
            if at > lsn {
                return Err(format!(
                    "{id:?} is in entry {at}, the next holder was told {lsn}"
                ));
            }
            last = last.max(at);
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
        Ok(last)
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
