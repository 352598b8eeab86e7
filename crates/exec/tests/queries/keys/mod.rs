//! Keys: values at the edges of their types, missing values, and lists of values.

mod edges;
mod in_lists;
mod nullable;
