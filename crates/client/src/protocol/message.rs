//! The messages between a client and a node.

use serde::{Deserialize, Serialize};

use super::{Command, Outcome};

/// The first bytes of a connection.
pub const MAGIC: u32 = 0x4e4d_4b31;
/// Version of the protocol. Every incompatible change raises it.
pub const PROTOCOL_VERSION: u16 = 8;
/// The longest first message, in bytes.
pub const HELLO_BYTES_MAX: usize = 1024;
/// The longest message, in bytes.
pub const MESSAGE_BYTES_MAX: usize = 64 << 20;
/// The longest request, in bytes. A node closes the connection on a longer one.
pub const REQUEST_BYTES_MAX: usize = 8 << 20;

/// A session of the cluster. It identifies commands that are sent again, and outlives connections
/// and leaders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SessionId(pub u64);

/// From a client to a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// The first message of a connection.
    Hello {
        /// [`MAGIC`].
        magic: u32,
        /// [`PROTOCOL_VERSION`].
        version: u16,
        /// The client's cluster; 0: any cluster. A node of another one answers by
        /// [`Response::OtherCluster`].
        cluster: u128,
    },
    /// Opens a session. Answered by [`Response::SessionOpened`] or [`Response::SessionsFull`].
    OpenSession {
        /// Chosen by the client at random: the same request again gives the same session.
        nonce: u128,
    },
    /// Closes a session: its results are forgotten. Answered by [`Response::SessionClosed`], or by [`Response::Busy`] while groups
    /// of it are in flight.
    CloseSession {
        /// The session.
        session: SessionId,
        /// As in [`Request::Submit`].
        fence: u64,
    },
    /// Executes a group of commands (a TxGrp). Answered by [`Response::Results`] when all of them
    /// are committed.
    Submit {
        /// The session.
        session: SessionId,
        /// The entry that opened the session, or the one that resumed it last. A request with an
        /// earlier one comes from a holder that was replaced: it is answered by
        /// [`Response::SessionTaken`].
        fence: u64,
        /// The group's number in the session: from 1, ascending.
        group: u64,
        /// The client has the results of every group up to this one, so they can be forgotten.
        acknowledged_through: u64,
        /// The commands.
        commands: Vec<Command>,
    },
    /// Reads rows, all at one moment. Answered by [`Response::Rows`].
    Read {
        /// Number of the request; the answer repeats it.
        request: u64,
        /// What the answer must have seen.
        freshness: Freshness,
        /// Table and key.
        keys: Vec<(u32, Vec<u8>)>,
    },
    /// Creates a table unless one of that name exists. Answered by [`Response::Table`].
    CreateTable {
        /// Its name.
        name: String,
        /// Whether every key has eight bytes, like account numbers: that takes less memory and
        /// time. Fixed when the table is created.
        eight_byte_keys: bool,
    },
    /// Asks for [`Response::Status`]. Any node answers.
    Status,
    /// Asks for [`Response::Status`] with [`NodeStatus::state_hash`], which reads every row. Any
    /// node answers.
    StateHash {
        /// The entry at which the state is hashed, when exactly it is applied; `None`: the one that is applied last. A node that has
        /// passed it answers by [`Response::EntryPassed`], one that does not reach it in time by [`Response::Behind`].
        at: Option<u64>,
    },
    /// For failure tests: from now on the node sends nothing to these nodes and drops their
    /// messages. The set replaces the earlier one; an empty set heals all links. Answered by
    /// [`Response::LinksCut`] if the node's configuration allows it.
    CutLinks {
        /// The other ends.
        nodes: Vec<u64>,
    },
    /// Changes the members of the cluster. Answered by [`Response::MembersChanged`], also if the change was made before.
    ChangeMembers(MemberChange),
    /// Drops a table with its rows. Answered by [`Response::TableDropped`]. Numbers are never used
    /// again, so a request that is sent again drops no other table.
    DropTable {
        /// Its number.
        table: u32,
    },
    /// Drops a table with its rows, and creates an empty one in its place, with its name and under the next number. Answered by
    /// [`Response::TableCleared`]. Numbers are never used again, so a request that is sent again clears no other table.
    ClearTable {
        /// Its number.
        table: u32,
    },
    /// Asks for [`Response::Tables`], as of one moment.
    Tables {
        /// Number of the request.
        request: u64,
        /// What the answer must have seen.
        freshness: Freshness,
    },
    /// Reads the rows of a range, all at one moment. Answered by [`Response::Scanned`].
    Scan {
        /// Number of the request.
        request: u64,
        /// What the answer must have seen.
        freshness: Freshness,
        /// The range.
        range: ScanRange,
    },
    /// Asks for an image of the node's tables as they are now. Any node answers, by [`Response::BackupBegun`]: when the image
    /// is written.
    BeginBackup,
    /// Asks for a file of that image, from an offset on. Answered by [`Response::BackupPart`].
    BackupFile {
        /// The image.
        image: u128,
        /// The number of the file, from 0.
        file: u32,
        /// The offset.
        offset: u64,
    },
    /// Takes a session over from the process that held it, which may have died. From then on, its
    /// groups are not accepted any more; those that were accepted before are finished first.
    /// Answered by [`Response::SessionResumed`].
    ResumeSession {
        /// The session.
        session: SessionId,
        /// The nonce under which it was opened.
        nonce: u128,
        /// Chosen by the client at random: the same request again resumes once.
        attempt: u128,
    },
    /// Asks for the outcomes of a group that its holder has submitted, or an earlier one. Answered
    /// by [`Response::GroupOutcomes`].
    Outcomes {
        /// Number of the request.
        request: u64,
        /// The session.
        session: SessionId,
        /// As in [`Request::Submit`].
        fence: u64,
        /// The group's number.
        group: u64,
    },
    /// Asks the leader for sessions, in the order of the last entries in which they occur. Answered by [`Response::Sessions`].
    Sessions {
        /// Those behind this one: its last entry, and its number. At first, zeros.
        after: (u64, SessionId),
    },
}

/// What the answer to a read must have seen, and so which node may give it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Freshness {
    /// Everything that was acknowledged before the request was sent. Only the leader answers; others
    /// say [`Response::NotLeader`].
    #[default]
    Leader,
    /// The same. Any node answers: it asks the leader how far it has to have applied the log.
    Strong,
    /// The log through this entry at least. Any node answers, once it has applied it; for 0 at once, after a start from its last
    /// image.
    AtLeast(u64),
}

/// A range of a table's rows, in the order of their keys.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScanRange {
    /// The table.
    pub table: u32,
    /// The first key. Empty: the table's.
    pub from: Vec<u8>,
    /// Whether `from` itself is left out.
    pub after: bool,
    /// The key before which the range ends. `None`: at the table's end.
    pub until: Option<Vec<u8>>,
    /// The most rows that are returned. 0: all are counted, and none is returned.
    pub rows_max: u32,
}

/// A table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableEntry {
    /// Its number.
    pub table: u32,
    /// Its name.
    pub name: String,
    /// Whether every key has eight bytes.
    pub eight_byte_keys: bool,
}

/// A session, as the leader knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionEntry {
    /// Its number.
    pub session: SessionId,
    /// The name of the client that has opened it: its address, or the fingerprint of its certificate's key.
    pub client: String,
    /// As in [`Request::Submit`].
    pub fence: u64,
    /// The last entry in which it occurs.
    pub used: u64,
    /// Groups with results that are kept, as its client has not acknowledged them.
    pub groups: u64,
    /// These results, each of a byte.
    pub results: u64,
    /// Seconds for which it was not used at least, as far as the leader has seen since its start.
    pub idle_s: u64,
}

/// From a node to a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Response {
    /// The answer to [`Request::Hello`].
    Welcome {
        /// [`PROTOCOL_VERSION`] of the node.
        version: u16,
        /// The node's cluster.
        cluster: u128,
        /// The node's number.
        node: u64,
        /// The longest group of commands that is accepted.
        group_commands_max: u32,
        /// As in [`Response::Nodes`].
        addresses: Vec<String>,
    },
    /// The answer to [`Request::OpenSession`].
    SessionOpened {
        /// The client's nonce.
        nonce: u128,
        /// The session.
        session: SessionId,
    },
    /// The session is closed.
    SessionClosed {
        /// The session.
        session: SessionId,
    },
    /// The answer to [`Request::Submit`]: every command is committed, and has this outcome, in the order of the commands.
    Results {
        /// The session.
        session: SessionId,
        /// The group.
        group: u64,
        /// One outcome for each command.
        outcomes: Vec<Outcome>,
        /// LSN of an entry by which all of them are in the log.
        lsn: u64,
    },
    /// The answer to [`Request::Read`].
    Rows {
        /// Number of the request.
        request: u64,
        /// One value for each key, in the order of the keys.
        values: Vec<Option<Vec<u8>>>,
        /// LSN of the state that was read: the state after this entry of the log.
        lsn: u64,
    },
    /// The answer to [`Request::CreateTable`].
    Table {
        /// Its name.
        name: String,
        /// Its number.
        table: u32,
        /// LSN of a state that has the table.
        lsn: u64,
    },
    /// This node does not lead. Nothing of the request was or will be executed.
    NotLeader {
        /// The request: the group of a [`Request::Submit`], the number of a [`Request::Read`],
        /// otherwise 0.
        request: u64,
        /// The leader, if known, and its address for clients.
        leader: Option<(u64, String)>,
    },
    /// Leadership was lost while the group was in flight: some of its commands may be executed, others not. Ask the new leader with the
    /// same session, group and commands.
    OutcomeUnknown {
        /// The session.
        session: SessionId,
        /// The group.
        group: u64,
    },
    /// The session does not exist (any more).
    NoSuchSession {
        /// The session.
        session: SessionId,
    },
    /// The request is refused: `reason` says why, and what to do.
    Refused {
        /// As in [`Response::NotLeader`].
        request: u64,
        /// The sentence.
        reason: String,
    },
    /// The node is overloaded. Send the request again later.
    Busy {
        /// As in [`Response::NotLeader`].
        request: u64,
    },
    /// The answer to [`Request::Status`].
    Status(Box<NodeStatus>),
    /// The answer to [`Request::CutLinks`].
    LinksCut {
        /// The nodes to which the links are cut now.
        nodes: Vec<u64>,
    },
    /// The answer to [`Request::ChangeMembers`]: the change is made. [`NodeStatus::members`] tells whether a new member votes.
    MembersChanged(MemberChange),
    /// The answer to [`Request::Hello`] if the client names another cluster than the node's. The
    /// connection ends.
    OtherCluster {
        /// The node's.
        cluster: u128,
    },
    /// The answer to [`Request::OpenSession`] if there are too many sessions. None was opened, and
    /// none was closed for it.
    SessionsFull {
        /// The client's nonce.
        nonce: u128,
        /// The limit that is reached.
        limit: SessionLimit,
    },
    /// The last message of a connection that the node ends. Requests without an answer may have
    /// been executed.
    Disconnected {
        /// Why it ends.
        reason: DisconnectReason,
    },
    /// The answer to [`Request::DropTable`].
    TableDropped {
        /// Its number.
        table: u32,
        /// Whether there was such a table. If not, it may have been dropped by this request, sent
        /// before.
        existed: bool,
        /// LSN of a state without the table.
        lsn: u64,
    },
    /// The answer to [`Request::ClearTable`].
    TableCleared {
        /// The number of the table that was cleared.
        table: u32,
        /// The number of the one in its place; `None` if there was no such table: it may have been cleared by this request,
        /// sent before.
        successor: Option<u32>,
        /// LSN of a state with the empty table.
        lsn: u64,
    },
    /// The answer to [`Request::Tables`].
    Tables {
        /// Number of the request.
        request: u64,
        /// All tables, in the order of their numbers.
        tables: Vec<TableEntry>,
        /// LSN of the state that was read.
        lsn: u64,
    },
    /// The answer to [`Request::Scan`].
    Scanned {
        /// Number of the request.
        request: u64,
        /// The rows.
        scanned: Scanned,
    },
    /// The answer to [`Request::BeginBackup`]. The node keeps the image for a while after the last request for a file.
    BackupBegun {
        /// Identifies it.
        image: u128,
        /// LSN of the state that it has.
        lsn: u64,
        /// Length of its files.
        bytes: u64,
    },
    /// The answer to [`Request::BackupFile`]: the file from the offset on, but no more than a part.
    BackupPart {
        /// The length of the file.
        file_bytes: u64,
        /// The part.
        bytes: Vec<u8>,
    },
    /// The answer to [`Request::ResumeSession`].
    SessionResumed {
        /// The session.
        session: SessionId,
        /// The entry that resumed it, for its next requests.
        fence: u64,
        /// The first number for groups of this holder: no earlier holder has used it or a later one.
        first_group: u64,
        /// The groups through this one are acknowledged and forgotten.
        acknowledged_through: u64,
        /// The groups of earlier holders with outcomes that are kept.
        groups: Vec<u64>,
        /// LSN of an entry by which all groups of earlier holders are in the log.
        lsn: u64,
    },
    /// The session was resumed by another process since: the request was not executed.
    SessionTaken {
        /// The session.
        session: SessionId,
    },
    /// The answer to [`Request::Outcomes`].
    GroupOutcomes {
        /// Number of the request.
        request: u64,
        /// `None`: they were acknowledged, and are forgotten. Empty: no command of the group is in
        /// the log. Otherwise one for each command, and `None` for those that are not in the log.
        outcomes: Option<Vec<Option<Outcome>>>,
        /// LSN of a state that has them.
        lsn: u64,
    },
    /// Where the members are reached by clients, as far as the log says. A node sends it when they change; it answers no request.
    Nodes {
        /// Their addresses.
        addresses: Vec<String>,
    },
    /// The answer to a read that was to see more than this node has applied in time, and to [`Request::StateHash`] of an entry that it
    /// does not reach in time.
    Behind {
        /// Number of the request.
        request: u64,
        /// The last entry that the node has applied.
        applied: u64,
        /// The entry that it was to have applied.
        wanted: u64,
    },
    /// The answer to [`Request::Sessions`].
    Sessions {
        /// The sessions.
        sessions: Vec<SessionEntry>,
        /// Whether there are more behind the last one.
        has_more: bool,
    },
    /// The answer to [`Request::StateHash`] of an entry that the node has passed: its state is gone.
    EntryPassed {
        /// The last entry that the node has applied.
        applied: u64,
    },
}

/// Rows of a range, which were read at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scanned {
    /// Keys and values, in the order of the keys.
    pub rows: Vec<(Vec<u8>, Vec<u8>)>,
    /// The rows that were read: those that are returned, or that were counted.
    pub count: u64,
    /// Whether the range may have rows after the last one: another scan continues after its key, at
    /// a later moment.
    pub has_more: bool,
    /// LSN of the state that was read. Each part of a longer range is of its own.
    pub lsn: u64,
}

/// A limit on sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SessionLimit {
    /// The sessions of one client: of one certificate, or of one address without certificates.
    Client(u64),
    /// The sessions of all clients.
    Cluster(u64),
}

impl std::fmt::Display for SessionLimit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Client(sessions) => write!(f, "this client has {sessions} sessions"),
            Self::Cluster(sessions) => write!(f, "the cluster has {sessions} sessions"),
        }
    }
}

/// The reason for which a node ends a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DisconnectReason {
    /// The client has sent requests without reading the responses.
    NotReading,
}

impl std::fmt::Display for DisconnectReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotReading => f.write_str("the client does not read its responses"),
        }
    }
}

/// The role of a node in the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Role {
    /// It replicates, and votes.
    Follower,
    /// It asks for votes.
    Candidate,
    /// It was elected, and has not applied the log of its predecessors yet.
    TakingOffice,
    /// It executes commands.
    Leader,
    /// It replicates, and does not vote.
    Learner,
}

/// The addresses of a node: host names or IP addresses, each with a port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NodeAddresses {
    /// For other nodes.
    pub peer: String,
    /// For clients.
    pub client: String,
}

/// A change of the cluster's members.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum MemberChange {
    /// A node has lost its directory and runs on a new one: the new incarnation becomes a member instead of the lost one. It votes
    /// when it has caught up.
    Replace {
        /// The node's number.
        node: u64,
        /// The incarnation of the new directory: one more than the member's.
        incarnation: u64,
    },
    /// A node becomes a member. It votes when it has caught up.
    Add {
        /// Its number, which no member has.
        node: u64,
        /// The incarnation of its directory: 1, or one more than that of the last member of the number.
        incarnation: u64,
        /// Where it is reached.
        addresses: NodeAddresses,
    },
    /// A node is no longer a member. Its directory cannot become a member again.
    Remove {
        /// Its number.
        node: u64,
        /// Its incarnation.
        incarnation: u64,
    },
    /// A member has other addresses.
    Move {
        /// Its number.
        node: u64,
        /// Where it is reached now.
        addresses: NodeAddresses,
    },
}

impl MemberChange {
    /// The number of the node that it concerns.
    #[must_use]
    pub fn node(&self) -> u64 {
        match self {
            Self::Replace { node, .. }
            | Self::Add { node, .. }
            | Self::Remove { node, .. }
            | Self::Move { node, .. } => *node,
        }
    }
}

/// A member of the cluster, as a node knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberStatus {
    /// Its number.
    pub node: u64,
    /// Number of the directory that it runs on, from 1.
    pub incarnation: u64,
    /// Whether it votes. A new member does not until it has caught up.
    pub votes: bool,
    /// Its addresses, once they are in the log.
    pub addresses: Option<NodeAddresses>,
}

/// A node's state, for people and for tools.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeStatus {
    /// The node's number.
    pub node: u64,
    /// Number of the directory that it runs on, from 1.
    pub incarnation: u64,
    /// The members, according to the log that it has applied.
    pub members: Vec<MemberStatus>,
    /// Former members: number, and last incarnation.
    pub removed: Vec<(u64, u64)>,
    /// The numbers of the members with which the cluster began.
    pub founders: Vec<u64>,
    /// The backup that the cluster began with.
    pub backup: Option<u128>,
    /// Its role.
    pub role: Role,
    /// Raft's term.
    pub term: u64,
    /// The leader it knows.
    pub leader: Option<u64>,
    /// The last entry of its log.
    pub last_lsn: u64,
    /// The last entry that is on its disk.
    pub persisted_lsn: u64,
    /// The last entry it knows to be committed.
    pub committed_lsn: u64,
    /// The last entry that is applied to its tables.
    pub applied_lsn: u64,
    /// Commands applied since it started.
    pub commands_applied: u64,
    /// Bytes of payloads and entries that its directory holds.
    pub log_bytes: u64,
    /// Limit on them. A leader near it refuses commands. `None`: no limit.
    pub log_bytes_max: Option<u64>,
    /// Payloads that are damaged or missing on its disk. Until they are restored, it does not
    /// participate.
    pub missing_payloads: u64,
    /// It may have forgotten votes and acknowledgements, by damage to its log. It does not participate before all other voters
    /// have answered.
    pub may_have_forgotten: bool,
    /// Its log or its disk is full: writes wait, and it does not participate.
    pub waits_for_room: bool,
    /// The tables of its directory could not be used: it applies and answers nothing until it has copied an image of another node.
    pub tables_lost: bool,
    /// Version of its program.
    pub version: String,
    /// Invalid messages of other nodes that were dropped.
    pub refused_messages: u64,
    /// For a leader: the last entry of each node's log that matches its own.
    pub matched: Vec<(u64, u64)>,
    /// A hash of all tables and sessions as of `applied_lsn`, if it was requested.
    pub state_hash: Option<u128>,
}
