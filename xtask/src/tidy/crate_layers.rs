//! A crate depends only on layers below its own. Cargo rejects dependency cycles, but not an index
//! that depends on the log.

use super::Finding;
use crate::repository_files::{SourceFile, Tree};

/// The packages that each of our packages may depend on, also in tests and build scripts, by their
/// names without `namiki-`.
///
/// ```text
///  cli  server  cluster-cli  bench  tests      xtask (stands alone); fuzz, in a workspace of its own, is above tests
///   terminal  tpch  cluster  sql       (terminal of programs alone, tpch not of tests, sql of server alone)
///        core              client (knows data alone), history (none of ours)
///   trees      exec         (trees of core's, only where its feature `all-indexes` is on)
///    index log segment data (strangers to each other)
///      platform      derive
/// ```
const LAYERS: &[(&str, &str)] = &[
    ("platform", ""),
    // Itself: its tests are built with its feature `contract`.
    ("index", "index platform"),
    ("trees", "index platform"),
    ("log", "platform"),
    ("segment", "platform"),
    ("derive", ""),
    // `namiki` only for its examples, which use tables.
    ("data", "derive namiki"),
    // Itself: its tests are built with its feature `edges`.
    ("exec", "exec data segment platform"),
    // Itself: its tests are built with its features.
    (
        "namiki",
        "namiki data exec index trees log segment platform",
    ),
    ("tpch", "namiki"),
    ("client", "data"),
    ("history", ""),
    ("cluster", "namiki client data log platform"),
    (
        "bench",
        "namiki client cluster tpch data exec history index log segment platform",
    ),
    ("sql", "namiki data"),
    ("terminal", "platform"),
    ("server", "namiki sql terminal platform"),
    // `client` and `cluster` only in its tests, which read the directory of a node.
    (
        "cli",
        "namiki client cluster terminal tpch data log segment platform",
    ),
    ("cluster-cli", "client cluster terminal platform"),
    (
        "tests",
        "namiki client cluster data exec history index log segment platform",
    ),
    ("fuzz", "platform tests"),
    ("xtask", ""),
];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &tree.files {
        if !file.path.ends_with("/Cargo.toml") {
            continue; // The root's is the workspace: it lists them all.
        }
        let manifest = Manifest::read(file);
        let Some((_, allowed)) = layer(&manifest.package) else {
            let advice = format!(
                "the package `{}` has no layer: add it to LAYERS in xtask/src/tidy/crate_layers.rs",
                manifest.package
            );
            findings.push(Finding::new(&file.path, 0, advice));
            continue;
        };
        for (line, dependency) in manifest.dependencies {
            let Some((name, _)) = layer(&dependency) else {
                continue; // Not one of ours.
            };
            if !allowed.split_whitespace().any(|allowed| allowed == *name) {
                let advice = format!(
                    "`{}` must not know `{dependency}`; if both need something, it belongs on a \
                     layer below both",
                    manifest.package
                );
                findings.push(Finding::new(&file.path, line, advice));
            }
        }
    }
    findings
}

/// The row of a package, if it is one of ours.
fn layer(package: &str) -> Option<&'static (&'static str, &'static str)> {
    let name = match package {
        "namiki" | "xtask" => package,
        _ => package.strip_prefix("namiki-")?,
    };
    LAYERS.iter().find(|(own, _)| *own == name)
}

/// The dependencies in a Cargo.toml. Parses the lines in common use, not all of TOML.
#[derive(Default)]
struct Manifest {
    package: String,
    /// Each dependency with its line number.
    dependencies: Vec<(usize, String)>,
}

impl Manifest {
    fn read(file: &SourceFile) -> Self {
        let mut manifest = Self::default();
        let mut section = Vec::new();
        for (index, line) in file.text.lines().enumerate() {
            let line_number = index + 1;
            let line = line.split('#').next().unwrap_or_default().trim();
            if let Some(header) = line.strip_prefix('[') {
                section = dotted(header.trim_end_matches(']'));
                // `[dependencies.namiki]` is a dependency written as a section.
                if let [.., kind, name] = &section[..]
                    && is_dependencies(kind)
                {
                    manifest.dependencies.push((line_number, name.clone()));
                }
                continue;
            }
            let Some((key, value)) = line.split_once('=') else {
                continue;
            };
            let key = dotted(key);
            if section == ["package"] && key == ["name"] {
                manifest.package = unquoted(value).to_owned();
            }
            let renamed = value
                .split_once("package")
                .and_then(|(_, rest)| rest.split('"').nth(1));
            let in_dependencies = section.last().is_some_and(|kind| is_dependencies(kind));
            let in_one_dependency = section.iter().any(|part| is_dependencies(part));
            if in_dependencies {
                let name = renamed.unwrap_or(&key[0]);
                manifest.dependencies.push((line_number, name.to_owned()));
            } else if in_one_dependency && key == ["package"] {
                manifest
                    .dependencies
                    .push((line_number, unquoted(value).to_owned()));
            }
        }
        manifest
    }
}

fn is_dependencies(section: &str) -> bool {
    matches!(
        section,
        "dependencies" | "dev-dependencies" | "build-dependencies"
    )
}

/// Splits `target.'cfg(unix)'.dependencies` into its parts. Dots inside quotes do not split.
fn dotted(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut quote = None;
    for c in text.trim().chars() {
        match c {
            '"' | '\'' if quote == Some(c) => quote = None,
            '"' | '\'' if quote.is_none() => quote = Some(c),
            '.' if quote.is_none() => parts.push(String::new()),
            _ => parts[..]
                .last_mut()
                .into_iter()
                .for_each(|part| part.push(c)),
        }
    }
    parts
        .into_iter()
        .map(|part| part.trim().to_owned())
        .collect()
}

fn unquoted(value: &str) -> &str {
    value.trim().trim_matches(['"', '\''])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(package: &str, rest: &str) -> Vec<String> {
        let text = format!("[package]\nname = \"{package}\"\n{rest}");
        let found = check(&Tree::of(&[("crates/x/Cargo.toml", &text)]));
        found.iter().map(Finding::to_string).collect()
    }

    #[test]
    fn downward_and_foreign_dependencies_are_fine() {
        let text = "[dependencies]\nnamiki-platform.workspace = true\nlog = \"1\"\n";
        assert!(findings("namiki-index", text).is_empty());
        assert!(findings("namiki-log", text).is_empty());
    }

    #[test]
    fn strangers_and_upward_dependencies_are_found_however_they_are_written() {
        for text in [
            "[dependencies]\nnamiki-log.workspace = true",
            "[dependencies]\nnamiki-log = { path = \"../log\" }",
            "[dependencies]\n\"namiki-log\" = \"1\"",
            "[dependencies]\nwal = { package = \"namiki-log\", path = \"../log\" }",
            "[dev-dependencies]\nnamiki-log.workspace = true",
            "[build-dependencies]\nnamiki-log.workspace = true",
            "[target.'cfg(target_os = \"linux.x\")'.dependencies]\nnamiki-log.workspace = true",
            "[dependencies.namiki-log]\npath = \"../log\"",
            "[dependencies.wal]\npackage = \"namiki-log\"",
        ] {
            let found = findings("namiki-index", text);
            assert_eq!(found.len(), 1, "{text}: {found:?}");
            assert!(
                found[0].contains("`namiki-index` must not know `namiki-log`"),
                "{found:?}"
            );
        }
        let found = findings("namiki-platform", "[dependencies]\nnamiki.workspace = true");
        assert_eq!(found[0].split(": ").next(), Some("crates/x/Cargo.toml:4"));
    }

    #[test]
    fn what_is_commented_out_is_not_there() {
        assert!(findings("namiki-index", "[dependencies]\n# namiki-log = \"1\"").is_empty());
        assert!(findings("namiki-index", "[features]\nnamiki-log = []").is_empty());
    }

    #[test]
    fn a_new_package_needs_a_layer() {
        assert!(findings("namiki-other", "")[0].contains("`namiki-other` has no layer"));
    }
}
