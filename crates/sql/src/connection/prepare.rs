//! From a text to a statement, and from a statement to a portal.

use std::sync::Arc;

use namiki_data::columns::Datum;

use super::portal::{ColumnDescription, Portal, Statement, Work};
use super::{Block, Connection, shared};
use crate::cancel::Cancelled;
use crate::error::{SqlError, SqlResult};
use crate::front_end::{Body, OutputColumn, Planned, Request, SessionInfo};
use crate::program::OutputFormat;
use crate::shared::Shared;
use crate::sqlstate;
use crate::stats::count;
use crate::storage::{ReadHandle, Reader};
use crate::syntax::{LiteralKind, Utility, lift, parse_utility, split};
use crate::text_cache::{Kept, TextKey};
use crate::types::{SqlType, from_binary, from_text, utf8};

impl Connection {
    /// Prepares a text with parameters. `types`: the numbers of their types, 0 where the engine decides.
    ///
    /// # Errors
    /// The statement's; 0A000 for a type that there is not; 25P02 in a failed block, unless the statement ends it.
    pub async fn prepare(&mut self, text: &str, types: &[u32]) -> SqlResult<Statement> {
        let text = one_statement(text)?;
        if let Some(utility) = parse_utility(text)? {
            return Ok(self.utility_statement(text, utility));
        }
        self.check_not_failed()?;
        let given = types.iter().map(|oid| match oid {
            // Zero and "unknown".
            0 | 705 => Ok(None),
            oid => SqlType::from_oid(*oid).map(Some).ok_or_else(|| {
                SqlError::unsupported(format!("a parameter of the type number {oid}"))
            }),
        });
        let key = TextKey {
            text: text.into(),
            types: given.collect::<SqlResult<Vec<_>>>()?.into(),
            is_lifted: false,
        };
        let planned = self.planned(&key).await?;
        Ok(statement(key, planned))
    }

    /// Prepares a text of the simple protocol and binds it. Literals are lifted out where that gives a row program.
    ///
    /// # Errors
    /// As [`prepare`](Self::prepare).
    pub async fn prepare_simple(&mut self, text: &str) -> SqlResult<Portal> {
        let text = one_statement(text)?;
        if let Some(utility) = parse_utility(text)? {
            let statement = self.utility_statement(text, utility);
            return self.bind(&statement, &[], &[], &[]);
        }
        self.check_not_failed()?;
        if let Some(portal) = self.lifted_portal(text).await? {
            return Ok(portal);
        }
        let key = TextKey {
            text: text.into(),
            types: Arc::new([]),
            is_lifted: false,
        };
        let planned = self.planned(&key).await?;
        let statement = statement(key, planned);
        if !statement.parameters.is_empty() {
            return Err(SqlError::new(
                sqlstate::UNDEFINED_PARAMETER,
                "there is no parameter $1",
            ));
        }
        self.bind(&statement, &[], &[], &[])
    }

    /// The portal of a text without its literals; `None` if it has no row program.
    async fn lifted_portal(&mut self, text: &str) -> SqlResult<Option<Portal>> {
        let Some(lifted) = lift(text)? else {
            return Ok(None);
        };
        let is_insert = text
            .get(..6)
            .is_some_and(|word| word.eq_ignore_ascii_case("insert"));
        // The digits of a number decide on the type of what is calculated with it.
        if !is_insert && lifted.kinds.contains(&LiteralKind::Numeric) {
            return Ok(None);
        }
        let types = lifted.kinds.iter().map(|kind| match kind {
            // In VALUES, the column decides.
            _ if is_insert => None,
            LiteralKind::Int4 => Some(SqlType::Int4),
            LiteralKind::Int8 => Some(SqlType::Int8),
            LiteralKind::Numeric | LiteralKind::Text => None,
        });
        let mut text = lifted.text;
        if is_insert {
            // The kinds are part of the identity although the types are open.
            text.push_str(&kinds_comment(&lifted.kinds));
        }
        let key = TextKey {
            text: text.into(),
            types: types.collect::<Vec<_>>().into(),
            is_lifted: true,
        };
        let planned = match self.planned(&key).await {
            Ok(planned) => planned,
            // Such as a literal where a type's length belongs: the original text is planned, and says what is wrong.
            Err(error) if is_about_the_text(&error) => {
                let changes = *self.shared.changes.borrow();
                self.shared.cache.put(key, Kept::NoProgram(changes));
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        let Some(planned) = planned else {
            return Ok(None);
        };
        let statement = statement(key, Some(planned));
        let zone = self.settings.zone();
        let mut values = Vec::with_capacity(lifted.values.len());
        let types = parameter_types(&statement);
        for ((value, kind), of) in lifted.values.iter().zip(&lifted.kinds).zip(types) {
            // A number for a column of another kind is cast as the planner casts it.
            let fits = match kind {
                LiteralKind::Text => true,
                _ => {
                    of.is_integer()
                        || matches!(
                            of,
                            SqlType::Numeric { .. } | SqlType::Float4 | SqlType::Float8
                        )
                }
            };
            match from_text(*of, value, zone) {
                Ok(value) if fits => values.push(value),
                // The original text says what is wrong, in the words of the planner.
                _ => return Ok(None),
            }
        }
        self.portal(statement, values.into(), &[]).map(Some)
    }

    fn utility_statement(&self, text: &str, utility: Utility) -> Statement {
        let columns = super::utility::columns(&utility);
        let described =
            |columns: Vec<OutputColumn>| columns.iter().map(ColumnDescription::from).collect();
        Statement {
            text: text.into(),
            given: Arc::new([]),
            is_lifted: false,
            work: Work::Utility(Arc::new(utility)),
            parameters: Arc::new([]),
            columns: columns.map(described),
        }
    }

    pub(super) fn check_not_failed(&self) -> SqlResult<()> {
        if self.block != Block::Failed {
            return Ok(());
        }
        Err(SqlError::new(
            sqlstate::IN_FAILED_TRANSACTION,
            "current transaction is aborted, commands ignored until end of transaction block",
        ))
    }

    /// The plan of a text: a kept one, or a new one, made on another thread. `None` if the text has no statement, or was
    /// lifted and has no row program.
    pub(super) async fn planned(&mut self, key: &TextKey) -> SqlResult<Option<Arc<Planned>>> {
        let shared = shared(self);
        match shared.cache.get(key) {
            Some(Kept::Plan(planned)) if !shared.is_outdated(&planned.tables) => {
                count(&shared.counters.text_cache_hits);
                return Ok(Some(planned));
            }
            Some(Kept::NoProgram(changes)) if changes == *shared.changes.borrow() => {
                return Ok(None);
            }
            _ => {}
        }
        if self.cancel.is_idle() {
            // Planning can be cancelled, too.
            self.begin_statement(Cancelled::default());
            let planned = self.plan_anew(key).await;
            self.end_statement();
            return planned;
        }
        self.plan_anew(key).await
    }

    /// As [`planned`](Self::planned) for a text without a kept plan, within the running statement.
    async fn plan_anew(&mut self, key: &TextKey) -> SqlResult<Option<Arc<Planned>>> {
        let shared = shared(self);
        let mut changes = shared.changes.subscribe();
        loop {
            let seen = *changes.borrow_and_update();
            let planned = match self.plan_on_pool(key).await {
                Err(error) if error.busy_table().is_some() => {
                    // An index or a key is built on the table.
                    let _ = self.running.clone().unless(changes.changed()).await?;
                    continue;
                }
                planned => planned?,
            };
            count(&shared.counters.texts_planned);
            let Some(planned) = planned else {
                return Ok(None);
            };
            if key.is_lifted && !is_program(&planned) {
                shared.cache.put(key.clone(), Kept::NoProgram(seen));
                return Ok(None);
            }
            let planned = Arc::new(planned);
            if planned.is_kept {
                shared
                    .cache
                    .put(key.clone(), Kept::Plan(Arc::clone(&planned)));
            }
            return Ok(Some(planned));
        }
    }

    /// Plans on a thread for that, which cannot be interrupted; a statement that is cancelled does not wait for it. A
    /// transaction that has changed the catalogue reads it; others read a view, so that they need not be repeated when
    /// something else in the catalogue changes. Each reads the versions of its tables when it runs.
    async fn plan_on_pool(&mut self, key: &TextKey) -> SqlResult<Option<Planned>> {
        let (shared, cancelled) = (shared(self), self.running.clone());
        let (key, info, for_task) = (key.clone(), self.info.clone(), Arc::clone(&shared));
        let bytes = key.text.len();
        if !self.effects.is_empty() && self.session.as_ref().is_some_and(|it| it.is_running()) {
            let work = |handle| {
                let plan = move || plan(&for_task, &key, &info, &handle);
                shared.pools.plan(bytes, &cancelled, plan)
            };
            return self.lend_session(&cancelled, work).await;
        }
        let view = cancelled.unless(shared.views.open()).await??;
        let plan = move || plan(&for_task, &key, &info, &ReadHandle::View(view));
        shared.pools.plan(bytes, &cancelled, plan).await
    }

    /// Binds the values of a statement's parameters.
    ///
    /// # Errors
    /// 08P01 for another number of values than there are parameters; those of values that cannot be read.
    pub fn bind(
        &mut self,
        statement: &Statement,
        parameter_formats: &[i16],
        parameters: &[Option<&[u8]>],
        result_formats: &[i16],
    ) -> SqlResult<Portal> {
        let types = parameter_types(statement);
        if parameters.len() != types.len() {
            return Err(SqlError::new(
                sqlstate::PROTOCOL_VIOLATION,
                format!(
                    "bind message supplies {} parameters, but prepared statement requires {}",
                    parameters.len(),
                    types.len()
                ),
            ));
        }
        let zone = self.settings.zone();
        // Of a known length: one allocation.
        let mut values: Arc<[Datum]> = types.iter().map(|_| Datum::Null).collect();
        let slots = Arc::get_mut(&mut values).unwrap_or_default();
        for (at, ((slot, value), of)) in slots.iter_mut().zip(parameters).zip(types).enumerate() {
            *slot = match value {
                None => Datum::Null,
                Some(bytes) if format_of(parameter_formats, at)? == 1 => from_binary(*of, bytes)?,
                Some(bytes) => from_text(*of, utf8(bytes)?, zone)?,
            };
        }
        self.portal(statement.clone(), values, result_formats)
    }

    fn portal(
        &self,
        statement: Statement,
        parameters: Arc<[Datum]>,
        result_formats: &[i16],
    ) -> SqlResult<Portal> {
        let of_utility;
        let columns = match &statement.work {
            Work::Planned(planned) => planned.columns.as_deref().unwrap_or_default(),
            Work::Utility(utility) => {
                of_utility = super::utility::columns(utility).unwrap_or_default();
                &of_utility[..]
            }
            Work::Empty => &[],
        };
        let mut output = Vec::with_capacity(columns.len());
        for (at, column) in columns.iter().enumerate() {
            output.push(OutputFormat {
                sql_type: column.sql_type,
                binary: format_of(result_formats, at)? == 1,
            });
        }
        let formats = match result_formats {
            [] | [0] => Vec::new(),
            formats => formats.to_vec(),
        };
        Ok(Portal {
            statement,
            parameters,
            formats,
            output,
            rows: None,
            is_done: false,
            deallocates: None,
        })
    }
}

/// The one statement of a text, without semicolons; empty if there is none.
fn one_statement(text: &str) -> SqlResult<&str> {
    let statements = split(text)?;
    match statements.as_slice() {
        [] => Ok(""),
        [only] => Ok(only),
        _ => Err(SqlError::syntax(
            "cannot insert multiple commands into a prepared statement",
        )),
    }
}

/// The format of a parameter or a column: one for all, or one for each; text if none is said.
fn format_of(formats: &[i16], at: usize) -> SqlResult<i16> {
    let format = match formats {
        [] => 0,
        [all] => *all,
        each => *each.get(at).ok_or_else(|| {
            SqlError::new(
                sqlstate::PROTOCOL_VIOLATION,
                "the message has too few format codes",
            )
        })?,
    };
    match format {
        0 | 1 => Ok(format),
        other => Err(SqlError::new(
            sqlstate::INVALID_PARAMETER_VALUE,
            format!("unsupported format code: {other}"),
        )),
    }
}

fn parameter_types(statement: &Statement) -> &[SqlType] {
    match &statement.work {
        Work::Planned(planned) => &planned.parameters,
        _ => &[],
    }
}

pub(super) fn statement(key: TextKey, planned: Option<Arc<Planned>>) -> Statement {
    let (parameters, columns) = match &planned {
        Some(planned) => (
            planned.parameters.iter().map(|of| of.oid()).collect(),
            planned
                .columns
                .as_ref()
                .map(|columns| columns.iter().map(ColumnDescription::from).collect()),
        ),
        None => (Vec::new(), None),
    };
    Statement {
        text: key.text,
        given: key.types,
        is_lifted: key.is_lifted,
        work: planned.map_or(Work::Empty, Work::Planned),
        parameters: parameters.into(),
        columns,
    }
}

fn plan(
    shared: &Shared,
    key: &TextKey,
    info: &SessionInfo,
    handle: &ReadHandle,
) -> SqlResult<Option<Planned>> {
    let request = Request {
        text: &key.text,
        types: &key.types,
        session: info,
    };
    shared.front_end.plan(&request, &mut Reader::Handle(handle))
}

/// Whether a planned statement runs without a plan of DataFusion's.
fn is_program(planned: &Planned) -> bool {
    match &planned.body {
        Body::Select { program, .. } => program.is_some(),
        Body::Insert { plan, .. } | Body::Update { plan, .. } | Body::Delete { plan, .. } => {
            plan.is_none()
        }
        Body::CreateTableAs { .. } | Body::Ddl(_) | Body::Explain(_) => false,
    }
}

/// Whether an error is one of the statement, not of the transaction or the machine.
fn is_about_the_text(error: &SqlError) -> bool {
    matches!(&error.sqlstate()[..2], "42" | "22" | "0A" | "XX") && error.core().is_none()
}

/// A comment that tells texts with literals of different kinds apart.
fn kinds_comment(kinds: &[LiteralKind]) -> String {
    let kinds: String = kinds
        .iter()
        .map(|kind| match kind {
            LiteralKind::Int4 => 'i',
            LiteralKind::Int8 => 'l',
            LiteralKind::Numeric => 'n',
            LiteralKind::Text => 't',
        })
        .collect();
    format!(" /* {kinds} */")
}
