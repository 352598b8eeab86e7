//! Runs that are too long for every change: loom, AddressSanitizer, crashes.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::repository_files::Tree;

pub(crate) const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Runs the loom models: the tests with `model` in their path, compiled with `--cfg loom`, of every
/// crate that depends on loom.
pub(crate) fn loom(root: &Path, args: &[String]) -> Result<(), String> {
    let preemptions = number_flag(args, "--preemptions")?;
    let limit = number_flag(args, "--preemptions-max")?;
    let seconds = number_flag(args, "--seconds")?;
    let packages = packages_with_models(&Tree::read(root)?);
    if packages.is_empty() {
        return Err("no crate depends on loom".to_owned());
    }
    let mut cargo = cargo(root, "loom");
    cargo.args(["test", "--release", "--lib"]);
    for package in &packages {
        cargo.args(["-p", package]);
    }
    cargo.arg("model").env("RUSTFLAGS", "--cfg loom");
    if let Some(preemptions) = preemptions {
        cargo.env("LOOM_MAX_PREEMPTIONS", preemptions.to_string());
    }
    if let Some(limit) = limit {
        cargo.env("LOOM_PREEMPTIONS_LIMIT", limit.to_string());
    }
    if let Some(seconds) = seconds {
        cargo.env("LOOM_MAX_DURATION", seconds.to_string());
        // Number of interleavings between Loom's checks of the clock. Its default, 20,000, can take
        // minutes.
        cargo.env("LOOM_CHECKPOINT_INTERVAL", "100");
    }
    match run_counting_tests(cargo)? {
        0 => Err("no loom model ran; a model is a test with `model` in its path".to_owned()),
        models => {
            println!("loom: {models} models of {}, all fine", packages.join(", "));
            Ok(())
        }
    }
}

/// The packages with a dependency on loom under `[target.'cfg(loom)'.dependencies]`.
fn packages_with_models(tree: &Tree) -> Vec<String> {
    let manifests = tree
        .files
        .iter()
        .filter(|file| file.path.ends_with("/Cargo.toml"));
    let with_loom =
        manifests.filter(|file| file.text.contains("[target.'cfg(loom)'.dependencies]"));
    let name = |text: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix("name = \""));
        line.map(|rest| rest.trim_end_matches('"').to_owned())
    };
    with_loom.filter_map(|file| name(&file.text)).collect()
}

/// Runs the tests of the crates that hold unsafe code under AddressSanitizer and LeakSanitizer.
pub(crate) fn asan(root: &Path, args: &[String]) -> Result<(), String> {
    if let Some(arg) = args.first() {
        return Err(format!("`asan` does not know `{arg}`"));
    }
    let nightly = Command::new("cargo")
        .args(["+nightly", "--version"])
        .output();
    if !nightly.is_ok_and(|output| output.status.success()) {
        return Err(
            "asan needs a nightly toolchain, which is not here; get it with \
                    `rustup toolchain install nightly --profile minimal`"
                .to_owned(),
        );
    }
    // The toolchain is selected by rustup's `cargo`, not by the one that runs this program.
    let mut cargo = Command::new("cargo");
    cargo
        .arg("+nightly")
        .args([
            "test",
            "-p",
            "namiki-platform",
            "-p",
            "namiki-index",
            "-p",
            "namiki-trees",
            "-p",
            "namiki",
            "--features",
            "namiki/all-indexes",
        ])
        .args(["--lib", "--tests", "--no-fail-fast", "--target", TARGET])
        .env("RUSTFLAGS", "-Zsanitizer=address --cfg asan")
        .env("CARGO_TARGET_DIR", build_folder(root, "asan"))
        .current_dir(root);
    // Cargo's variables for the programs that it runs would pin the toolchain of `cargo xtask`
    // again.
    for pinned in ["RUSTUP_TOOLCHAIN", "CARGO", "RUSTC", "RUSTDOC"] {
        cargo.env_remove(pinned);
    }
    match run_counting_tests(cargo)? {
        0 => Err("no test ran under AddressSanitizer".to_owned()),
        tests => {
            println!("asan: {tests} tests, no bad access, no leak");
            Ok(())
        }
    }
}

/// Runs the tests that mount a file system and shut it down without a flush. Writes that the disks
/// report as durable, and commits that the database acknowledges, must exist afterwards.
pub(crate) fn power_cut(root: &Path) -> Result<(), String> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        // Not selected by package, which would rebuild everything with other features.
        .args(["test", "--test", "power_cut"])
        // A machine on which the power cannot be cut fails this test.
        .env("NAMIKI_REQUIRE_POWERCUT", "1")
        .current_dir(root);
    match run_counting_tests(cargo)? {
        0 => Err("no power was cut in the tests called `power_cut`".to_owned()),
        _ => Ok(()),
    }
}

/// Kills paying processes, with these arguments.
pub(crate) fn kill(root: &Path, args: &[String]) -> Result<(), String> {
    run(harness(root, "kill", args))
}

/// Simulates clusters, with these arguments.
pub(crate) fn sim(root: &Path, args: &[String]) -> Result<(), String> {
    run(harness(root, "sim", args))
}

/// Runs the crash harness once, with these arguments.
pub(crate) fn crash(root: &Path, args: &[String]) -> Result<(), String> {
    run(harness(root, "crash", args))
}

/// Runs the crash harness, or with `trees` as the first argument the indexes, with fresh seeds
/// until a failure or the end of the time. With `views`, runs a number of transfers under views;
/// with `specs`, the tests under all protocols.
pub(crate) fn soak(root: &Path, args: &[String]) -> Result<(), String> {
    if let Some(("views", args)) = args
        .split_first()
        .map(|(first, rest)| (first.as_str(), rest))
    {
        return run(harness(root, "views", args));
    }
    if args.first().is_some_and(|arg| arg == "specs") {
        return soak_specs(root, &args[1..]);
    }
    let minutes = number_flag(args, "--minutes")?.unwrap_or(60);
    let mut args = without_flag(args, "--minutes");
    let since_1970 = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let seed = since_1970.as_secs();
    if args.first().is_some_and(|arg| arg == "trees") {
        args.remove(0);
        return soak_indexes(root, &args, minutes, seed);
    }
    run(crashes_for(root, &args, minutes, seed))
}

/// Runs the tests under all protocols, where before a merge they run under a covering array of
/// them.
fn soak_specs(root: &Path, args: &[String]) -> Result<(), String> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        // Not selected by package, which would rebuild everything with other features.
        .args(["test", "--lib", "--tests", "--no-fail-fast"])
        .args(args)
        .env("NAMIKI_SPECS", "all")
        .current_dir(root);
    match run_counting_tests(cargo)? {
        0 => Err("no test ran".to_owned()),
        tests => {
            println!("soak: {tests} tests under all protocols, all well");
            Ok(())
        }
    }
}

/// The crash harness with a time limit. It iterates over all combinations itself and prints their
/// seeds.
fn crashes_for(root: &Path, args: &[String], minutes: u64, seed: u64) -> Command {
    let mut all = vec!["--minutes".to_owned(), minutes.to_string()];
    if !has_flag(args, "--seed") {
        all.extend(["--seed".to_owned(), seed.to_string()]);
    }
    all.extend_from_slice(args);
    harness(root, "crash", &all)
}

/// Runs the indexes repeatedly, with a new seed each time.
fn soak_indexes(root: &Path, args: &[String], minutes: u64, seed: u64) -> Result<(), String> {
    let until = Instant::now() + Duration::from_secs(60 * minutes);
    for (round, seed) in (seed..).enumerate() {
        println!("soak: round {}, seed {seed}", round + 1);
        let mut args = args.to_vec();
        args.extend(["--seed".to_owned(), seed.to_string()]);
        for command in over_indexes(root, &args) {
            run(command)
                .map_err(|why| format!("{why}\nsoak: failed; the command above repeats it"))?;
        }
        if Instant::now() >= until {
            println!("soak: {} rounds in {minutes} minutes, all well", round + 1);
            break;
        }
    }
    Ok(())
}

/// The index benchmark as a test, unless the arguments choose otherwise. It runs all six operations
/// over every tree and over a tree with a hash table, and the unordered operations over the hash
/// table. There are twice as many threads as processors, and the final content is checked.
fn over_indexes(root: &Path, args: &[String]) -> Vec<Command> {
    let ordered = (
        "all,art+hash",
        "read=30,scan=1,write=20,insert=15,update=20,delete=14",
    );
    let unordered = ("hash", "read=31,write=20,insert=15,update=20,delete=14");
    // Arguments that name trees or a mix determine the runs. The hash table has no scans.
    let names_hash =
        (values_of(args, "--tree").flat_map(|trees| trees.split(','))).any(|tree| tree == "hash");
    let runs = if names_hash {
        &[unordered][..]
    } else if has_flag(args, "--tree") || has_flag(args, "--mix") {
        &[ordered][..]
    } else {
        &[ordered, unordered]
    };
    let command = |(trees, mix)| operations(root, args, trees, mix);
    runs.iter().copied().map(command).collect()
}

/// One run of the index benchmark.
fn operations(root: &Path, args: &[String], trees: &str, mix: &str) -> Command {
    let threads = 2 * std::thread::available_parallelism().map_or(1, usize::from);
    let mut cargo = program(root, "namiki-bench", "namiki-bench");
    cargo.arg("index");
    for (flag, value) in [
        ("--tree", trees),
        ("--mix", mix),
        ("--writes", "returning"),
        ("--key-space", "sparse"),
        ("--threads", &threads.to_string()),
        ("--seconds", "20"),
        ("--warmup", "0"),
        ("--latency-ops", "0"),
        ("--yardstick", "off"),
    ] {
        if !has_flag(args, flag) {
            cargo.args([flag, value]);
        }
    }
    cargo.args(args);
    cargo
}

/// A long run of a test suite's harness.
fn harness(root: &Path, suite: &str, args: &[String]) -> Command {
    let mut cargo = program(root, "namiki-tests", "namiki-harness");
    cargo.arg(suite).args(args);
    cargo
}

/// A program, built with optimisation.
fn program(root: &Path, package: &str, name: &str) -> Command {
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        .args(["run", "--release", "-p", package, "--bin", name, "--"])
        .current_dir(root);
    cargo
}

/// Cargo with a separate build folder, so that its flags do not invalidate the ordinary build.
fn cargo(root: &Path, build: &str) -> Command {
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        .env("CARGO_TARGET_DIR", build_folder(root, build))
        .current_dir(root);
    cargo
}

/// The path next to the ordinary build folder, wherever that is.
pub(crate) fn build_folder(root: &Path, build: &str) -> PathBuf {
    let ordinary = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    root.join(ordinary.unwrap_or_else(|| "target".into()))
        .join(build)
}

pub(crate) fn run(mut command: Command) -> Result<(), String> {
    let said = shown(&command);
    println!("$ {said}");
    let status = command
        .status()
        .map_err(|error| format!("cannot run `{said}`: {error}"))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("`{said}` failed: {status}"))
    }
}

/// Runs `cargo test`, passes its output through, and counts the passed tests.
pub(crate) fn run_counting_tests(mut command: Command) -> Result<usize, String> {
    let said = shown(&command);
    println!("$ {said}");
    let cannot = |error| format!("cannot run `{said}`: {error}");
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(cannot)?;
    let mut passed = 0;
    if let Some(output) = child.stdout.take() {
        for line in BufReader::new(output).lines() {
            let line = line.map_err(cannot)?;
            passed += tests_passed(&line);
            println!("{line}");
        }
    }
    let status = child.wait().map_err(cannot)?;
    if status.success() {
        Ok(passed)
    } else {
        Err(format!("`{said}` failed: {status}"))
    }
}

/// The number in `test result: ok. 12 passed; 0 failed; …`.
fn tests_passed(line: &str) -> usize {
    let Some(result) = line.strip_prefix("test result: ") else {
        return 0;
    };
    let count = result
        .split(' ')
        .nth(1)
        .and_then(|count| count.parse().ok());
    count.unwrap_or(0)
}

pub(crate) fn shown(command: &Command) -> String {
    let mut words = Vec::new();
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            let value = value.to_string_lossy();
            let quote = if value.contains(' ') { "\"" } else { "" };
            words.push(format!("{}={quote}{value}{quote}", name.to_string_lossy()));
        }
    }
    let program = Path::new(command.get_program())
        .file_name()
        .unwrap_or_default();
    words.push(program.to_string_lossy().into_owned());
    words.extend(
        command
            .get_args()
            .map(|arg| arg.to_string_lossy().into_owned()),
    );
    words.join(" ")
}

/// The value of `flag N` or `flag=N`, if the flag is there.
pub(crate) fn number_flag(args: &[String], flag: &str) -> Result<Option<u64>, String> {
    let mut value = None;
    for (at, arg) in args.iter().enumerate() {
        if arg == flag {
            value = Some(args.get(at + 1).map_or("", String::as_str));
        } else if let Some(text) = arg
            .strip_prefix(flag)
            .and_then(|rest| rest.strip_prefix('='))
        {
            value = Some(text);
        }
    }
    let number = |text: &str| {
        let wrong = |_| format!("`{flag}` wants a number, not `{text}`");
        text.parse().map_err(wrong)
    };
    value.map(number).transpose()
}

fn has_flag(args: &[String], flag: &str) -> bool {
    without_flag(args, flag).len() < args.len()
}

/// The values of a flag, one for each occurrence.
pub(crate) fn values_of<'a>(args: &'a [String], flag: &str) -> impl Iterator<Item = &'a str> {
    let next = args.iter().skip(1).map(String::as_str).chain([""]);
    let flag = flag.to_owned();
    args.iter()
        .zip(next)
        .filter_map(move |(arg, next)| match arg.strip_prefix(&flag)? {
            "" => Some(next),
            rest => rest.strip_prefix('='),
        })
}

pub(crate) fn without_flag(args: &[String], flag: &str) -> Vec<String> {
    let mut kept = Vec::new();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        if arg == flag {
            args.next();
        } else if !arg
            .strip_prefix(flag)
            .is_some_and(|rest| rest.starts_with('='))
        {
            kept.push(arg.clone());
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn number_flags_are_read_and_taken_out() {
        let flag = "--minutes";
        let number = |text| number_flag(&args(text), flag);
        assert_eq!(number("--minutes 5 --rounds 3"), Ok(Some(5)));
        assert_eq!(number("--rounds 3 --minutes=7"), Ok(Some(7)));
        assert_eq!(number("--rounds 3"), Ok(None));
        assert!(number("--minutes").is_err());
        assert!(number("--minutes soon").is_err());
        assert_eq!(
            without_flag(&args("--minutes 5 --rounds 3"), flag),
            args("--rounds 3")
        );
        assert_eq!(
            without_flag(&args("--rounds 3 --minutes=5"), flag),
            args("--rounds 3")
        );
        assert!(has_flag(&args("--keys 9 --tree=art"), "--tree"));
        assert!(!has_flag(&args("--keys 9 --trees art"), "--tree"));
    }

    #[test]
    fn every_index_is_soaked_unless_the_arguments_name_some() {
        let said = |text: &str| -> Vec<String> {
            let commands = over_indexes(Path::new("."), &args(text));
            commands.iter().map(shown).collect()
        };
        let [ordered, unordered] = &said("--keys 9")[..] else {
            panic!("two runs");
        };
        assert!(ordered.contains("--tree all,art+hash --mix read=30,scan=1,"));
        assert!(unordered.contains("--tree hash --mix read=31,write=20,"));
        for run in [ordered, unordered] {
            assert!(run.ends_with("--yardstick off --keys 9"), "{run}");
        }
        for (own, kept) in [
            ("--tree art", "scan=1"),
            ("--tree art,hash", "read=31,"),
            ("--tree=hash --keys 9", "read=31,"),
            ("--mix=read=100", "all,art+hash"),
        ] {
            let [run] = &said(own)[..] else {
                panic!("one run");
            };
            assert!(run.contains(own) && run.contains(kept), "{run}");
        }
    }

    #[test]
    fn a_crash_soak_obeys_the_clock_and_prints_seeds() {
        let said = |text: &str| shown(&crashes_for(Path::new("."), &args(text), 5, 77));
        let whole = "-- crash --minutes 5 --seed 77 --spec SILO";
        assert!(
            said("--spec SILO").ends_with(whole),
            "{}",
            said("--spec SILO")
        );
        assert!(said("--seed 3").ends_with("-- crash --minutes 5 --seed 3"));
    }

    #[test]
    fn packages_that_depend_on_loom_are_found() {
        let with = "[package]\nname = \"a\"\n[target.'cfg(loom)'.dependencies]\nloom = \"0.7\"";
        let tree = Tree::of(&[
            ("a/Cargo.toml", with),
            ("b/Cargo.toml", "[package]\nname = \"b\""),
        ]);
        assert_eq!(packages_with_models(&tree), ["a"]);
    }

    #[test]
    fn passed_tests_are_counted() {
        assert_eq!(
            tests_passed("test result: ok. 12 passed; 0 failed; 0 ignored"),
            12
        );
        assert_eq!(tests_passed("test result: FAILED. 3 passed; 1 failed"), 3);
        assert_eq!(tests_passed("test a::b ... ok"), 0);
    }

    #[test]
    fn a_command_is_shown_as_one_would_type_it() {
        let mut command = Command::new("/usr/bin/cargo");
        command
            .args(["test", "loom"])
            .env("RUSTFLAGS", "--cfg loom");
        assert_eq!(shown(&command), "RUSTFLAGS=\"--cfg loom\" cargo test loom");
    }
}
