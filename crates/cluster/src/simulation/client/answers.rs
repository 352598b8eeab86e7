//! What a client makes of the answers to its requests.

use namiki_client::protocol::{Request, Response};

use super::{Answer, Answered, DROP, FATE, Floor, GROUP, Pending, READ, SETUP, SimClient, TABLE};
use crate::simulation::workload::{TABLES, opens_accounts};

impl SimClient {
    /// The answer to a drop, or to a clear, which leaves a successor. `None` if it was not asked for.
    fn table_is_gone(
        &mut self,
        lsn: u64,
        table: u32,
        existed: bool,
        successor: Option<u32>,
    ) -> Option<(Floor, Answer)> {
        let pending = self.pending.remove(&(DROP, table.into()))?;
        self.workload.forget_table(table);
        let dropped = Answer::Dropped {
            lsn,
            table,
            existed,
            successor,
        };
        Some((pending.floor, dropped))
    }

    /// Acknowledges groups of the earlier holder, if the fate of each is known.
    fn know_earlier(&mut self) {
        let mut earlier = self.pending.range((GROUP, 0)..(GROUP, self.first_group));
        if self.journal.is_empty() && earlier.next().is_none() {
            self.acknowledged_max = u64::MAX;
        }
    }

    /// Handles a response. Returns the report, and the requests to send at once.
    pub(in crate::simulation) fn take(
        &mut self,
        response: Response,
        now_ns: u64,
    ) -> Result<(Option<Answered>, Vec<Request>), String> {
        if self.is_gone {
            return Ok((None, Vec::new()));
        }
        let mut sent = Vec::new();
        let answered = match response {
            Response::SessionOpened { session, .. } => {
                self.pending.remove(&(SETUP, 1));
                self.session = Some(session);
                self.fence = session.0;
                None
            }
            Response::SessionResumed {
                session,
                fence,
                first_group,
                acknowledged_through,
                lsn,
                ..
            } => {
                if self.pending.remove(&(SETUP, 2)).is_some() {
                    self.seen = self.seen.max(lsn);
                    self.resumes = None;
                    self.session = Some(session);
                    self.fence = fence;
                    self.first_group = first_group;
                    self.next_group = first_group;
                    self.answered_through = first_group - 1;
                    self.acknowledged_max = acknowledged_through;
                    self.know_earlier();
                }
                None
            }
            Response::SessionTaken { .. } => {
                self.end();
                None
            }
            Response::GroupOutcomes {
                request,
                outcomes,
                lsn,
            } => {
                match self.pending.remove(&(FATE, request)) {
                    Some(Pending {
                        request: Request::Outcomes { session, group, .. },
                        ..
                    }) => {
                        self.seen = self.seen.max(lsn);
                        let commands = self.journal.remove(&group).unwrap_or_default();
                        let known = outcomes.iter().flatten();
                        let is_whole = known.clone().count() == commands.len()
                            && known.clone().all(Option::is_some);
                        // Without the accounts, a simulation has little to do.
                        let opens = opens_accounts(&commands);
                        let is_again =
                            outcomes.is_some() && !is_whole && (opens || self.random.chance(0.5));
                        if is_again {
                            let submit = Request::Submit {
                                session,
                                fence: self.fence,
                                group,
                                acknowledged_through: self.acknowledged_max.min(group - 1),
                                commands,
                            };
                            // Some of its commands may have been executed long ago.
                            let floor = Floor::default();
                            self.send((GROUP, group), submit, now_ns, floor, &mut sent);
                        }
                        self.know_earlier();
                        let fate = Answer::Fate {
                            session,
                            group,
                            outcomes,
                            lsn,
                            is_given_up: !is_again && !self.shares_journal,
                        };
                        (!self.has_successor).then_some((Floor::default(), fate))
                    }
                    _ => None,
                }
            }
            Response::Table { name, table, lsn } => {
                let place = TABLES.iter().position(|it| *it == name);
                let key = (TABLE, place.ok_or("a table has a name of its own")? as u64);
                // A late copy of an earlier answer tells of an earlier table.
                let pending = self.pending.get(&key).map(|it| it.floor);
                pending.filter(|floor| lsn > floor.seen).map(|floor| {
                    self.pending.remove(&key);
                    self.workload.know_table(&name, table);
                    (floor, Answer::Created { lsn, name, table })
                })
            }
            Response::TableCleared {
                table,
                successor,
                lsn,
            } => self.table_is_gone(lsn, table, successor.is_some(), successor),
            Response::TableDropped {
                table,
                existed,
                lsn,
            } => self.table_is_gone(lsn, table, existed, None),
            Response::Results {
                session,
                group,
                outcomes,
                lsn,
            } => match self.pending.remove(&(GROUP, group)) {
                Some(Pending {
                    request: Request::Submit { commands, .. },
                    floor,
                    ..
                }) => {
                    self.seen = self.seen.max(lsn);
                    for (command, outcome) in commands.iter().zip(&outcomes) {
                        self.workload.know_outcome(command, *outcome);
                    }
                    self.answered.push(group);
                    self.know_earlier();
                    while let Some(at) =
                        (self.answered.iter()).position(|it| *it == self.answered_through + 1)
                    {
                        self.answered.swap_remove(at);
                        self.answered_through += 1;
                    }
                    let answer = Answer::Group {
                        session,
                        group,
                        commands,
                        outcomes,
                        lsn,
                    };
                    Some((floor, answer))
                }
                _ => None,
            },
            Response::Rows {
                request,
                values,
                lsn,
            } => self.pending.remove(&(READ, request)).map(|pending| {
                self.seen = self.seen.max(lsn);
                let keys = match pending.request {
                    Request::Read { keys, .. } => keys,
                    _ => Vec::new(),
                };
                let rows: Vec<_> = keys.into_iter().zip(values).collect();
                for ((table, key), value) in &rows {
                    (self.workload).know_row(*table, key.clone(), value.clone());
                }
                (pending.floor, Answer::Rows { lsn, rows })
            }),
            Response::Scanned { request, scanned } => match self.pending.remove(&(READ, request)) {
                Some(Pending {
                    request: Request::Scan { range, .. },
                    floor,
                    ..
                }) => {
                    self.seen = self.seen.max(scanned.lsn);
                    let is_whole = range.from.is_empty() && range.until.is_none();
                    if is_whole && range.rows_max > 0 && !scanned.has_more {
                        self.workload.know_rows(range.table, &scanned.rows);
                    }
                    Some((floor, Answer::Scanned { range, scanned }))
                }
                _ => None,
            },
            Response::Tables {
                request,
                tables,
                lsn,
            } => self.pending.remove(&(READ, request)).map(|pending| {
                self.seen = self.seen.max(lsn);
                (pending.floor, Answer::Tables { lsn, tables })
            }),
            Response::Behind { request, .. } => {
                self.pending.remove(&(READ, request));
                None
            }
            // A table was dropped, or is not there yet.
            Response::Refused { request, .. } if self.pending.contains_key(&(READ, request)) => {
                let pending = self.pending.remove(&(READ, request));
                pending.map(|pending| {
                    let tables: Vec<u32> = match pending.request {
                        Request::Read { keys, .. } => keys.into_iter().map(|it| it.0).collect(),
                        Request::Scan { range, .. } => vec![range.table],
                        _ => Vec::new(),
                    };
                    for table in &tables {
                        self.workload.forget_table(*table);
                    }
                    (pending.floor, Answer::NoSuchTable { tables })
                })
            }
            Response::NotLeader { request, .. } if self.pending.contains_key(&(READ, request)) => {
                self.pending.remove(&(READ, request));
                None
            }
            Response::NotLeader { leader, .. } => {
                // The world sends again later.
                if let Some((leader, _)) = leader {
                    self.node = leader as usize - 1;
                } else {
                    self.node = self.random.index(self.nodes);
                }
                for pending in self.pending.values_mut() {
                    pending.sent_ns = pending.sent_ns.min(now_ns.saturating_sub(900_000_000));
                }
                None
            }
            Response::OutcomeUnknown { group, .. } => {
                if let Some(pending) = self.pending.get_mut(&(GROUP, group)) {
                    pending.sent_ns = pending.sent_ns.min(now_ns.saturating_sub(900_000_000));
                }
                None
            }
            // It asks again until others have closed some.
            Response::Busy { .. } | Response::SessionsFull { .. } => None,
            // A late copy of a group that has been answered and acknowledged since.
            Response::Refused { request, .. } if !self.pending.contains_key(&(GROUP, request)) => {
                None
            }
            other => return Err(format!("client {} was told {other:?}", self.number)),
        };
        let answered = answered.map(|(floor, answer)| Answered { floor, answer });
        Ok((answered, sent))
    }
}
