//! What `namiki --version` says: the release, the commit that it was built from, and the formats on disk that it reads.

use std::sync::LazyLock;

use namiki::files::FORMAT;

/// `0.1.0 (commit 0123456789ab, reads on-disk formats up to 7)`, without the commit where the build could not tell it.
pub(crate) fn text() -> &'static str {
    static TEXT: LazyLock<String> = LazyLock::new(|| {
        let commit = match env!("NAMIKI_COMMIT") {
            "" => String::new(),
            commit => format!("commit {commit}, "),
        };
        let release = env!("CARGO_PKG_VERSION");
        format!("{release} ({commit}reads on-disk formats up to {FORMAT})")
    });
    &TEXT
}
