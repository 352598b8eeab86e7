//! Reads the commits of the repository.

use std::path::Path;
use std::process::Command;

/// One commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Commit {
    pub(crate) hash: String,
    /// The first paragraph of its message, in one line.
    pub(crate) subject: String,
    pub(crate) is_merge: bool,
}

/// The baseline of a rule about commits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Baseline<'a> {
    /// The last commit that is exempt; its ancestors are exempt, too.
    pub(crate) hash: &'a str,
    /// Its time, in seconds since 1970, for clones that do not reach back to it.
    pub(crate) seconds: u64,
}

/// The ancestors of the checked-out commit that are not in the baseline; none if `root` is not a
/// repository of its own.
///
/// # Errors
/// Fails if there is a repository that git cannot read.
pub(crate) fn commits_since(root: &Path, baseline: Baseline<'_>) -> Result<Vec<Commit>, String> {
    if !root.join(".git").exists() {
        return Ok(Vec::new());
    }
    let end_of_baseline = format!("{}^{{commit}}", baseline.hash);
    let is_here = git(root, &["cat-file", "-e", &end_of_baseline]).is_ok();
    let range = format!("{}..HEAD", baseline.hash);
    let format = "--format=%H%x09%ct%x09%s";
    let listing = git(
        root,
        &["log", format, if is_here { &range } else { "HEAD" }],
    )?;
    let mut commits = Vec::new();
    for line in listing.lines() {
        let mut parts = line.splitn(3, '\t');
        let (Some(hash), Some(seconds)) = (parts.next(), parts.next()) else {
            continue;
        };
        let is_old = seconds
            .parse()
            .is_ok_and(|seconds: u64| seconds <= baseline.seconds);
        if !is_here && is_old {
            continue;
        }
        commits.push(Commit {
            hash: hash.to_owned(),
            subject: parts.next().unwrap_or_default().to_owned(),
            is_merge: parents(root, hash)? > 1,
        });
    }
    Ok(commits)
}

/// The number of parents as recorded in the commit: at the boundary of a shallow clone, git shows
/// none.
fn parents(root: &Path, hash: &str) -> Result<usize, String> {
    let commit = git(root, &["cat-file", "commit", hash])?;
    let head = commit.lines().take_while(|line| !line.is_empty());
    Ok(head.filter(|line| line.starts_with("parent ")).count())
}

fn git(root: &Path, args: &[&str]) -> Result<String, String> {
    let mut command = Command::new("git");
    command.args(args).current_dir(root);
    // Git's variables for hooks would redirect to the repository that runs the hook.
    for pinned in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"] {
        command.env_remove(pinned);
    }
    let failed = |why: &str| format!("git {} failed: {}", args.join(" "), why.trim());
    let output = command
        .output()
        .map_err(|error| failed(&error.to_string()))?;
    if !output.status.success() {
        return Err(failed(&String::from_utf8_lossy(&output.stderr)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use super::*;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("xtask-{}-{name}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            fs::create_dir_all(&path).expect("a folder");
            Self(path)
        }

        fn git(&self, args: &[&str]) -> String {
            let settings = [
                "user.name=N",
                "user.email=n@example.org",
                "commit.gpgsign=false",
                "core.hooksPath=/dev/null",
            ];
            let with = settings.iter().flat_map(|setting| ["-c", *setting]);
            let all: Vec<&str> = with.chain(args.iter().copied()).collect();
            git(&self.0, &all).expect("git")
        }

        fn commit(&self, message: &str) -> Baseline<'static> {
            let allow = ["--allow-empty", "--allow-empty-message"];
            self.git(&["commit", "-q", allow[0], allow[1], "-m", message]);
            let said = self.git(&["log", "-1", "--format=%H %ct"]);
            let (hash, seconds) = said.trim().split_once(' ').expect("two words");
            Baseline {
                hash: hash.to_owned().leak(),
                seconds: seconds.parse().expect("seconds"),
            }
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn subjects(root: &Path, baseline: Baseline<'_>) -> Vec<(String, bool)> {
        let commits = commits_since(root, baseline).expect("git").into_iter();
        commits
            .map(|commit| (commit.subject, commit.is_merge))
            .collect()
    }

    #[test]
    fn commits_after_the_baseline_are_read() {
        let folder = Folder::new("after");
        folder.git(&["init", "-q", "-b", "main"]);
        folder.commit("old");
        let baseline = folder.commit("baseline");
        folder.commit("new\n\nAnd why.");
        folder.commit("two\nlines");
        folder.commit("");
        folder.git(&["checkout", "-q", "-b", "side", baseline.hash]);
        folder.commit("beside");
        folder.git(&["merge", "-q", "--no-ff", "-m", "Merge", "main"]);
        let mut found = subjects(&folder.0, baseline);
        found.sort();
        let expected = [
            ("", false),
            ("Merge", true),
            ("beside", false),
            ("new", false),
            ("two lines", false),
        ];
        assert_eq!(
            found,
            expected.map(|(subject, merge)| (subject.to_owned(), merge))
        );
    }

    #[test]
    fn a_shallow_clone_goes_by_the_date() {
        let folder = Folder::new("shallow");
        folder.git(&["init", "-q", "-b", "main"]);
        folder.commit("old");
        folder.git(&["checkout", "-q", "-b", "side"]);
        folder.commit("beside");
        folder.git(&["checkout", "-q", "main"]);
        folder.git(&["merge", "-q", "--no-ff", "-m", "Merge", "side"]);
        let head = folder
            .git(&["log", "-1", "--format=%ct"])
            .trim()
            .parse()
            .expect("seconds");
        let clone = Folder::new("shallow-clone");
        let from = format!("file://{}", folder.0.display());
        clone.git(&["clone", "-q", "--depth", "1", &from, "."]);
        let baseline = |seconds| Baseline {
            hash: "0123456789012345678901234567890123456789",
            seconds,
        };
        assert_eq!(
            subjects(&clone.0, baseline(head - 1)),
            [("Merge".to_owned(), true)]
        );
        assert!(subjects(&clone.0, baseline(head)).is_empty());
    }

    #[test]
    fn without_a_repository_of_its_own_there_are_none() {
        let folder = Folder::new("none");
        let anywhere = Baseline {
            hash: "HEAD",
            seconds: 0,
        };
        assert!(subjects(&folder.0, anywhere).is_empty());
        folder.git(&["init", "-q"]);
        folder.commit("of another project");
        let everything = Baseline {
            hash: "none",
            seconds: 0,
        };
        assert!(!subjects(&folder.0, everything).is_empty());
        let inside = folder.0.join("inside");
        fs::create_dir(&inside).expect("a folder");
        assert!(subjects(&inside, everything).is_empty());
    }

    #[test]
    fn what_git_cannot_read_is_an_error() {
        let folder = Folder::new("unreadable");
        fs::write(folder.0.join(".git"), "gitdir: nowhere").expect("a file");
        let anywhere = Baseline {
            hash: "HEAD",
            seconds: 0,
        };
        let error = commits_since(&folder.0, anywhere).expect_err("no repository");
        assert!(error.starts_with("git log "), "{error}");
    }
}
