//! Repository chores: `cargo xtask help` lists them.
//!
//! Depends only on the standard library, so it builds in seconds on a machine where the database
//! does not build yet.
#![expect(clippy::print_stdout, reason = "a command speaks on standard output")]

mod documented;
mod fuzzing;
mod git_history;
mod imports;
mod long_runs;
mod oracle;
mod packages;
mod repository_files;
mod rust_lexer;
mod tidy;

use std::path::Path;
use std::process::ExitCode;

const HELP: &str = "\
Repository chores of Namiki. Times are those of two processors; the first run of a chore builds what it runs, which
takes minutes more.

    cargo xtask tidy            check what the compiler cannot: which module imports which, and none in a
                                circle; where unsafe code lives; that the paper -> code table is true;
                                the subjects of new commits; names and words; lengths of files. Seconds.
    cargo xtask package         make the packages that are for others, and look at them as a registry
                                would. Seconds.
        --build                   build each from the others as they are packaged. Minutes.
        --into FOLDER             unpack them there: a program in FOLDER depends on `namiki = \"0.1\"`
    cargo xtask documented      run every command that the README and docs/*.md name, at a fraction of the
                                documented size where that takes long (xtask/src/documented/rules.rs has
                                the fractions, and what is left out), and fail where one fails. Minutes.
        --list                    say what would be run
        --only TEXT               only commands, or documents, with these words
        --without-peers           leave out what compares Namiki with others, which have to be built
        --with-rocksdb            RocksDB among the stores that are compared; it takes long to build
        --measured                with programs that are built for speed
        --programs FOLDER         with the programs in this folder
    cargo xtask loom            run the loom models (tests with `model` in their path, of the crates
                                that depend on loom): every interleaving of a few threads, up to a
                                bound on interruptions that each model chooses, two to four. Five minutes.
        --preemptions N           another bound for all models: how often threads may be interrupted.
                                  Four is for a night.
        --preemptions-max N       a bound for models that chose a larger one. CI takes two.
        --seconds N               the longest that a model runs, which makes the long ones samples. CI
                                  takes 3.
    cargo xtask asan            run the tests of platform, index, trees and core under AddressSanitizer.
                                Needs a nightly toolchain. Minutes.
    cargo xtask fuzz [TARGET]   fuzz what reads foreign bytes, guided by coverage: the log reader, pages of
                                segments, image lists and manifests, plans, frames of clients and of
                                nodes. All targets, a minute each. Needs a C++ compiler. An input that
                                fails is kept, and its file is named.
        --seconds N               how long each target is run
        --keep                    take the few inputs that reach most into fuzz/corpus/, which
                                  `cargo test` runs
    cargo xtask power-cut       cut the power of a loop-mounted file system under the real disks, and
                                under processes that pay. Needs root. Seconds.
    cargo xtask kill [ARGS]     kill processes that pay, as long as you say, and look whether anything
                                acknowledged is lost. ARGS go to `namiki-harness kill`; with --power, the
                                power is cut instead, which needs root. Without ARGS 1000 kills.
    cargo xtask crash [ARGS]    run the crash harness once, over every protocol, both placements of the
                                log and all kinds of runs: what CI does with 16 transactions a run, with
                                60, at every event, and more of what may be lost. ARGS go to
                                `namiki-harness crash`; try `cargo xtask crash --help`. Hours; with
                                `--transactions 8 --subsets 4 --sectors 8 --second 0.003`, minutes.
    cargo xtask sim [ARGS]      simulate clusters from seeds: --minutes N, or --seeds N --seed FIRST; with
                                --fault all, see that every planted fault is found
    cargo xtask soak [ARGS]     the same with fresh seeds until it fails or the time is over, on all
                                processors. The first round is an eighth as deep, so that every
                                combination is crashed within minutes; the next ones a quarter, a half,
                                and the whole. Each visit prints its seed; one that fails prints the
                                arguments that repeat it. ARGS go to `namiki-harness crash`.
        --minutes N               how long (default 60); the first round is always finished
    cargo xtask soak specs [ARGS]
                                the tests under all 57 protocols; before a merge they run under a covering array of
                                them. ARGS go to `cargo test`: `--test isolation`, or `-- part_of_a_name`. Half an hour.
    cargo xtask soak trees [ARGS]
                                the same with the indexes instead, every tree and the hash table: all
                                their operations by many threads, and a look at whether they can have
                                left what is there. ARGS go to `namiki-bench index`; try
                                `--keys 10000000` or `--key-bytes 64`.
        --minutes N               how long (default 60); a round that has begun is finished
    cargo xtask soak views [ARGS]
                                transfers between accounts under every protocol and release, ten million unless
                                --transfers says otherwise, while views add all of them up. ARGS go to
                                `namiki-harness views`. Minutes.
    cargo xtask oracle          run random plans of queries and compare the answers with those of DuckDB, which
                                pip installs into the target folder. A minute.
        --plans N                 how many (default 3000); CI takes 300
        --seed FIRST              other tables and plans: ten plans for each number from this one on
        --unless-unreachable      where pip cannot get DuckDB, say so and be content

Every command exits with 0 when all is well. loom, asan and fuzz build in loom/, asan/ and fuzz/ inside the
target folder, so they do not throw away your ordinary build. `.ci/run` is all that must hold before a
merge: tidy, clippy, packages, all tests with samples of crashes and power cuts among them, documentation, a
sample of loom, and the programs together. Meant to take fifteen minutes, twenty-five on a fresh
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
        | "oracle"
            if wants_help =>
        {
            Err(String::new())
        }
        "tidy" if args.is_empty() => tidy::run(root),
        "tidy" => Err("`tidy` takes no arguments".to_owned()),
        "package" => packages::run(root, &args),
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
