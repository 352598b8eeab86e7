//! COPY FROM STDIN: into a table that this transaction has made or truncated, in batches outside of the transaction; into any
//! other, through it.

use std::sync::Arc;

use namiki_data::columns::Datum;
use tokio::task::JoinHandle;

use super::copy_lines::{Fields, LineReader};
use super::progress::{CommandTag, Progress, Scope};
use super::{Block, Connection, shared};
use crate::cancel::Cancelled;
use crate::catalogue::{Named, PUBLIC};
use crate::change::{Changes, DefaultValue, Target};
use crate::ddl::{BulkLoad, BulkWriter};
use crate::error::{SqlError, SqlResult};
use crate::pools::failed_task;
use crate::program::Environment;
use crate::shared::Shared;
use crate::sqlstate;
use crate::storage::Reader;
use crate::syntax::{CopyCommand, CopySource};
use crate::types::{from_text, utf8};

/// Rows that are inserted into a table through the transaction at once, and bytes of their lines.
const ROWS_AT_ONCE: usize = 512;
const BYTES_AT_ONCE: usize = 1 << 20;

/// A COPY FROM STDIN that runs.
pub(super) struct CopyIn {
    target: Target,
    /// The columns that the lines have.
    columns: Vec<usize>,
    lines: LineReader,
    environment: Environment,
    /// Outside of the transaction; `None`: through it.
    bulk: Option<Filling>,
    rows: Vec<Vec<Datum>>,
    /// Bytes of the lines of `rows`.
    bytes: usize,
    count: u64,
    /// Whether its end commits.
    is_alone: bool,
    /// Cancels it between chunks.
    cancelled: Cancelled,
}

/// A load outside of the transaction. A batch is written on the second pool while the next one is read.
struct Filling {
    load: BulkLoad,
    /// While no batch is written.
    writer: Option<BulkWriter>,
    /// While one is.
    writing: Option<JoinHandle<SqlResult<BulkWriter>>>,
}

impl CopyIn {
    /// After an error, before it is reported: nothing of a statement runs then any more.
    async fn stop(&mut self) {
        if let Some(bulk) = &mut self.bulk {
            // The other error came first.
            let _ = bulk.writer().await;
        }
    }
}

impl Filling {
    /// Waits until the batch before is written.
    async fn writer(&mut self) -> SqlResult<BulkWriter> {
        if let Some(writer) = self.writer.take() {
            return Ok(writer);
        }
        match self.writing.take() {
            Some(writing) => writing.await.map_err(|error| failed_task(&error))?,
            None => Err(SqlError::new(
                sqlstate::INTERNAL_ERROR,
                "the load has failed before",
            )),
        }
    }

    /// Begins to write the rows that were gathered.
    async fn write(&mut self, shared: &Shared) -> SqlResult<()> {
        let mut writer = self.writer().await?;
        let batch = self.load.take_batch();
        let writing = move || writer.write(&batch).map(|()| writer);
        self.writing = Some(shared.pool().spawn_blocking(writing));
        Ok(())
    }

    /// When this returns, all rows are durable.
    async fn finish(mut self, shared: &Shared) -> SqlResult<()> {
        let writer = self.writer().await?;
        shared.blocking(move || writer.finish()).await?
    }
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
        let schema = schema.as_deref().unwrap_or(PUBLIC);
        let mut changes = self.shared.changes.subscribe();
        let target = loop {
            changes.borrow_and_update();
            if self.block == Block::Idle {
                self.block = Block::Implicit;
            }
            self.ensure_begun()?;
            match self.copy_target(schema, name) {
                Err(error) if error.busy_table().is_some() => {
                    if is_alone {
                        // It has read a row of the catalogue that is about to change.
                        self.roll_back(Block::Idle);
                    }
                    // Fails only if the engine is gone.
                    let _ = cancelled.unless(changes.changed()).await?;
                }
                found => break found?,
            }
        };
        let numbers = column_numbers(&target, columns)?;
        let shared = shared(self);
        let is_fresh = self.effects.created.contains(&target.relation.row.storage);
        if copy.freeze && !is_fresh {
            return Err(SqlError::new(
                sqlstate::OBJECT_NOT_IN_STATE,
                "cannot perform COPY FREEZE because the table was not created or truncated in the current transaction",
            ));
        }
        let bulk = if self.is_filled_outside(&target) {
            let (load, writer) = BulkLoad::new(&shared.db, &shared.storage, target.clone())?;
            Some(Filling {
                load,
                writer: Some(writer),
                writing: None,
            })
        } else {
            self.effects
                .touch(&[(target.relation.id(), target.relation.version)]);
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
            bytes: 0,
            count: 0,
            is_alone,
            cancelled: cancelled.clone(),
        });
        Ok(Progress::CopyIn {
            columns: width,
            binary: false,
        })
    }

    /// Whether rows may be written to a table outside of the transaction: it has made the table, has not used it, and no
    /// savepoint goes back to a state that has it.
    fn is_filled_outside(&self, target: &Target) -> bool {
        let storage = target.relation.row.storage;
        self.effects.untouched.contains_key(&storage)
            && !self.savepoints.iter().any(|it| it.effects.has(storage))
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
        let copied = match copy.lines.push(data) {
            Ok(()) => self.copy_rows(&mut copy, false).await,
            Err(error) => Err(error),
        };
        match copied {
            Ok(()) => {
                self.copy = Some(copy);
                Ok(())
            }
            Err(error) => {
                copy.stop().await;
                self.end_statement();
                Err(self.tellable(error).await)
            }
        }
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
        if done.is_err() {
            copy.stop().await;
        }
        self.end_statement();
        match done {
            Ok(()) => Ok(Progress::Complete(CommandTag::rows("COPY", copy.count))),
            Err(error) => Err(self.tellable(error).await),
        }
    }

    async fn end_copy(&mut self, copy: &mut CopyIn) -> SqlResult<()> {
        self.copy_rows(copy, true).await?;
        self.insert_copied(copy).await?;
        if let Some(bulk) = copy.bulk.take() {
            bulk.finish(&shared(self)).await?;
        }
        if copy.is_alone {
            self.commit().await?;
        }
        Ok(())
    }

    /// The client gives up: returns the error to be reported.
    pub async fn copy_failed(&mut self, message: &str) -> SqlError {
        if let Some(mut copy) = self.copy.take() {
            copy.stop().await;
        }
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
            let bytes: usize = fields.iter().flatten().map(Vec::len).sum();
            let row = self
                .copied_row(&copy.target, &copy.columns, &copy.environment, line, fields)
                .await?;
            copy.count += 1;
            let is_full = match &mut copy.bulk {
                Some(bulk) => {
                    bulk.load.target().check(&row, &copy.environment)?;
                    bulk.load.push(row)?
                }
                None => {
                    copy.rows.push(row);
                    copy.bytes += bytes;
                    copy.rows.len() == ROWS_AT_ONCE || copy.bytes >= BYTES_AT_ONCE
                }
            };
            if is_full {
                self.insert_copied(copy).await?;
                // A chunk may have many rows, and the thread serves others.
                tokio::task::yield_now().await;
                copy.cancelled.check()?;
            }
        }
        Ok(())
    }

    /// Inserts the rows that were gathered.
    async fn insert_copied(&mut self, copy: &mut CopyIn) -> SqlResult<()> {
        let shared = shared(self);
        if let Some(bulk) = &mut copy.bulk {
            return bulk.write(&shared).await;
        }
        let rows = std::mem::take(&mut copy.rows);
        copy.bytes = 0;
        let mut numbers = std::mem::take(&mut self.row_numbers);
        let (target, environment) = (&copy.target, &copy.environment);
        let done = self.in_transaction(|tx| {
            let tables = [(target.relation.id(), target.relation.version)];
            // The lines are gone: there is no other attempt.
            Self::check_versions(&shared, &mut Reader::Transaction(tx), &tables)
                .map_err(SqlError::or_changed_table)?;
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
            whole.push(match value {
                Some(value) => value,
                None => loop {
                    let next = match default {
                        DefaultValue::Value(scalar) => scalar.constant(environment),
                        DefaultValue::Sequence(id) => {
                            let sequences = &self.shared.sequences;
                            let next = sequences.next(*id);
                            if let Ok(number) = next {
                                sequences.note_given(environment.session, *id, number);
                            }
                            next.map(Datum::I64)
                        }
                    };
                    let Err(error) = &next else {
                        break column.sql_type.assign(next?)?;
                    };
                    match error.sequence_to_refill() {
                        Some(id) => self.refill(id, 4).await?,
                        None => break next?,
                    }
                },
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
