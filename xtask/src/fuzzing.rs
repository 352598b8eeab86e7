//! Coverage-guided fuzzing: builds the programs of `fuzz/` with libFuzzer and runs each of them for
//! a while.
//!
//! The compiler counts the edges of the product that an input takes, by options that a stable
//! toolchain has. Inputs that take new edges are kept and mutated further. Inputs found by a run
//! are in `fuzz-corpus/` inside the target folder, so the next run starts with them. `--keep`
//! copies the few inputs with the largest coverage into `fuzz/corpus/`, which is in the repository.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::long_runs::{TARGET, build_folder, number_flag, run, shown, without_flag};

/// Counts edges, and passes the operands of comparisons to libFuzzer, as `cargo fuzz` does.
const COVERAGE: &[&str] = &[
    "--cfg fuzzing",
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
];

/// Longer inputs reach nothing more, because files and pages of the targets are small.
const INPUT_BYTES_MAX: u32 = 8192;
/// Time limit for one input, in seconds; inputs take microseconds.
const INPUT_SECONDS_MAX: u32 = 10;
/// Memory limit of a program, in addition to the limits of the targets.
const MEMORY_MIB_MAX: u32 = 1024;

/// Maximal number of inputs of a target that `--keep` takes, in addition to seeds and inputs that
/// found bugs.
const FOUND_MAX: usize = 40;

/// The flag that keeps inputs with new coverage.
const KEEP: &str = "--keep";

/// Runs the named targets, or all.
pub(crate) fn fuzz(root: &Path, args: &[String]) -> Result<(), String> {
    let seconds = number_flag(args, "--seconds")?.unwrap_or(60);
    let left = without_flag(args, "--seconds");
    let (keeps, names): (Vec<_>, Vec<_>) = left.into_iter().partition(|arg| arg == KEEP);
    let all = targets(root)?;
    if let Some(unknown) = names.iter().find(|name| !all.contains(name)) {
        return Err(format!(
            "`fuzz` has no target `{unknown}`; it has {}",
            all.join(", ")
        ));
    }
    let chosen = if names.is_empty() { all } else { names };
    build(root, &chosen)?;
    for target in &chosen {
        let program = Program::of(root, target)?;
        program.run_for(seconds)?;
        if !keeps.is_empty() {
            program.keep()?;
        }
    }
    println!("fuzz: {} for {seconds} s each, all well", chosen.join(", "));
    Ok(())
}

/// The targets; each has a file in `fuzz/fuzz_targets`.
fn targets(root: &Path) -> Result<Vec<String>, String> {
    let folder = root.join("fuzz/fuzz_targets");
    let files = fs::read_dir(&folder);
    let files = files.map_err(|error| format!("cannot list {}: {error}", folder.display()))?;
    let names = files.filter_map(|file| {
        let path = file.ok()?.path();
        Some(path.file_stem()?.to_str()?.to_owned())
    });
    let mut names: Vec<_> = names.collect();
    names.sort();
    Ok(names)
}

fn build(root: &Path, targets: &[String]) -> Result<(), String> {
    // The versions of all dependencies are those of the product; libFuzzer is added.
    let (from, to) = (root.join("Cargo.lock"), root.join("fuzz/Cargo.lock"));
    let copied = fs::copy(&from, &to);
    copied.map_err(|error| {
        format!(
            "cannot copy {} to {}: {error}",
            from.display(),
            to.display()
        )
    })?;
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        .args(["build", "--release", "--manifest-path", "fuzz/Cargo.toml"])
        // With a target, the flags do not apply to macros and build scripts.
        .args(["--target", TARGET])
        .env("RUSTFLAGS", COVERAGE.join(" "))
        .env("CARGO_TARGET_DIR", build_folder(root, "fuzz"))
        .current_dir(root);
    for target in targets {
        cargo.args(["--bin", target]);
    }
    let compiler = Command::new("c++").arg("--version").output();
    if !compiler.is_ok_and(|it| it.status.success()) {
        return Err("fuzz needs a C++ compiler for libFuzzer (Debian: g++)".to_owned());
    }
    run(cargo)
}

/// A target's program and its folders.
struct Program {
    path: PathBuf,
    /// Inputs that runs have found on this machine.
    found: PathBuf,
    /// The corpus in the repository.
    corpus: PathBuf,
    /// The folder for failing inputs.
    failures: PathBuf,
    /// The folder for a merge.
    scratch: PathBuf,
}

impl Program {
    fn of(root: &Path, target: &str) -> Result<Self, String> {
        let program = Self {
            path: build_folder(root, "fuzz")
                .join(TARGET)
                .join("release")
                .join(target),
            found: build_folder(root, "fuzz-corpus").join(target),
            corpus: root.join("fuzz/corpus").join(target),
            failures: build_folder(root, "fuzz-failures").join(target),
            scratch: build_folder(root, "fuzz-merge").join(target),
        };
        for folder in [&program.found, &program.corpus, &program.failures] {
            let made = fs::create_dir_all(folder);
            made.map_err(|error| format!("cannot create {}: {error}", folder.display()))?;
        }
        Ok(program)
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        command
            .arg(format!("-max_len={INPUT_BYTES_MAX}"))
            .arg(format!("-timeout={INPUT_SECONDS_MAX}"))
            .arg(format!("-rss_limit_mb={MEMORY_MIB_MAX}"))
            .arg(format!("-artifact_prefix={}/", self.failures.display()));
        command
    }

    fn run_for(&self, seconds: u64) -> Result<(), String> {
        let mut command = self.command();
        command
            .arg(format!("-max_total_time={seconds}"))
            .args(["-print_final_stats=1", "-verbosity=1"])
            .args([&self.found, &self.corpus]);
        let output = quietly(command).map_err(|why| {
            format!(
                "{why}\nfuzz: the input is in {}; `{} FILE` repeats it. Mend what it shows, and keep the input in {}",
                self.failures.display(),
                self.path.display(),
                self.corpus.display()
            )
        })?;
        let said = String::from_utf8_lossy(&output.stderr);
        let last = said.lines().rfind(|line| line.contains(" cov: "));
        println!("    {}", last.unwrap_or_default());
        Ok(())
    }

    /// Keeps a small set of known inputs in the repository that reaches most of what all inputs
    /// reach.
    fn keep(&self) -> Result<(), String> {
        let failed = |error| format!("cannot write {}: {error}", self.corpus.display());
        let (merged, control) = (self.scratch.join("merged"), self.scratch.join("control"));
        // A merge would continue from the remains of an earlier one.
        let _ = fs::remove_dir_all(&self.scratch);
        fs::create_dir_all(&merged).map_err(failed)?;
        let mut command = self.command();
        command
            .args(["-set_cover_merge=1", "-use_counters=0"])
            .arg(format!("-merge_control_file={}", control.display()))
            .args([&merged, &self.corpus, &self.found]);
        quietly(command)?;
        let reached = reached(&fs::read_to_string(&control).map_err(failed)?);
        let chosen = cover(&reached, is_kept, FOUND_MAX);
        for (file, _) in &reached {
            let Some(name) = file.file_name() else {
                continue;
            };
            let kept = self.corpus.join(name);
            if chosen.contains(file) {
                if !kept.exists() {
                    fs::copy(file, kept).map_err(failed)?;
                }
            } else if !is_kept(file) && kept.exists() {
                fs::remove_file(kept).map_err(failed)?;
            }
        }
        println!("    {} inputs of {} are kept", chosen.len(), reached.len());
        Ok(())
    }
}

/// Whether a file of the corpus always stays: the product has written it, or it has found a bug.
fn is_kept(file: &Path) -> bool {
    let name = file.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| name.starts_with("seed-") || name.starts_with("mistake-"))
}

/// Inputs, and the numbers of the features that each reaches.
type Reached = Vec<(PathBuf, BTreeSet<u64>)>;

/// Parses the control file of a libFuzzer merge. It has the number of inputs, the number of those
/// that existed before, and a line with the file of each. For each input that was run, a line `FT`
/// follows with its index and the features that it reaches.
fn reached(control: &str) -> Reached {
    let mut lines = control.lines();
    let count = lines.next().and_then(|line| line.parse().ok()).unwrap_or(0);
    let files = lines.by_ref().skip(1).take(count);
    let mut reached: Reached = files.map(|file| (file.into(), BTreeSet::new())).collect();
    for line in lines {
        let mut words = line.split(' ');
        if words.next() != Some("FT") {
            continue;
        }
        let at: Option<usize> = words.next().and_then(|word| word.parse().ok());
        if let Some((_, features)) = at.and_then(|at| reached.get_mut(at)) {
            features.extend(words.filter_map(|word| word.parse::<u64>().ok()));
        }
    }
    reached
}

/// Greedy set cover: the files that always stay, and at most `others_max` others, each time the one
/// that reaches the most new features.
fn cover(reached: &Reached, stays: impl Fn(&Path) -> bool, others_max: usize) -> BTreeSet<PathBuf> {
    let (kept, mut others): (Vec<_>, Vec<_>) = reached.iter().partition(|(file, _)| stays(file));
    let mut known: BTreeSet<u64> = kept.iter().flat_map(|(_, it)| it).copied().collect();
    let mut chosen: BTreeSet<PathBuf> = kept.into_iter().map(|(file, _)| file.clone()).collect();
    for _ in 0..others_max {
        let news = |(_, features): &&(PathBuf, BTreeSet<u64>)| features.difference(&known).count();
        let Some(best) = (0..others.len()).max_by_key(|at| news(&others[*at])) else {
            break;
        };
        if news(&others[best]) == 0 {
            break;
        }
        let (file, features) = others.swap_remove(best);
        known.extend(features);
        chosen.insert(file.clone());
    }
    chosen
}

/// Runs a command, and shows the end of its output if it fails.
fn quietly(mut command: Command) -> Result<Output, String> {
    let text = shown(&command);
    println!("$ {text}");
    let output = command
        .output()
        .map_err(|error| format!("cannot run `{text}`: {error}"))?;
    if output.status.success() {
        return Ok(output);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<_> = said.lines().collect();
    let end = lines[lines.len().saturating_sub(60)..].join("\n");
    Err(format!("`{text}` failed: {}\n{end}", output.status))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_inputs_reach_what_all_of_them_reach() {
        let control = "4\n1\na/seed-1\na/one\nb/two\nb/three\nSTARTED 0 3\nFT 0 1 2\nCOV 0 9\nSTARTED 1 2\nFT 1 1 3\n\
                       FT 2 3 4 5\nFT 3 2\nDONE 3\n";
        let reached = reached(control);
        assert_eq!(reached.len(), 4);
        let names = |others_max| -> Vec<String> {
            let chosen = cover(&reached, is_kept, others_max);
            let names = chosen.iter().map(|file| file.display().to_string());
            names.collect()
        };
        assert_eq!(names(0), ["a/seed-1"]);
        assert_eq!(names(1), ["a/seed-1", "b/two"]);
        // The other inputs reach nothing more.
        assert_eq!(names(9), ["a/seed-1", "b/two"]);
    }
}
