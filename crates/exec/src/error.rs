//! Errors of queries, grouped by what the caller can do about them.

use std::fmt;
use std::sync::Arc;

use namiki_data::columns::ColumnType;
use namiki_data::columns::key_codec::EncodeError;
use namiki_platform::debug_as_sentence;

debug_as_sentence!(PlanError);

/// A plan that cannot run: it names something that does not exist, or combines values of types that
/// do not allow it. Nothing was read. Change the plan.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// There is no such table.
    #[error("there is no table `{table}`; there are {known}")]
    UnknownTable {
        /// The name.
        table: String,
        /// The existing ones.
        known: Names,
    },
    /// The table has no such index.
    #[error("the table `{table}` has no index `{index}`; it has {known}")]
    UnknownIndex {
        /// The table.
        table: String,
        /// The name.
        index: String,
        /// The existing ones.
        known: Names,
    },
    /// The operator's input has no such column.
    #[error("there is no column `{column}` here; there are {known}")]
    UnknownColumn {
        /// The name.
        column: String,
        /// The existing ones.
        known: Names,
    },
    /// Two columns have the name.
    #[error("`{column}` is a column of several tables here; write it as `table.{column}`")]
    AmbiguousColumn {
        /// The name.
        column: String,
    },
    /// Two columns would have the same name above an operator.
    #[error("two columns are called `{column}`; give one another name")]
    DuplicateColumn {
        /// The name.
        column: String,
    },
    /// The types of the two sides cannot be combined.
    #[error("`{expression}`: {left} and {right} do not go together")]
    WrongTypes {
        /// The expression.
        expression: String,
        /// The type of its left side.
        left: TypeName,
        /// The type of its right side.
        right: TypeName,
    },
    /// An operator needs another type.
    #[error("`{expression}` is {found}, and {expected} is needed here")]
    WrongType {
        /// The expression.
        expression: String,
        /// Its type.
        found: TypeName,
        /// The expected type.
        expected: &'static str,
    },
    /// A mean has six more digits behind the point than its values.
    #[error(
        "`{name}` would have {digits} digits behind the point, more than {digits_max}; take the mean of something with fewer"
    )]
    TooPrecise {
        /// The column's name.
        name: String,
        /// Digits that it would have.
        digits: u8,
        /// The limit.
        digits_max: u8,
    },
    /// More look-up values than the key or index has columns.
    #[error("{values} values look up `{table}`, and its key or index has {columns} columns")]
    TooManyLookupValues {
        /// The table.
        table: String,
        /// Number of values.
        values: usize,
        /// Number of columns.
        columns: usize,
    },
    /// A join needs an equality.
    #[error("a join needs at least one value that is equal on both sides")]
    NothingToJoinOn,
    /// A function needs an argument.
    #[error("`{name}` needs an expression in `of`")]
    MissingArgument {
        /// The column's name.
        name: String,
    },
    /// A range has either lists of values or bounds.
    #[error("the range of `{table}` has `one_of` and other bounds; compare the others in `filter`")]
    ListsAndBounds {
        /// The table.
        table: String,
    },
    /// A look-up value has another type than its column.
    #[error(
        "the range of `{table}`: `{column}` is {expected}, and is never equal to a value of {found}"
    )]
    NotOfColumn {
        /// The table.
        table: String,
        /// The column.
        column: String,
        /// Its type.
        expected: ColumnType,
        /// The type of the value.
        found: ColumnType,
    },
    /// A bound of a range has another type than its column.
    #[error("the range of `{table}` has a bound of another type than its column")]
    WrongRange {
        /// The table.
        table: String,
        /// The cause.
        source: EncodeError,
    },
    /// An index does not fit its table.
    #[error("the index `{index}` does not fit the table `{table}`: {why}")]
    NotAnIndex {
        /// The table.
        table: String,
        /// The index.
        index: String,
        /// The mismatch.
        why: &'static str,
    },
    /// Plans and expressions nest no deeper than this (`Plan::DEPTH_MAX`, `Expr::DEPTH_MAX`).
    #[error(
        "the plan has more than {max} {what}; nest less: a chain of `and`, of `or` or of one calculation is one level, and so is `in`"
    )]
    TooDeep {
        /// The part that exceeds the limit.
        what: &'static str,
        /// The limit.
        max: u32,
    },
    /// Queries have limits on their size.
    #[error("the plan has more than {max} {what}")]
    TooLarge {
        /// The part that exceeds the limit.
        what: &'static str,
        /// The limit.
        max: usize,
    },
}

debug_as_sentence!(ExecError);

/// The reason that a query stopped.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ExecError {
    /// The plan is wrong.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A table or an index could not be read.
    #[error("reading `{table}`")]
    Source {
        /// The table.
        table: String,
        /// The cause.
        source: Arc<dyn std::error::Error + Send + Sync>,
    },
    /// An index has an entry without its row: one of the two is damaged, or they are of different
    /// moments. Without this error an answer would lack rows silently.
    #[error(
        "an index of `{table}` has an entry of a row that the table does not have (key {key}); look for damage with \
         `namiki check`"
    )]
    RowOfIndexEntryMissing {
        /// The table.
        table: String,
        /// The key of the row.
        key: HexBytes,
    },
    /// The bytes of a row do not fit the table's schema: they were written with another one, or are
    /// damaged.
    #[error("a row of `{table}` is not of its schema (key {key})")]
    NotARow {
        /// The table.
        table: String,
        /// The row's key.
        key: HexBytes,
    },
    /// A result does not fit its type.
    #[error("`{expression}` does not fit its type for a row")]
    Overflow {
        /// The calculation.
        expression: String,
    },
    /// A hash table, a sort or groups would take more memory than the query may use. Give it more
    /// (`Options::memory_bytes_max`), or select fewer rows.
    #[error("a {operator} needs more than the {limit_bytes} bytes that the query may use")]
    MemoryExceeded {
        /// The operator.
        operator: &'static str,
        /// The limit.
        limit_bytes: usize,
    },
    /// The query was cancelled.
    #[error("the query was cancelled")]
    Cancelled,
    /// A resource is missing: a thread, page frames, a read queue.
    #[error("cannot {doing}")]
    System {
        /// The operation.
        doing: &'static str,
        /// The error of the system.
        source: Arc<std::io::Error>,
    },
    /// The limit of concurrent queries is reached. Take the rows of one to their end, or drop them,
    /// and retry.
    #[error("{running} queries are running, which is the limit; end one, and retry")]
    TooManyQueries {
        /// Number of running queries.
        running: usize,
    },
    /// This is a forked child of the process that made the executor, and has none of its threads.
    /// Run queries in the process that made their executor, or make one in the child.
    #[error("a forked child cannot use the queries of its parent")]
    Forked,
    /// A thread of the query panicked. That is a bug; the query's answer is lost and nothing else.
    #[error("a thread of the query panicked: {message}")]
    Panicked {
        /// Its message.
        message: String,
    },
}

impl ExecError {
    /// The error of a thread that ended with this panic.
    pub(crate) fn panicked(panic: &(dyn std::any::Any + Send)) -> Self {
        let said = panic.downcast_ref::<String>().map(String::as_str);
        let said = said.or_else(|| panic.downcast_ref::<&str>().copied());
        Self::Panicked {
            message: said.unwrap_or("no message").to_owned(),
        }
    }

    pub(crate) fn source(
        table: &str,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self::Source {
            table: table.to_owned(),
            source: source.into().into(),
        }
    }
}

/// Names in a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names(Vec<String>);

impl Names {
    pub(crate) fn of<'n>(names: impl IntoIterator<Item = &'n str>) -> Self {
        Self(names.into_iter().map(str::to_owned).collect())
    }
}

impl fmt::Display for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("none");
        }
        for (at, name) in self.0.iter().enumerate() {
            write!(f, "{}`{name}`", if at > 0 { ", " } else { "" })?;
        }
        Ok(())
    }
}

/// A type in a message; that of `null` has no name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TypeName(pub(crate) Option<ColumnType>);

impl fmt::Display for TypeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(own) => own.fmt(f),
            None => f.write_str("null"),
        }
    }
}

/// Bytes in a message: the first of them, in hexadecimal digits.
#[derive(Clone, PartialEq, Eq)]
pub struct HexBytes(pub(crate) Vec<u8>);

impl fmt::Display for HexBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 32;
        self.0
            .iter()
            .take(SHOWN)
            .try_for_each(|byte| write!(f, "{byte:02x}"))?;
        f.write_str(if self.0.len() > SHOWN { "…" } else { "" })
    }
}

impl fmt::Debug for HexBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
