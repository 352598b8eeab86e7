//! The producer: accepts clients' requests and distributes commands to workers.
//!
//! A command goes to the worker of its first key, so commands on one account meet in one group,
//! where they do not conflict.
//!
//! Paper: raft-pwal §3.1

use std::sync::Arc;
use std::time::Duration;

use namiki::replica::check_table_name;
use namiki_client::protocol::{
    Command, Freshness, MemberChange, NodeStatus, Outcome, Request, Response, SessionId,
};
use namiki_platform::hash::hash_of;
use parking_lot::MutexGuard;

use crate::command_size::{command_bytes, memory_of_commands, memory_of_keys};
use crate::control::{Control, SessionLimits};
use crate::entry::EntryBody;
use crate::events::{ApplierEvent, ImageEvent, Scan, WorkerEvent};
use crate::fault_injection::Fault;
use crate::flow_control::Gate;
use crate::group_in_flight::{GroupInFlight, WAITING_MAX};
use crate::metrics::Count;
use crate::network::{ClientName, ConnectionId};
use crate::office::{InFlight, Office};
use crate::raft::{RAFT_BYTES_MAX, RAFT_MESSAGE_BYTES, RaftEvent};
use crate::read_queue::{ReadRequest, WaitingReads, Wanted};
use crate::refusal::Refusal;
use crate::session::{KnownGroup, SessionTable};
use crate::shared::Shared;
use crate::status::status;

/// Largest number of concurrent requests for changes of the members.
const MEMBER_CHANGES_MAX: usize = 64;

/// Sessions in one answer.
const SESSIONS_LISTED_MAX: usize = 1000;

/// Limits on the requests that a leader accepts.
#[derive(Clone, Copy, Debug)]
pub struct RequestLimits {
    /// Commands of one client's group.
    pub group_commands: usize,
    /// Commands under way. A connection may have as many as are left, as with the next limits.
    pub commands: usize,
    /// Bytes in memory of commands under way.
    pub bytes: usize,
    /// Waiting read requests.
    pub reads: usize,
    /// Keys of all waiting read requests.
    pub waiting_keys: usize,
    /// Bytes in memory of these keys.
    pub waiting_key_bytes: usize,
    /// Keys of one read request.
    pub read_keys: usize,
    /// Waiting requests for sessions and tables.
    pub control: usize,
    /// Groups of a session with outcomes that its client has not acknowledged.
    pub unacknowledged_groups: usize,
    /// Outcomes of all sessions that are kept since their clients have not acknowledged them, each
    /// of a byte. A session may have as many as are left.
    pub outcomes: usize,
    /// Numbers of sessions.
    pub sessions: SessionLimits,
    /// The leader closes a session that no entry has named for this time. Default `None`: never.
    pub session_idle_close: Option<Duration>,
    /// Bytes of the keys and values of one command.
    pub command_bytes: usize,
}

impl Default for RequestLimits {
    fn default() -> Self {
        Self {
            group_commands: 100_000,
            commands: 2_000_000,
            bytes: 256 << 20,
            reads: 10_000,
            waiting_keys: 1_000_000,
            waiting_key_bytes: 128 << 20,
            read_keys: 100_000,
            control: 10_000,
            unacknowledged_groups: 1024,
            outcomes: 256 << 20,
            sessions: SessionLimits::default(),
            session_idle_close: None,
            command_bytes: 1 << 20,
        }
    }
}

/// The numbers of a client's group.
struct GroupNumbers {
    session: SessionId,
    fence: u64,
    group: u64,
    acknowledged_through: u64,
}

/// Whether a client holds a session.
enum Holds {
    Yes,
    No(Refusal),
    /// This leader does not know the session.
    Unknown,
}

/// The answer to a request, if it is answered now and not by the applier later.
type Handled = Result<Option<Response>, Refusal>;

/// Accepts requests.
pub(crate) struct Producer {
    shared: Arc<Shared>,
    limits: RequestLimits,
}

impl Producer {
    pub(crate) fn new(shared: Arc<Shared>, limits: RequestLimits) -> Self {
        Self { shared, limits }
    }

    /// Handles a request. It is answered now, or later by the applier.
    pub(crate) fn take(&self, from: ConnectionId, client: &ClientName, request: Request) {
        let answer = match request {
            Request::Hello { .. } => refused(0, "the connection has been opened already"),
            Request::Submit {
                session,
                fence,
                group,
                acknowledged_through,
                commands,
            } => {
                let numbers = GroupNumbers {
                    session,
                    fence,
                    group,
                    acknowledged_through,
                };
                self.submit(from, numbers, commands)
            }
            Request::Read {
                request,
                freshness,
                keys,
            } => self.read(from, request, freshness, Wanted::Keys(keys)),
            Request::Tables { request, freshness } => {
                self.read(from, request, freshness, Wanted::Tables)
            }
            Request::Scan {
                request,
                freshness,
                range,
            } => self.read(from, request, freshness, Wanted::Scan(range)),
            Request::Outcomes {
                request,
                session,
                fence,
                group,
            } => {
                let wanted = Wanted::Outcomes {
                    session,
                    fence,
                    group,
                };
                self.read(from, request, Freshness::Leader, wanted)
            }
            Request::ResumeSession {
                session,
                nonce,
                attempt,
            } => self.resume_session(from, session, nonce, attempt),
            Request::DropTable { table } => self.control(from, Control::DropTable { table }),
            Request::ClearTable { table } => self.control(from, Control::ClearTable { table }),
            Request::OpenSession { nonce } => self.open_session(from, client, nonce),
            Request::CloseSession { session, fence } => self.close_session(from, session, fence),
            Request::Sessions { after } => self.list_sessions(after),
            Request::CreateTable {
                name,
                eight_byte_keys,
            } => {
                let control = Control::CreateTable {
                    name,
                    eight_byte_keys,
                };
                self.control(from, control)
            }
            Request::ChangeMembers(change) => self.change_members(from, change),
            Request::CutLinks { .. } => refused(0, "links are cut by the transport"),
            Request::Status => Ok(Some(Response::Status(Box::new(self.status())))),
            // The answer could not be queued.
            Request::StateHash { .. } | Request::BeginBackup
                if self.shared.network.response_bytes_free(from) == 0 =>
            {
                Err(Refusal::Busy { request: 0 })
            }
            Request::StateHash { at: Some(entry) } => self.state_hash_at(from, entry),
            // It reads every row: one at a time, and with pauses.
            Request::StateHash { at: None } if self.shared.hashes.begin() => {
                self.shared.applier.put(ApplierEvent::StateHash(from));
                Ok(None)
            }
            Request::StateHash { at: None } => Err(Refusal::Busy { request: 0 }),
            Request::BeginBackup if self.shared.backups.begin() => {
                self.shared.images.put(ImageEvent::Backup(from));
                Ok(None)
            }
            Request::BeginBackup => Err(Refusal::Busy { request: 0 }),
            Request::BackupFile {
                image,
                file,
                offset,
            } if self.shared.scan_slots.take(from) => {
                self.shared.scans.put(Scan::ImageFile {
                    connection: from,
                    image,
                    file,
                    offset,
                });
                Ok(None)
            }
            Request::BackupFile { .. } => Err(Refusal::Busy { request: 0 }),
        };
        match answer {
            Ok(None) => {}
            Ok(Some(answer)) => self.shared.network.reply(from, answer),
            Err(refusal) => self.shared.refuse(from, refusal),
        }
    }

    fn submit(&self, from: ConnectionId, numbers: GroupNumbers, commands: Vec<Command>) -> Handled {
        let GroupNumbers {
            session,
            fence,
            group: number,
            acknowledged_through,
        } = numbers;
        // Everything that takes long for a long group is done without the lock.
        if let Some(reason) = self.why_not(number, acknowledged_through, &commands) {
            return match self.shared.office.lock().term {
                None => Err(self.not_leader(number)),
                Some(_) => refused(number, reason),
            };
        }
        let count = commands.len();
        let size = InFlight {
            commands: count,
            bytes: memory_of_commands(&commands),
        };
        let max = InFlight {
            commands: self.limits.commands,
            bytes: self.limits.bytes,
        };
        let mut office = self.shared.office.lock();
        let Some(term) = office.term else {
            return Err(self.not_leader(number));
        };
        let sessions = self.shared.sessions.lock();
        match self.check_fence(&sessions, session, fence, number) {
            Holds::Yes => {}
            Holds::No(refusal) => return Err(refusal),
            Holds::Unknown => {
                drop(sessions);
                return self.confirm_unknown(office, from, session, number);
            }
        }
        if let Some(group) = office.groups.get(&(session, number)) {
            // A repeated request joins the one in flight.
            if group.commands.len() != count {
                return refused(
                    number,
                    "the group was sent before with another number of commands",
                );
            }
            let known = group.join(from);
            return Ok(known.map(|(outcomes, lsn)| Response::Results {
                session,
                group: number,
                outcomes,
                lsn,
            }));
        }
        // The applier records outcomes before it removes a group from those in flight, so none is
        // missed here.
        let known = match sessions.group(session, number) {
            None => return Err(Refusal::NoSession { session }),
            Some(KnownGroup::Forgotten) => {
                return refused(
                    number,
                    "the client has acknowledged the results of this group",
                );
            }
            Some(KnownGroup::Outcomes(_)) if self.shared.planted.has(Fault::ForgetSessions) => {
                Vec::new()
            }
            Some(KnownGroup::Outcomes(known)) => known,
        };
        // The outcomes are in this entry, or in earlier ones.
        let known_lsn = sessions.used(session);
        // A group that was sent before has its place.
        let keeps_too_many = known.is_empty()
            && (sessions.unacknowledged(session) >= self.limits.unacknowledged_groups
                || !sessions.has_room_for_outcomes(session, count, self.limits.outcomes));
        drop(sessions);
        if !known.is_empty() && known.len() != count {
            return refused(
                number,
                "the group was sent before with another number of commands",
            );
        }
        if let Some(outcomes) = all_known(&known) {
            // It was executed, and needs no room.
            return Ok(Some(Response::Results {
                session,
                group: number,
                outcomes,
                lsn: known_lsn,
            }));
        }
        // Another node may have applied the entry of the drop already, and shown it to a reader that sends this.
        if office.is_closing(session) || office.is_dropping(&commands) {
            return Err(Refusal::Busy { request: number });
        }
        if keeps_too_many {
            let reason = "the results of too many groups are kept: acknowledge those that arrived, and close sessions that are not \
                used any more (namiki cluster sessions)";
            let refusal = Refusal::invalid(number, reason);
            return self.refuse_new(office, from, (session, number), refusal);
        }
        if !office.has_room(from, size, max) {
            return Err(Refusal::Busy { request: number });
        }
        match self.shared.commands_gate(size.bytes) {
            Gate::Open => {}
            // A refusal is final: a group that was executed in part is completed later.
            Gate::Full if known.is_empty() => {
                let refusal = Refusal::LogFull { request: number };
                return self.refuse_new(office, from, (session, number), refusal);
            }
            Gate::Busy | Gate::Full => {
                self.shared.metrics.increment(Count::GroupsWithoutRoom);
                return Err(Refusal::Busy { request: number });
            }
        }
        let group = GroupInFlight::new(
            session,
            number,
            acknowledged_through,
            term,
            commands,
            size.bytes,
            known,
            known_lsn,
            from,
        );
        let missing = group.missing();
        let group = Arc::new(group);
        office.begin(&group);
        drop(office);
        self.spread(&group, missing);
        Ok(None)
    }

    /// Refuses a group for ever of which no command is known. The log of a later leader may have it, if this one was deposed
    /// without noticing it: the client is told when this node has confirmed that it leads.
    fn refuse_new(
        &self,
        office: MutexGuard<'_, Office>,
        connection: ConnectionId,
        (session, group): (SessionId, u64),
        refusal: Refusal,
    ) -> Handled {
        let read = ReadRequest {
            connection,
            request: group,
            wanted: Wanted::Refusal {
                session,
                group,
                refusal,
            },
            bytes: 0,
            until: 0,
        };
        self.read_as_leader(office, read)
    }

    /// Hands each command to its worker.
    fn spread(&self, group: &Arc<GroupInFlight>, commands: Vec<u32>) {
        let workers = &self.shared.workers;
        if let [only] = &workers[..] {
            return only.put(WorkerEvent::Commands(Arc::clone(group), commands));
        }
        let mut parts = vec![Vec::new(); workers.len()];
        for index in commands {
            let hash = match &group.commands[index as usize] {
                Command::Transfer { from, .. } => hash_of(0, &from.to_be_bytes()),
                Command::Write(write) => {
                    let row = write.rows.first().map(|(_, key, _)| key);
                    hash_of(0, row.map_or(&[], Vec::as_slice))
                }
            };
            // The high bits spread best.
            parts[((hash >> 32) as usize) % workers.len()].push(index);
        }
        for (worker, part) in workers.iter().zip(parts) {
            if !part.is_empty() {
                worker.put(WorkerEvent::Commands(Arc::clone(group), part));
            }
        }
    }

    fn why_not(
        &self,
        number: u64,
        acknowledged_through: u64,
        commands: &[Command],
    ) -> Option<&'static str> {
        if commands.is_empty() {
            return Some("the group has no commands");
        }
        if commands.len() > self.limits.group_commands {
            return Some("the group has too many commands: send fewer in each");
        }
        if acknowledged_through >= number {
            return Some("a group cannot acknowledge itself or a later one");
        }
        let is_long = |command: &Command| command_bytes(command) > self.limits.command_bytes;
        (commands.iter().any(is_long))
            .then_some("a command is too long: its limit is 1 MiB with all rows")
    }

    /// Whether a client with this fence holds a session.
    fn check_fence(
        &self,
        sessions: &SessionTable,
        session: SessionId,
        fence: u64,
        request: u64,
    ) -> Holds {
        match sessions.fence(session) {
            None if self.may_be_opened(session) => Holds::Unknown,
            None => Holds::No(Refusal::NoSession { session }),
            // It was resumed by an entry that this leader does not have: it was deposed.
            Some(current) if current < fence => Holds::No(self.not_leader(request)),
            Some(current) if current > fence && !self.shared.planted.has(Fault::IgnoreFences) => {
                Holds::No(Refusal::SessionTaken { session })
            }
            Some(_) => Holds::Yes,
        }
    }

    /// Whether a session may be opened by an entry that this leader does not have, if it was deposed: its number is that
    /// of the entry.
    fn may_be_opened(&self, session: SessionId) -> bool {
        session.0 > self.shared.applied()
    }

    /// A session is unknown that may be opened by an entry which this leader does not have: the client is told when it has
    /// confirmed that it leads.
    fn confirm_unknown(
        &self,
        office: MutexGuard<'_, Office>,
        connection: ConnectionId,
        session: SessionId,
        request: u64,
    ) -> Handled {
        let read = ReadRequest {
            connection,
            request,
            wanted: Wanted::UnknownSession(session),
            bytes: 0,
            until: 0,
        };
        self.read_as_leader(office, read)
    }

    fn read(
        &self,
        connection: ConnectionId,
        request: u64,
        freshness: Freshness,
        wanted: Wanted,
    ) -> Handled {
        let bytes = match &wanted {
            Wanted::Keys(keys) => memory_of_keys(keys),
            Wanted::Scan(range) => range.from.len() + range.until.as_ref().map_or(0, Vec::len),
            _ => 0,
        };
        let read = ReadRequest {
            connection,
            request,
            wanted,
            bytes,
            until: 0,
        };
        let office = self.shared.office.lock();
        match freshness {
            Freshness::Leader if office.term.is_none() => Err(self.not_leader(request)),
            _ if read.wanted.keys() > self.limits.read_keys => {
                let reason = "the request reads too many keys: send several";
                refused(request, reason)
            }
            Freshness::Leader => self.read_as_leader(office, read),
            Freshness::Strong if office.term.is_some() => self.read_as_leader(office, read),
            Freshness::Strong => {
                drop(office);
                self.read_strongly(read)
            }
            Freshness::AtLeast(lsn) => {
                drop(office);
                let is_ignored = self.shared.planted.has(Fault::SessionReadsIgnoreSeen);
                self.read_at_least(read, if is_ignored { 0 } else { lsn })
            }
        }
    }

    /// The applier takes the hash when the entry is applied.
    fn state_hash_at(&self, from: ConnectionId, entry: u64) -> Handled {
        if !self.shared.hash_requests.add((from, entry)) {
            return Err(Refusal::Busy { request: 0 });
        }
        if entry <= self.shared.applied() {
            self.shared.applier.put(ApplierEvent::HashRequested);
        }
        Ok(None)
    }

    fn read_limits(&self) -> WaitingReads {
        WaitingReads {
            requests: self.limits.reads,
            keys: self.limits.waiting_keys,
            bytes: self.limits.waiting_key_bytes,
        }
    }

    /// A strong read on a node that does not lead: the leader is asked for its commit index.
    fn read_strongly(&self, read: ReadRequest) -> Handled {
        if self.shared.planted.has(Fault::FollowerReadsWithoutIndex) {
            return self.read_at_least(read, 0);
        }
        let confirm = (self.shared.node_reads.lock()).strong(read, self.read_limits());
        self.shared.metrics.increment(Count::Reads);
        if let Some(id) = confirm? {
            self.shared.raft.put(RaftEvent::ReadIndex(id));
        }
        Ok(None)
    }

    /// A read of the state after this entry, or a later one.
    fn read_at_least(&self, read: ReadRequest, lsn: u64) -> Handled {
        let (applied, limits) = (self.shared.applied(), self.read_limits());
        let is_ready = (self.shared.node_reads.lock()).at_least(read, lsn, applied, limits)?;
        self.shared.metrics.increment(Count::Reads);
        if is_ready {
            self.shared.applier.put(ApplierEvent::NodeReads);
        }
        Ok(None)
    }

    fn read_as_leader(&self, mut office: MutexGuard<'_, Office>, request: ReadRequest) -> Handled {
        if !office.reads.has_room(&request, self.read_limits()) {
            return Err(Refusal::Busy {
                request: request.request,
            });
        }
        self.shared.metrics.increment(Count::Reads);
        if let Some(id) = office.reads.add(request) {
            if self.shared.planted.has(Fault::ReadWithoutConfirmation) {
                self.shared.applier.put(ApplierEvent::ReadReady(id, 0));
                return Ok(None);
            }
            self.shared.raft.put(RaftEvent::ReadIndex(id));
        }
        Ok(None)
    }

    /// The applier decides whether there is room, in the order of the log. If the table is full now,
    /// the request is refused without an entry, so refused ones do not fill the log.
    fn open_session(&self, from: ConnectionId, client: &ClientName, nonce: u128) -> Handled {
        let limits = self.limits.sessions;
        if self.shared.office.lock().term.is_none() {
            return Err(self.not_leader(0));
        }
        let full = {
            let sessions = self.shared.sessions.lock();
            let is_new = !sessions.has_nonce(nonce);
            let checked = sessions.check_limits(client, limits);
            let evicts = self.shared.planted.has(Fault::EvictSession);
            checked.err().filter(|_| is_new && !evicts)
        };
        if let Some(limit) = full {
            return Err(Refusal::SessionsFull { nonce, limit });
        }
        let control = Control::OpenSession {
            nonce,
            client: client.clone(),
            limits,
        };
        self.control(from, control)
    }

    fn close_session(&self, from: ConnectionId, session: SessionId, fence: u64) -> Handled {
        let office = self.shared.office.lock();
        if office.term.is_none() {
            return Err(self.not_leader(0));
        }
        let holds = self.check_fence(&self.shared.sessions.lock(), session, fence, 0);
        match holds {
            Holds::Unknown => self.confirm_unknown(office, from, session, 0),
            // Numbers are never used again: a session that does not exist needs no entry.
            Holds::No(Refusal::NoSession { .. }) => Ok(Some(Response::SessionClosed { session })),
            Holds::No(refusal) => Err(refusal),
            Holds::Yes => {
                drop(office);
                self.control(from, Control::CloseSession { session, fence })
            }
        }
    }

    /// The sessions behind this one, in the order of their last entries.
    fn list_sessions(&self, after: (u64, SessionId)) -> Handled {
        if self.shared.office.lock().term.is_none() {
            return Err(self.not_leader(0));
        }
        let listed = self.shared.sessions.lock().list(after, SESSIONS_LISTED_MAX);
        let (mut sessions, has_more) = listed;
        let ages = self.shared.session_ages.lock();
        for session in &mut sessions {
            session.idle_s = ages.unused_for(session.used).as_secs();
        }
        Ok(Some(Response::Sessions { sessions, has_more }))
    }

    fn resume_session(
        &self,
        from: ConnectionId,
        session: SessionId,
        nonce: u128,
        attempt: u128,
    ) -> Handled {
        let office = self.shared.office.lock();
        if office.term.is_none() {
            return Err(self.not_leader(0));
        }
        // Without an entry, so that requests for sessions that do not exist do not fill the log.
        if !self.shared.sessions.lock().is_opened_by(session, nonce) {
            if self.may_be_opened(session) {
                return self.confirm_unknown(office, from, session, 0);
            }
            return Err(Refusal::NoSession { session });
        }
        drop(office);
        let control = Control::ResumeSession {
            session,
            nonce,
            attempt,
        };
        self.control(from, control)
    }

    fn control(&self, from: ConnectionId, control: Control) -> Handled {
        let mut office = self.shared.office.lock();
        if office.term.is_none() {
            return Err(self.not_leader(0));
        }
        if let Control::CreateTable { name, .. } = &control
            && let Err(error) = check_table_name(name)
        {
            return refused(0, &error.to_string());
        }
        // An entry without a payload takes room, too.
        let closes = matches!(control, Control::CloseSession { .. });
        let has_room = closes || !self.shared.flow_control.refuses();
        if office.control_waiting >= self.limits.control || !has_room {
            return Err(Refusal::Busy { request: 0 });
        }
        if let Control::CloseSession { session, fence } = &control
            && !office.begin_close(*session, *fence)
        {
            return Err(Refusal::Busy { request: 0 });
        }
        let body = EntryBody::Control(control.encode());
        if office.wait_for(control, from) {
            self.shared.raft.put(RaftEvent::Propose(body));
        }
        Ok(None)
    }

    fn change_members(&self, from: ConnectionId, change: MemberChange) -> Handled {
        let mut office = self.shared.office.lock();
        if office.term.is_none() {
            return Err(self.not_leader(0));
        }
        if office.member_changes.len() >= MEMBER_CHANGES_MAX {
            return Err(Refusal::Busy { request: 0 });
        }
        // Requests without end are bounded as messages of nodes are.
        let event = RaftEvent::ChangeMembers(change.clone());
        if !(self.shared.raft).put_within(event, RAFT_MESSAGE_BYTES, RAFT_BYTES_MAX) {
            return Err(Refusal::Busy { request: 0 });
        }
        let waiting = office.member_changes.entry(change).or_default();
        if !waiting.contains(&from) {
            if waiting.len() >= WAITING_MAX {
                waiting.remove(0);
            }
            waiting.push(from);
        }
        Ok(None)
    }

    fn not_leader(&self, request: u64) -> Refusal {
        let view = self.shared.view.lock();
        // The transport adds its address.
        let leader = view.leader.filter(|it| *it != self.shared.node);
        let leader = leader.map(|it| (it.number(), String::new()));
        Refusal::NotLeader { request, leader }
    }

    /// A client is gone: nothing more is sent to it, and its reads are not executed. Its commands
    /// continue: its next connection may ask for them.
    pub(crate) fn client_gone(&self, connection: ConnectionId) {
        self.shared.office.lock().reads.forget(connection);
        self.shared.node_reads.lock().forget(connection);
    }

    fn status(&self) -> NodeStatus {
        status(&self.shared, &self.shared.office.lock())
    }
}

/// The outcomes of a group, if it is known and nothing is missing.
fn all_known(known: &[Option<Outcome>]) -> Option<Vec<Outcome>> {
    let outcomes: Option<Vec<Outcome>> = known.iter().copied().collect();
    outcomes.filter(|it| !it.is_empty())
}

fn refused(request: u64, reason: &str) -> Handled {
    Err(Refusal::invalid(request, reason))
}
