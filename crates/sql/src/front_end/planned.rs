//! What planning a statement gives.

use std::sync::Arc;

use datafusion::logical_expr::LogicalPlan;

use super::output_columns::OutputColumn;
use crate::catalogue::SEQUENCE_VERSION;
use crate::change::{DeleteProgram, InsertProgram, UpdateProgram};
use crate::ddl_command::{CreateTable, DdlCommand};
use crate::program::SelectProgram;
use crate::types::SqlType;

/// A planned statement. It is valid as long as the tables have the versions that it was planned for.
#[derive(Debug)]
pub(crate) struct Planned {
    pub(crate) parameters: Vec<SqlType>,
    /// `None`: the statement returns no rows.
    pub(crate) columns: Option<Vec<OutputColumn>>,
    /// The numbers and versions of the tables that it uses; of sequences that it names, the version is
    /// [`SEQUENCE_VERSION`].
    pub(crate) tables: Vec<(u32, u64)>,
    /// Whether its plan may be kept.
    pub(crate) is_kept: bool,
    pub(crate) body: Body,
}

/// What a planned statement does.
#[derive(Debug)]
pub(crate) enum Body {
    /// SELECT.
    Select {
        /// The row program, if there is one.
        program: Option<SelectProgram>,
        plan: Plan,
    },
    /// INSERT; the plan finds the rows of a query.
    Insert {
        program: InsertProgram,
        plan: Option<Plan>,
    },
    /// UPDATE; the plan finds the rows if the program cannot.
    Update {
        program: UpdateProgram,
        plan: Option<Plan>,
    },
    /// DELETE; as UPDATE.
    Delete {
        program: DeleteProgram,
        plan: Option<Plan>,
    },
    /// CREATE TABLE AS.
    CreateTableAs { table: CreateTable, plan: Plan },
    /// A change of the catalogue.
    Ddl(Box<DdlCommand>),
    /// EXPLAIN: the lines of its answer.
    Explain(Vec<String>),
}

/// An optimized logical plan. Its physical plan is made anew for each run: joins, limits and subqueries of one that has run
/// would answer with the rows of that run.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(super) logical: Arc<LogicalPlan>,
    /// The types of the plan's columns.
    pub(super) types: Vec<SqlType>,
    /// The types of the parameters.
    pub(super) parameters: Vec<SqlType>,
}

impl Plan {
    /// How it reads, for EXPLAIN.
    pub(super) fn lines(&self) -> Vec<String> {
        let shown = self.logical.display_indent().to_string();
        shown.lines().map(str::to_owned).collect()
    }
}

impl Planned {
    /// Whether it changes rows or the catalogue.
    pub(crate) fn is_change(&self) -> bool {
        !matches!(self.body, Body::Select { .. } | Body::Explain(_))
    }

    /// Whether it calls a function of a sequence.
    pub(crate) fn uses_sequence(&self) -> bool {
        let is_sequence = |(_, version): &(u32, u64)| *version == SEQUENCE_VERSION;
        self.tables.iter().any(is_sequence)
    }
}
