//! The planner: estimates of rows and prices, and the choices that depend on them.
//!
//! [`Plan::Find`] becomes a scan or an index scan, [`Plan::Join`] a nested-loop join or a hash
//! join, whichever is estimated to be cheaper. All other operators stay what they are, in the order
//! in which they are written. An answer never depends on an estimate.
//!
//! ```text
//!   price  =  random reads × their price  +  pages in sequence × theirs  +  rows × what the processor needs for one
//! ```
//!
//! A random read costs four times a page in sequence if many are in flight, and more than twenty
//! times as much if one is: so out of order a nested-loop join is the cheaper one up to several
//! times as many rows.

mod access_paths;
mod choose;
mod estimate;
mod price;
mod scope;
mod selectivity;
mod used_columns;

pub(crate) use choose::choose;
pub(crate) use estimate::{Estimated, Estimator};
pub use price::{Price, Prices};

#[cfg(doc)]
use crate::plan::Plan;
