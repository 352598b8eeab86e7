//! Fault injection: the simulation breaks rules to verify that its checks detect it.
//!
//! Builds without the simulator have no faults: [`FaultInjection::has`] is a constant.

/// Defines [`Fault`] and the list of all: a fault that is not in the list would never be looked for.
macro_rules! faults {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        /// A rule that is broken.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Fault {
            $($(#[doc = $doc])+ $name,)+
        }

        impl Fault {
            /// All.
            pub const ALL: &[Self] = &[$(Self::$name,)+];
        }
    };
}

faults! {
    /// A client is answered when its commands are sealed, before the quorum has them.
    AnswerBeforeQuorum,
    /// Messages that promise durability are sent before the data is durable.
    PromiseBeforeDurable,
    /// A leader reads without asking whether it still leads.
    ReadWithoutConfirmation,
    /// A follower answers a strong read from what it has applied.
    FollowerReadsWithoutIndex,
    /// A node answers a session read before it has applied the last entry that the client has seen.
    SessionReadsIgnoreSeen,
    /// A leader accepts groups of holders of a session that were replaced.
    IgnoreFences,
    /// A leader ignores sessions.
    ForgetSessions,
    /// Commands are accepted before the log of earlier leaders is applied.
    EarlyOffice,
    /// Entries are applied when they are appended.
    ApplyUncommitted,
    /// Payloads are named by a counter of the node.
    NameByLocalNumber,
    /// A receiver drops payloads with a number not above the last one.
    DeduplicateByCounter,
    /// Entries are handed to Raft without their payloads.
    EntryBeforePayload,
    /// An entry counts as persisted when its record is durable, regardless of its payload.
    PersistedWithoutPayload,
    /// A restart ignores that an entry voids later ones.
    IgnoreTruncations,
    /// A commit index is recorded before its entries are persisted, and a restart keeps it beyond the log.
    KeepCommitBeyondCut,
    /// A restart keeps a persisted index that a later entry should have lowered.
    KeepPersisted,
    /// A restart does not cut the log at a missing payload.
    OpenWithoutCut,
    /// A node that has lost its directory starts again as if it were new, under its old identity.
    WipedNodeReturns,
    /// A replacement votes, and counts, from the beginning.
    ReplacementVotesAtOnce,
    /// Messages of earlier incarnations of a node are attributed to the current one.
    IncarnationsMixed,
    /// The log is truncated although the image is not durable yet.
    TruncateBeforeImage,
    /// An image has the tables of its entry without the sessions.
    SessionsNotInImage,
    /// A segment of payloads goes because its entries are old, although it has a payload that was
    /// sealed and not proposed.
    RecycleByAge,
    /// The offset of an entry is counted from the snapshot instead of the entry behind it.
    OffsetFromSnapshot,
    /// A group does not compare the incarnation of a record that it has locked: it may be another key's.
    RecordReused,
    /// A table that is created takes the number of one of its name that was dropped.
    NumberReused,
    /// A node that lacks payloads which others have truncated asks the leader alone for an image.
    ImagesFromLeaderOnly,
    /// A node that starts asks a voter at once for its state, while others still count what earlier
    /// starts have sent.
    AskInOneRound,
    /// A node that has started votes, and asks for votes, although its log lacks entries that the
    /// others have.
    NoFloorAfterStart,
    /// A node that may have forgotten promises goes on after a while without the answer of a voter.
    GoOnAfterDamage,
    /// A node with little room takes payloads without having their entries.
    PayloadsAheadFillLog,
    /// A leader accepts commands although too few voters have room for them.
    AcceptWithoutRoom,
    /// A node that has started votes in a term in which it may have voted before.
    VoteNotSpent,
    /// A restart does not make durable what a killed process has left in the page cache.
    RestartWithoutHardening,
    /// The least recently used session, perhaps of another client, is closed if there is no room for one.
    EvictSession,
    /// Sessions of an image do not count for the limit of their client.
    SessionsNotCounted,
}

/// The fault of a simulation, if it has one.
#[derive(Clone, Copy, Debug, Default)]
pub struct FaultInjection {
    #[cfg(any(test, feature = "simulation"))]
    fault: Option<Fault>,
}

impl FaultInjection {
    /// This fault.
    #[cfg(any(test, feature = "simulation"))]
    #[must_use]
    pub const fn of(fault: Option<Fault>) -> Self {
        Self { fault }
    }

    /// Whether this rule is broken.
    #[inline(always)]
    pub(crate) fn has(self, fault: Fault) -> bool {
        #[cfg(any(test, feature = "simulation"))]
        return self.fault == Some(fault);
        #[cfg(not(any(test, feature = "simulation")))]
        {
            let _ = fault;
            false
        }
    }
}
