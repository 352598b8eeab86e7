//! Writing the image of a checkpoint: the runs of the previous image that it keeps, and those that
//! it writes.

pub(crate) mod image_writer;
#[cfg(test)]
pub(crate) mod model_table;
pub(crate) mod new_image;
pub(crate) mod rows_at_stamp;
pub(crate) mod run_plan;
pub(crate) mod run_writer;
pub(crate) mod sorted_keys;
