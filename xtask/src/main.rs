//! Repository chores: `cargo xtask help` lists them.
//!
//! Depends only on the standard library, so it builds in seconds on a machine where the database
//! does not build yet.
#![expect(clippy::print_stdout, reason = "a command speaks on standard output")]

mod clients;
mod documented;
mod fuzzing;
mod git_history;
mod long_runs;
mod module_paths;
mod oracle;
mod package;
mod pgbench;
mod postgres_compare;
mod python;
mod repository_files;
mod rust_lexer;
mod tidy;

use std::path::Path;
use std::process::ExitCode;

const HELP: &str = "\
Repository chores of Namiki. Times are for two processors. The first run of a chore builds its programs, which
takes some more minutes.

    cargo xtask tidy            check rules that the compiler cannot: imports between modules, without
                                cycles; the places of unsafe code; the paper -> code table; the subjects
                                of new commits; names and words; lengths of files. Seconds.
    cargo xtask package         create the published packages, and check them as a registry would.
                                Seconds.
        --build                   build each from the other packages. Minutes.
        --into FOLDER             unpack them there: a program in FOLDER depends on `namiki = \"0.1\"`
    cargo xtask documented      run every command that the README and docs/*.md name, at a fraction of the
                                documented size where that takes long (xtask/src/documented/rules.rs has
                                the fractions and the exceptions), and fail if one fails. Minutes.
        --list                    only list the commands
        --only TEXT               only commands, or documents, with these words
        --without-peers           skip comparisons with other stores and indexes, which must be built
        --with-rocksdb            include RocksDB in the comparisons; its build takes long
        --measured                use programs that are optimised for measurements
        --programs FOLDER         use the programs in this folder
    cargo xtask loom            run the loom models (tests with `model` in their path, of the crates
                                that depend on loom): every interleaving of a few threads, with a
                                bound on preemptions that each model chooses, two to four. Five minutes.
        --preemptions N           another bound for all models. Four takes a night.
        --preemptions-max N       a limit for models with a larger bound. CI uses two.
        --seconds N               time limit for each model, which turns the long ones into samples. CI
                                  uses 3.
    cargo xtask asan            run the tests of platform, index, trees and core under AddressSanitizer.
                                Needs a nightly toolchain. Minutes.
    cargo xtask fuzz [TARGET]   coverage-guided fuzzing of the readers of untrusted bytes: the log reader,
                                pages of segments, image lists and manifests, plans, frames of clients and
                                of nodes. All targets, a minute each. Needs a C++ compiler. A failing input
                                is kept, and its file is named.
        --seconds N               duration for each target
        --keep                    copy the few inputs with the largest coverage into fuzz/corpus/, which
                                  `cargo test` runs
    cargo xtask power-cut       cut the power of a loop-mounted file system under the real disks, and
                                under paying processes. Needs root. Seconds.
    cargo xtask kill [ARGS]     kill paying processes repeatedly, and check that no acknowledged payment is
                                lost. ARGS go to `namiki-harness kill`; with --power, the power is cut
                                instead, which needs root. Without ARGS 1000 kills.
    cargo xtask crash [ARGS]    run the crash harness once, over every protocol, both placements of the
                                log and all kinds of runs: as in CI, but with 60 transactions a run instead
                                of 16, at every event, and with more possible losses. ARGS go to
                                `namiki-harness crash`; try `cargo xtask crash --help`. Hours; with
                                `--transactions 8 --subsets 4 --sectors 8 --second 0.003`, minutes.
    cargo xtask sim [ARGS]      simulate clusters from seeds: --minutes N, or --seeds N --seed FIRST; with
                                --fault all, check that every planted fault is found
    cargo xtask soak [ARGS]     run the crash harness with fresh seeds until a failure or the time limit, on
                                all processors. The first round is an eighth as deep, so that every
                                combination is crashed within minutes; the next ones are a quarter, half,
                                and fully as deep. Each visit prints its seed; a failing one prints the
                                arguments that repeat it. ARGS go to `namiki-harness crash`.
        --minutes N               time limit (default 60); the first round is always completed
    cargo xtask soak specs [ARGS]
                                the tests under all 57 protocols; before a merge they run under a covering array of
                                them. ARGS go to `cargo test`: `--test isolation`, or `-- part_of_a_name`. Half an hour.
    cargo xtask soak trees [ARGS]
                                run every tree and the hash table with fresh seeds: all their operations
                                by many threads, and a check of the final content. ARGS go to
                                `namiki-bench index`; try `--keys 10000000` or `--key-bytes 64`.
        --minutes N               time limit (default 60); a round in progress is completed
    cargo xtask soak views [ARGS]
                                transfers between accounts under every protocol and release, ten million by
                                default (--transfers), while views add up all accounts. ARGS go to
                                `namiki-harness views`. Minutes.
    cargo xtask oracle          run random query plans and compare the answers with those of DuckDB, which
                                pip installs into the target folder. A minute.
        --plans N                 number of plans (default 3000); CI uses 300
        --seed FIRST              other tables and plans: ten plans for each seed from this one on
        --unless-unreachable      succeed with a message if pip cannot get DuckDB
    cargo xtask clients         run the tests of the server with real clients: psql and pgbench, which apt-get
                                installs if they are missing, psycopg and SQLAlchemy, which pip installs into
                                the target folder. Kills the server under payments. Minutes, after a build of
                                a quarter of an hour.
        --kills N                 number of kills (default 100); CI uses 3
        --unless-unreachable      leave out, with a message, clients that cannot be installed
    cargo xtask pgbench         measure the server with pgbench against PostgreSQL 15, from the system, and 18,
                                from npm, in turns; and against a server that answers constants, which shows
                                the share of pgbench itself. Half an hour.
        --seconds N               duration of a run (default 5)
        --rounds N                runs of each, of which the median counts (default 3)
        --without-18              without PostgreSQL 18
    cargo xtask postgres-compare
                                send random tables and statements to PostgreSQL 15, from the system, and to the
                                server, and compare the answers; docs/sql.md says what may differ. First
                                PostgreSQL has to answer as the files of sqllogictest expect. Ends at the first
                                difference, with the fewest rows that show it. Minutes.
        --statements N            number of statements (default 10000)
        --seed S                  other tables and statements
        --differences N           end at this number of differences
        --unless-unreachable      succeed with a message without PostgreSQL 15, or if pip cannot get psycopg

Every command exits with 0 on success. loom, asan and fuzz build in loom/, asan/ and fuzz/ inside the
target folder, so they do not invalidate your ordinary build. `.ci/run` runs everything that must pass before a
merge: tidy, clippy, packages, all tests including samples of crashes and power cuts, documentation, a
sample of loom, and the programs together. It should take fifteen minutes, twenty-five on a fresh
machine; it prints the time of each step.
";

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let command = args.next().unwrap_or_default();
    let args: Vec<String> = args.collect();
    // `cargo xtask` works anywhere in the repository; its commands run at the root. Cargo passes
    // the root when it runs this program, which another copy of the repository may have built into
    // a shared target folder.
    let package = std::env::var_os("CARGO_MANIFEST_DIR");
    let package = package.unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    let Some(root) = Path::new(&package).parent() else {
        return fail("cannot find the repository");
    };
    let wants_help = args.iter().any(|arg| arg == "--help" || arg == "-h");
    let outcome = match command.as_str() {
        "" | "help" | "--help" | "-h" => Err(String::new()),
        "tidy" | "package" | "documented" | "loom" | "asan" | "fuzz" | "power-cut" | "soak"
        | "oracle" | "clients" | "pgbench" | "postgres-compare"
            if wants_help =>
        {
            Err(String::new())
        }
        "tidy" if args.is_empty() => tidy::run(root),
        "tidy" => Err("`tidy` takes no arguments".to_owned()),
        "package" => package::run(root, &args),
        "documented" => documented::run(root, &args),
        "loom" => long_runs::loom(root, &args),
        "asan" => long_runs::asan(root, &args),
        "fuzz" => fuzzing::fuzz(root, &args),
        "power-cut" if args.is_empty() => long_runs::power_cut(root),
        "power-cut" => Err("`power-cut` takes no arguments".to_owned()),
        "kill" => long_runs::kill(root, &args),
        "sim" => long_runs::sim(root, &args),
        "crash" => long_runs::crash(root, &args),
        "soak" => long_runs::soak(root, &args),
        "oracle" => oracle::run(root, &args),
        "clients" => clients::run(root, &args),
        "pgbench" => pgbench::run(root, &args),
        "postgres-compare" => postgres_compare::run(root, &args),
        other => Err(format!(
            "there is no chore called `{other}`; try `cargo xtask help`"
        )),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) if why.is_empty() => {
            print!("{HELP}");
            ExitCode::SUCCESS
        }
        Err(why) => fail(&why),
    }
}

fn fail(why: &str) -> ExitCode {
    eprintln!("xtask: {why}");
    ExitCode::FAILURE
}
