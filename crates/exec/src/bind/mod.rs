//! Binding: from names to numbers. A bound plan has tables that exist, columns known by number, and
//! types that fit.
//!
//! Every column that a table, a projection or a group brings into the plan has one number in the
//! whole plan. So operators refer to columns from any operator below, and a walk over the tree
//! finds the used columns.

mod access;
mod bound_plan;
mod column;
mod key_bounds;
mod key_lists;
mod operators;
mod scalar;

pub(crate) use access::Access;
pub(crate) use bound_plan::{AggregateNode, Keys, Node};
pub(crate) use column::{ColumnId, ColumnInfo, Field, names_of_answer};
pub(crate) use key_bounds::KeyBounds;
pub(crate) use key_lists::KeyLists;
pub(crate) use scalar::Scalar;

use crate::error::PlanError;
use crate::plan::Plan;
use crate::source::Tables;

/// A plan that can be run.
pub(crate) struct Bound {
    pub(crate) root: Node,
    /// The columns of the answer.
    pub(crate) fields: Vec<Field>,
    /// All columns, by their numbers.
    pub(crate) columns: Vec<ColumnInfo>,
}

/// Binds a plan.
///
/// # Errors
/// The first [`PlanError`] that is found.
pub(crate) fn bind(plan: &Plan, tables: &Tables) -> Result<Bound, PlanError> {
    // Everything from here on is recursive.
    plan.check()?;
    let mut binder = operators::Binder::new(tables);
    let (root, fields) = binder.bind(plan)?;
    Ok(Bound {
        root,
        fields,
        columns: binder.into_columns(),
    })
}
