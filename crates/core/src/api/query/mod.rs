//! Queries: plans that are run by the out-of-order executor, over tables in segments and tables in memory.
//!
//! A table that was loaded ([`Database::load_sorted`]) is found by its name, whether it lies in
//! segments or takes part in transactions by now. Any other table in memory has types but no column
//! names: the caller gives them to the query. A query reads one consistent snapshot: all tables in
//! memory are read in one [view](Database::view) (table_source.rs), tables in segments never
//! change, and names are resolved as of the view's moment (`live/catalogue_view.rs`).
//!
//! Paper: oode §1, §2

mod middle_key;
mod table_source;

use std::num::NonZeroUsize;
use std::sync::Arc;

use namiki_data::columns::{Column, Schema};
use namiki_data::{Key, Value};
use namiki_exec::plan::Plan;
use namiki_exec::source::{Source, Table as QueryTable, Tables};
use namiki_exec::{Degree, ExecError, Explanation, Mode, Options, Rows};

pub use self::table_source::RowOf;
use self::table_source::{TableSource, Values, columns, key_columns, value_column};
use crate::api::database::{Database, Shared};
use crate::api::table::Table;
use crate::api::view::View;
use crate::error::Error;
use crate::live::catalogue::Catalogue;
use crate::live::catalogue_view::TableThen;
use crate::query_error::QueryError;
use crate::table::raw_table::RawTable;

/// A query that is about to run: its tables in memory, and how it is run.
pub struct Query {
    db: Database,
    /// Tables in memory. Their names are those of the moment at which the query reads them.
    described: Vec<Described>,
    /// The view in which tables in memory are read; `None`: a view of the query's own.
    view: Option<View>,
    options: Options,
}

/// A table in memory, with names for its columns.
struct Described {
    raw_table: Arc<RawTable>,
    schema: Schema,
    values: Values,
}

/// Queries.
impl Database {
    /// A query over tables that were loaded, tables in memory, or both.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// use namiki::Database;
    /// use namiki::query::{AggregateCall, AggregateFunction, Plan, column};
    ///
    /// let db = Database::open(dir.path().join("data"))?;
    /// let accounts = db.table::<(u64, u64), i64>("accounts")?;
    /// db.transact(|tx| {
    ///     tx.put(&accounts, &(7, 1), &100)?;
    ///     tx.put(&accounts, &(7, 2), &20)?;
    ///     tx.put(&accounts, &(8, 1), &3)
    /// })?;
    /// let balance = AggregateCall::new("balance", AggregateFunction::Sum, column("amount"));
    /// let plan = Plan::scan("accounts").aggregate(&["branch"], vec![balance]);
    /// let rows = db
    ///     .query()
    ///     .table(&accounts, &["branch", "number"], "amount")?
    ///     .run(&plan)?;
    /// let mut answer: Vec<String> = Vec::new();
    /// for row in rows {
    ///     let row = row?;
    ///     answer.push(format!("{} has {}", row[0], row[1]));
    /// }
    /// answer.sort();
    /// assert_eq!(answer, ["7 has 120", "8 has 3"]);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn query(&self) -> Query {
        Query {
            db: self.clone(),
            described: Vec::new(),
            view: None,
            options: Options::default(),
        }
    }
}

impl Query {
    /// Adds a table in memory, under its own name, with names for the parts of its key and for its
    /// value. Its name is the one that it had at the moment at which the query reads it: that of
    /// its [view](Query::in_view), or the present one.
    ///
    /// # Errors
    /// [`QueryError::NotQueryable`] if there are not as many names as parts, or queries cannot read
    /// the types. They read `u64`, `i64`, strings and bytes, in values `bool`, too.
    /// [`QueryError::ForeignTable`].
    pub fn table<K: Key + ?Sized, V: Value + ?Sized>(
        self,
        table: &Table<K, V>,
        key: &[&str],
        value: &str,
    ) -> Result<Self, QueryError> {
        let not_queryable = |why: String| QueryError::NotQueryable {
            table: table.name(),
            why,
        };
        let types = key_columns(&K::type_name())
            .ok_or_else(|| not_queryable(format!("its keys are {}", K::type_name())))?;
        if types.len() != key.len() {
            let (names, parts) = (key.len(), types.len());
            return Err(not_queryable(format!(
                "its key has {parts} parts, and {names} names were given"
            )));
        }
        let value_type = value_column(&V::type_name())
            .ok_or_else(|| not_queryable(format!("its values are {}", V::type_name())))?;
        let mut all: Vec<_> = columns(key, &types).collect();
        all.push(Column::new(value, value_type));
        let schema = Schema::new(all, key);
        let schema = schema.map_err(|error| not_queryable(error.to_string()))?;
        self.described(table, schema, Values::One(value_type))
    }

    /// Adds a table in memory with values that are rows, encoded for this schema by
    /// [`encode_row`](crate::query::encode_row), with the table's key as its key.
    ///
    /// # Errors
    /// [`QueryError::NotQueryable`] if the key's types are others; [`QueryError::ForeignTable`].
    pub fn table_of_rows<K: Key + ?Sized>(
        self,
        table: &Table<K, [u8]>,
        schema: Schema,
    ) -> Result<Self, QueryError> {
        let types = key_columns(&K::type_name()).unwrap_or_default();
        let in_schema = schema.key().iter();
        let in_schema = in_schema.map(|place| schema.columns()[*place].column_type);
        if !in_schema.eq(types) || schema.key().iter().any(|at| schema.columns()[*at].nullable) {
            return Err(QueryError::NotQueryable {
                table: table.name(),
                why: format!(
                    "its keys are {}, and not those of the schema",
                    K::type_name()
                ),
            });
        }
        self.described(table, schema, Values::Rows)
    }

    /// Adds a table in memory of types that the program does not have: the schema's key has the
    /// bytes of the table's keys, and a function makes the rows from both. For tools that work on
    /// any database; see `Database::untyped_table`.
    ///
    /// # Errors
    /// [`QueryError::ForeignTable`].
    #[doc(hidden)]
    pub fn untyped_table(
        self,
        table: &Table<[u8], [u8]>,
        schema: Schema,
        row_of: RowOf,
    ) -> Result<Self, QueryError> {
        self.described(table, schema, Values::Made(row_of))
    }

    fn described<K: ?Sized, V: ?Sized>(
        mut self,
        table: &Table<K, V>,
        schema: Schema,
        values: Values,
    ) -> Result<Self, QueryError> {
        let raw_table = table.raw_table();
        let shared = &self.db.shared;
        if raw_table.owner != shared.engine.owner {
            return Err(QueryError::ForeignTable {
                table: table.name(),
            });
        }
        let described = Described {
            raw_table: Arc::clone(raw_table),
            schema,
            values,
        };
        self.described
            .retain(|own| !Arc::ptr_eq(&own.raw_table, raw_table));
        self.described.push(described);
        Ok(self)
    }

    /// Runs it in a view: it reads the tables that existed at the view's moment, under the names
    /// that they had, as they were. Default: in a view of its own, opened when it starts.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// use namiki::Database;
    /// use namiki::query::Plan;
    ///
    /// let db = Database::open(dir.path().join("data"))?;
    /// let stock = db.table::<u64, i64>("stock")?;
    /// db.transact(|tx| tx.put(&stock, &1, &100))?;
    /// let view = db.view()?;
    /// db.clear_table("stock")?;
    /// let rows = db
    ///     .query()
    ///     .in_view(&view)?
    ///     .table(&stock, &["item"], "pieces")?
    ///     .run(&Plan::scan("stock"))?;
    /// assert_eq!(rows.count(), 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`QueryError::ForeignView`] if the view is another database's.
    pub fn in_view(mut self, view: &View) -> Result<Self, QueryError> {
        if view.open.engine.owner != self.db.shared.engine.owner {
            return Err(QueryError::ForeignView);
        }
        self.view = Some(view.clone());
        Ok(self)
    }

    /// How many threads run it. Default: one for each processor.
    #[must_use]
    pub fn threads(mut self, threads: NonZeroUsize) -> Self {
        self.options.threads = threads;
        self
    }

    /// How many tasks of each thread may wait for pages.
    #[must_use]
    pub fn degree(mut self, degree: Degree) -> Self {
        self.options.degree = degree;
        self
    }

    /// The order of execution. Default: out of order.
    #[must_use]
    pub fn mode(mut self, mode: Mode) -> Self {
        self.options.mode = mode;
        self
    }

    /// All settings at once.
    #[must_use]
    pub fn options(mut self, options: Options) -> Self {
        self.options = options;
        self
    }

    /// Starts the plan. Its rows can be taken at once, and come in any order unless the plan sorts
    /// them. Dropping them before the end cancels the query. They do not keep the database open:
    /// once the last handle is dropped, rows of tables in memory end with
    /// [`Error::Closed`](crate::Error::Closed).
    ///
    /// # Errors
    /// [`QueryError`]; [`QueryError::View`] with
    /// [`Error::TableYoungerThanView`](crate::Error::TableYoungerThanView) if a table was created,
    /// loaded, cleared or renamed after the [view](Query::in_view) was opened. Later errors are
    /// returned by the rows.
    pub fn run(self, plan: &Plan) -> Result<Rows, QueryError> {
        let shared = &*self.db.shared;
        shared
            .engine
            .check_process()
            .map_err(|_| QueryError::Forked)?;
        let tables = self.tables(plan)?;
        let executor = shared.opened.executor(&shared.disk)?;
        Ok(executor.run(plan, &tables, &self.options)?)
    }

    /// Explains how the plan would run, with its estimated cost. Reads no row.
    ///
    /// # Errors
    /// [`QueryError`].
    pub fn explain(&self, plan: &Plan) -> Result<Explanation, QueryError> {
        let shared = &*self.db.shared;
        shared
            .engine
            .check_process()
            .map_err(|_| QueryError::Forked)?;
        let tables = self.tables(plan)?;
        let executor = shared.opened.executor(&shared.disk)?;
        Ok(executor.explain(plan, &tables, &self.options)?)
    }

    /// The tables that the plan names.
    ///
    /// # Errors
    /// [`QueryError::Exec`] for a plan that is too large, before the catalogue is locked for it.
    fn tables(&self, plan: &Plan) -> Result<Tables, QueryError> {
        plan.check().map_err(ExecError::from)?;
        let view = match &self.view {
            Some(view) => view.clone(),
            None => match self.tables_in(plan, None)? {
                Some(tables) => return Ok(tables),
                None => self.db.view()?,
            },
        };
        match self.tables_in(plan, Some(&view))? {
            Some(tables) => Ok(tables),
            None => unreachable!("there is a view"),
        }
    }

    /// The tables that the plan names, as a view sees them: rows and names are of the same moment.
    /// `None` if some of them are in memory and no view is given.
    fn tables_in(&self, plan: &Plan, view: Option<&View>) -> Result<Option<Tables>, QueryError> {
        let shared = &*self.db.shared;
        // One lock for all of them, held until they are open: otherwise one could be dropped, or
        // two could exchange their names in between.
        let catalogue = shared.catalogue.lock();
        if catalogue.closed.is_some() {
            return Err(QueryError::Closed);
        }
        let mut tables = Tables::new();
        for name in plan.tables() {
            if tables.get(name).is_some() {
                continue;
            }
            let described = self.described_as(name, view);
            let replaced = view.and_then(|it| it.catalogue.replaced(name));
            let table = match (described, replaced, view) {
                (Some(_), _, None) => None,
                (Some(own), None, Some(view)) => Some(own.source(view)?),
                (Some(own), Some(_), Some(view)) if view.check(&own.raw_table).is_ok() => {
                    Some(own.source(view)?)
                }
                (_, Some(then), _) => self.table_then(name, then, view)?,
                (None, None, _) => self.table_now(&catalogue, name, view)?,
            };
            let Some(table) = table else {
                return Ok(None);
            };
            tables.insert(name, table);
        }
        Ok(Some(tables))
    }

    /// The table that was described and had this name at a view's moment, or has it now if no view
    /// is given. If several match, one that the view can read is preferred: a dropped table keeps
    /// its name, which a younger one may have now.
    fn described_as(&self, name: &str, view: Option<&View>) -> Option<&Described> {
        let in_segments = &self.db.shared.in_segments;
        let has_name = |own: &&Described| {
            let then = view.and_then(|view| {
                let segments = in_segments.segments_of(&own.raw_table);
                (view.catalogue).name_then(&own.raw_table, segments.as_deref())
            });
            then.unwrap_or_else(|| own.raw_table.name()) == name
        };
        let all = || self.described.iter().filter(has_name);
        let readable = all().find(|own| view.is_some_and(|it| it.check(&own.raw_table).is_ok()));
        readable.or_else(|| all().next())
    }

    /// The table that had this name at a view's moment, and has lost it since.
    fn table_then(
        &self,
        name: &str,
        then: Option<TableThen>,
        view: Option<&View>,
    ) -> Result<Option<QueryTable>, QueryError> {
        let table = name.to_owned();
        match (then, view) {
            (Some(TableThen::InSegments { opened, .. }), _) => opened.map(Some),
            (Some(TableThen::InMemory(raw_table, Some(schema))), Some(view)) => {
                let Some(raw_table) = raw_table.upgrade() else {
                    return Err(view.open.expired().into());
                };
                let described = Described {
                    raw_table,
                    schema: *schema,
                    values: Values::Rows,
                };
                described.source(view).map(Some)
            }
            (Some(TableThen::InMemory(..)), _) => Err(QueryError::NotDescribed { table }),
            (None, _) => Err(Error::TableYoungerThanView { table }.into()),
        }
    }

    /// The table that has this name; `None` if it is in memory and no view is given.
    fn table_now(
        &self,
        catalogue: &Catalogue,
        name: &str,
        view: Option<&View>,
    ) -> Result<Option<QueryTable>, QueryError> {
        let shared = &*self.db.shared;
        if let Some(described) = shared.described(catalogue, name) {
            return view.map(|view| described.source(view)).transpose();
        }
        let loaded_tables = &catalogue.manifest.loaded_tables;
        let table = name.to_owned();
        let Some(loaded) = loaded_tables.table(name) else {
            if catalogue.ids.get(name).is_some() {
                return Err(QueryError::NotDescribed { table });
            }
            let in_memory = catalogue.manifest.tables.iter();
            let in_memory = in_memory.filter(|table| table.columns().is_some());
            let known = (loaded_tables.tables.iter().map(|table| &table.name))
                .chain(in_memory.map(|table| &table.name))
                .cloned()
                .chain(self.described.iter().map(|own| own.raw_table.name()));
            let known = known.collect();
            return Err(QueryError::UnknownTable { table, known });
        };
        let identity = catalogue.manifest.identity();
        let opened = shared
            .opened
            .table(&shared.disk, &shared.dir, identity, loaded)?;
        Ok(Some(opened))
    }
}

impl Shared {
    /// A table in memory of which the manifest has the columns.
    fn described(&self, catalogue: &Catalogue, name: &str) -> Option<Described> {
        let id = catalogue.ids.get(name)?;
        let schema = catalogue.manifest.table(id)?.columns()?.clone();
        let raw_table = self.engine.raw_tables.lock().get(&id).cloned()?;
        Some(Described {
            raw_table,
            schema,
            values: Values::Rows,
        })
    }
}

impl Described {
    /// The table as a view sees it.
    fn source(&self, view: &View) -> Result<QueryTable, QueryError> {
        view.check(&self.raw_table)?;
        let source: Arc<dyn Source> = Arc::new(TableSource {
            view: view.clone(),
            raw_table: Arc::clone(&self.raw_table),
            schema: self.schema.clone(),
            values: self.values.clone(),
        });
        Ok(QueryTable::new(source))
    }
}

impl std::fmt::Debug for Query {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let described = self.described.iter().map(|own| own.raw_table.name());
        f.debug_struct("Query")
            .field("described", &described.collect::<Vec<_>>())
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
