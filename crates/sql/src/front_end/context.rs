//! The names of a statement: bound to the catalogue as its reader sees it, and to DataFusion's functions.

use std::cell::RefCell;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, FieldRef, SchemaRef};
use datafusion::catalog::TableFunctionArgs;
use datafusion::common::{DFSchema, Result as PlanResult, TableReference};
use datafusion::config::ConfigOptions;
use datafusion::datasource::cte_worktable::CteWorkTable;
use datafusion::datasource::provider_as_source;
use datafusion::execution::SessionState;
use datafusion::logical_expr::planner::{
    ContextProvider, ExprPlanner, RelationPlanner, TypePlanner,
};
use datafusion::logical_expr::{
    AggregateUDF, Expr, HigherOrderUDF, ScalarUDF, TableSource, WindowUDF,
};
use datafusion::sql::planner::{NullOrdering, ParserOptions};
use datafusion::sql::sqlparser::ast;

use super::arrow_values::field;
use super::ddl_types::sql_type_of_ast;
use super::errors::external;
use super::system_tables::{self, SystemTable};
use super::tables::SqlTable;
use crate::catalogue::{Catalogue, Named, PUBLIC, Relation};
use crate::error::{SqlError, SqlResult};
use crate::sqlstate;
use crate::storage::{Reader, Storage};

/// Binds the names of one statement.
pub(super) struct Binder<'a, 'r> {
    pub(super) state: &'a SessionState,
    pub(super) catalogue: &'a Catalogue,
    pub(super) storage: &'a Arc<Storage>,
    pub(super) reader: RefCell<&'a mut Reader<'r>>,
    /// The tables that were found, and their versions.
    pub(super) used: RefCell<Vec<Arc<Relation>>>,
    /// The sequences that functions name.
    pub(super) sequences: RefCell<Vec<u32>>,
    /// Whether a table of the catalogue is used: its rows are made when the statement runs.
    pub(super) uses_system: RefCell<bool>,
    /// Whether tables show the numbers of rows without a key: statements that change rows need them.
    pub(super) shows_row_numbers: bool,
}

impl<'a, 'r> Binder<'a, 'r> {
    pub(super) fn new(
        state: &'a SessionState,
        catalogue: &'a Catalogue,
        storage: &'a Arc<Storage>,
        reader: &'a mut Reader<'r>,
    ) -> Self {
        Self {
            state,
            catalogue,
            storage,
            reader: RefCell::new(reader),
            used: RefCell::default(),
            sequences: RefCell::default(),
            uses_system: RefCell::new(false),
            shows_row_numbers: false,
        }
    }

    /// The table of this name.
    ///
    /// # Errors
    /// 42P01 if there is none; 55006 while an index is built on it.
    pub(super) fn relation(&self, schema: Option<&str>, name: &str) -> SqlResult<Arc<Relation>> {
        let unknown = || {
            let shown = schema.map_or_else(|| name.to_owned(), |schema| format!("{schema}.{name}"));
            SqlError::new(
                sqlstate::UNDEFINED_TABLE,
                format!("relation \"{shown}\" does not exist"),
            )
        };
        let mut reader = self.reader.borrow_mut();
        let named = self
            .catalogue
            .named(&mut reader, schema.unwrap_or(PUBLIC), name)?;
        let id = match named.ok_or_else(unknown)? {
            Named::Table(id) => id,
            Named::Index(_) | Named::Sequence(_) => {
                return Err(SqlError::new(
                    sqlstate::WRONG_OBJECT_TYPE,
                    format!("\"{name}\" is not a table"),
                ));
            }
        };
        let found = self
            .catalogue
            .relation(&mut reader, id)?
            .ok_or_else(unknown)?;
        if found.row.marker.is_some() {
            return Err(SqlError::wait_for_table(id, name));
        }
        self.used.borrow_mut().push(Arc::clone(&found));
        Ok(found)
    }

    fn table_source(&self, name: &TableReference) -> SqlResult<Arc<dyn TableSource>> {
        let schema = name.schema();
        if let Some(system) = system_tables::find(schema, name.table()) {
            *self.uses_system.borrow_mut() = true;
            return Ok(provider_as_source(Arc::new(SystemTable::new(system))));
        }
        let relation = self.relation(schema, name.table())?;
        let table = SqlTable::new(relation, Arc::clone(self.storage), self.shows_row_numbers);
        Ok(provider_as_source(Arc::new(table)))
    }
}

/// How DataFusion reads a statement.
pub(super) fn parser_options() -> ParserOptions {
    ParserOptions::new()
        .with_parse_float_as_decimal(true)
        .with_enable_ident_normalization(true)
        .with_support_varchar_with_length(true)
        .with_map_string_types_to_utf8view(false)
        .with_default_null_ordering(NullOrdering::NullsMax)
}

impl ContextProvider for Binder<'_, '_> {
    fn get_table_source(&self, name: TableReference) -> PlanResult<Arc<dyn TableSource>> {
        self.table_source(&name).map_err(external)
    }

    fn get_table_function_source(
        &self,
        name: &str,
        args: Vec<Expr>,
    ) -> PlanResult<Arc<dyn TableSource>> {
        let Some(function) = self.state.table_functions().get(name) else {
            return Err(external(SqlError::new(
                sqlstate::UNDEFINED_FUNCTION,
                format!("function {name} does not exist"),
            )));
        };
        let schema = DFSchema::empty();
        // Constants like -1 and 1 + 2 become literals.
        let args = args.into_iter().map(|arg| {
            let physical = self.state.create_physical_expr(arg.clone(), &schema)?;
            super::foreign::literal_of(&physical)
                .map(|value| Expr::Literal(value, None))
                .or(Ok(arg))
        });
        let args = args.collect::<PlanResult<Vec<Expr>>>()?;
        let provider =
            function.create_table_provider_with_args(TableFunctionArgs::new(&args, self.state))?;
        Ok(provider_as_source(provider))
    }

    fn create_cte_work_table(
        &self,
        name: &str,
        schema: SchemaRef,
    ) -> PlanResult<Arc<dyn TableSource>> {
        Ok(provider_as_source(Arc::new(CteWorkTable::new(
            name, schema,
        ))))
    }

    fn get_expr_planners(&self) -> &[Arc<dyn ExprPlanner>] {
        self.state.expr_planners()
    }

    fn get_relation_planners(&self) -> &[Arc<dyn RelationPlanner>] {
        self.state.relation_planners()
    }

    fn get_type_planner(&self) -> Option<Arc<dyn TypePlanner>> {
        Some(Arc::new(SqlTypes))
    }

    fn get_function_meta(&self, name: &str) -> Option<Arc<ScalarUDF>> {
        let name = name.strip_prefix("pg_catalog.").unwrap_or(name);
        self.state.scalar_functions().get(name).cloned()
    }

    fn get_higher_order_meta(&self, name: &str) -> Option<Arc<HigherOrderUDF>> {
        self.state.higher_order_functions().get(name).cloned()
    }

    fn get_aggregate_meta(&self, name: &str) -> Option<Arc<AggregateUDF>> {
        let name = name.strip_prefix("pg_catalog.").unwrap_or(name);
        self.state.aggregate_functions().get(name).cloned()
    }

    fn get_window_meta(&self, name: &str) -> Option<Arc<WindowUDF>> {
        self.state.window_functions().get(name).cloned()
    }

    fn get_variable_type(&self, _variable_names: &[String]) -> Option<DataType> {
        None
    }

    fn options(&self) -> &ConfigOptions {
        self.state.config_options()
    }

    fn udf_names(&self) -> Vec<String> {
        self.state.scalar_functions().keys().cloned().collect()
    }

    fn higher_order_function_names(&self) -> Vec<String> {
        self.state
            .higher_order_functions()
            .keys()
            .cloned()
            .collect()
    }

    fn udaf_names(&self) -> Vec<String> {
        self.state.aggregate_functions().keys().cloned().collect()
    }

    fn udwf_names(&self) -> Vec<String> {
        self.state.window_functions().keys().cloned().collect()
    }
}

/// The types that casts name, as columns of tables have them.
#[derive(Debug)]
struct SqlTypes;

impl TypePlanner for SqlTypes {
    fn plan_type_field(&self, sql_type: &ast::DataType) -> PlanResult<Option<FieldRef>> {
        match sql_type_of_ast(sql_type) {
            Ok(found) => Ok(Some(Arc::new(field("", found, true)))),
            Err(error) if error.sqlstate() != sqlstate::FEATURE_NOT_SUPPORTED => {
                Err(external(error))
            }
            // Arrays, intervals and the like: DataFusion's own types.
            Err(_) => Ok(None),
        }
    }
}
