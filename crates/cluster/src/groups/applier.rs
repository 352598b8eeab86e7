//! The applier: installs committed entries in the order of the log, on the leader and on followers.
//!
//! It is the only thread that changes tables and sessions. On the leader it takes committed groups
//! out of the task store, releases their locks after their changes are installed, and answers their
//! clients. It also executes clients' reads, between two entries, so a read sees whole groups.
//!
//! Paper: raft-pwal §3.3, Algorithm 3

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use bytes::Bytes;
use namiki::replica::ReplicaError;
use namiki::{Error, TableId};
use namiki_client::protocol::{Response, ScanRange, SessionId, TableEntry};
use namiki_platform::{ErrorSentence, Stamp};

use crate::control::Control;
use crate::entry::{EntryBody, LogEntry, PayloadRef};
use crate::events::{ApplierEvent, ImageEvent, KeysRead, Scan, ViewForImage, WorkerEvent};
use crate::failure::NodeFailure;
use crate::fault_injection::Fault;
use crate::image::rows::{ImageHead, put_rows};
use crate::membership::{Membership, MembershipChange};
use crate::metrics::Count;
use crate::network::ConnectionId;
use crate::office::Office;
use crate::payload::Payload;
use crate::raft::RaftEvent;
use crate::read_queue::{BATCH_KEYS, ReadRequest, Wanted};
use crate::refusal::Refusal;
use crate::scans::RowsByKey;
use crate::session::{KnownGroup, ResumeRefusal, Resumed, SessionTable};
use crate::shared::Shared;
use crate::status::status;
use crate::storage::{LogPosition, ReadAhead, Snapshot, StoreError};

/// Deleted keys that leave the indexes after an entry, if there are any, beside twice its own.
const REMOVED_MIN: usize = 1024;
/// Entries that are applied between two looks for reads.
const ENTRIES_BETWEEN_READS: u64 = 256;
/// Number of keys after which a batch of reads from the image ends: each may read a page of it.
const IMAGE_BATCH_KEYS: usize = 1024;

/// Applies entries.
pub(crate) struct Applier {
    shared: Arc<Shared>,
    applied: u64,
    /// The term of the last entry that was applied.
    term: u64,
    /// The members after it.
    members: Membership,
    /// The entry of the last image.
    image_at: u64,
    /// Whether the tables are in memory. Nothing is applied before.
    is_loaded: bool,
    /// Rows are being read from the image for clients.
    reads_image: bool,
    /// The term in which this node was elected.
    elected: Option<u64>,
    /// Committed entries that are to be applied.
    waiting: VecDeque<LogEntry>,
    /// The payload of the first of them is damaged on the disk, and is being fetched.
    is_damaged: bool,
    /// Reads that wait for an entry.
    reads: VecDeque<(u64, Vec<ReadRequest>)>,
    /// When the entries that are being applied became known to be committed.
    committed_at: Instant,
    ahead: ReadAhead,
    /// Deleted keys that were left in the indexes by the last entry.
    removed_waiting: usize,
}

impl Applier {
    /// Goes on behind an image.
    pub(crate) fn new(shared: Arc<Shared>, at: LogPosition, members: Membership) -> Self {
        let is_loaded = !shared.replica.began_with_tables();
        shared.node_reads.lock().set_loading(!is_loaded);
        Self {
            shared,
            applied: at.index,
            term: at.term,
            members,
            image_at: at.index,
            is_loaded,
            reads_image: false,
            elected: None,
            waiting: VecDeque::new(),
            is_damaged: false,
            reads: VecDeque::new(),
            committed_at: Instant::now(),
            ahead: ReadAhead::default(),
            removed_waiting: 0,
        }
    }

    /// Handles an event.
    ///
    /// # Errors
    /// [`NodeFailure`]: the log contradicts itself or cannot be read, so the node has to stop.
    pub(crate) fn handle(&mut self, event: ApplierEvent) -> Result<(), NodeFailure> {
        match event {
            ApplierEvent::Committed(entries, at) => {
                self.committed_at = at;
                self.waiting.extend(entries);
                self.apply_waiting()?;
            }
            ApplierEvent::PayloadsRestored => {
                self.is_damaged = false;
                self.apply_waiting()?;
            }
            ApplierEvent::TablesLoaded(loaded) => {
                self.note_loaded(loaded)?;
                self.apply_waiting()?;
            }
            ApplierEvent::Elected(term) => {
                self.elected = Some(term);
                if self.shared.planted.has(Fault::EarlyOffice) && self.is_loaded {
                    self.take_office(term);
                }
            }
            ApplierEvent::Deposed => self.leave_office(),
            ApplierEvent::ReadReady(id, index) if id.is_of_node() => {
                let next = self.shared.node_reads.lock().confirmed(id, index);
                if let Some(next) = next {
                    self.shared.raft.put(RaftEvent::ReadIndex(next));
                }
            }
            ApplierEvent::NodeReads => {}
            ApplierEvent::ImageRead => self.reads_image = false,
            ApplierEvent::ReadReady(id, index) => {
                let (requests, next) = self.shared.office.lock().reads.confirmed(id);
                if let Some(next) = next {
                    self.shared.raft.put(RaftEvent::ReadIndex(next));
                }
                self.reads.push_back((index, requests));
            }
            ApplierEvent::StateHash(connection) => self.hash_state(connection)?,
            // Below.
            ApplierEvent::HashRequested => {}
            ApplierEvent::OpenImageView { again } => self.open_image_view(again)?,
        }
        self.answer_hash_requests()?;
        self.answer_reads()
    }

    /// Has the state hashed for the client that is next, in a view of this moment.
    fn hash_state(&self, connection: ConnectionId) -> Result<(), NodeFailure> {
        if self.shared.tables_lost || !self.is_loaded {
            self.shared.hashes.end();
            let answer = Response::Busy { request: 0 };
            self.shared.network.reply(connection, answer);
            return Ok(());
        }
        let office = self.shared.office.lock();
        let mut status = status(&self.shared, &office);
        drop(office);
        status.applied_lsn = self.applied;
        let view = (self.shared.replica.view())
            .map_err(|error| NodeFailure::database("opening a view", error))?;
        let sessions = self.shared.sessions.lock().state_hash();
        self.shared.scans.put(Scan::StateHash {
            connection,
            status: Box::new(status),
            view,
            sessions,
        });
        Ok(())
    }

    /// Answers those that have asked for the hash at the last entry, or an earlier one.
    fn answer_hash_requests(&self) -> Result<(), NodeFailure> {
        if self.applied < self.shared.hash_requests.next() {
            return Ok(());
        }
        for (connection, entry) in self.shared.hash_requests.take_due(self.applied) {
            if entry == self.applied && self.shared.hashes.begin() {
                self.hash_state(connection)?;
                continue;
            }
            let applied = self.applied;
            let answer = if entry == applied {
                Response::Busy { request: 0 }
            } else {
                Response::EntryPassed { applied }
            };
            self.shared.network.reply(connection, answer);
        }
        Ok(())
    }

    /// Opens the view of an image, with the rows of the cluster's own.
    fn open_image_view(&mut self, again: bool) -> Result<(), NodeFailure> {
        let is_new = self.applied > self.image_at;
        if !is_new && !again || self.applied == 0 || self.shared.tables_lost {
            self.shared.images.put(ImageEvent::View(None));
            return Ok(());
        }
        let replica = &self.shared.replica;
        // Otherwise the rows are there.
        if is_new {
            let commands = self.shared.commands_applied.load(Ordering::Relaxed);
            let head = ImageHead::new(
                self.shared.clusters.clone(),
                self.term,
                self.members.clone(),
                commands,
            );
            let mut none = SessionTable::default();
            let mut sessions = self.shared.sessions.lock();
            let sessions = if self.shared.planted.has(Fault::SessionsNotInImage) {
                &mut none
            } else {
                &mut *sessions
            };
            put_rows(replica, &head, sessions);
        }
        let view = (replica.view_for_image())
            .map_err(|error| NodeFailure::database("opening a view", error))?;
        self.image_at = self.applied;
        let position = LogPosition {
            index: self.applied,
            term: self.term,
        };
        let members = self.members.encode();
        let snapshot = Snapshot { position, members };
        let opened = ViewForImage { view, snapshot };
        (self.shared.images).put(ImageEvent::View(Some(Box::new(opened))));
        Ok(())
    }

    /// The tables are in memory: entries are applied from now on.
    fn note_loaded(&mut self, loaded: Result<(), Error>) -> Result<(), NodeFailure> {
        loaded.map_err(|error| match error {
            source @ Error::TableNotLoaded { .. } => NodeFailure::TablesDamaged { source },
            error => NodeFailure::database("loading its tables", error),
        })?;
        self.is_loaded = true;
        self.shared.node_reads.lock().set_loading(false);
        self.shared.raft.put(RaftEvent::TablesLoaded);
        Ok(())
    }

    /// Applies the waiting entries, up to one with a damaged payload; none before the tables are in memory. After a start they
    /// may be many: reads are answered between them.
    fn apply_waiting(&mut self) -> Result<(), NodeFailure> {
        let mut applied = 0;
        while self.is_loaded
            && !self.is_damaged
            && let Some(entry) = self.waiting.pop_front()
        {
            if !self.apply(&entry)? {
                self.is_damaged = true;
                self.waiting.push_front(entry);
            }
            applied += 1;
            if applied % ENTRIES_BETWEEN_READS == 0 {
                self.answer_reads()?;
            }
        }
        Ok(())
    }

    /// Applies an entry. Returns whether it did: otherwise its payload is damaged.
    fn apply(&mut self, entry: &LogEntry) -> Result<bool, NodeFailure> {
        assert_eq!(
            entry.index,
            self.applied + 1,
            "entries are committed one by one"
        );
        match &entry.body {
            EntryBody::Empty => {}
            EntryBody::Group(payload) => {
                if !self.apply_group(entry.index, payload)? {
                    return Ok(false);
                }
            }
            EntryBody::Control(bytes) => self.apply_control(entry.index, bytes)?,
            EntryBody::Membership(bytes) => {
                // Raft made the change when it handed the entry out.
                let change = MembershipChange::decode(bytes)
                    .ok_or_else(|| NodeFailure::unknown_entry(entry.index))?;
                if self.members.allows(&change) {
                    self.members.apply(&change);
                }
            }
        }
        if !matches!(entry.body, EntryBody::Group(_)) {
            let passed = self.shared.replica.pass(Stamp(entry.index));
            passed.map_err(|error| NodeFailure::not_applied(entry.index, error))?;
        }
        self.take_out_removed();
        (self.applied, self.term) = (entry.index, entry.term);
        self.shared.applied.store(entry.index, Ordering::Release);
        if entry.body == EntryBody::Empty && self.elected == Some(entry.term) {
            self.take_office(entry.term);
        }
        self.answer_hash_requests()?;
        Ok(true)
    }

    /// Takes as many deleted keys out of the indexes as the entry has left, and more: those for which a view was open do not
    /// come all at once.
    fn take_out_removed(&mut self) {
        let replica = &self.shared.replica;
        let waiting = replica.removed_waiting();
        let more = waiting.saturating_sub(self.removed_waiting);
        if waiting > 0 {
            replica.take_out_removed(REMOVED_MIN + 2 * more);
        }
        self.removed_waiting = replica.removed_waiting();
    }

    /// Takes office: everything of earlier terms is applied.
    fn take_office(&mut self, term: u64) {
        self.shared
            .task_stores
            .iter()
            .for_each(|it| it.open(Some(term)));
        for worker in &self.shared.workers {
            worker.put(WorkerEvent::Office(Some(term)));
        }
        self.shared.office.lock().term = Some(term);
    }

    fn leave_office(&mut self) {
        self.elected = None;
        // First no more requests are accepted, then no more groups.
        let mut refusals = self.shared.office.lock().leave();
        self.shared.task_stores.iter().for_each(|it| it.open(None));
        for worker in &self.shared.workers {
            worker.put(WorkerEvent::Office(None));
        }
        let reads = self.reads.drain(..).flat_map(|(_, requests)| requests);
        refusals.extend(reads.map(|read| {
            let (request, leader) = (read.request, None);
            (read.connection, Refusal::NotLeader { request, leader })
        }));
        for (connection, refusal) in refusals {
            self.shared.refuse(connection, refusal);
        }
    }

    /// Applies a group. Returns whether it did: otherwise its payload is damaged.
    fn apply_group(&mut self, index: u64, payload: &PayloadRef) -> Result<bool, NodeFailure> {
        let worker = usize::from(payload.name.worker);
        let sealed = (self.shared.task_stores.get(worker)).and_then(|it| it.take(payload.name));
        let bytes = match &sealed {
            Some(sealed) => sealed.payload.clone(),
            None => match self.payload(index, payload)? {
                Some(bytes) => bytes,
                None => return Ok(false),
            },
        };
        let read = Payload::read(&bytes).map_err(|error| NodeFailure::invalid(index, error))?;
        let mut commands = 0;
        let mut sessions = self.shared.sessions.lock();
        for section in &read.sections {
            commands += section.count() as u64;
            (sessions.apply(index, section))
                .map_err(|error| NodeFailure::contradiction(index, error))?;
        }
        drop(sessions);
        let not_applied = |error| NodeFailure::not_applied(index, error);
        let Some(sealed) = sealed else {
            (self.shared.replica.apply(Stamp(index), read.changes)).map_err(not_applied)?;
            self.note_commands(commands);
            return Ok(true);
        };
        // Its locks are released as its changes are installed.
        (sealed.locks.install(Stamp(index), read.changes)).map_err(not_applied)?;
        self.note_commands(commands);
        for (number, mailbox) in self.shared.workers.iter().enumerate() {
            // SeqCst: a worker sets the parked flag after it has checked the lock.
            if number == worker || self.shared.has_parked[number].load(Ordering::SeqCst) {
                mailbox.put(WorkerEvent::Released);
            }
        }
        for members in &sealed.members {
            self.shared.complete(members, index);
        }
        let groups = &self.shared.metrics.groups;
        let committed = self.committed_at;
        (groups.committed).note(committed.saturating_duration_since(sealed.sealed_at));
        groups.answered.note(sealed.sealed_at.elapsed());
        Ok(true)
    }

    fn note_commands(&self, commands: u64) {
        (self.shared.commands_applied).fetch_add(commands, Ordering::Relaxed);
        self.shared.metrics.increment(Count::GroupsApplied);
    }

    /// Reads the bytes of a payload that another leader has sealed. `None`: they are damaged on the disk. They count as absent
    /// then, and are fetched from another node; until they are durable again, this node neither votes nor acknowledges.
    fn payload(&mut self, index: u64, payload: &PayloadRef) -> Result<Option<Bytes>, NodeFailure> {
        if let Some(bytes) = self.shared.cache.get(payload) {
            return Ok(Some(bytes));
        }
        // It is committed and persisted here; otherwise Raft would not have handed it out.
        let shared = &self.shared;
        match shared
            .store
            .read_payload_ahead(payload.name, &mut self.ahead)
        {
            Ok(bytes) if payload.matches(&bytes) => Ok(Some(bytes)),
            Ok(_) => Err(NodeFailure::damaged(index, *payload)),
            Err(error @ (StoreError::DamagedPayload { .. } | StoreError::Device { .. })) => {
                slog::warn!(shared.logger, "a payload on this disk is damaged: it is fetched from another node";
                    "entry" => index, "error" => %ErrorSentence(&error));
                shared.metrics.increment(Count::PayloadsDamaged);
                shared.store.forget_damaged(payload);
                shared.raft.put(RaftEvent::PayloadDamaged(*payload));
                Ok(None)
            }
            Err(error) => Err(NodeFailure::storage("reading a payload", error)),
        }
    }

    fn apply_control(&mut self, index: u64, bytes: &[u8]) -> Result<(), NodeFailure> {
        let control = Control::decode(bytes).ok_or_else(|| NodeFailure::unknown_entry(index))?;
        let answer = match &control {
            Control::OpenSession {
                nonce,
                client,
                limits,
            } => {
                let nonce = *nonce;
                let mut sessions = self.shared.sessions.lock();
                if self.shared.planted.has(Fault::EvictSession)
                    && sessions.check_limits(client, *limits).is_err()
                {
                    sessions.evict();
                }
                match sessions.open(index, nonce, client, *limits) {
                    Ok(session) => Ok(Response::SessionOpened { nonce, session }),
                    Err(limit) => Err(Refusal::SessionsFull { nonce, limit }),
                }
            }
            Control::ResumeSession {
                session,
                nonce,
                attempt,
            } => {
                let resumed =
                    (self.shared.sessions.lock()).resume(index, *session, *nonce, *attempt);
                return self.answer_resumed(index, &control, *session, resumed);
            }
            Control::CloseSession { session, fence } => {
                let session = *session;
                if self.shared.sessions.lock().close_held(session, *fence) {
                    Ok(Response::SessionClosed { session })
                } else {
                    Err(Refusal::SessionTaken { session })
                }
            }
            Control::CreateTable {
                name,
                eight_byte_keys,
            } => {
                let replica = &self.shared.replica;
                let created = match replica.table_id(name) {
                    Some(known) => Ok(known),
                    None => replica.create_table(name, *eight_byte_keys),
                };
                match created {
                    Ok(table) => Ok(Response::Table {
                        name: name.clone(),
                        table: table.0,
                        lsn: index,
                    }),
                    // Every node refuses it.
                    Err(error @ ReplicaError::TableName { .. }) => {
                        Err(Refusal::invalid(0, error.to_string()))
                    }
                    Err(error) => return Err(NodeFailure::not_created(index, error)),
                }
            }
            Control::DropTable { table } => {
                let dropped = self.shared.replica.drop_table(TableId(*table));
                let existed = dropped.is_some();
                if let Some(dropped) = dropped {
                    self.shared.scans.put(Scan::Free(dropped));
                }
                Ok(Response::TableDropped {
                    table: *table,
                    existed,
                    lsn: index,
                })
            }
            Control::ClearTable { table } => {
                let cleared = self.shared.replica.clear_table(TableId(*table));
                let successor = cleared.map(|(new, dropped)| {
                    self.shared.scans.put(Scan::Free(dropped));
                    new.0
                });
                Ok(Response::TableCleared {
                    table: *table,
                    successor,
                    lsn: index,
                })
            }
        };
        let mut office = self.shared.office.lock();
        if let Control::CloseSession { session, fence } = &control {
            office.end_close(*session, *fence);
        }
        for connection in self.take_waiting(&mut office, &control) {
            match answer.clone() {
                Ok(answer) => self.shared.network.reply(connection, answer),
                Err(refusal) => self.shared.refuse(connection, refusal),
            }
        }
        Ok(())
    }

    /// Takes the connections that a control entry answers, and proposes it again for others.
    fn take_waiting(&self, office: &mut Office, control: &Control) -> Vec<ConnectionId> {
        let (waiting, is_again) = office.take_waiting(control);
        if is_again {
            let body = EntryBody::Control(control.encode());
            self.shared.raft.put(RaftEvent::Propose(body));
        }
        waiting
    }

    /// Clients have resumed a session. No group with an earlier fence is accepted from now on: those
    /// in flight are waited for.
    fn answer_resumed(
        &self,
        index: u64,
        control: &Control,
        session: SessionId,
        resumed: Result<Resumed, ResumeRefusal>,
    ) -> Result<(), NodeFailure> {
        let mut office = self.shared.office.lock();
        let waiting = self.take_waiting(&mut office, control);
        if let Ok(resumed) = resumed
            && !office.resume(session, &waiting, resumed)
        {
            return Ok(());
        }
        drop(office);
        for connection in waiting {
            let refusal = match resumed {
                Ok(resumed) => {
                    self.shared
                        .answer_resumed(connection, session, resumed, index);
                    continue;
                }
                Err(ResumeRefusal::NoSuchSession) => Refusal::NoSession { session },
                Err(ResumeRefusal::Superseded) => Refusal::SessionTaken { session },
                Err(ResumeRefusal::NumbersUsedUp) => Refusal::invalid(
                    0,
                    "the session has no numbers for more groups: open another one",
                ),
            };
            self.shared.refuse(connection, refusal);
        }
        Ok(())
    }

    /// Answers the reads that can be answered now. Before the tables are in memory, these are reads of the state at the image's
    /// entry, and they are read from the image: every entry of it is committed.
    fn answer_reads(&mut self) -> Result<(), NodeFailure> {
        if !self.is_loaded {
            return self.answer_from_image();
        }
        while let Some((index, _)) = self.reads.front()
            && *index <= self.applied
            && let Some((_, requests)) = self.reads.pop_front()
        {
            requests.into_iter().for_each(|read| self.answer(read));
        }
        let (requests, has_more) = self.take_node_reads(BATCH_KEYS);
        requests.into_iter().for_each(|read| self.answer(read));
        if has_more {
            // Entries may come in between.
            self.shared.applier.put(ApplierEvent::NodeReads);
        }
        Ok(())
    }

    /// The same while the tables are loaded: another thread reads from the image. The next batch follows when one is answered,
    /// so the limits on waiting reads hold.
    fn answer_from_image(&mut self) -> Result<(), NodeFailure> {
        if self.reads_image {
            return Ok(());
        }
        let (requests, has_more) = self.take_node_reads(IMAGE_BATCH_KEYS);
        (self.shared.metrics).add(Count::ReadsFromImage, requests.len() as u64);
        let mut reads = Vec::new();
        for read in requests {
            match read.wanted {
                Wanted::Keys(keys) => reads.push(KeysRead {
                    connection: read.connection,
                    request: read.request,
                    keys,
                }),
                _ => self.answer(read),
            }
        }
        if !reads.is_empty() {
            let view = (self.shared.replica.view())
                .map_err(|error| NodeFailure::database("opening a view", error))?;
            self.reads_image = true;
            self.shared.scans.put(Scan::Keys { reads, view });
        } else if has_more {
            self.shared.applier.put(ApplierEvent::NodeReads);
        }
        Ok(())
    }

    /// Takes the reads that the node answers in any role, up to a number of keys, and whether there are more. A read of a table
    /// that may have been created behind the image waits for the log.
    fn take_node_reads(&self, keys_max: usize) -> (Vec<ReadRequest>, bool) {
        let mut waiting = self.shared.node_reads.lock();
        let (mut requests, has_more) = waiting.take_ready(self.applied, keys_max);
        if waiting.is_recovering(self.applied) {
            let lacks = |it: &mut ReadRequest| {
                let has = |table: u32| self.shared.replica.has_table(TableId(table));
                match &it.wanted {
                    Wanted::Keys(keys) => !keys.iter().all(|(table, _)| has(*table)),
                    Wanted::Scan(range) => !has(range.table),
                    _ => false,
                }
            };
            for read in requests.extract_if(.., lacks) {
                waiting.wait_for_log(read);
            }
        }
        (requests, has_more)
    }

    fn answer(&self, read: ReadRequest) {
        let request = read.request;
        let has_place = self.shared.network.response_bytes_free(read.connection) > 0;
        let answer = match read.wanted {
            _ if !has_place => Some(Response::Busy { request }),
            Wanted::Keys(keys) => Some(self.read(request, &keys)),
            Wanted::Tables => Some(self.tables(request)),
            Wanted::Scan(range) => self.scan(read.connection, request, range),
            Wanted::UnknownSession(session) => {
                let is_there = self.shared.sessions.lock().fence(session).is_some();
                Some(if is_there {
                    Response::Busy { request }
                } else {
                    Response::NoSuchSession { session }
                })
            }
            Wanted::Refusal {
                session,
                group,
                refusal,
            } => {
                self.refuse_new(read.connection, (session, group), refusal);
                None
            }
            Wanted::Outcomes {
                session,
                fence,
                group,
            } => Some(self.outcomes(request, session, fence, group)),
        };
        if let Some(answer) = answer {
            self.shared.network.reply(read.connection, answer);
        }
    }

    /// The answer to a group that was to be refused, now that this node is known to have led then: if the group is in the log or
    /// on its way there, the client is to ask again.
    fn refuse_new(
        &self,
        connection: ConnectionId,
        (session, group): (SessionId, u64),
        refusal: Refusal,
    ) {
        let office = self.shared.office.lock();
        let is_new = !office.groups.contains_key(&(session, group))
            && matches!(
                self.shared.sessions.lock().group(session, group),
                Some(KnownGroup::Outcomes(known)) if known.is_empty()
            );
        let refusal = if is_new {
            refusal
        } else {
            Refusal::Busy { request: group }
        };
        self.shared.refuse(connection, refusal);
    }

    /// The outcomes of a group for the holder of its session. With the current fence, no other holder
    /// has groups in flight.
    fn outcomes(&self, request: u64, session: SessionId, fence: u64, group: u64) -> Response {
        let office = self.shared.office.lock();
        if office.groups.contains_key(&(session, group)) {
            return Response::Busy { request };
        }
        let sessions = self.shared.sessions.lock();
        match sessions.fence(session) {
            None => Response::NoSuchSession { session },
            Some(current) if current != fence => Response::SessionTaken { session },
            Some(_) => Response::GroupOutcomes {
                request,
                outcomes: match sessions.group(session, group) {
                    Some(KnownGroup::Outcomes(known)) => Some(known),
                    _ => None,
                },
                lsn: self.applied,
            },
        }
    }

    fn tables(&self, request: u64) -> Response {
        let tables = self.shared.replica.tables().into_iter();
        let tables = tables.map(|info| TableEntry {
            table: info.id.0,
            name: info.name,
            eight_byte_keys: info.fixed_keys,
        });
        Response::Tables {
            request,
            tables: tables.collect(),
            lsn: self.applied,
        }
    }

    /// Has a range read in a view of this moment.
    fn scan(&self, connection: ConnectionId, request: u64, range: ScanRange) -> Option<Response> {
        if !self.shared.scan_slots.take(connection) {
            return Some(Response::Busy { request });
        }
        let view = match self.shared.replica.view() {
            Ok(view) => view,
            Err(error) => {
                self.shared.scan_slots.give_back(connection);
                let reason = error.to_string();
                return Some(Response::Refused { request, reason });
            }
        };
        self.shared.scans.put(Scan::Rows {
            connection,
            request,
            range,
            view,
        });
        None
    }

    fn read(&self, request: u64, keys: &[(u32, Vec<u8>)]) -> Response {
        let mut rows = RowsByKey::new(request);
        for (table, key) in keys {
            match rows.add(|value| self.shared.replica.read(TableId(*table), key, value)) {
                Ok(Ok(())) => {}
                Ok(Err(refused)) => return refused,
                Err(error) => {
                    return Response::Refused {
                        request,
                        reason: error.to_string(),
                    };
                }
            }
        }
        rows.finish(self.applied)
    }
}
