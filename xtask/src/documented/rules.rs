//! The rules for running the commands of the documents: their folder and size, and the commands
//! left out, with reasons.
//!
//! A placeholder such as `DIR` needs no rule: it is the name of a file in the folder in which the
//! commands of a document run (`fixtures.rs`). Numbers are those of the document unless a row here
//! changes them.

/// Commands that are not run. The first row that the command starts with applies.
pub(super) const LEFT_OUT: &[(&str, &str)] = &[
    ("cargo test", "the gate runs it"),
    ("cargo doc", "the gate makes the documentation"),
    (
        "cargo build",
        "the programs are built before the first command",
    ),
    (
        "namiki serve",
        "needs the server, which takes long to build; `cargo xtask clients` runs it",
    ),
    ("cargo xtask documented", "this is it"),
    ("cargo xtask loom", "minutes; the gate runs a sample"),
    (
        "cargo xtask clients",
        "needs the server, which takes long to build; the gate runs it",
    ),
    (
        "cargo xtask pgbench",
        "needs the server, which takes long to build",
    ),
    (
        "cargo xtask postgres-compare",
        "needs the server, which takes long to build",
    ),
    (
        "namiki-bench agreement",
        "compares two reports of several runs of each point, which take most of an hour; a test does",
    ),
    (
        "namiki node --config",
        "serves until it is stopped; `namiki cluster start` runs nodes",
    ),
    (
        "namiki node init --config node.toml --replacement",
        "asks a cluster on other machines; the one on this machine is asked by `namiki cluster replace`",
    ),
    (
        "namiki cluster status --config",
        "asks a cluster on other machines; the one on this machine is asked without the flag",
    ),
    ("namiki cluster status --endpoints", "as with --config"),
    (
        "namiki cluster replace 2",
        "needs a node that has lost its directory: run in the block that takes one away",
    ),
    (
        "namiki restore /backup/shop /data/shop-then --to",
        "needs a program that puts restore points into its log",
    ),
];

/// Replacements of commands: the start of a command, and the text that replaces it.
pub(super) const INSTEAD: &[(&str, &str)] = &[
    ("cargo run --release -p namiki-cli -- ", "namiki "),
    (
        "cargo run --profile measured -p namiki-bench -- ",
        "namiki-bench ",
    ),
    (
        "cargo run --profile measured -p namiki-bench --features compare-more -- ",
        "namiki-bench ",
    ),
    (
        "cargo run --profile measured -p namiki-bench --features compare-rocksdb -- ",
        "namiki-bench ",
    ),
    ("namiki COMMAND ", "namiki check "),
    // Exported next to the backup of the same name.
    (
        "namiki export /data/shop --all /backup/shop",
        "namiki export data/shop --all backup/exported",
    ),
    (
        "namiki import /data/new-shop --all /backup/shop",
        "namiki import data/new-shop --all backup/exported",
    ),
    (
        "namiki cluster certificates DIR",
        "namiki cluster certificates CERTIFICATES",
    ),
    // The exit status is 1 if the cluster does not run.
    (
        "namiki cluster status",
        "namiki cluster start && namiki cluster status",
    ),
    // Each in its own folder, and stopped afterwards.
    (
        "namiki cluster start --tls",
        "namiki cluster start --tls --dir of-tls && namiki cluster stop --dir of-tls",
    ),
    (
        "namiki cluster start --metrics",
        "namiki cluster start --metrics --dir of-metrics && namiki cluster stop --dir of-metrics",
    ),
    (
        "namiki cluster start --nodes 5 --wan japan --groups-in-flight 1",
        "namiki cluster start --nodes 5 --wan japan --groups-in-flight 1 && namiki cluster stop",
    ),
];

/// Words that are replaced, with the reason.
pub(super) const WORDS: &[(&str, &str, &str)] = &[
    ("--watch", "", "it would not end"),
    (
        "--out DIR",
        "--out OUT",
        "the figures do not belong into the database DIR",
    ),
    ("/data/", "data/", "in the folder of the document"),
    ("/backup/", "backup/", "in the folder of the document"),
    (
        "[--beside-mib 64|1024]",
        "--beside-mib 64",
        "the shorter one",
    ),
    ("rocksdb-pipelined,", "", ROCKSDB),
    ("rocksdb-pessimistic,", "", ROCKSDB),
    ("rocksdb-optimistic,", "", ROCKSDB),
    ("rocksdb,", "", ROCKSDB),
    (",rocksdb-pipelined", "", ROCKSDB),
    (",rocksdb", "", ROCKSDB),
];

const ROCKSDB: &str = "many minutes of C++ to build; --with-rocksdb has it";

/// Whether a row of [`WORDS`] applies because RocksDB is not built.
pub(super) fn is_for_rocksdb(why: &str) -> bool {
    why == ROCKSDB
}

/// A flag that gets this value unless the documented one is smaller; it is added if the document
/// omits it.
pub(super) struct Sized {
    /// The start of the commands concerned.
    pub(super) command: &'static str,
    /// The flag, with its dashes.
    pub(super) flag: &'static str,
    /// The value.
    pub(super) value: &'static str,
    /// Whether to change only commands that have the flag.
    pub(super) if_given: bool,
    /// A flag that excludes this one: commands with it are not changed.
    pub(super) unless: &'static str,
}

const fn always(command: &'static str, flag: &'static str, value: &'static str) -> Sized {
    Sized {
        command,
        flag,
        value,
        if_given: false,
        unless: "-",
    }
}

const fn given(command: &'static str, flag: &'static str, value: &'static str) -> Sized {
    Sized {
        if_given: true,
        ..always(command, flag, value)
    }
}

/// The reduced sizes. A command works the same with fewer rows, for less time, and once. That
/// suffices here, because no number is measured.
pub(super) const SIZES: &[Sized] = &[
    always("namiki demo", "--accounts", "20000"),
    always("namiki demo", "--seconds", "1"),
    always("namiki load tpch", "--scale", "0.01"),
    always("namiki-bench txn", "--records", "10000"),
    Sized {
        unless: "--ops",
        ..always("namiki-bench txn", "--seconds", "0.2")
    },
    always("namiki-bench txn", "--warmup", "0"),
    given("namiki-bench txn", "--repeat", "1"),
    given("namiki-bench txn", "--view-seconds", "0.1"),
    given("namiki-bench txn", "--checkpoint-seconds", "0.1"),
    always("namiki-bench index", "--keys", "5000"),
    given("namiki-bench index", "--ops", "20000"),
    Sized {
        unless: "--ops",
        ..always("namiki-bench index", "--seconds", "0.02")
    },
    always("namiki-bench index", "--warmup", "0"),
    always("namiki-bench index", "--latency-ops", "1000"),
    given("namiki-bench index", "--repeat", "1"),
    always("cargo xtask fuzz", "--seconds", "1"),
    always("namiki-bench compare kv", "--records", "2000"),
    given("namiki-bench compare kv", "--minutes", "0.02"),
    Sized {
        unless: "--minutes",
        ..always("namiki-bench compare kv", "--seconds", "0.1")
    },
    always("namiki-bench compare kv", "--warmup", "0"),
    given("namiki-bench compare kv", "--repeat", "1"),
    always("namiki-bench compare upkeep", "--records", "5000"),
    always("namiki-bench compare upkeep", "--kill-after", "5000"),
    always("namiki-bench compare upkeep", "--updates", "20000"),
    always("namiki-bench compare upkeep", "--seconds", "0.2"),
    always("namiki-bench compare index", "--keys", "5000"),
    always("namiki-bench compare index", "--ops", "20000"),
    always("namiki-bench restart", "--records", "5000"),
    always("namiki-bench restart", "--updates", "2000"),
    given("namiki-bench restart", "--repeat", "1"),
    always("namiki-bench sustain", "--log-gb", "1"),
    always("namiki-bench sustain", "--records", "50000"),
    always("namiki-bench query", "--repeat", "1"),
    always("namiki-bench cluster", "--seconds", "1"),
    always("namiki-bench cluster", "--warmup", "0.2"),
    given("namiki-bench cluster", "--fault", "kill-leader:1s"),
    given("namiki-bench cluster", "--workers", "1,2"),
    given("namiki-bench cluster", "--rows", "20000"),
    given("namiki-bench cluster", "--repeat", "1"),
    given("namiki-bench figure raft-pwal", "--workers", "1"),
    given("namiki-bench figure", "--repeat", "1"),
    Sized {
        unless: "--skip",
        ..always("namiki-bench report", "--skip", "raft-pwal")
    },
    given("namiki-bench report", "--repeat", "1"),
    given("namiki-bench report", "--seconds", "0.2"),
];

/// Flags without a value that are added, by the start of the command.
pub(super) const ADDED: &[(&str, &str)] = &[
    ("namiki-bench figure tictoc-pwal", "--quick"),
    ("namiki-bench figure oode", "--quick"),
    ("namiki-bench figure raft-pwal", "--quick"),
    ("namiki-bench figure bwtree", "--quick"),
    // The figures of the cluster take minutes each; only those that the documents name are run.
    ("namiki-bench report", "--quick --threads 1 --device null"),
];
