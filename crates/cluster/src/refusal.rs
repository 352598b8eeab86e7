//! Refusals: why a request of a client is not executed, as the client is told and as it is counted.

use namiki_client::protocol::{Response, SessionId, SessionLimit};

/// The message to a client of a leader with a full log.
const LOG_FULL: &str = "the log of the leader has reached its limit, and its last image has made no room: look for WARN \
     \"cannot write an image\" in its log; without it, raise `log_bytes_max`";

/// A request that is not executed. `request` is as in [`Response::NotLeader`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// [`Response::NotLeader`].
    NotLeader {
        request: u64,
        leader: Option<(u64, String)>,
    },
    /// [`Response::Busy`].
    Busy { request: u64 },
    /// [`Response::NoSuchSession`].
    NoSession { session: SessionId },
    /// [`Response::SessionTaken`].
    SessionTaken { session: SessionId },
    /// [`Response::Behind`].
    Behind {
        request: u64,
        applied: u64,
        wanted: u64,
    },
    /// The leader's log is full, and no image makes room: only an operator helps.
    LogFull { request: u64 },
    /// [`Response::SessionsFull`].
    SessionsFull { nonce: u128, limit: SessionLimit },
    /// The request cannot be executed as it is. The reason is a sentence.
    Invalid { request: u64, reason: String },
    /// [`Response::OutcomeUnknown`].
    OutcomeUnknown { session: SessionId, group: u64 },
}

/// The kind of a refusal, by which it is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RefusalReason {
    NotLeader,
    Busy,
    NoSession,
    SessionTaken,
    Behind,
    LogFull,
    SessionsFull,
    Invalid,
    OutcomeUnknown,
}

impl Refusal {
    /// A request that cannot be executed as it is.
    pub(crate) fn invalid(request: u64, reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self::Invalid { request, reason }
    }

    pub(crate) fn reason(&self) -> RefusalReason {
        match self {
            Self::NotLeader { .. } => RefusalReason::NotLeader,
            Self::Busy { .. } => RefusalReason::Busy,
            Self::NoSession { .. } => RefusalReason::NoSession,
            Self::SessionTaken { .. } => RefusalReason::SessionTaken,
            Self::Behind { .. } => RefusalReason::Behind,
            Self::LogFull { .. } => RefusalReason::LogFull,
            Self::SessionsFull { .. } => RefusalReason::SessionsFull,
            Self::Invalid { .. } => RefusalReason::Invalid,
            Self::OutcomeUnknown { .. } => RefusalReason::OutcomeUnknown,
        }
    }
}

impl From<Refusal> for Response {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::NotLeader { request, leader } => Self::NotLeader { request, leader },
            Refusal::Busy { request } => Self::Busy { request },
            Refusal::NoSession { session } => Self::NoSuchSession { session },
            Refusal::SessionTaken { session } => Self::SessionTaken { session },
            Refusal::Behind {
                request,
                applied,
                wanted,
            } => Self::Behind {
                request,
                applied,
                wanted,
            },
            Refusal::LogFull { request } => Self::Refused {
                request,
                reason: LOG_FULL.to_owned(),
            },
            Refusal::SessionsFull { nonce, limit } => Self::SessionsFull { nonce, limit },
            Refusal::Invalid { request, reason } => Self::Refused { request, reason },
            Refusal::OutcomeUnknown { session, group } => Self::OutcomeUnknown { session, group },
        }
    }
}
