//! From a text to a plan.

use std::sync::Arc;

use datafusion::arrow::datatypes::FieldRef;
use datafusion::config::Dialect;
use datafusion::execution::memory_pool::GreedyMemoryPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::LogicalPlan;
use datafusion::prelude::SessionConfig;
use datafusion::sql::planner::{PlannerContext, SqlToRel};
use datafusion::sql::sqlparser::ast::{Query, Statement};

use super::arrow_values::{field, field_type};
use super::average::average;
use super::checked::CheckedArithmetic;
use super::compile::select_program;
use super::context::{Binder, parser_options};
use super::ddl_alter::alter_table;
use super::decimals::DecimalRules;
use super::errors::sql_error;
use super::mixed_types::TextOperands;
use super::names::has_into;
use super::output_columns::{OutputColumn, output_columns, tell_apart};
use super::parameter_types::note_types;
use super::parse::parse;
use super::planned::{Body, Plan, Planned};
use super::prepare::{Parameters, SessionInfo, prepare_plan};
use super::rewrite::rewrite;
use super::{ddl, functions};
use crate::catalogue::{Catalogue, SEQUENCE_VERSION, Sequences};
use crate::engine_options::EngineOptions;
use crate::error::{SqlError, SqlResult};
use crate::row_counts::RowCounts;
use crate::storage::{Reader, Storage};
use crate::types::SqlType;

/// DataFusion, set up for SQL as PostgreSQL has it. A handle: cloning it is cheap.
#[derive(Clone)]
pub(crate) struct FrontEnd {
    pub(super) state: Arc<SessionState>,
    pub(super) catalogue: Arc<Catalogue>,
    pub(super) storage: Arc<Storage>,
    pub(super) row_counts: Arc<RowCounts>,
}

impl std::fmt::Debug for FrontEnd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FrontEnd").finish_non_exhaustive()
    }
}

/// A text to be planned.
pub(crate) struct Request<'t> {
    pub(crate) text: &'t str,
    /// The types of its parameters, where they are known.
    pub(crate) types: &'t [Option<SqlType>],
    pub(crate) session: &'t SessionInfo,
}

impl FrontEnd {
    /// A front end.
    ///
    /// # Errors
    /// XX000 if DataFusion cannot be set up.
    pub(crate) fn new(
        catalogue: Arc<Catalogue>,
        storage: Arc<Storage>,
        row_counts: Arc<RowCounts>,
        sequences: &Arc<Sequences>,
        limits: &EngineOptions,
    ) -> SqlResult<Self> {
        let mut config = SessionConfig::new()
            // One partition: the pool's threads run different statements.
            .with_target_partitions(1)
            .with_batch_size(4096)
            .with_information_schema(false)
            .with_create_default_catalog_and_schema(false);
        let options = config.options_mut();
        options.sql_parser.dialect = Dialect::PostgreSQL;
        options.sql_parser.parse_float_as_decimal = true;
        options.sql_parser.map_string_types_to_utf8view = false;
        // Columns say of which table they are, which a UNION without its first part does not.
        options.execution.skip_physical_aggregate_schema_check = true;
        let runtime = RuntimeEnvBuilder::new()
            .with_memory_pool(Arc::new(GreedyMemoryPool::new(limits.plan_memory_bytes)))
            .with_max_temp_directory_size(limits.plan_file_bytes)
            .build_arc()
            .map_err(sql_error)?;
        let mut scalar_functions =
            datafusion::execution::SessionStateDefaults::default_scalar_functions();
        scalar_functions.extend(functions::all(sequences));
        let mut aggregate_functions =
            datafusion::execution::SessionStateDefaults::default_aggregate_functions();
        aggregate_functions.push(average());
        let mut builder = SessionStateBuilder::new_with_default_features();
        let planners = builder.expr_planners().get_or_insert_default();
        planners.insert(0, Arc::new(TextOperands));
        let state = builder
            .with_config(config)
            .with_runtime_env(runtime)
            .with_scalar_functions(scalar_functions)
            .with_aggregate_functions(aggregate_functions)
            .with_analyzer_rule(Arc::new(CheckedArithmetic))
            .with_analyzer_rule(Arc::new(DecimalRules))
            .build();
        Ok(Self {
            state: Arc::new(state),
            catalogue,
            storage,
            row_counts,
        })
    }

    /// Plans a statement; `None` if the text has none.
    ///
    /// # Errors
    /// The statement's, and those of the reader.
    pub(crate) fn plan(
        &self,
        request: &Request<'_>,
        reader: &mut Reader<'_>,
    ) -> SqlResult<Option<Planned>> {
        let Some(statement) = parse(request.text)? else {
            return Ok(None);
        };
        Planning::new(self, request, reader)
            .statement(statement)
            .map(Some)
    }
}

/// The planning of one statement.
pub(super) struct Planning<'p, 'r> {
    pub(super) front_end: &'p FrontEnd,
    pub(super) request: &'p Request<'p>,
    pub(super) binder: Binder<'p, 'r>,
    pub(super) parameters: Parameters,
}

impl<'p, 'r> Planning<'p, 'r> {
    pub(super) fn new(
        front_end: &'p FrontEnd,
        request: &'p Request<'p>,
        reader: &'p mut Reader<'r>,
    ) -> Self {
        Self {
            front_end,
            request,
            binder: Binder::new(
                &front_end.state,
                &front_end.catalogue,
                &front_end.storage,
                reader,
            ),
            parameters: Parameters::default(),
        }
    }

    fn statement(mut self, mut statement: Statement) -> SqlResult<Planned> {
        rewrite(&mut statement)?;
        self.parameters.types = self.request.types.to_vec();
        note_types(&statement, &mut self.parameters.types);
        let (columns, body) = self.body(statement)?;
        let used = self.binder.used.borrow();
        let mut tables: Vec<(u32, u64)> = used.iter().map(|it| (it.id(), it.version)).collect();
        drop(used);
        let sequences = self.binder.sequences.borrow();
        tables.extend(sequences.iter().map(|id| (*id, SEQUENCE_VERSION)));
        drop(sequences);
        tables.sort_unstable();
        tables.dedup();
        let is_kept = !self.parameters.depends_on_session
            && !matches!(
                body,
                Body::Ddl(_) | Body::CreateTableAs { .. } | Body::Explain(_)
            );
        Ok(Planned {
            parameters: self.parameters.resolved(),
            columns,
            tables,
            is_kept,
            body,
        })
    }

    fn body(&mut self, statement: Statement) -> SqlResult<(Option<Vec<OutputColumn>>, Body)> {
        match statement {
            Statement::Query(query) if has_into(&query) => self.select_into(*query),
            Statement::Query(query) => self.select(*query),
            Statement::CreateTable(mut create) if create.query.is_some() => {
                match create.query.take() {
                    Some(query) => self.create_table_as(create, *query),
                    None => Err(SqlError::corrupted("CREATE TABLE AS has no query")),
                }
            }
            Statement::Insert(insert) => self.insert(insert),
            Statement::Update(update) => self.update(update),
            Statement::Delete(delete) => self.delete(delete),
            Statement::Explain {
                statement, analyze, ..
            } => {
                if analyze {
                    return Err(SqlError::unsupported("EXPLAIN ANALYZE"));
                }
                let (_, body) = self.body(*statement)?;
                let columns = vec![OutputColumn::new("QUERY PLAN", SqlType::Text)];
                Ok((Some(columns), Body::Explain(explain(&body))))
            }
            Statement::AlterTable(alter) => Ok((None, Body::Ddl(Box::new(alter_table(alter)?)))),
            other => {
                let command = ddl::command(other)?;
                Ok((None, Body::Ddl(Box::new(command))))
            }
        }
    }

    /// The types that are known of parameters, as DataFusion wants them.
    pub(super) fn planner_context(&self) -> PlannerContext {
        let typed = |(at, of): (usize, &Option<SqlType>)| {
            of.map(|of| -> FieldRef { Arc::new(field(&format!("${}", at + 1), of, true)) })
        };
        let fields = self
            .parameters
            .types
            .iter()
            .enumerate()
            .map(typed)
            .collect();
        PlannerContext::new().with_prepare_param_data_types(fields)
    }

    /// Binds and prepares a query.
    pub(super) fn bind_query(&mut self, query: Query) -> SqlResult<LogicalPlan> {
        let mut context = self.planner_context();
        let planner = SqlToRel::new_with_options(&self.binder, parser_options());
        let plan = planner
            .sql_statement_to_plan_with_context(Statement::Query(Box::new(query)), &mut context)
            .map_err(sql_error)?;
        prepare_plan(
            plan,
            &self.binder,
            self.request.session,
            &mut self.parameters,
        )
    }

    /// Optimizes a plan.
    pub(super) fn optimize(&self, plan: &LogicalPlan) -> SqlResult<Plan> {
        let logical = self.front_end.state.optimize(plan).map_err(sql_error)?;
        let types = logical
            .schema()
            .fields()
            .iter()
            .map(|field| field_type(field))
            .collect();
        Ok(Plan {
            logical: Arc::new(logical),
            types,
            parameters: self.parameters.resolved(),
        })
    }

    fn select(&mut self, mut query: Query) -> SqlResult<(Option<Vec<OutputColumn>>, Body)> {
        tell_apart(&mut query);
        let bound = self.bind_query(query.clone())?;
        let mut columns = output_columns(bound.schema(), Some(&query));
        let plan = self.optimize(&bound)?;
        // The branches of a CASE or a UNION have one type only now.
        for (column, of) in columns.iter_mut().zip(&plan.types) {
            column.sql_type = *of;
        }
        let program = if *self.binder.uses_system.borrow() {
            None
        } else {
            select_program(&plan.logical)?
        };
        Ok((Some(columns), Body::Select { program, plan }))
    }
}

/// The lines of EXPLAIN: whether it is a row program, and how the rows are found.
fn explain(body: &Body) -> Vec<String> {
    let access = |access: Option<&crate::program::Access>| match access {
        Some(access) => describe(access),
        None => "Result".to_owned(),
    };
    let with_plan = |what: &str, plan: Option<&Plan>| {
        let mut lines = vec![format!(
            "{what}: plan of DataFusion, run on the second pool"
        )];
        lines.extend(
            plan.map(Plan::lines)
                .unwrap_or_default()
                .into_iter()
                .map(|line| format!("  {line}")),
        );
        lines
    };
    match body {
        Body::Select {
            program: Some(program),
            ..
        } => vec![format!("Row program: {}", access(program.access.as_ref()))],
        Body::Select { plan, .. } => with_plan("Select", Some(plan)),
        Body::Insert {
            program,
            plan: None,
        } => {
            vec![format!(
                "Row program: Insert on {}",
                program.target.relation.row.name
            )]
        }
        Body::Insert { program, plan } => with_plan(
            &format!("Insert on {}", program.target.relation.row.name),
            plan.as_ref(),
        ),
        Body::Update {
            program,
            plan: None,
        } => {
            let how = if program.adds_later() {
                ", added at the commit"
            } else {
                ""
            };
            vec![format!(
                "Row program: Update, {}{how}",
                access(program.access.as_ref())
            )]
        }
        Body::Update { program, plan } => with_plan(
            &format!("Update on {}", program.target.relation.row.name),
            plan.as_ref(),
        ),
        Body::Delete {
            program,
            plan: None,
        } => {
            vec![format!(
                "Row program: Delete, {}",
                access(program.access.as_ref())
            )]
        }
        Body::Delete { program, plan } => with_plan(
            &format!("Delete on {}", program.target.relation.row.name),
            plan.as_ref(),
        ),
        Body::CreateTableAs { table, plan } => {
            with_plan(&format!("Create table {}", table.name.name), Some(plan))
        }
        Body::Ddl(_) => vec!["Utility statement".to_owned()],
        Body::Explain(lines) => lines.clone(),
    }
}

fn describe(access: &crate::program::Access) -> String {
    use crate::program::Path;
    let table = &access.relation.row;
    let filter = match (access.filter.is_empty(), access.is_descending) {
        (true, false) => "",
        (true, true) => ", in descending order",
        (false, false) => ", filtered",
        (false, true) => ", in descending order, filtered",
    };
    match &access.path {
        Path::Key(_) => format!("by primary key of {}{filter}", table.name),
        Path::OneOf { index, values } => {
            let lookups: usize = values.iter().map(Vec::len).product();
            match index.and_then(|index| table.indexes.get(index)) {
                None => format!(
                    "by {lookups} values of the primary key of {}{filter}",
                    table.name
                ),
                Some(index) => format!(
                    "by {lookups} values of index {} on {}{filter}",
                    index.name, table.name
                ),
            }
        }
        Path::Range { index: None, .. } => {
            format!("range of the primary key of {}{filter}", table.name)
        }
        Path::Range {
            index: Some(index), ..
        } => {
            let name = table
                .indexes
                .get(*index)
                .map_or("?", |index| index.name.as_str());
            format!("by index {name} on {}{filter}", table.name)
        }
        Path::Full => format!("all rows of {}{filter}", table.name),
    }
}
