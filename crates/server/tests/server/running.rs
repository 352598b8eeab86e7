//! A server of a test: a process with its own directory.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// Longest time for a server to end.
const END_TIMEOUT: Duration = Duration::from_secs(60);

/// The directory of a server, which outlives its process.
pub(crate) struct Home {
    folder: TempDir,
}

impl Home {
    pub(crate) fn new() -> Self {
        // Short: the path of a socket has at most 107 bytes.
        Self {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    /// Starts a server on the directory.
    pub(crate) fn start(&self, arguments: &[&str]) -> Running {
        let log = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.log())
            .unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_namiki-server"))
            .args(["--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--dir"])
            .arg(self.data())
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut said = String::new();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        while !said.contains("Ctrl-C stops the server.") {
            if output.read_line(&mut said).unwrap() == 0 {
                let log = fs::read_to_string(self.log()).unwrap_or_default();
                let status = child.wait().unwrap();
                panic!("the server does not start ({status}): {said}{log}");
            }
        }
        let word_after = |text: &str| {
            let (_, rest) = said.split_once(text)?;
            rest.split_whitespace().next().map(str::to_owned)
        };
        Running {
            port: word_after(" -p ").unwrap().parse().unwrap(),
            password: word_after("shown only now: "),
            role: word_after(" -U ").unwrap(),
            socket_folder: word_after("as this user:     psql -h ").unwrap().into(),
            http: word_after("Metrics: http://").unwrap(),
            said,
            child,
        }
    }
}

/// A server that runs. It is killed when it is dropped.
pub(crate) struct Running {
    child: Child,
    /// All that it has printed.
    pub(crate) said: String,
    pub(crate) port: u16,
    /// Known at the first start.
    pub(crate) password: Option<String>,
    pub(crate) role: String,
    pub(crate) socket_folder: PathBuf,
    /// The address of its pages, and the path of the first.
    http: String,
}

impl Running {
    /// Starts a server on a new directory.
    pub(crate) fn new() -> (Home, Self) {
        Self::with(&[])
    }

    pub(crate) fn with(arguments: &[&str]) -> (Home, Self) {
        let home = Home::new();
        let running = home.start(arguments);
        (home, running)
    }

    /// The address of its pages.
    pub(crate) fn http(&self) -> &str {
        self.http.split('/').next().unwrap()
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.socket_folder.join(format!(".s.PGSQL.{}", self.port))
    }

    /// Bytes of memory that the process has.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|it| it.strip_prefix("VmRSS:"));
        let kilobytes = line.unwrap().trim().strip_suffix("kB").unwrap().trim();
        kilobytes.parse::<u64>().unwrap() * 1024
    }

    /// Sends a signal, by its name.
    pub(crate) fn signal(&self, name: &str) {
        let status = Command::new("kill")
            .args(["-s", name, &self.child.id().to_string()])
            .status()
            .unwrap();
        assert!(status.success());
    }

    /// Waits until the process has ended.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        let until = Instant::now() + END_TIMEOUT;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < until, "the server does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Stops it in good order.
    pub(crate) fn stop(mut self) {
        self.signal("TERM");
        assert!(self.wait().success());
    }

    /// Kills it.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// A command that connects over the socket.
    pub(crate) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .env("PGHOST", &self.socket_folder)
            .env("PGPORT", self.port.to_string())
            .env("PGUSER", &self.role)
            .env("PGDATABASE", "namiki")
            .env("PSQLRC", "/dev/null")
            .stdin(Stdio::null());
        command
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
