//! Only dev-dependencies enable features for tests: Cargo ignores these when it builds programs, so
//! measurements do not pay for them.

use super::Finding;
use crate::repository_files::Tree;

/// Features of our packages that only tests may enable.
const FOR_TESTS: &[&str] = &["fault-injection", "edges", "contract"];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let manifests = tree.files.iter();
    for file in manifests.filter(|file| file.path.ends_with("Cargo.toml")) {
        let mut section = "";
        for (index, line) in file.text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.starts_with('[') {
                section = line;
            }
            let Some(feature) = FOR_TESTS.iter().find(|feature| line.contains(**feature)) else {
                continue;
            };
            let declares = section == "[features]" && line == format!("{feature} = []");
            if !declares && !section.contains("dev-dependencies") {
                let advice = format!(
                    "the feature `{feature}` is for tests; turn it on under `[dev-dependencies]`, which a build of \
                     programs leaves out"
                );
                findings.push(Finding::new(&file.path, index + 1, advice));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(manifest: &str) -> Vec<usize> {
        let tree = Tree::of(&[("crates/a/Cargo.toml", manifest)]);
        let found = check(&tree);
        found.into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn tests_may_turn_on_their_features() {
        for manifest in [
            "[features]\nfault-injection = []",
            "[dev-dependencies]\nnamiki = { workspace = true, features = [\"fault-injection\"] }",
            "[dev-dependencies.namiki]\nfeatures = [\"fault-injection\"]",
            "[dependencies]\nnamiki.workspace = true # not fault-injection",
        ] {
            assert!(lines(manifest).is_empty(), "{manifest}");
        }
    }

    #[test]
    fn programs_may_not_turn_on_features_for_tests() {
        for manifest in [
            "[dependencies]\nnamiki = { workspace = true, features = [\"fault-injection\"] }",
            "[dependencies.namiki]\nfeatures = [\"fault-injection\"]",
            "[features]\ndefault = [\"fault-injection\"]",
            "[features]\nall = [\"namiki/fault-injection\"]",
            "[workspace.dependencies]\nnamiki = { features = [\"fault-injection\"] }",
        ] {
            assert_eq!(lines(manifest), [2], "{manifest}");
        }
    }
}
