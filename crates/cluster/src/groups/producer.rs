//! The producer: accepts clients' requests and distributes commands to workers.
//!
//! A command goes to the worker of its first key, so commands on one account meet in one group,
//! where they do not conflict.
//!
//! Paper: raft-pwal §3.1

use std::sync::Arc;

use namiki::replica::check_table_name;
use namiki_client::protocol::{
    Command, Freshness, MemberChange, NodeStatus, Request, Response, SessionId,
};
use namiki_platform::hash::hash_of;
use parking_lot::MutexGuard;

use crate::command_size::{command_bytes, memory_of_commands, memory_of_keys};
use crate::control::{Control, SessionLimits};
use crate::entry::EntryBody;
use crate::events::{ApplierEvent, ImageEvent, Scan, WorkerEvent};
use crate::fault_injection::Fault;
use crate::group_in_flight::{Answer, GroupInFlight, WAITING_MAX};
use crate::metrics::{Count, LOG_FULL};
use crate::network::{ClientName, ConnectionId};
use crate::office::{InFlight, Office};
use crate::raft::{RAFT_BYTES_MAX, RAFT_MESSAGE_BYTES, RaftEvent};
use crate::read_queue::{ReadRequest, WaitingReads, Wanted};
use crate::session::{KnownGroup, SessionTable};
use crate::shared::Shared;
use crate::status::status;

/// Largest number of concurrent requests for changes of the members.
const MEMBER_CHANGES_MAX: usize = 64;

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
    /// The answer.
    No(Option<Response>),
    /// This leader does not know the session.
    Unknown,
}

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
            Request::OpenSession { nonce } => self.open_session(from, client, nonce),
            Request::CloseSession { session, fence } => self.close_session(from, session, fence),
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
            Request::Status => Some(Response::Status(Box::new(self.status()))),
            Request::StateHash { at: Some(entry) } => self.state_hash_at(from, entry),
            Request::StateHash { at: None } if self.shared.hashes.begin() => {
                self.shared.applier.put(ApplierEvent::StateHash(from));
                None
            }
            Request::StateHash { at: None } => Some(Response::Busy { request: 0 }),
            Request::BeginBackup if self.shared.backups.begin() => {
                self.shared.images.put(ImageEvent::Backup(from));
                None
            }
            Request::BeginBackup => Some(Response::Busy { request: 0 }),
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
                None
            }
            Request::BackupFile { .. } => Some(Response::Busy { request: 0 }),
        };
        if let Some(answer) = answer {
            self.shared.metrics.note_answer(&answer);
            self.shared.network.reply(from, answer);
        }
    }

    fn submit(
        &self,
        from: ConnectionId,
        numbers: GroupNumbers,
        commands: Vec<Command>,
    ) -> Option<Response> {
        let GroupNumbers {
            session,
            fence,
            group: number,
            acknowledged_through,
        } = numbers;
        // Everything that takes long for a long group is done without the lock.
        if let Some(reason) = self.why_not(number, acknowledged_through, &commands) {
            return match self.shared.office.lock().term {
                None => self.not_leader(number),
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
            return self.not_leader(number);
        };
        let sessions = self.shared.sessions.lock();
        match self.check_fence(&sessions, session, fence, number) {
            Holds::Yes => {}
            Holds::No(answer) => return answer,
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
            return group.join(from).map(|(outcomes, lsn)| Response::Results {
                session,
                group: number,
                outcomes,
                lsn,
            });
        }
        // The applier records outcomes before it removes a group from those in flight, so none is
        // missed here.
        let known = match sessions.group(session, number) {
            None => return Some(Response::NoSuchSession { session }),
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
        // Another node may have applied the entry of the drop already, and shown it to a reader that sends this.
        if office.is_dropping(&commands) {
            return Some(Response::Busy { request: number });
        }
        // A group that was sent before has its place.
        if known.is_empty()
            && (sessions.unacknowledged(session) >= self.limits.unacknowledged_groups
                || !sessions.has_room_for_outcomes(session, count, self.limits.outcomes))
        {
            return refused(
                number,
                "the results of too many groups are kept: acknowledge those that arrived",
            );
        }
        // The outcomes are in this entry, or in earlier ones.
        let known_lsn = sessions.used(session);
        drop(sessions);
        if !known.is_empty() && known.len() != count {
            return refused(
                number,
                "the group was sent before with another number of commands",
            );
        }
        if !office.has_room(from, size, max) {
            return Some(Response::Busy { request: number });
        }
        if !self.shared.store.has_room() {
            if self.shared.will_have_room() {
                return Some(Response::Busy { request: number });
            }
            return refused(number, LOG_FULL);
        }
        let is_ignored = self.shared.planted.has(Fault::AcceptWithoutRoom);
        if !is_ignored && !self.shared.rooms.accept(size.bytes) {
            self.shared.metrics.increment(Count::GroupsWithoutRoom);
            return Some(Response::Busy { request: number });
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
        if missing.is_empty() {
            let Answer { outcomes, lsn, .. } = group.complete(&[], known_lsn)?;
            return Some(Response::Results {
                session,
                group: number,
                outcomes,
                lsn,
            });
        }
        let group = Arc::new(group);
        office.begin(&group);
        drop(office);
        self.spread(&group, missing);
        None
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
            None => Holds::No(Some(Response::NoSuchSession { session })),
            // It was resumed by an entry that this leader does not have: it was deposed.
            Some(current) if current < fence => Holds::No(self.not_leader(request)),
            Some(current) if current > fence && !self.shared.planted.has(Fault::IgnoreFences) => {
                Holds::No(Some(Response::SessionTaken { session }))
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
    ) -> Option<Response> {
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
    ) -> Option<Response> {
        let bytes = match &wanted {
            Wanted::Keys(keys) => memory_of_keys(keys),
            Wanted::Scan(range) => range.from.len() + range.until.as_ref().map_or(0, Vec::len),
            Wanted::Tables | Wanted::Outcomes { .. } | Wanted::UnknownSession(_) => 0,
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
            Freshness::Leader if office.term.is_none() => self.not_leader(request),
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
    fn state_hash_at(&self, from: ConnectionId, entry: u64) -> Option<Response> {
        if !self.shared.hash_requests.add((from, entry)) {
            return Some(Response::Busy { request: 0 });
        }
        if entry <= self.shared.applied() {
            self.shared.applier.put(ApplierEvent::HashRequested);
        }
        None
    }

    fn read_limits(&self) -> WaitingReads {
        WaitingReads {
            requests: self.limits.reads,
            keys: self.limits.waiting_keys,
            bytes: self.limits.waiting_key_bytes,
        }
    }

    /// A strong read on a node that does not lead: the leader is asked for its commit index.
    fn read_strongly(&self, read: ReadRequest) -> Option<Response> {
        if self.shared.planted.has(Fault::FollowerReadsWithoutIndex) {
            return self.read_at_least(read, 0);
        }
        let confirm = (self.shared.node_reads.lock()).strong(read, self.read_limits());
        self.shared.metrics.increment(Count::Reads);
        match confirm {
            Ok(Some(id)) => {
                self.shared.raft.put(RaftEvent::ReadIndex(id));
                None
            }
            Ok(None) => None,
            Err(busy) => Some(busy),
        }
    }

    /// A read of the state after this entry, or a later one.
    fn read_at_least(&self, read: ReadRequest, lsn: u64) -> Option<Response> {
        let (applied, limits) = (self.shared.applied(), self.read_limits());
        let is_ready = (self.shared.node_reads.lock()).at_least(read, lsn, applied, limits);
        match is_ready {
            Ok(is_ready) => {
                self.shared.metrics.increment(Count::Reads);
                if is_ready {
                    self.shared.applier.put(ApplierEvent::NodeReads);
                }
                None
            }
            Err(busy) => Some(busy),
        }
    }

    fn read_as_leader(
        &self,
        mut office: MutexGuard<'_, Office>,
        request: ReadRequest,
    ) -> Option<Response> {
        if !office.reads.has_room(&request, self.read_limits()) {
            return Some(Response::Busy {
                request: request.request,
            });
        }
        self.shared.metrics.increment(Count::Reads);
        if let Some(id) = office.reads.add(request) {
            if self.shared.planted.has(Fault::ReadWithoutConfirmation) {
                self.shared.applier.put(ApplierEvent::ReadReady(id, 0));
                return None;
            }
            self.shared.raft.put(RaftEvent::ReadIndex(id));
        }
        None
    }

    /// The applier decides whether there is room, in the order of the log. If the table is full now,
    /// the request is refused without an entry, so refused ones do not fill the log.
    fn open_session(
        &self,
        from: ConnectionId,
        client: &ClientName,
        nonce: u128,
    ) -> Option<Response> {
        let limits = self.limits.sessions;
        if self.shared.office.lock().term.is_none() {
            return self.not_leader(0);
        }
        let full = {
            let sessions = self.shared.sessions.lock();
            let is_new = !sessions.has_nonce(nonce);
            let checked = sessions.check_limits(client, limits);
            checked.err().filter(|_| is_new)
        };
        if let Some(limit) = full {
            return Some(Response::SessionsFull { nonce, limit });
        }
        let control = Control::OpenClientSession {
            nonce,
            client: client.clone(),
            limits,
        };
        self.control(from, control)
    }

    fn close_session(
        &self,
        from: ConnectionId,
        session: SessionId,
        fence: u64,
    ) -> Option<Response> {
        let office = self.shared.office.lock();
        if office.term.is_none() {
            return self.not_leader(0);
        }
        let holds = self.check_fence(&self.shared.sessions.lock(), session, fence, 0);
        match holds {
            Holds::Unknown => self.confirm_unknown(office, from, session, 0),
            // Numbers are never used again: a session that does not exist needs no entry.
            Holds::No(Some(Response::NoSuchSession { .. })) => {
                Some(Response::SessionClosed { session })
            }
            Holds::No(answer) => answer,
            Holds::Yes => {
                drop(office);
                self.control(from, Control::CloseHeldSession { session, fence })
            }
        }
    }

    fn resume_session(
        &self,
        from: ConnectionId,
        session: SessionId,
        nonce: u128,
        attempt: u128,
    ) -> Option<Response> {
        let office = self.shared.office.lock();
        if office.term.is_none() {
            return self.not_leader(0);
        }
        // Without an entry, so that requests for sessions that do not exist do not fill the log.
        if !self.shared.sessions.lock().is_opened_by(session, nonce) {
            if self.may_be_opened(session) {
                return self.confirm_unknown(office, from, session, 0);
            }
            return Some(Response::NoSuchSession { session });
        }
        drop(office);
        let control = Control::ResumeSession {
            session,
            nonce,
            attempt,
        };
        self.control(from, control)
    }

    fn control(&self, from: ConnectionId, control: Control) -> Option<Response> {
        let mut office = self.shared.office.lock();
        if office.term.is_none() {
            return self.not_leader(0);
        }
        if let Control::CreateTable { name, .. } = &control
            && let Err(error) = check_table_name(name)
        {
            return refused(0, &error.to_string());
        }
        // An entry without a payload takes room, too.
        let closes = matches!(control, Control::CloseHeldSession { .. });
        let has_room = closes || !self.shared.rooms.refuses();
        if office.control_waiting >= self.limits.control || !has_room {
            return Some(Response::Busy { request: 0 });
        }
        let body = EntryBody::Control(control.encode());
        if office.wait_for(control, from) {
            self.shared.raft.put(RaftEvent::Propose(body));
        }
        None
    }

    fn change_members(&self, from: ConnectionId, change: MemberChange) -> Option<Response> {
        let mut office = self.shared.office.lock();
        if office.term.is_none() {
            return self.not_leader(0);
        }
        if office.member_changes.len() >= MEMBER_CHANGES_MAX {
            return Some(Response::Busy { request: 0 });
        }
        // Requests without end are bounded as messages of nodes are.
        let event = RaftEvent::ChangeMembers(change.clone());
        if !(self.shared.raft).put_within(event, RAFT_MESSAGE_BYTES, RAFT_BYTES_MAX) {
            return Some(Response::Busy { request: 0 });
        }
        let waiting = office.member_changes.entry(change).or_default();
        if !waiting.contains(&from) {
            if waiting.len() >= WAITING_MAX {
                waiting.remove(0);
            }
            waiting.push(from);
        }
        None
    }

    fn not_leader(&self, request: u64) -> Option<Response> {
        let view = self.shared.view.lock();
        // The transport adds its address.
        let leader = view.leader.filter(|it| *it != self.shared.node);
        let leader = leader.map(|it| (it.number(), String::new()));
        Some(Response::NotLeader { request, leader })
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

fn refused(request: u64, reason: &str) -> Option<Response> {
    Some(Response::Refused {
        request,
        reason: reason.to_owned(),
    })
}
