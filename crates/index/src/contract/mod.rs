//! The contract every index must keep, as functions that panic when it is broken.
//!
//! Each tree's tests call these with their own constructor, so that all trees run one suite. The
//! functions that take a [`PointIndex`](crate::PointIndex) are the suite of that trait; an ordered
//! index runs the rest as well. Random parts draw from a seed that is printed when they fail.

mod concurrent_grow_and_shrink;
mod history;
mod key_shapes;
mod linearizability;
mod object;
mod phantoms;
mod random_concurrent_calls;
mod reference_map;
mod stable_keys;
mod suite;

pub use concurrent_grow_and_shrink::churn_keeps_the_tree_sound;
pub use key_shapes::{KeyShape, Random, announce};
pub use object::{OrderedObject, PointObject};
pub use phantoms::{
    deletes_and_inserts_change_the_version, gets_and_inserts_tell_versions,
    inserts_report_versions_and_splits, no_insert_slips_past_a_successful_check,
    updates_and_consolidations_keep_the_version,
};
pub use random_concurrent_calls::{
    Load, point_operations_are_linearizable, scans_and_point_operations_are_linearizable,
};
pub use reference_map::{matches_a_map, matches_a_sorted_map, scan_all, sound};
pub use stable_keys::{
    gets_never_miss_a_key_that_stays, scans_never_miss_or_double_a_key_that_stays,
};
pub use suite::Subject;
