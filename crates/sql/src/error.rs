//! Errors of statements: a SQLSTATE, a message, and what helps to find the fault.

use std::fmt;

use crate::sqlstate;

/// Why a statement was refused or failed.
///
/// Its `Display` is the message. [`sqlstate`](Self::sqlstate) says what kind of failure it is; a client decides by that
/// alone.
#[derive(Clone)]
pub struct SqlError(Box<Fields>);

#[derive(Clone)]
struct Fields {
    sqlstate: &'static str,
    message: String,
    detail: Option<String>,
    hint: Option<String>,
    position: Option<usize>,
    table: Option<String>,
    column: Option<String>,
    constraint: Option<String>,
    refill: Option<u32>,
    setting: Option<SequenceSetting>,
    busy_table: Option<u32>,
    is_stale: bool,
    is_long_program: bool,
    told_after: Option<namiki::Ticket>,
    core: Option<namiki::Error>,
}

/// What `setval` asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SequenceSetting {
    pub(crate) id: u32,
    pub(crate) number: i64,
    /// Whether the number counts as given, so that the next one is behind it.
    pub(crate) is_given: bool,
}

/// The result of most functions here.
pub type SqlResult<T> = Result<T, SqlError>;

impl SqlError {
    /// An error of this SQLSTATE.
    #[must_use]
    pub fn new(sqlstate: &'static str, message: impl Into<String>) -> Self {
        Self(Box::new(Fields {
            sqlstate,
            message: message.into(),
            detail: None,
            hint: None,
            position: None,
            table: None,
            column: None,
            constraint: None,
            refill: None,
            setting: None,
            busy_table: None,
            is_stale: false,
            is_long_program: false,
            told_after: None,
            core: None,
        }))
    }

    /// A feature that does not exist here (0A000).
    #[must_use]
    pub fn unsupported(what: impl fmt::Display) -> Self {
        Self::new(
            sqlstate::FEATURE_NOT_SUPPORTED,
            format!("{what} is not supported"),
        )
    }

    /// A text that is no statement (42601).
    #[must_use]
    pub fn syntax(message: impl Into<String>) -> Self {
        Self::new(sqlstate::SYNTAX_ERROR, message)
    }

    /// Stored bytes that cannot be read, or a state that must not occur (XX001).
    #[must_use]
    pub fn corrupted(what: impl fmt::Display) -> Self {
        Self::new(sqlstate::DATA_CORRUPTED, format!("{what}"))
    }

    /// A sequence has no reserved number left: reserve some and run the statement again. Never shown to a client.
    pub(crate) fn refill(sequence: u32) -> Self {
        let mut error = Self::new(
            sqlstate::OBJECT_NOT_IN_STATE,
            "the sequence has no number reserved",
        );
        error.0.refill = Some(sequence);
        error
    }

    /// The sequence that has to be refilled before the statement runs again.
    pub(crate) fn sequence_to_refill(&self) -> Option<u32> {
        self.0.refill
    }

    /// A sequence is to be set, which the running transaction cannot do: set it and run the statement again. Never shown to a
    /// client.
    pub(crate) fn set_sequence(setting: SequenceSetting) -> Self {
        let mut error = Self::new(
            sqlstate::OBJECT_NOT_IN_STATE,
            "the sequence was not set yet",
        );
        error.0.setting = Some(setting);
        error
    }

    /// How a sequence has to be set before the statement runs again.
    pub(crate) fn sequence_to_set(&self) -> Option<SequenceSetting> {
        self.0.setting
    }

    /// Whether something has to be done with a sequence before the statement runs again.
    pub(crate) fn asks_for_sequence(&self) -> bool {
        self.0.refill.is_some() || self.0.setting.is_some()
    }

    /// A table of a kept plan has changed: the text is planned again. Never shown to a client.
    pub(crate) fn stale_plan() -> Self {
        let mut error = Self::new(sqlstate::INTERNAL_ERROR, "a table of the plan has changed");
        error.0.is_stale = true;
        error
    }

    /// Whether the statement has to be planned again.
    pub(crate) fn is_stale_plan(&self) -> bool {
        self.0.is_stale
    }

    /// A row program visits more rows than a thread of the server has time for: it is run on the second pool. Never shown to a
    /// client.
    pub(crate) fn long_program() -> Self {
        let mut error = Self::new(sqlstate::INTERNAL_ERROR, "the program visits many rows");
        error.0.is_long_program = true;
        error
    }

    /// Whether the program has to be run on the second pool.
    pub(crate) fn is_long_program(&self) -> bool {
        self.0.is_long_program
    }

    /// A table has changed since the statement was planned, and the statement cannot be planned again (40001).
    pub(crate) fn changed_table() -> Self {
        Self::new(
            sqlstate::SERIALIZATION_FAILURE,
            "could not serialize access due to a concurrent change of the table",
        )
        .with_hint("The transaction might succeed if retried.")
    }

    /// The error, or that of a changed table where the plan is stale.
    pub(crate) fn or_changed_table(self) -> Self {
        if self.is_stale_plan() {
            Self::changed_table()
        } else {
            self
        }
    }

    /// An index or a key is built on a table: the statement waits for its end. Shown to a client that would wait too long.
    pub(crate) fn wait_for_table(id: u32, name: &str) -> Self {
        let mut error = Self::new(
            sqlstate::OBJECT_IN_USE,
            format!("an index or a key is being built on table \"{name}\""),
        );
        error.0.busy_table = Some(id);
        error
    }

    /// The table on which an index or key is built: the statement has to wait.
    pub(crate) fn busy_table(&self) -> Option<u32> {
        self.0.busy_table
    }

    /// With a second sentence about the cause.
    #[must_use]
    pub fn with_detail(mut self, detail: impl Into<String>) -> Self {
        self.0.detail = Some(detail.into());
        self
    }

    /// With a remedy.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    /// With the place in the statement's text: characters, counted from 1.
    #[must_use]
    pub fn with_position(mut self, position: usize) -> Self {
        self.0.position = Some(position);
        self
    }

    /// With the table that it is about.
    #[must_use]
    pub fn with_table(mut self, table: impl Into<String>) -> Self {
        self.0.table = Some(table.into());
        self
    }

    /// With the column that it is about.
    #[must_use]
    pub fn with_column(mut self, column: impl Into<String>) -> Self {
        self.0.column = Some(column.into());
        self
    }

    /// With the constraint that was violated.
    #[must_use]
    pub fn with_constraint(mut self, constraint: impl Into<String>) -> Self {
        self.0.constraint = Some(constraint.into());
        self
    }

    /// The five characters of the SQLSTATE.
    #[must_use]
    pub fn sqlstate(&self) -> &'static str {
        self.0.sqlstate
    }

    /// The message.
    #[must_use]
    pub fn message(&self) -> String {
        self.0.message.clone()
    }

    /// More about the cause.
    #[must_use]
    pub fn detail(&self) -> Option<&str> {
        self.0.detail.as_deref()
    }

    /// A remedy.
    #[must_use]
    pub fn hint(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }

    /// The place in the statement's text: characters, counted from 1.
    #[must_use]
    pub fn position(&self) -> Option<usize> {
        self.0.position
    }

    /// The table that it is about.
    #[must_use]
    pub fn table(&self) -> Option<&str> {
        self.0.table.as_deref()
    }

    /// The column that it is about.
    #[must_use]
    pub fn column(&self) -> Option<&str> {
        self.0.column.as_deref()
    }

    /// The constraint that was violated.
    #[must_use]
    pub fn constraint(&self) -> Option<&str> {
        self.0.constraint.as_deref()
    }

    /// Whether nothing was changed, and the transaction can succeed if it is run again (40001).
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        self.0.sqlstate == sqlstate::SERIALIZATION_FAILURE
    }

    /// Whether it goes to the client as it is, whatever happens next: no conflict, and nothing that the engine mends itself.
    pub(crate) fn is_final(&self) -> bool {
        let fields = &self.0;
        !self.is_retryable()
            && fields.refill.is_none()
            && fields.setting.is_none()
            && fields.busy_table.is_none()
            && !fields.is_stale
            && !fields.is_long_program
    }

    /// The rows that it is about are those of commits that may not be durable: it is told when this one is.
    pub(crate) fn told_after(mut self, ticket: namiki::Ticket) -> Self {
        self.0.told_after = Some(ticket);
        self
    }

    /// The commit that has to be acknowledged before the error is told.
    pub(crate) fn take_ticket(&mut self) -> Option<namiki::Ticket> {
        self.0.told_after.take()
    }

    /// Whether the connection cannot go on.
    #[must_use]
    pub fn is_fatal(&self) -> bool {
        matches!(
            self.0.sqlstate,
            sqlstate::TRANSACTION_RESOLUTION_UNKNOWN | sqlstate::ADMIN_SHUTDOWN
        )
    }

    /// The engine's error behind it.
    pub(crate) fn core(&self) -> Option<&namiki::Error> {
        self.0.core.as_ref()
    }
}

impl From<namiki::Error> for SqlError {
    fn from(error: namiki::Error) -> Self {
        use namiki::Error as Core;
        let message = error.to_string();
        let mut own = match &error {
            Core::Conflict(_) | Core::TooManyConflicts { .. } | Core::TableLoading { .. } => {
                Self::new(
                    sqlstate::SERIALIZATION_FAILURE,
                    "could not serialize access due to concurrent transactions",
                )
                .with_detail(message)
                .with_hint("The transaction might succeed if retried.")
            }
            // The table was truncated, re-keyed or dropped by a concurrent transaction.
            Core::TableDropped { .. } | Core::TableYoungerThanView { .. } => Self::new(
                sqlstate::SERIALIZATION_FAILURE,
                "could not serialize access due to a concurrent change of the table",
            )
            .with_detail(message)
            .with_hint("The transaction might succeed if retried."),
            Core::OutcomeUnknown(_) => Self::new(sqlstate::TRANSACTION_RESOLUTION_UNKNOWN, message),
            Core::LogFailed(_) => Self::new(sqlstate::IO_ERROR, message),
            Core::DiskFull(_) | Core::NoLogFile(_) => Self::new(sqlstate::DISK_FULL, message),
            Core::TransactionTooLarge { .. } | Core::TableFull { .. } => {
                Self::new(sqlstate::PROGRAM_LIMIT_EXCEEDED, message)
            }
            Core::KeyTooLong { .. } | Core::ValueTooLong { .. } => {
                Self::new(sqlstate::PROGRAM_LIMIT_EXCEEDED, message)
            }
            Core::TooManySessions => Self::new(sqlstate::TOO_MANY_CONNECTIONS, message),
            Core::ViewExpired { .. } => Self::new(sqlstate::OUT_OF_MEMORY, message).with_hint(
                "Run the query again; a larger Builder::view_bytes_max lets it take longer.",
            ),
            Core::LockTimeout { .. } => Self::new(sqlstate::LOCK_NOT_AVAILABLE, message),
            Core::ReadOnly => Self::new(sqlstate::READ_ONLY_TRANSACTION, message),
            Core::Closed => Self::new(sqlstate::ADMIN_SHUTDOWN, message),
            Core::ChangeRefused { code, .. } => refused_change(*code),
            _ => Self::new(sqlstate::INTERNAL_ERROR, message),
        };
        own.0.core = Some(error);
        own
    }
}

/// The error of a change that its program has refused at the commit: see `change/increments.rs`.
fn refused_change(code: u32) -> SqlError {
    let message = match code {
        1 => "smallint out of range",
        2 => "integer out of range",
        3 => "bigint out of range",
        4 => "numeric field overflow",
        10 => {
            return SqlError::new(
                sqlstate::SERIALIZATION_FAILURE,
                "could not serialize access due to a concurrent change of the table's columns",
            )
            .with_hint("The transaction might succeed if retried.");
        }
        _ => return SqlError::corrupted("a stored row does not have the columns of its table"),
    };
    SqlError::new(sqlstate::NUMERIC_VALUE_OUT_OF_RANGE, message)
}

impl fmt::Display for SqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for SqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.0.message, self.0.sqlstate)?;
        if let Some(detail) = &self.0.detail {
            write!(f, "; {detail}")?;
        }
        Ok(())
    }
}

impl std::error::Error for SqlError {}

/// A message that is no error.
#[derive(Clone, Debug)]
pub struct Notice {
    /// `NOTICE` or `WARNING`.
    pub severity: &'static str,
    /// The SQLSTATE.
    pub sqlstate: &'static str,
    /// The message.
    pub message: String,
    /// A remedy.
    pub hint: Option<String>,
}

impl Notice {
    pub(crate) fn plain(sqlstate: &'static str, message: impl Into<String>) -> Self {
        Self {
            severity: "NOTICE",
            sqlstate,
            message: message.into(),
            hint: None,
        }
    }

    pub(crate) fn warning(sqlstate: &'static str, message: impl Into<String>) -> Self {
        Self {
            severity: "WARNING",
            ..Self::plain(sqlstate, message)
        }
    }
}
