//! `cargo xtask documented`: runs every command that the README and the documents name, and fails
//! if one fails.
//!
//! | file | content |
//! |---|---|
//! | `commands.rs` | finds the commands in a document |
//! | `rules.rs` | tables of the commands that run smaller, run differently or not at all, with reasons |
//! | `fixtures.rs` | the folder in which a document's commands run, one after the other |
//!
//! The output of commands is not checked: tests do that. A command that a sentence only names,
//! without arguments, must exist, which its `--help` proves.

mod commands;
mod fixtures;
mod rules;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use self::commands::Documented;
use self::fixtures::Ground;
use crate::repository_files::Tree;

/// The prefix of commands that need peer stores and indexes in the program.
const PEERS: &str = "namiki-bench compare ";

/// The options of this command.
#[derive(Default)]
struct Asked {
    /// Run only commands with these words.
    only: Option<String>,
    /// Only list the commands.
    list: bool,
    measured: bool,
    rocksdb: bool,
    /// Leave out peer stores and indexes.
    no_peers: bool,
    /// The folder of programs that are built already.
    programs: Option<PathBuf>,
}

/// The plan for a command.
#[derive(Debug, PartialEq, Eq)]
enum Plan {
    Run(String),
    LeftOut(&'static str),
}

/// Runs `cargo xtask documented`.
pub(crate) fn run(root: &Path, args: &[String]) -> Result<(), String> {
    let asked = Asked::read(args)?;
    let tree = Tree::read(root)?;
    let is_document = |path: &str| {
        let inside = path.strip_prefix("docs/").unwrap_or(path);
        path.ends_with(".md")
            && !inside.contains('/')
            && (inside != path || matches!(path, "README.md" | "ARCHITECTURE.md"))
    };
    let documents = tree.files.iter().filter(|file| is_document(&file.path));
    let documents: Vec<Vec<Documented>> = documents.map(commands::of).collect();
    let programs = match &asked.programs {
        _ if asked.list => PathBuf::new(),
        Some(folder) => folder.clone(),
        None => asked.build(root)?,
    };
    let (mut run, mut left_out, mut failed) = (0, 0, Vec::new());
    for commands in documents.iter().filter(|commands| !commands.is_empty()) {
        let mut ground = None;
        for command in commands.iter().filter(|it| asked.wants(it)) {
            let place = format!("{}:{}", command.file, command.line);
            match plan(command, asked.rocksdb) {
                Plan::Run(text) if asked.no_peers && text.contains(PEERS) => {
                    left_out += 1;
                    println!("{place}  left out: {text} (without the peers)");
                }
                Plan::LeftOut(why) => {
                    left_out += 1;
                    println!("{place}  left out: {} ({why})", command.text);
                }
                Plan::Run(text) => {
                    println!("{place}  {text}");
                    run += 1;
                    if asked.list {
                        continue;
                    }
                    let ground = match &mut ground {
                        Some(ground) => ground,
                        none => none.insert(Ground::new(root, &programs)?),
                    };
                    let began = Instant::now();
                    if let Err(why) = ground.run(&text) {
                        println!("FAILED {place}  {text}\n{why}");
                        failed.push(format!("{place}  {text}"));
                    }
                    let seconds = began.elapsed().as_secs_f64();
                    if seconds > 10.0 {
                        println!("    took {seconds:.0} s");
                    }
                }
            }
        }
    }
    println!(
        "documented: {run} commands run, {left_out} left out, {} failed",
        failed.len()
    );
    if failed.is_empty() {
        Ok(())
    } else {
        Err(format!(
            "documented commands that fail:\n{}",
            failed.join("\n")
        ))
    }
}

impl Asked {
    fn read(args: &[String]) -> Result<Self, String> {
        let mut asked = Self::default();
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let mut value = || {
                let missing = || format!("`{arg}` wants a value");
                args.next().cloned().ok_or_else(missing)
            };
            match arg.as_str() {
                "--list" => asked.list = true,
                "--measured" => asked.measured = true,
                "--with-rocksdb" => asked.rocksdb = true,
                "--without-peers" => asked.no_peers = true,
                "--only" => asked.only = Some(value()?),
                "--programs" => {
                    let folder = value()?;
                    let absolute = std::path::absolute(&folder);
                    asked.programs = Some(absolute.map_err(|error| format!("{folder}: {error}"))?);
                }
                other => return Err(format!("`documented` does not know `{other}`")),
            }
        }
        Ok(asked)
    }

    fn wants(&self, command: &Documented) -> bool {
        let only = self.only.as_ref();
        only.is_none_or(|only| command.text.contains(only) || command.file.contains(only))
    }

    /// Builds the programs. Returns their folder.
    fn build(&self, root: &Path) -> Result<PathBuf, String> {
        let mut cargo = Command::new(env!("CARGO"));
        cargo
            .args(["build", "-p", "namiki-cli", "-p", "namiki-cluster-cli"])
            .args(["-p", "namiki-bench", "--bins"])
            .current_dir(root);
        if !self.no_peers {
            cargo.args(["--features", "namiki-bench/compare-more"]);
        }
        if self.rocksdb {
            cargo.args(["--features", "namiki-bench/compare-rocksdb"]);
        }
        if self.measured {
            cargo.args(["--profile", "measured"]);
        }
        let status = cargo
            .status()
            .map_err(|error| format!("cannot run cargo: {error}"))?;
        if !status.success() {
            return Err("the programs do not build".to_owned());
        }
        let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
        let target = root.join(target.unwrap_or_else(|| "target".into()));
        Ok(target.join(if self.measured { "measured" } else { "debug" }))
    }
}

/// Determines the plan for a command.
fn plan(command: &Documented, rocksdb: bool) -> Plan {
    let text = command.text.trim_end_matches(['…', ' ']);
    let text = text.strip_prefix("target/release/").unwrap_or(text);
    if let Some((_, why)) = begun(rules::LEFT_OUT, text, |row| row.0) {
        return Plan::LeftOut(why);
    }
    let is_name = |word: &str| {
        word.starts_with(|first: char| first.is_ascii_lowercase())
            && word.chars().all(|it| it.is_ascii_alphabetic() || it == '-')
    };
    let is_only_named =
        !command.is_in_block && text.starts_with("namiki") && text.split(' ').skip(1).all(is_name);
    if is_only_named {
        return Plan::Run(format!("{text} --help"));
    }
    let mut text = match begun(rules::INSTEAD, text, |row| row.0) {
        Some((begins, instead)) => format!("{instead}{}", &text[begins.len()..]),
        None => text.to_owned(),
    };
    for (words, instead, why) in rules::WORDS {
        if !(rocksdb && rules::is_for_rocksdb(why)) {
            text = text.replace(words, instead);
        }
    }
    for size in rules::SIZES {
        let has = |flag: &str| text.split(' ').any(|word| word == flag);
        if begins(&text, size.command) && !has(size.unless) && (has(size.flag) || !size.if_given) {
            text = sized(&text, size.flag, size.value);
        }
    }
    if let Some((_, flags)) = begun(rules::ADDED, &text, |row| row.0)
        && !text.contains(flags)
    {
        text = format!("{text} {flags}");
    }
    Plan::Run(text.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// Whether a text starts with these words.
fn begins(text: &str, words: &str) -> bool {
    let rest = text.strip_prefix(words);
    rest.is_some_and(|rest| rest.is_empty() || words.ends_with(' ') || rest.starts_with(' '))
}

/// The first row with words that start the text.
fn begun<'a, R>(rows: &'a [R], text: &str, words: impl Fn(&R) -> &'a str) -> Option<&'a R> {
    rows.iter().find(|row| begins(text, words(row)))
}

/// The command with this value for a flag, unless it has a smaller one. A missing flag is added.
fn sized(text: &str, flag: &str, value: &str) -> String {
    let number = |text: &str| text.parse::<f64>().ok();
    let is_smaller = |given: &str| match (number(given), number(value)) {
        (Some(given), Some(value)) => given < value,
        _ => false,
    };
    let mut words: Vec<&str> = text.split(' ').collect();
    match words.iter().position(|word| *word == flag) {
        Some(at) if words.get(at + 1).is_some_and(|given| is_smaller(given)) => {}
        Some(at) if at + 1 < words.len() => words[at + 1] = value,
        _ => words.extend([flag, value]),
    }
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planned(text: &str, is_in_block: bool) -> Plan {
        let (file, text) = (String::new(), text.to_owned());
        let command = Documented {
            file,
            line: 1,
            text,
            is_in_block,
        };
        plan(&command, false)
    }

    fn run(text: &str) -> String {
        match planned(text, true) {
            Plan::Run(text) => text,
            Plan::LeftOut(why) => panic!("left out: {why}"),
        }
    }

    #[test]
    fn commands_are_run_at_another_size_and_in_another_place() {
        assert_eq!(
            run("cargo run --release -p namiki-cli -- load tpch --scale 1 --dir /data/tpch"),
            "namiki load tpch --scale 0.01 --dir data/tpch"
        );
        assert_eq!(
            run("namiki-bench index --tree all --ops 1000000"),
            "namiki-bench index --tree all --ops 20000 --keys 5000 --warmup 0 --latency-ops 1000"
        );
        assert!(run("namiki-bench txn --records 8").contains("--records 8 "));
        assert_eq!(
            run("namiki cluster status --watch"),
            "namiki cluster start && namiki cluster status"
        );
        let kv = run("namiki-bench compare kv --stores namiki,rocksdb,rocksdb-optimistic,lmdb");
        assert!(kv.starts_with("namiki-bench compare kv --stores namiki,lmdb --records"));
        assert_eq!(
            run("namiki-bench compare kv --minutes 10 --workload u1"),
            "namiki-bench compare kv --minutes 0.02 --workload u1 --records 2000 --warmup 0"
        );
    }

    #[test]
    fn what_is_only_named_has_to_exist() {
        let help = Plan::Run("namiki bench --help".to_owned());
        assert_eq!(planned("namiki bench …", false), help);
        let whole = Plan::Run("namiki check DIR".to_owned());
        assert_eq!(planned("namiki check DIR", false), whole);
        assert!(matches!(
            planned("cargo test --workspace", true),
            Plan::LeftOut(_)
        ));
        assert!(matches!(planned("cargo tests", true), Plan::Run(_)));
    }
}
