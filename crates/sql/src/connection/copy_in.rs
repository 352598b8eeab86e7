//! COPY FROM STDIN: into a table that this transaction has made or truncated, in batches outside of the transaction; into any
//! other, through it.

use std::sync::Arc;

use namiki_data::columns::Datum;

use super::copy_lines::{Fields, LineReader};
use super::progress::{CommandTag, Progress, Scope};
use super::{Block, Connection, shared};
use crate::cancel::Cancelled;
use crate::catalogue::{Named, PUBLIC};
use crate::change::{Changes, DefaultValue, Target};
use crate::ddl::BulkLoad;
use crate::error::{SqlError, SqlResult};
use crate::program::Environment;
use crate::sqlstate;
use crate::storage::Reader;
use crate::syntax::{CopyCommand, CopySource};
use crate::types::{from_text, utf8};

/// Rows that are inserted into a table through the transaction at once.
const ROWS_AT_ONCE: usize = 512;

/// A COPY FROM STDIN that runs.
pub(super) struct CopyIn {
    target: Target,
    /// The columns that the lines have.
    columns: Vec<usize>,
    lines: LineReader,
    environment: Environment,
    /// Outside of the transaction; `None`: through it.
    bulk: Option<BulkLoad>,
    rows: Vec<Vec<Datum>>,
    count: u64,
    /// Whether its end commits.
    is_alone: bool,
    /// Cancels it between chunks.
    cancelled: Cancelled,
}

impl Connection {
    pub(super) async fn begin_copy_in(
        &mut self,
        copy: &CopyCommand,
        scope: Scope,
        cancelled: &Cancelled,
    ) -> SqlResult<Progress> {
        let CopySource::Table {
            schema,
            name,
            columns,
        } = &copy.source
        else {
            return Err(SqlError::syntax("COPY FROM needs a table"));
        };
        let is_alone = scope == Scope::Alone && self.block == Block::Idle;
        if self.read_only {
            return Err(SqlError::new(
                sqlstate::READ_ONLY_TRANSACTION,
                "cannot execute COPY FROM in a read-only transaction",
            ));
        }
        if self.block == Block::Idle {
            self.block = Block::Implicit;
        }
        self.ensure_begun()?;
        let target = self.copy_target(schema.as_deref().unwrap_or(PUBLIC), name)?;
        let numbers = column_numbers(&target, columns)?;
        let shared = shared(self);
        let is_fresh = self.effects.created.contains(&target.relation.row.storage);
        if copy.freeze && !is_fresh {
            return Err(SqlError::new(
                sqlstate::OBJECT_NOT_IN_STATE,
                "cannot perform COPY FREEZE because the table was not created or truncated in the current transaction",
            ));
        }
        let bulk = if is_fresh {
            Some(BulkLoad::new(&shared.db, &shared.storage, target.clone())?)
        } else {
            None
        };
        let none: Arc<[Datum]> = Arc::new([]);
        let width = numbers.len();
        self.copy = Some(CopyIn {
            target,
            columns: numbers,
            lines: LineReader::new(copy.format.clone()),
            environment: self.environment(&none),
            bulk,
            rows: Vec::new(),
            count: 0,
            is_alone,
            cancelled: cancelled.clone(),
        });
        Ok(Progress::CopyIn {
            columns: width,
            binary: false,
        })
    }

    pub(super) fn copy_target(&mut self, schema: &str, name: &str) -> SqlResult<Target> {
        let (shared, info) = (shared(self), self.info.clone());
        self.in_transaction(|tx| {
            let mut reader = Reader::Transaction(tx);
            let relation = match shared.catalogue.named(&mut reader, schema, name)? {
                Some(Named::Table(id)) => shared.catalogue.relation(&mut reader, id)?,
                Some(_) => {
                    return Err(SqlError::new(
                        sqlstate::WRONG_OBJECT_TYPE,
                        format!("cannot copy to \"{name}\": it is not a table"),
                    ));
                }
                None => None,
            };
            let relation = relation.ok_or_else(|| {
                SqlError::new(
                    sqlstate::UNDEFINED_TABLE,
                    format!("relation \"{name}\" does not exist"),
                )
            })?;
            if relation.row.marker.is_some() {
                return Err(SqlError::wait_for_table(relation.id(), name));
            }
            shared.front_end.target(&relation, &info, &mut reader)
        })
    }

    /// A chunk of the client's stream.
    ///
    /// # Errors
    /// Those of lines, values, constraints and the transaction. The COPY has ended then.
    pub async fn copy_data(&mut self, data: &[u8]) -> SqlResult<()> {
        let Some(mut copy) = self.copy.take() else {
            return Err(SqlError::new(
                sqlstate::PROTOCOL_VIOLATION,
                "no COPY is in progress",
            ));
        };
        let done = match copy.lines.push(data) {
            Ok(()) => self.copy_rows(&mut copy, false).await,
            Err(error) => Err(error),
        };
        match done {
            Ok(()) => self.copy = Some(copy),
            Err(_) => self.end_statement(),
        }
        done
    }

    /// The end of the client's stream.
    ///
    /// # Errors
    /// As [`copy_data`](Self::copy_data).
    pub async fn copy_done(&mut self) -> SqlResult<Progress> {
        let Some(mut copy) = self.copy.take() else {
            return Err(SqlError::new(
                sqlstate::PROTOCOL_VIOLATION,
                "no COPY is in progress",
            ));
        };
        let done = self.end_copy(&mut copy).await;
        self.end_statement();
        done?;
        Ok(Progress::Complete(CommandTag::rows("COPY", copy.count)))
    }

    async fn end_copy(&mut self, copy: &mut CopyIn) -> SqlResult<()> {
        self.copy_rows(copy, true).await?;
        self.insert_copied(copy).await?;
        if let Some(bulk) = copy.bulk.take() {
            shared(self).blocking(move || bulk.finish()).await??;
        }
        if copy.is_alone {
            self.commit().await?;
        }
        Ok(())
    }

    /// The client gives up: returns the error to be reported.
    pub fn copy_failed(&mut self, message: &str) -> SqlError {
        self.copy = None;
        self.end_statement();
        SqlError::new(
            sqlstate::QUERY_CANCELED,
            format!("COPY from stdin failed: {message}"),
        )
    }

    /// Bytes of COPY that have arrived and are no line yet.
    #[must_use]
    pub fn copy_buffered_bytes(&self) -> usize {
        self.copy.as_ref().map_or(0, |copy| copy.lines.buffered())
    }

    async fn copy_rows(&mut self, copy: &mut CopyIn, is_last: bool) -> SqlResult<()> {
        while let Some(fields) = copy.lines.next_line(is_last)? {
            copy.cancelled.check()?;
            let line = copy.lines.line();
            let row = self
                .copied_row(&copy.target, &copy.columns, &copy.environment, line, fields)
                .await?;
            copy.count += 1;
            let is_full = match &mut copy.bulk {
                Some(bulk) => {
                    bulk.target().check(&row, &copy.environment)?;
                    bulk.push(row)?
                }
                None => {
                    copy.rows.push(row);
                    copy.rows.len() == ROWS_AT_ONCE
                }
            };
            if is_full {
                self.insert_copied(copy).await?;
            }
        }
        Ok(())
    }

    /// Inserts the rows that were gathered.
    async fn insert_copied(&mut self, copy: &mut CopyIn) -> SqlResult<()> {
        if let Some(mut bulk) = copy.bulk.take() {
            let (bulk, flushed) = shared(self)
                .blocking(move || {
                    let flushed = bulk.flush();
                    (bulk, flushed)
                })
                .await?;
            copy.bulk = Some(bulk);
            return flushed;
        }
        let shared = shared(self);
        let rows = std::mem::take(&mut copy.rows);
        let mut numbers = std::mem::take(&mut self.row_numbers);
        let (target, environment) = (&copy.target, &copy.environment);
        let done = self.in_transaction(|tx| {
            let tables = [(target.relation.id(), target.relation.version)];
            Self::check_versions(&shared, &mut Reader::Transaction(tx), &tables)?;
            let mut changes = Changes {
                tx,
                storage: &shared.storage,
                environment,
                numbers: &mut numbers,
            };
            for mut row in rows {
                changes.insert(target, &mut row, None)?;
            }
            Ok(())
        });
        self.row_numbers = numbers;
        done
    }

    /// The values of a line, with defaults.
    async fn copied_row(
        &mut self,
        target: &Target,
        given: &[usize],
        environment: &Environment,
        line: u64,
        fields: Fields,
    ) -> SqlResult<Vec<Datum>> {
        let given_values = given_values(target, given, environment, line, fields)?;
        let columns = target.relation.columns();
        let mut whole = Vec::with_capacity(columns.len());
        let defaults = &target.rules.defaults;
        for ((value, column), default) in given_values.into_iter().zip(columns).zip(defaults) {
            whole.push(match (value, default) {
                (Some(value), _) => value,
                (None, DefaultValue::Value(scalar)) => {
                    column.sql_type.assign(scalar.constant(environment)?)?
                }
                (None, DefaultValue::Sequence(id)) => {
                    let sequences = Arc::clone(&self.shared.sequences);
                    let number = loop {
                        match sequences.next(*id) {
                            Err(error) if error.sequence_to_refill().is_some() => {
                                self.refill(*id, 4).await?;
                            }
                            number => break number?,
                        }
                    };
                    sequences.note_given(environment.session, *id, number);
                    Datum::I64(number)
                }
            });
        }
        Ok(whole)
    }
}

/// The values of a line, by the table's columns; `None` where the line has none.
fn given_values(
    target: &Target,
    given: &[usize],
    environment: &Environment,
    line: u64,
    fields: Fields,
) -> SqlResult<Vec<Option<Datum>>> {
    let columns = target.relation.columns();
    let at_line = |error: SqlError| match error.detail() {
        Some(_) => error,
        None => error.with_detail(format!("COPY {}, line {line}", target.relation.row.name)),
    };
    let bad = |message: String| at_line(SqlError::new(sqlstate::BAD_COPY_FILE_FORMAT, message));
    if fields.len() > given.len() {
        return Err(bad("extra data after last expected column".to_owned()));
    }
    if let Some(missing) = given.get(fields.len()) {
        let name = &columns[*missing].name;
        return Err(bad(format!("missing data for column \"{name}\"")));
    }
    let mut row: Vec<Option<Datum>> = vec![None; columns.len()];
    for (field, column) in fields.into_iter().zip(given) {
        let of = columns[*column].sql_type;
        let value = match field {
            None => Datum::Null,
            Some(bytes) => {
                let read = utf8(&bytes).and_then(|text| from_text(of, text, environment.zone));
                read.and_then(|value| of.assign(value)).map_err(at_line)?
            }
        };
        row[*column] = Some(value);
    }
    Ok(row)
}

fn column_numbers(target: &Target, names: &[String]) -> SqlResult<Vec<usize>> {
    let row = &target.relation.row;
    if names.is_empty() {
        return Ok((0..row.columns.len()).collect());
    }
    let number = |name: &String| {
        row.column(name).ok_or_else(|| {
            SqlError::new(
                sqlstate::UNDEFINED_COLUMN,
                format!(
                    "column \"{name}\" of relation \"{}\" does not exist",
                    row.name
                ),
            )
        })
    };
    let numbers = names.iter().map(number).collect::<SqlResult<Vec<_>>>()?;
    for (at, name) in names.iter().enumerate() {
        if names[..at].contains(name) {
            return Err(SqlError::new(
                sqlstate::DUPLICATE_COLUMN,
                format!("column \"{name}\" specified more than once"),
            ));
        }
    }
    Ok(numbers)
}
