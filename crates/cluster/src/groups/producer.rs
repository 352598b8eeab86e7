//! The producer: accepts clients' requests and distributes commands to workers.
//!
//! A command goes to the worker of its first key, so commands on one account meet in one group,
//! where they do not conflict.
//!
//! Paper: raft-pwal §3.1

use std::sync::Arc;

use namiki::replica::check_table_name;
use namiki_client::protocol::{Command, NodeStatus, Request, Response, SessionId};
use namiki_platform::hash::hash_of;

use crate::command_size::{command_bytes, memory_of_commands, memory_of_keys};
use crate::control::{Control, SessionLimits};
use crate::entry::EntryBody;
use crate::events::{ApplierEvent, Scan, WorkerEvent};
use crate::fault_injection::Fault;
use crate::group_in_flight::{GroupInFlight, WAITING_MAX};
use crate::image::checkpointer::ImageEvent;
use crate::metrics::{Count, LOG_FULL};
use crate::network::{ClientName, ConnectionId, NodeId};
use crate::office::{InFlight, ReadRequest, WaitingReads, Wanted};
use crate::raft::{RAFT_BYTES_MAX, RAFT_MESSAGE_BYTES, RaftEvent};
use crate::session::KnownGroup;
use crate::shared::Shared;
use crate::status::status;

/// Largest number of concurrent requests for replacements of nodes.
const REPLACEMENTS_MAX: usize = 64;

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
                group,
                acknowledged_through,
                commands,
            } => self.submit(from, session, group, acknowledged_through, commands),
            Request::Read { request, keys } => {
                let bytes = memory_of_keys(&keys);
                self.read(ReadRequest {
                    connection: from,
                    request,
                    wanted: Wanted::Keys(keys),
                    bytes,
                })
            }
            Request::Tables { request } => self.read(ReadRequest {
                connection: from,
                request,
                wanted: Wanted::Tables,
                bytes: 0,
            }),
            Request::Scan { request, range } => {
                let until = range.until.as_ref().map_or(0, Vec::len);
                self.read(ReadRequest {
                    connection: from,
                    request,
                    bytes: range.from.len() + until,
                    wanted: Wanted::Scan(range),
                })
            }
            Request::DropTable { table } => self.control(from, Control::DropTable { table }),
            Request::OpenSession { nonce } => self.open_session(from, client, nonce),
            Request::CloseSession { session } => self.close_session(from, session),
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
            Request::ReplaceNode { node, incarnation } => self.replace(from, node, incarnation),
            Request::CutLinks { .. } => refused(0, "links are cut by the transport"),
            Request::Status => Some(Response::Status(Box::new(self.status()))),
            // It reads every row while commits wait.
            Request::StateHash if self.shared.hashes.begin() => {
                self.shared.applier.put(ApplierEvent::StateHash(from));
                None
            }
            Request::StateHash => Some(Response::Busy { request: 0 }),
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
        session: SessionId,
        number: u64,
        acknowledged_through: u64,
        commands: Vec<Command>,
    ) -> Option<Response> {
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
        if let Some(group) = office.groups.get(&(session, number)) {
            // A repeated request joins the one in flight.
            if group.commands.len() != count {
                return refused(
                    number,
                    "the group was sent before with another number of commands",
                );
            }
            return group.join(from).map(|outcomes| Response::Results {
                session,
                group: number,
                outcomes,
            });
        }
        let sessions = self.shared.sessions.lock();
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
        let group = GroupInFlight::new(
            session,
            number,
            acknowledged_through,
            term,
            commands,
            size.bytes,
            known,
            from,
        );
        let missing = group.missing();
        if missing.is_empty() {
            let (_, outcomes) = group.complete(&[])?;
            return Some(Response::Results {
                session,
                group: number,
                outcomes,
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

    fn read(&self, request: ReadRequest) -> Option<Response> {
        let mut office = self.shared.office.lock();
        if office.term.is_none() {
            return self.not_leader(request.request);
        }
        if request.wanted.keys() > self.limits.read_keys {
            return refused(
                request.request,
                "the request reads too many keys: send several",
            );
        }
        let max = WaitingReads {
            requests: self.limits.reads,
            keys: self.limits.waiting_keys,
            bytes: self.limits.waiting_key_bytes,
        };
        if !office.has_room_for_read(&request, max) {
            return Some(Response::Busy {
                request: request.request,
            });
        }
        self.shared.metrics.increment(Count::Reads);
        if let Some(id) = office.read(request) {
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

    fn close_session(&self, from: ConnectionId, session: SessionId) -> Option<Response> {
        if self.shared.office.lock().term.is_none() {
            return self.not_leader(0);
        }
        // Numbers are never used again: a session that does not exist needs no entry.
        if !self.shared.sessions.lock().has(session) {
            return Some(Response::SessionClosed { session });
        }
        self.control(from, Control::CloseSession { session })
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
        if office.control_waiting >= self.limits.control {
            return Some(Response::Busy { request: 0 });
        }
        office.control_waiting += 1;
        let body = EntryBody::Control(control.encode());
        let waiting = office.control.entry(control).or_default();
        waiting.push(from);
        if waiting.len() == 1 {
            self.shared.raft.put(RaftEvent::Propose(body));
        }
        None
    }

    fn replace(&self, from: ConnectionId, number: u64, incarnation: u64) -> Option<Response> {
        let mut office = self.shared.office.lock();
        if office.term.is_none() {
            return self.not_leader(0);
        }
        if number > NodeId::MAX || !(1..=NodeId::MAX).contains(&incarnation) {
            return refused(0, "no node has such a number, or such an incarnation");
        }
        let node = NodeId::new(number, incarnation);
        if office.replacements.len() >= REPLACEMENTS_MAX {
            return Some(Response::Busy { request: 0 });
        }
        // Requests without end are bounded as messages of nodes are.
        let event = RaftEvent::Replace(node);
        if !(self.shared.raft).put_within(event, RAFT_MESSAGE_BYTES, RAFT_BYTES_MAX) {
            return Some(Response::Busy { request: 0 });
        }
        let waiting = office.replacements.entry(node).or_default();
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
        self.shared.office.lock().forget_reads(connection);
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
