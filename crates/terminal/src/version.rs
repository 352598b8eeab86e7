//! The text of `--version`: the release, and the commit that it was built from.

/// `0.1.0 (commit 0123456789ab, reads on-disk format 1)`: `also` follows the commit. The
/// commit is omitted if the build did not know it.
#[must_use]
pub fn version(also: &str) -> String {
    let commit = match env!("NAMIKI_COMMIT") {
        "" => String::new(),
        commit => format!("commit {commit}"),
    };
    let parts: Vec<&str> = [commit.as_str(), also]
        .into_iter()
        .filter(|part| !part.is_empty())
        .collect();
    let release = env!("CARGO_PKG_VERSION");
    if parts.is_empty() {
        release.to_owned()
    } else {
        format!("{release} ({})", parts.join(", "))
    }
}
