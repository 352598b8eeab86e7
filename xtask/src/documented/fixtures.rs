//! The folder in which the commands of one document run, one after the other: what they name is there.
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

/// A command that takes longer hangs, or lacks a rule.
const LIMIT: Duration = Duration::from_secs(600);
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// So much of what a command that failed has said is shown.
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

/// A folder, with what commands name, until it is dropped.
pub(super) struct Ground {
    folder: PathBuf,
    /// Where cargo's commands run.
    root: PathBuf,
    path: String,
}

impl Ground {
    /// One with the programs of this folder.
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

    /// Runs a command as a shell does.
    ///
    /// # Errors
    /// What it has said, and how it ended, unless it ended well.
    pub(super) fn run(&self, text: &str) -> Result<(), String> {
        let cannot = |error: std::io::Error| format!("cannot run `{text}`: {error}");
        let is_chore = text.starts_with("cargo ");
        // A chore writes into a folder of the document, too.
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
    /// Ends what a document has started and not ended.
    fn drop(&mut self) {
        if self.folder.join("namiki-cluster").exists() {
            let _ = self.run("namiki cluster stop");
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}
