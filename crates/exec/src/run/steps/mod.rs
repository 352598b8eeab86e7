//! The steps of a pipeline, one file for each way to reach rows.

mod column_decoding;
mod gathered_lookup;
mod hash_probe;
mod long_values;
mod materialized_scan;
mod resident_rows;
mod row_flow;
mod segment_lookup;
mod segment_scan;
