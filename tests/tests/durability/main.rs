//! The state on the disk: nothing acknowledged or loaded is lost, and errors name damaged and
//! foreign files.

mod atomic_loads;
mod changed_tables;
mod checkpoints;
mod copied_directories;
mod damaged_files;
mod epoch_commit_durability;
mod failing_disks;
mod full_disks;
mod late_changes;
mod links_and_fifos;
mod loaded_tables;
mod log_start_failures;
mod moved_while_open;
mod old_directories;
mod openings_with_loaded_tables;
mod panicking_disks;
mod queries_on_loaded_tables;
mod query_bounds;
mod refused_openings;
mod schema_versions;
mod shared_rings;
mod short_blocks;
mod small_disks;
mod small_file_systems;
mod stale_manifests;
mod tuned_at_open;
mod waiting_for_room;
mod working_directory;
