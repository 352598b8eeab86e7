//! A worker: executes commands and fills groups (LogGrps).
//!
//! A group is one transaction under strict two-phase locking. It acquires locks without waiting. A
//! command that meets another group's lock is parked and retried when a group is released. The
//! worker continues with other commands, so it never waits while it holds locks, and deadlocks are
//! impossible. Parked commands come before new ones, in their order, so none starves.
//!
//! Sessions take turns (`backlog.rs`), so a session with many commands delays another by a few.
//!
//! A group is sealed when it is full, when its time is over, or when the worker is idle and none of
//! its groups is in flight.
//!
//! Paper: raft-pwal §3.2, Algorithm 2

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use bytes::Bytes;
use namiki::TableId;
use namiki::replica::GroupTransaction;
use namiki_client::protocol::Command;
use namiki_platform::hash::hash_of;
use smallvec::SmallVec;

use crate::command_size::ROW_BYTES;
use crate::entry::{PayloadName, PayloadRef};
use crate::events::WorkerEvent;
use crate::fault_injection::Fault;
use crate::group_in_flight::GroupInFlight;
use crate::groups::backlog::Backlog;
use crate::groups::execute::{Conflict, execute};
use crate::metrics::Count;
use crate::payload::PayloadBuilder;
use crate::shared::Shared;
use crate::uncommitted_groups::{Members, SealedGroup};

/// Largest size of an outcome in a payload.
const OUTCOME_BYTES: usize = 6;
/// Largest overhead of a section.
const SECTION_BYTES: usize = 48;
/// Room for the headers of a group's changes, so that its payload is seldom moved.
const CHANGES_BYTES: usize = 256;
/// Number of transfers that are looked up in one batch.
const TRANSFERS_AHEAD: usize = 8;
/// Time after which parked commands are retried at the latest, in nanoseconds.
const RETRY_NS: u64 = 1_000_000;
/// Number of a session's commands after which the next session has its turn.
const SESSION_COMMANDS: usize = 256;
/// Number of parked commands that may fail in a row before the rest is left for later.
const PARKED_TRIES: usize = 32;

/// Conditions under which groups are sealed.
#[derive(Clone, Copy, Debug)]
pub struct GroupOptions {
    /// Commands in a group (LogGrpSize).
    pub commands: usize,
    /// Longest time that a command waits for its group to fill, in nanoseconds.
    pub wait_ns: u64,
    /// Largest number of a worker's groups that are sealed and not committed. 1: the next group
    /// waits for the one before.
    pub in_flight_max: usize,
    /// A group is sealed when its payload has this number of bytes. Its last command may add a
    /// mebibyte.
    pub payload_bytes: usize,
}

impl Default for GroupOptions {
    /// 10,000 commands, a millisecond, 64 groups, 2 MiB.
    fn default() -> Self {
        Self {
            commands: 10_000,
            wait_ns: 1_000_000,
            in_flight_max: 64,
            payload_bytes: 2 << 20,
        }
    }
}

struct Open {
    transaction: GroupTransaction,
    members: Vec<Members>,
    commands: usize,
    since_ns: u64,
}

/// One worker of a leader. It has nothing to do on a follower.
pub(crate) struct Worker {
    number: u16,
    shared: Arc<Shared>,
    options: GroupOptions,
    term: Option<u64>,
    /// Groups sealed in this term.
    sealed: u64,
    open: Option<Open>,
    parked: VecDeque<(Arc<GroupInFlight>, u32)>,
    /// Hashes of the parked commands' keys, each with the number of commands. A newer command with
    /// such a key is parked behind them.
    parked_keys: HashMap<u64, usize>,
    /// Time at which parked commands are retried without a notification.
    retry_at_ns: u64,
    backlog: Backlog,
    builder: PayloadBuilder,
}

impl Worker {
    pub(crate) fn new(number: u16, shared: Arc<Shared>, options: GroupOptions) -> Self {
        Self {
            number,
            shared,
            options,
            term: None,
            sealed: 0,
            open: None,
            parked: VecDeque::new(),
            parked_keys: HashMap::new(),
            retry_at_ns: u64::MAX,
            backlog: Backlog::default(),
            builder: PayloadBuilder::default(),
        }
    }

    /// Handles events, and executes commands. Returns the time at which it has to be called again
    /// at the latest, if at all.
    pub(crate) fn run(
        &mut self,
        events: impl IntoIterator<Item = WorkerEvent>,
        now_ns: u64,
    ) -> Option<u64> {
        let mut released = false;
        for event in events {
            match event {
                WorkerEvent::Office(term) => {
                    // The open group holds locks, and is given up: the applier answers its clients.
                    self.open = None;
                    self.parked.clear();
                    self.parked_keys.clear();
                    self.backlog.clear();
                    self.term = term;
                    if !self.shared.planted.has(Fault::NameByLocalNumber) {
                        self.sealed = 0;
                    }
                }
                WorkerEvent::Commands(group, commands) if Some(group.term) == self.term => {
                    self.backlog.push(group, commands);
                }
                // Commands of another term were answered when that ended.
                WorkerEvent::Commands(..) => {}
                WorkerEvent::Released => released = true,
            }
        }
        if released || now_ns >= self.retry_at_ns {
            self.retry_parked(now_ns);
        }
        self.run_backlog(now_ns);
        self.seal_if_due(now_ns);
        self.next_call(now_ns)
    }

    fn next_call(&mut self, now_ns: u64) -> Option<u64> {
        let open = self.open.as_ref();
        let sealing = open.map(|open| open.since_ns.saturating_add(self.options.wait_ns));
        // The applier reports released locks; this retry covers a release between the check of the
        // lock and the parked flag.
        if self.parked.is_empty() {
            self.retry_at_ns = u64::MAX;
        } else if self.retry_at_ns <= now_ns || self.retry_at_ns == u64::MAX {
            self.retry_at_ns = now_ns + self.options.wait_ns.max(RETRY_NS);
        }
        let retry = (self.retry_at_ns != u64::MAX).then_some(self.retry_at_ns);
        sealing.into_iter().chain(retry).min()
    }

    fn is_due(&self, open: &Open, now_ns: u64) -> bool {
        now_ns >= open.since_ns.saturating_add(self.options.wait_ns)
    }

    fn in_flight(&self) -> usize {
        self.shared.task_stores[usize::from(self.number)].len()
    }

    fn has_room(&self) -> bool {
        self.open.is_some() || self.in_flight() < self.options.in_flight_max
    }

    fn retry_parked(&mut self, now_ns: u64) {
        // The commands before `at` have failed.
        let mut at = 0;
        while at < PARKED_TRIES
            && self.has_room()
            && let Some((group, index)) = self.parked.get(at).cloned()
        {
            match self.execute(&group, index, now_ns) {
                Ok(()) => self.unpark(at),
                Err(Conflict) => at += 1,
            }
        }
    }

    fn park(&mut self, group: &Arc<GroupInFlight>, index: u32) {
        for key in keys_of(&group.commands[index as usize]) {
            *self.parked_keys.entry(key).or_default() += 1;
        }
        self.parked.push_back((Arc::clone(group), index));
        if self.parked.len() == 1 {
            self.note_parked();
        }
    }

    fn unpark(&mut self, at: usize) {
        let Some((group, index)) = self.parked.remove(at) else {
            return;
        };
        for key in keys_of(&group.commands[index as usize]) {
            if let Entry::Occupied(mut count) = self.parked_keys.entry(key) {
                *count.get_mut() -= 1;
                if *count.get() == 0 {
                    count.remove();
                }
            }
        }
        if self.parked.is_empty() {
            self.note_parked();
        }
    }

    /// Whether an older command waits for one of the same keys.
    fn is_behind(&self, command: &Command) -> bool {
        !self.parked.is_empty()
            && keys_of(command)
                .iter()
                .any(|key| self.parked_keys.contains_key(key))
    }

    fn run_backlog(&mut self, now_ns: u64) {
        while self.has_room()
            && let Some((group, mut commands)) = self.backlog.next()
        {
            let mut looked_up = 0;
            let mut executed = 0;
            while executed < SESSION_COMMANDS
                && self.has_room()
                && let Some(index) = commands.next()
            {
                executed += 1;
                if looked_up == 0 {
                    looked_up = TRANSFERS_AHEAD;
                    let ahead = commands.as_slice().iter().take(TRANSFERS_AHEAD - 1);
                    self.look_up(&group, std::iter::once(&index).chain(ahead), now_ns);
                }
                looked_up -= 1;
                if self.is_behind(&group.commands[index as usize])
                    || self.execute(&group, index, now_ns).is_err()
                {
                    self.park(&group, index);
                }
            }
            self.backlog
                .put_back(group, commands, executed, SESSION_COMMANDS);
        }
    }

    fn note_parked(&self) {
        let flag = &self.shared.has_parked[usize::from(self.number)];
        // SeqCst: the applier releases locks and then reads the flag.
        flag.store(!self.parked.is_empty(), Ordering::SeqCst);
    }

    /// Looks up the rows of the next transfers in a batch, so that their cache misses overlap.
    fn look_up<'a>(
        &mut self,
        group: &GroupInFlight,
        commands: impl Iterator<Item = &'a u32>,
        now_ns: u64,
    ) {
        let mut of_table = None;
        let mut keys = SmallVec::<[[u8; 8]; 2 * TRANSFERS_AHEAD]>::new();
        for index in commands {
            match &group.commands[*index as usize] {
                Command::Transfer {
                    table, from, to, ..
                } if of_table.is_none_or(|it| it == *table) => {
                    of_table = Some(*table);
                    keys.extend([from.to_be_bytes(), to.to_be_bytes()]);
                }
                _ => break,
            }
        }
        // A single one is looked up during its execution.
        if let Some(table) = of_table
            && keys.len() > 2
        {
            let keys: SmallVec<[&[u8]; 2 * TRANSFERS_AHEAD]> =
                keys.iter().map(<[u8; 8]>::as_slice).collect();
            let open = self.open_group(now_ns);
            open.transaction.look_up(TableId(table), &keys);
        }
    }

    fn open_group(&mut self, now_ns: u64) -> &mut Open {
        self.open.get_or_insert_with(|| Open {
            transaction: self.shared.replica.begin_group(),
            members: Vec::new(),
            commands: 0,
            since_ns: now_ns,
        })
    }

    /// Executes a command in the open group, and seals the group if that fills it.
    fn execute(
        &mut self,
        group: &Arc<GroupInFlight>,
        index: u32,
        now_ns: u64,
    ) -> Result<(), Conflict> {
        let open = self.open_group(now_ns);
        let executed = execute(&mut open.transaction, &group.commands[index as usize]);
        let outcome = match executed {
            Ok(outcome) => outcome,
            Err(conflict) => {
                if open.commands == 0 {
                    self.open = None;
                }
                return Err(conflict);
            }
        };
        match open.members.last_mut() {
            Some(last) if Arc::ptr_eq(&last.group, group) => last.outcomes.push((index, outcome)),
            _ => open.members.push(Members {
                group: Arc::clone(group),
                outcomes: vec![(index, outcome)],
            }),
        }
        open.commands += 1;
        let bytes = open.transaction.bytes()
            + ROW_BYTES * open.transaction.rows()
            + SECTION_BYTES * open.members.len()
            + OUTCOME_BYTES * open.commands;
        if open.commands >= self.options.commands || bytes >= self.options.payload_bytes {
            self.seal();
        }
        Ok(())
    }

    fn seal_if_due(&mut self, now_ns: u64) {
        let Some(open) = &self.open else {
            return;
        };
        // No work is left, or no room for it.
        if self.is_due(open, now_ns) || self.in_flight() == 0 {
            self.seal();
        }
    }

    /// Seals the open group: its payload goes to the disk and to the followers at the same time, its entry to Raft.
    fn seal(&mut self) {
        let (Some(mut open), Some(term)) = (self.open.take(), self.term) else {
            return;
        };
        for members in &mut open.members {
            members.outcomes.sort_unstable_by_key(|(index, _)| *index);
            let group = &members.group;
            self.builder.section(
                group.session,
                group.group,
                group.acknowledged_through,
                group.commands.len() as u32,
                &members.outcomes,
            );
        }
        let changes = open.transaction.bytes() + CHANGES_BYTES;
        let mut payload = Vec::with_capacity(self.builder.bytes() + changes);
        self.builder.finish(&mut payload);
        open.transaction.encode_changes(&mut payload);
        // It is kept in the cache: capacity that is not used would be kept, too.
        payload.shrink_to_fit();
        let payload = Bytes::from(payload);
        self.sealed += 1;
        let by_node = self.shared.planted.has(Fault::NameByLocalNumber);
        let name = PayloadName {
            term: if by_node { 1 } else { term },
            worker: self.number,
            number: self.sealed,
        };
        let reference = PayloadRef::of(name, &payload);
        if self.shared.planted.has(Fault::AnswerBeforeQuorum) {
            for members in open.members.drain(..) {
                self.shared.complete(&members, 0);
            }
        }
        let sealed = SealedGroup {
            term,
            name,
            payload: payload.clone(),
            locks: open.transaction.seal(),
            members: open.members,
            sealed_at: Instant::now(),
        };
        // Before its entry can be committed.
        let store = &self.shared.task_stores[usize::from(self.number)];
        if store.put(sealed) {
            self.shared.metrics.increment(Count::GroupsSealed);
            self.shared.replicate(reference, payload);
        }
    }
}

/// The keys that a command touches, as hashes.
fn keys_of(command: &Command) -> SmallVec<[u64; 4]> {
    let key = |table: u32, key: &[u8]| hash_of(table.into(), key);
    match command {
        Command::Transfer {
            table, from, to, ..
        } => {
            let keys = [from, to].map(|it| key(*table, &it.to_be_bytes()));
            keys.into_iter().collect()
        }
        Command::Write(write) => {
            let conditions = write.conditions.iter().map(|it| key(it.table, &it.key));
            let rows = write.rows.iter().map(|(table, row, _)| key(*table, row));
            conditions.chain(rows).collect()
        }
    }
}
