//! Columns of tables that a plan uses, by their bare names: an index with all of them makes reading
//! the rows unnecessary.

use std::collections::BTreeSet;

use crate::plan::{Expr, ExprNode, Plan};
use crate::source::{Table, Tables};

/// The names of the columns that a plan uses anywhere.
#[derive(Clone, Debug, Default)]
pub(crate) struct UsedColumns {
    names: BTreeSet<String>,
    /// Whole rows are the result, or are sorted.
    all: bool,
}

impl UsedColumns {
    pub(crate) fn of(plan: &Plan) -> Self {
        let mut used = Self::default();
        used.visit(plan, true);
        used
    }

    /// Whether an index of a table has all of its columns that are used.
    pub(super) fn are_in_index(&self, tables: &Tables, table: &str, index: &str) -> bool {
        let Some(table) = tables.get(table) else {
            return false;
        };
        let Some(index) = table.indexes.get(index) else {
            return false;
        };
        let index = index.schema();
        self.of_table(table)
            .all(|name| index.column(name).is_some())
    }

    fn of_table<'t>(&'t self, table: &'t Table) -> impl Iterator<Item = &'t str> {
        let columns = table
            .source
            .schema()
            .columns()
            .iter()
            .map(|column| column.name.as_str());
        columns.filter(|name| self.all || self.names.contains(*name))
    }

    fn add(&mut self, expr: &Expr) {
        match expr.node() {
            ExprNode::Column(name) => {
                let own = name.rsplit_once('.').map_or(name.as_str(), |(_, own)| own);
                self.names.insert(own.to_owned());
            }
            ExprNode::Literal(_) => {}
            ExprNode::Compare(_, left, right) => {
                self.add(left);
                self.add(right);
            }
            ExprNode::And(parts) | ExprNode::Or(parts) => {
                parts.iter().for_each(|part| self.add(part));
            }
            ExprNode::Calculate(_, parts) => parts.iter().for_each(|part| self.add(part)),
            ExprNode::Not(inner)
            | ExprNode::IsNull(inner)
            | ExprNode::In(inner, _)
            | ExprNode::StartsWith(inner, _)
            | ExprNode::Contains(inner, _) => self.add(inner),
        }
    }

    /// `whole`: all columns of the operator are used.
    fn visit(&mut self, plan: &Plan, whole: bool) {
        self.all |= whole && plan.table().is_some();
        plan.expressions().into_iter().for_each(|of| self.add(of));
        let whole = match plan {
            Plan::Project(_) | Plan::Aggregate(_) => false,
            // All columns decide between equal rows.
            Plan::Sort(_) => true,
            _ => whole,
        };
        for input in plan.inputs() {
            self.visit(input, whole);
        }
    }
}
