//! Names use the field's words: the project's former private names must not return.
//!
//! Most of the former words are fine elsewhere (a log has a place, a hint is a place in a page), so
//! each row lists the paths in which they are forbidden. Names in files on disk and in the
//! benchmark's JSON are in strings, which are not checked.

use std::collections::BTreeSet;

use super::Finding;
use crate::repository_files::{SourceFile, Tree};
use crate::rust_lexer::words_of_identifier;

/// A row: the words, the paths in which they are forbidden, and the replacement.
struct Row {
    words: &'static [Word],
    /// Prefixes of paths.
    within: &'static [&'static str],
    say: &'static str,
}

enum Word {
    /// An identifier.
    Is(&'static str),
    /// Identifiers that contain these words in sequence.
    Has(&'static [&'static str]),
    /// A file or a folder, as a module.
    File(&'static str),
}

use Word::{File, Has, Is};

const CORE: &[&str] = &["crates/core/src/"];
const LOCKS: &[&str] = &["crates/core/src/concurrency/"];
const TRANSACTIONS: &[&str] = &[
    "crates/core/src/txn/",
    "crates/core/src/table/raw_table.rs",
    "crates/core/src/commit/access_set/",
    "crates/core/src/api/session.rs",
];
const LOG: &[&str] = &["crates/log/"];
const CORE_AND_LOG: &[&str] = &["crates/core/src/", "crates/log/"];
/// Without `horizon/lsn_horizon.rs`: a stream's low-water mark is a mark.
const EPOCHS: &[&str] = &[
    "crates/log/src/config.rs",
    "crates/log/src/horizon/epoch",
    "crates/log/src/stream/",
];
const INDEX: &[&str] = &["crates/index/src/", "crates/trees/src/"];
const INDEX_AND_CORE: &[&str] = &["crates/index/src/", "crates/trees/src/", "crates/core/src/"];
const HASH: &[&str] = &["crates/index/src/hash/"];
const BZTREE: &[&str] = &["crates/trees/src/bztree/", "crates/trees/src/bwtree/"];
const MASSTREE: &[&str] = &["crates/trees/src/masstree/"];
const ANYWHERE: &[&str] = &["crates/", "tests/"];
const ALL_RUST: &[&str] = &["crates/", "tests/", "xtask/", "fuzz/"];

/// After these words, a word has another meaning.
const IDIOMS: &[(&str, &str)] = &[("in", "place")];

/// The file with the rows, for the advice.
const HERE: &str = "xtask/src/tidy/vocabulary.rs";

#[rustfmt::skip]
const ROWS: &[Row] = &[
    // Threads, transactions and callers are no persons.
    Row {
        words: &[
            Has(&["who"]), Has(&["whoever"]), Has(&["whom"]), Has(&["whomever"]), Has(&["whose"]), Has(&["nobody"]),
            Has(&["somebody"]), Has(&["anybody"]), Has(&["everybody"]), Has(&["he"]), Has(&["his"]), Has(&["him"]), Has(&["himself"]),
        ],
        within: ALL_RUST,
        say: "by its part: caller, writer, waiter, holder",
    },
    // Exclusive commit priority.
    Row { words: &[File("turn"), Has(&["turn"])], within: CORE, say: "`priority.rs`, `PriorityToken`" },
    Row { words: &[Is("Place")], within: CORE, say: "`PriorityTicket`" },
    Row { words: &[Is("doubled")], within: &["crates/core/src/concurrency/"], say: "`backoff_shift`" },
    Row { words: &[Is("failed")], within: &["crates/core/src/concurrency/", "crates/core/src/commit/access_set/"], say: "`extend_grace`" },
    // Admission control.
    Row { words: &[Is("Room"), Is("Admission")], within: CORE, say: "`AdmissionControl`" },
    Row { words: &[Is("Admitted")], within: CORE, say: "`AdmissionPermit`" },
    Row { words: &[Is("places")], within: CORE, say: "permits" },
    Row { words: &[Is("held_back")], within: ANYWHERE, say: "`admission_waits`" },
    Row { words: &[Is("come_in")], within: CORE, say: "`acquire_permit`" },
    Row { words: &[Has(&["patience"])], within: ANYWHERE, say: "`STALL_TIMEOUT`, `…_TIMEOUT`, `log_after`" },
    Row { words: &[Has(&["stranger"]), Has(&["strangers"])], within: &["crates/cluster/"], say: "unauthenticated peer" },
    Row { words: &[Is("PAUSE")], within: ANYWHERE, say: "`BACKOFF`" },
    // The lock wait list.
    Row { words: &[Is("Bed")], within: CORE_AND_LOG, say: "`Parker`" },
    Row { words: &[Is("Bell")], within: CORE_AND_LOG, say: "`Unparker`" },
    Row { words: &[File("sleepers"), Is("Sleepers"), Is("SLEEPERS"), Is("shared!")], within: CORE, say: "`WaitList`, a field of the engine" },
    Row { words: &[Is("Sleeper")], within: ANYWHERE, say: "`Waiter`" },
    Row { words: &[Is("Asleep")], within: CORE, say: "`WaiterGuard`" },
    Row { words: &[Is("Seniority")], within: CORE, say: "`WaitAge`" },
    Row { words: &[Is("Veteran")], within: CORE, say: "`Boosted`" },
    Row { words: &[Is("impatient")], within: CORE, say: "`wants_handoff`" },
    Row { words: &[Is("Waited")], within: CORE, say: "`WaitOutcome`" },
    Row { words: &[Is("Seen")], within: LOCKS, say: "`WaitState`" },
    Row { words: &[Is("Surroundings")], within: CORE, say: "`WaitContext`" },
    Row { words: &[Is("Locked")], within: CORE, say: "`LockMode`" },
    Row { words: &[Is("Held")], within: CORE, say: "`HeldLocks`" },
    Row { words: &[Is("Held")], within: LOG, say: "`GroupResource`" },
    // What a transaction has read and written.
    Row { words: &[File("sets"), Is("Sets")], within: CORE, say: "`AccessSet`" },
    Row { words: &[Is("Left")], within: CORE, say: "`WriteEffect`" },
    Row { words: &[File("space"), Is("Space")], within: CORE, say: "`raw_table.rs`, `RawTable`" },
    Row { words: &[Has(&["place"]), Has(&["placed"])], within: TRANSACTIONS, say: "`find_or_create_record`, `resolve_…`" },
    Row { words: &[File("put_off"), Has(&["put", "off"])], within: ANYWHERE, say: "`defer_write`" },
    Row { words: &[File("pending")], within: CORE, say: "`DeferredWrite`" },
    // Futures have a `Pending`, too.
    Row { words: &[Is("Pending")], within: TRANSACTIONS, say: "`DeferredWrite`" },
    Row { words: &[Has(&["settle"])], within: CORE, say: "`resolve_writes`" },
    Row { words: &[File("adding"), Is("add_up")], within: &["crates/core/src/", "tests/"], say: "`increment.rs`, `apply_increments`" },
    Row { words: &[File("together")], within: CORE, say: "`batched_lookup.rs`" },
    Row { words: &[File("gaps")], within: CORE, say: "`gap_locks.rs`" },
    Row { words: &[Is("missing")], within: TRANSACTIONS, say: "`read_absent`" },
    Row { words: &[File("recent"), Is("Recent")], within: CORE, say: "`lookup_cache.rs`" },
    Row { words: &[File("durably")], within: CORE, say: "`read_durability.rs`" },
    // Public names.
    Row { words: &[File("choose")], within: CORE, say: "`autotune.rs`" },
    Row { words: &[Is("Choice")], within: CORE, say: "`TunedConfig`" },
    Row { words: &[Is("Protocol")], within: ANYWHERE, say: "`ProtocolChoice`" },
    Row { words: &[Is("Spec")], within: ANYWHERE, say: "`ProtocolSpec`" },
    Row { words: &[Is("Planted")], within: ANYWHERE, say: "`FaultInjection`" },
    Row { words: &[Is("Sound")], within: &["crates/core/", "tests/"], say: "`NoFaults`" },
    // Flushes in progress.
    Row { words: &[Is("Flight")], within: LOG, say: "`FlushBatch`" },
    Row { words: &[Has(&["depart"]), Has(&["departed"]), Has(&["departs"])], within: LOG, say: "`seal`" },
    Row { words: &[Is("launch_from"), Is("launches_from")], within: ANYWHERE, say: "`async_flush_min_commits`" },
    Row { words: &[Is("launch"), Is("launched"), Is("launches"), Is("launcher"), Is("launching"), Is("launch_and_wait")], within: LOG, say: "`submit`" },
    Row { words: &[Is("land"), Is("landed")], within: LOG, say: "`complete`" },
    Row { words: &[Has(&["attend"]), Has(&["attended"])], within: LOG, say: "`join`" },
    Row { words: &[Is("Seal")], within: &["crates/log/src/generation/mod.rs"], say: "`GenerationEnd`" },
    Row { words: &[File("gather")], within: LOG, say: "`group_policy.rs`" },
    Row { words: &[Is("Pace")], within: LOG, say: "`GroupPolicy`" },
    Row { words: &[Is("AtOnce")], within: LOG, say: "`Immediate`" },
    Row { words: &[Is("Together")], within: LOG, say: "`Accumulate`" },
    Row { words: &[Has(&["crowd"])], within: &["crates/log/", "crates/core/", "tests/"], say: "`expected_commits`" },
    Row {
        words: &[
            File("prove"), Is("prove"), Is("proves"), Is("proven"), Is("prove_closed"), Is("prove_the_rest"), Has(&["proven"]),
        ],
        within: CORE_AND_LOG,
        say: "`certify`, `certified`",
    },
    Row { words: &[File("mark"), Is("mark")], within: EPOCHS, say: "`epoch_marker`" },
    Row { words: &[File("place"), Is("Place")], within: LOG, say: "`LogTarget`" },
    Row { words: &[Is("Spot")], within: LOG, say: "`WritePosition`" },
    Row { words: &[File("watch"), Is("Watch")], within: CORE_AND_LOG, say: "`AckWaiter`" },
    Row { words: &[Is("Waking")], within: LOG, say: "`WakeOnDrop`" },
    Row { words: &[Is("Doorbell")], within: LOG, say: "`Notifier`" },
    Row { words: &[File("ahead")], within: LOG, say: "`readahead.rs`" },
    // Indexes.
    Row { words: &[File("numbers")], within: INDEX, say: "`id_pool.rs`" },
    Row { words: &[File("growing")], within: INDEX, say: "`segmented_array.rs`" },
    Row { words: &[File("forward")], within: INDEX_AND_CORE, say: "`dispatch.rs`" },
    Row { words: &[File("both")], within: INDEX_AND_CORE, say: "`hybrid.rs`" },
    Row { words: &[Is("give_birth")], within: HASH, say: "`activate`" },
    Row { words: &[Is("die")], within: HASH, say: "`deactivate`" },
    Row { words: &[Is("living")], within: HASH, say: "`live_buckets`" },
    Row { words: &[Is("fell")], within: HASH, say: "what it does" },
    Row { words: &[Is("bury")], within: BZTREE, say: "`mark_deleted`" },
    Row { words: &[Is("is_worn")], within: INDEX, say: "`needs_compaction`" },
    Row { words: &[Has(&["tidy"])], within: INDEX, say: "`compact`" },
    Row { words: &[File("tailed")], within: MASSTREE, say: "`suffix_block.rs`" },
    Row { words: &[Is("Way")], within: INDEX, say: "`DescentPath`" },
];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = check_words(tree);
    let paths = ROWS.iter().flat_map(|row| row.within);
    for within in paths.collect::<BTreeSet<_>>() {
        if !tree.files.iter().any(|file| file.path.starts_with(within)) {
            let advice = format!("a row looks at {within}, which there is not: take it out");
            findings.push(Finding::new(HERE, 0, advice));
        }
    }
    findings
}

fn check_words(tree: &Tree) -> Vec<Finding> {
    let rust = tree.files.iter().filter(|file| file.is_rust());
    rust.flat_map(|file| {
        let rows = ROWS.iter();
        rows.filter(|row| {
            row.within
                .iter()
                .any(|within| file.path.starts_with(within))
        })
        .flat_map(move |row| {
            row.words
                .iter()
                .filter_map(move |word| word.first_in(file, row))
        })
    })
    .collect()
}

impl Word {
    /// The first occurrence in a file, with the number of further ones.
    fn first_in(&self, file: &SourceFile, row: &Row) -> Option<Finding> {
        let (line, name, times) = match *self {
            File(name) => {
                let inside = row
                    .within
                    .iter()
                    .find_map(|within| file.path.strip_prefix(within))?;
                let mut parts = inside.trim_end_matches(".rs").split('/');
                // Reported once per folder: at the file of its module.
                let own = parts.by_ref().last().is_some_and(|last| last == name)
                    || inside.ends_with(&format!("{name}/mod.rs"));
                own.then_some((0, name.to_owned(), 1))?
            }
            Is(_) | Has(_) => {
                let found: Vec<_> = (0..file.tokens.len())
                    .filter(|at| self.is_at(file, *at))
                    .collect();
                let first = &file.tokens[*found.first()?];
                let names: BTreeSet<&str> = found
                    .iter()
                    .map(|at| file.tokens[*at].text.as_str())
                    .collect();
                let names: Vec<&str> = names.into_iter().collect();
                (first.line, names.join("`, `"), found.len())
            }
        };
        let times = if times > 1 {
            format!(" ({times} times)")
        } else {
            String::new()
        };
        let advice = format!("`{name}`{times} is called {}", row.say);
        Some(Finding::new(&file.path, line, advice))
    }

    fn is_at(&self, file: &SourceFile, at: usize) -> bool {
        let text = file.tokens[at].text.as_str();
        match *self {
            File(_) => false,
            Has(words) => {
                let own = words_of_identifier(text);
                own.windows(words.len())
                    .zip(std::iter::once("").chain(own.iter().map(String::as_str)))
                    .any(|(part, before)| part == words && !IDIOMS.contains(&(before, words[0])))
            }
            // `shared!` is the macro, not a name.
            Is(name) => match name.strip_suffix('!') {
                Some(name) => {
                    text == name && file.tokens.get(at + 1).is_some_and(|next| next.text == "!")
                        || text == "macro_rules"
                            && file
                                .tokens
                                .get(at + 2)
                                .is_some_and(|after| after.text == name)
                }
                None => text == name,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, text: &str) -> Vec<String> {
        let found = check_words(&Tree::of(&[(path, text)]));
        found.iter().map(Finding::to_string).collect()
    }

    #[test]
    fn every_word_of_every_row_is_found() {
        for row in ROWS {
            for within in row.within {
                for word in row.words {
                    // If a row names a file, this is that file.
                    let folder = within.strip_suffix(".rs");
                    let anywhere =
                        folder.map_or(format!("{within}x/new.rs"), |folder| format!("{folder}.rs"));
                    let (path, text) = match word {
                        Is(name) => (anywhere, format!("fn f() {{ {name} }}")),
                        Has(words) => (anywhere, format!("fn a_{}_x() {{}}", words.join("_"))),
                        File(name) => (format!("{within}x/{name}.rs"), String::new()),
                    };
                    let found = findings(&path, &text);
                    assert!(
                        found.iter().any(|it| it.ends_with(row.say)),
                        "{path}, {text}: {found:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn words_are_fine_elsewhere_and_in_prose() {
        for (path, text) in [
            (
                "crates/index/src/bwtree/search.rs",
                "struct Place; fn place() {}",
            ),
            ("crates/bench/src/run_folder.rs", "struct Place;"),
            (
                "crates/core/src/priority.rs",
                "// Turn\nconst A: &str = \"Turn\"; struct Turning; fn returns() {}",
            ),
            (
                "crates/core/src/api/database.rs",
                "fn shared(shared: u8) {}",
            ),
            ("crates/core/src/txn/x.rs", "fn change_in_place() {}"),
            ("xtask/src/tidy/vocabulary.rs", "use Spec;"),
        ] {
            assert!(
                findings(path, text).is_empty(),
                "{path}: {:?}",
                findings(path, text)
            );
        }
    }

    #[test]
    fn a_finding_says_how_often_and_what_instead() {
        let found = findings(
            "crates/core/src/api/database.rs",
            "\nstruct Turn;\nimpl Turn {}",
        );
        let says = "crates/core/src/api/database.rs:2: `Turn` (2 times) is called `priority.rs`, `PriorityToken`";
        assert_eq!(found, [says]);
        assert_eq!(findings("crates/log/src/place/mod.rs", "").len(), 1);
        assert!(findings("crates/log/src/place/region.rs", "").is_empty());
    }

    #[test]
    fn a_row_looks_at_files_that_exist() {
        let found = check(&Tree::of(&[("crates/log/src/x.rs", "")]));
        let found: Vec<_> = found.iter().map(Finding::to_string).collect();
        assert!(
            found
                .iter()
                .any(|it| it.contains("looks at crates/core/src/,")),
            "{found:?}"
        );
        assert!(
            !found.iter().any(|it| it.contains("looks at crates/log/,")),
            "{found:?}"
        );
    }

    #[test]
    fn a_macro_is_told_from_a_name() {
        for text in ["shared! { a }", "macro_rules! shared { () => {} }"] {
            assert_eq!(
                findings("crates/core/src/concurrency/lock/x.rs", text).len(),
                1,
                "{text}"
            );
        }
    }
}
