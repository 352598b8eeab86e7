//! Inside core a file imports only from folders before its own, and within a folder only from
//! modules before its own. The engine can therefore be read from start to end, and nothing needs
//! later code.

use std::collections::BTreeSet;

use super::Finding;
use crate::module_paths::{Import, imports};
use crate::repository_files::{SourceFile, Tree};

const SOURCE: &str = "crates/core/src/";

/// The modules of core. A new one goes where its imports allow. The longest entry that is a prefix
/// of a path applies.
const ORDER: &[&str] = &[
    "storage/index",
    "open_error",
    "error",
    "query_error",
    "protocol_spec",
    "events",
    "thread_number",
    "storage/free_large_buffers",
    "storage/record",
    "storage/arena",
    "concurrency/contention/policy",
    "concurrency/contention/task_timer",
    "concurrency/contention/wait_list",
    "concurrency/contention/wait_age",
    "concurrency/lock",
    "concurrency/contention/admission",
    "concurrency/contention/priority",
    "concurrency/contention/retry_state",
    "concurrency/cc",
    "table/load_state",
    "table/removed_ranges",
    "table/table_info",
    "table/raw_table",
    "table/lookup_cache",
    "wal_format/encoding_primitives",
    "wal_format/aries_operation",
    "wal_format/transaction_table",
    "wal_format/restore_point",
    "wal_format/commit_changes",
    "commit/epoch",
    "commit/views",
    "commit/live_operations",
    "commit/undo",
    "commit/late_changes",
    "commit/access_set",
    "commit/drops",
    "commit/latency",
    "commit/removal_pause",
    "commit/removed_keys",
    "commit/room_requests",
    "commit/engine",
    "commit/removal",
    "commit/held_resources",
    "commit/commit_path/read_durability",
    "commit/commit_path/lock_acquisition",
    "commit/commit_path/log_record",
    "commit/commit_path",
    "commit/ticket",
    "commit/view_opening",
    "commit/restore_points",
    "txn",
    "catalogue/table_ids_by_name",
    "catalogue/image_files",
    "catalogue/segment_file",
    "catalogue/loaded_tables",
    "catalogue/image_list",
    "catalogue/table_journal",
    "catalogue/backup_mark",
    "catalogue/kept_room",
    "catalogue/random_number",
    "catalogue/history",
    "catalogue/manifest",
    "catalogue/relation",
    "catalogue/opened_backup",
    "catalogue/catalogue_files",
    "image/image_error",
    "image/new_files",
    "image/leftovers",
    "image/pace",
    "image/read/row_buffer",
    "image/read/stored_keys",
    "image/read/run_reader",
    "image/read/run_lookup",
    "image/write/rows_at_stamp",
    "image/write/model_table",
    "image/write/sorted_keys",
    "image/write/run_plan",
    "image/write/run_writer",
    "image/write/new_image",
    "image/write/image_writer",
    "loaded_tables/load_error",
    "loaded_tables/external_sort",
    "loaded_tables/index_digests",
    "loaded_tables/table_writer",
    "loaded_tables/loaded_runs",
    "recovery",
    "live/catalogue_view",
    "live/catalogue",
    "live/opened_tables",
    "live/tables_in_segments",
    "live/parts",
    "live/stoppable_thread",
    "backup/error",
    "backup/options_and_reports",
    "backup/retention",
    "backup/copy",
    "backup/points",
    "backup/live_backup",
    "backup/followed_backup",
    "checkpoint",
    "settings/absolute_path",
    "settings/autotune",
    "settings/config",
    "settings/builder",
    "settings/check_settings",
    "api/table",
    "api/transaction",
    "api/view",
    "api/rows",
    "api/byte_rows",
    "api/map",
    "api/running_body",
    "api/session",
    "api/database",
    "api/read_view",
    "api/maintenance",
    "api/task_waits",
    "api/transact_in_task",
    "api/held_session",
    "api/query",
    "tables/reserved_name",
    "tables/types_of_columns",
    "tables/keep_for_views",
    "tables/create_table",
    "tables/take_into_memory",
    "tables/change_tables",
    "tables/untyped",
    "tables/load",
    "tables/batch_load",
    "stats",
    "open/lock_directory",
    "open/check_directory",
    "open/log_settings",
    "open/assemble_database",
    "open/open_database",
    "open/open_read_only",
    "open/closed_backup",
    "replica",
    "api/transaction_cleanup_tests",
    "api/held_session_tests",
    "open/open_from_image_tests",
    "checkpoint/recycled_log_tests",
    "backup/tests",
];

/// The file with the order, for the advice.
const HERE: &str = "xtask/src/tidy/core_module_layers.rs";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    check_order(tree, ORDER)
}

fn check_order(tree: &Tree, order: &[&str]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut met = BTreeSet::new();
    for file in tree.files.iter().filter(|file| file.is_rust()) {
        let Some(inside) = file.path.strip_prefix(SOURCE) else {
            continue;
        };
        let mut module: Vec<&str> = inside.trim_end_matches(".rs").split('/').collect();
        module.pop_if(|last| *last == "mod");
        // The crate's root exports the modules and may name them all; a folder only declares its
        // own.
        if inside == "lib.rs" || is_folder(&module, order) {
            continue;
        }
        let Some(place) = place_of(&module, order) else {
            let advice = format!(
                "`{}` has no place in the order: add it to ORDER in {HERE}",
                module.join("/")
            );
            findings.push(Finding::new(&file.path, 0, advice));
            continue;
        };
        met.insert(place);
        for import in imports(&file.tokens, &module, &[]) {
            let finding = judge(tree, file, &import, place, order);
            findings.extend(finding.filter(|finding| !findings.contains(finding)));
        }
    }
    for (at, module) in order.iter().enumerate() {
        if !met.contains(&at) {
            let advice =
                format!("ORDER names `{module}`, which {SOURCE} does not have: take it out");
            findings.push(Finding::new(HERE, 0, advice));
        }
    }
    findings
}

/// The position of a module in the order: that of the longest entry that is its prefix.
fn place_of(module: &[&str], order: &[&str]) -> Option<usize> {
    (1..=module.len()).rev().find_map(|length| {
        let path = module[..length].join("/");
        order.iter().position(|entry| *entry == path)
    })
}

/// Whether this module is not an entry itself, but contains entries of the order.
fn is_folder(module: &[&str], order: &[&str]) -> bool {
    let inside = format!("{}/", module.join("/"));
    place_of(module, order).is_none() && order.iter().any(|entry| entry.starts_with(&inside))
}

fn has_module(tree: &Tree, name: &str) -> bool {
    let file = format!("{SOURCE}{name}.rs");
    let folder = format!("{SOURCE}{name}/");
    tree.files
        .iter()
        .any(|other| other.path == file || other.path.starts_with(&folder))
}

fn judge(
    tree: &Tree,
    file: &SourceFile,
    import: &Import,
    place: usize,
    order: &[&str],
) -> Option<Finding> {
    let path = import.names();
    let (own, name) = (order[place], path.join("::"));
    let advice = match place_of(&path, order) {
        Some(other) if other <= place => return None,
        Some(other) => format!(
            "`{own}` imports `{}`, which comes after it; move what both need into `{own}` or before it",
            order[other]
        ),
        // A module without a position is reported once, at its own file.
        None if !is_folder(&path[..1], order) && has_module(tree, path[0]) => return None,
        None => format!(
            "`crate::{name}` goes through a root and hides where it comes from; import it from its module"
        ),
    };
    Some(Finding::new(&file.path, import.line(), advice))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(files: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<_> = files
            .iter()
            .map(|(path, text)| (format!("{SOURCE}{path}"), *text))
            .collect();
        let files: Vec<_> = files
            .iter()
            .map(|(path, text)| (path.as_str(), *text))
            .collect();
        let order = ["error", "storage/record", "concurrency/cc", "api/db"];
        let found = check_order(&Tree::of(&files), &order);
        found
            .into_iter()
            .map(|finding| finding.to_string().replace(SOURCE, ""))
            .collect()
    }

    const ERROR: (&str, &str) = ("error.rs", "");
    const RECORD: (&str, &str) = ("storage/record.rs", "");
    const DB: (&str, &str) = (
        "api/db.rs",
        "use crate::storage::record::A; use crate::{concurrency::cc::{B, C}, api::db::D, error::E};",
    );

    #[test]
    fn imports_from_before_and_from_oneself_are_fine() {
        let cc = (
            "concurrency/cc/mod.rs",
            "use crate::storage::record::{A, B}; fn f() { crate::concurrency::cc::g() }",
        );
        let lib = ("lib.rs", "pub use api::db::Database;");
        let folder = ("storage/mod.rs", "pub(crate) mod record;");
        assert!(findings(&[ERROR, RECORD, cc, DB, lib, folder]).is_empty());
    }

    #[test]
    fn an_import_from_behind_is_found() {
        let cc = (
            "concurrency/cc/tictoc.rs",
            "\nuse crate::api::db::Database;",
        );
        let found = findings(&[ERROR, RECORD, cc, DB]);
        assert_eq!(found.len(), 1);
        assert!(
            found[0].starts_with("concurrency/cc/tictoc.rs:2: `concurrency/cc` imports `api/db`"),
            "{found:?}"
        );
    }

    #[test]
    fn paths_in_groups_in_code_and_through_super_are_found() {
        for text in [
            "use crate::{storage::record::A, api::{db::{self, B}}};",
            "fn f() { crate::api::db::open() }",
            "pub(in crate::api::db) fn f() {}",
            "use super::super::super::api::db;",
            "mod tests { use super::super::super::super::api::db::A; }",
        ] {
            let found = findings(&[ERROR, RECORD, ("concurrency/cc/tictoc.rs", text), DB]);
            assert_eq!(found.len(), 1, "{text}: {found:?}");
            assert!(found[0].contains("imports `api/db`"), "{text}: {found:?}");
        }
        let cc = ("concurrency/cc/mod.rs", "");
        let text = "use super::super::concurrency::cc::A;";
        let up = findings(&[ERROR, ("storage/record.rs", text), cc, DB]);
        assert!(up[0].contains("imports `concurrency/cc`"), "{up:?}");
    }

    #[test]
    fn super_inside_the_own_module_is_fine() {
        let text =
            "pub(super) struct A; use super::db; mod tests { use super::*; use super::super::db; }";
        let cc = ("concurrency/cc/tictoc.rs", text);
        assert!(findings(&[ERROR, RECORD, cc, DB]).is_empty());
    }

    #[test]
    fn comments_do_not_import() {
        let cc = ("concurrency/cc.rs", "//! Used by [`crate::api::db`].");
        assert!(findings(&[ERROR, RECORD, cc, DB]).is_empty());
    }

    #[test]
    fn a_root_is_no_short_cut() {
        for text in ["use crate::Database;", "use crate::api::Database;"] {
            let found = findings(&[ERROR, RECORD, ("concurrency/cc.rs", text), DB]);
            assert!(found[0].contains("goes through a root"), "{found:?}");
        }
    }

    #[test]
    fn modules_and_order_match() {
        let view = ("view.rs", "use crate::txn::B;");
        let found = findings(&[ERROR, RECORD, DB, view]);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(
            found[0].starts_with("view.rs: `view` has no place in the order"),
            "{found:?}"
        );
        assert!(
            found[1].contains("ORDER names `concurrency/cc`"),
            "{found:?}"
        );
    }
}
