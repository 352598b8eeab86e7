//! Tables with a schema: typed columns, and the bytes they are stored as.
//!
//! A table is a sorted sequence of (key bytes, row bytes). The key contains the columns of the
//! primary key, in an encoding that compares as the columns do. The row bytes contain all other
//! columns, each found without decoding those before it. A secondary index is a table of the same
//! kind with all columns in the key.

mod arithmetic;
mod calendar;
mod column_type;
mod datum;
mod float;
pub mod key_codec;
pub mod row_codec;
mod schema;

pub use arithmetic::Arithmetic;
pub use column_type::{ColumnType, SCALE_MAX};
pub use datum::{Datum, Value};
pub use float::Float;
pub use schema::{Column, ColumnPlace, NullOrder, Schema, SchemaError};
