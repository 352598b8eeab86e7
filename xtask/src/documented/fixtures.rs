//! The folder in which the commands of one document run, one after the other. It contains the files
//! that they name.
//!
//! ```text
//!  DIR, data/shop      databases with a row, KEY, in the table TABLE
//!  backup/shop         a backup of data/shop
//!  FILE                a row more, to import
//!  PLAN                a query that counts the rows of TABLE
//!  node.toml           the configuration of a node
//! ```

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Time limit: a command that takes longer hangs, or lacks a rule.
const LIMIT: Duration = Duration::from_secs(600);
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Number of bytes shown of a failed command's output.
const SHOWN_BYTES: u64 = 4000;

const NODE: &str = "\
cluster = \"5f0c1d6ab2e94c07a1d3f8e2b4c69701\"
node = 1
directory = \"node\"

[[member]]
id = 1
peer = \"127.0.0.1:7400\"
client = \"127.0.0.1:7500\"
";

const PLAN: &str = r#"{
  "aggregate": { "input": { "scan": { "table": "TABLE" } }, "calculate": [{ "function": "count", "as": "rows" }] }
}"#;

/// A folder with the files that commands name; removed on drop.
pub(super) struct Ground {
    folder: PathBuf,
    /// The folder in which cargo's commands run.
    root: PathBuf,
    path: String,
}

impl Ground {
    /// Creates a folder for commands of the programs in `programs`.
    pub(super) fn new(root: &Path, programs: &Path) -> Result<Self, String> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("namiki-documented-{}-{number}", std::process::id());
        let before = std::env::var("PATH").unwrap_or_default();
        let ground = Self {
            folder: std::env::temp_dir().join(name),
            root: root.to_owned(),
            path: format!("{}:{before}", programs.display()),
        };
        ground.fill().map_err(|error| error.to_string())?;
        for database in ["DIR", "data/shop"] {
            ground.run(&format!("namiki import {database} TABLE first"))?;
        }
        ground.run("namiki backup data/shop backup/shop")?;
        Ok(ground)
    }

    fn fill(&self) -> std::io::Result<()> {
        for folder in ["data", "backup"] {
            fs::create_dir_all(self.folder.join(folder))?;
        }
        for (file, key) in [("first", "KEY"), ("FILE", "ANOTHER")] {
            let header = r#"{"namiki":1,"table":"TABLE","key":"string","value":"u64","eight_byte_keys":false,"room_bytes":8}"#;
            let rows = format!(
                "{header}\n{{\"key\":\"{key}\",\"value\":1}}\n{{\"end\":true,\"rows\":1}}\n"
            );
            fs::write(self.folder.join(file), rows)?;
        }
        fs::write(self.folder.join("PLAN"), PLAN)?;
        fs::write(self.folder.join("node.toml"), NODE)
    }

    /// Runs a command in a shell.
    ///
    /// # Errors
    /// The command's output and exit status, if it failed.
    pub(super) fn run(&self, text: &str) -> Result<(), String> {
        let cannot = |error: std::io::Error| format!("cannot run `{text}`: {error}");
        let is_chore = text.starts_with("cargo ");
        // An xtask command may write into the document's folder, too.
        let text = if is_chore {
            text.replace(
                "FOLDER",
                &self.folder.join("PACKAGES").display().to_string(),
            )
        } else {
            text.to_owned()
        };
        let said = self.folder.join("said");
        let mut output = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(&said)
            .map_err(cannot)?;
        let out = || output.try_clone().map(Stdio::from).map_err(cannot);
        let mut child = Command::new("sh")
            .args(["-c", &text])
            .current_dir(if is_chore { &self.root } else { &self.folder })
            .env("PATH", &self.path)
            .stdin(Stdio::null())
            .stdout(out()?)
            .stderr(out()?)
            .spawn()
            .map_err(cannot)?;
        let began = Instant::now();
        let ended = loop {
            if let Some(status) = child.try_wait().map_err(cannot)? {
                break status.to_string();
            }
            if began.elapsed() > LIMIT {
                let _ = child.kill();
                let _ = child.wait();
                break format!("it had not ended after {} s", LIMIT.as_secs());
            }
            std::thread::sleep(LOOK_EVERY);
        };
        if ended == "exit status: 0" {
            return Ok(());
        }
        let length = output.seek(SeekFrom::End(0)).map_err(cannot)?;
        let from = length.saturating_sub(SHOWN_BYTES);
        output.seek(SeekFrom::Start(from)).map_err(cannot)?;
        let mut last = Vec::new();
        output.read_to_end(&mut last).map_err(cannot)?;
        Err(format!("{}{ended}", String::from_utf8_lossy(&last)))
    }
}

impl Drop for Ground {
    /// Stops everything that a document has started but not stopped.
    fn drop(&mut self) {
        if self.folder.join("namiki-cluster").exists() {
            let _ = self.run("namiki cluster stop");
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}
