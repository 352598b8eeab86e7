//! The processes of a local cluster. They are found by their pid files, and outlive the command that started them.
//!
//! A process id may belong to another process by now, so the command line is compared before a
//! signal is sent.

use std::fs::{self, File};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::layout::{LocalNode, read, write};
use crate::failure::{Failure, device};
use crate::status::ProcessState;

const INTERVAL: Duration = Duration::from_millis(10);
/// Time for which a starting process may have no command line.
const EXEC_TIMEOUT: Duration = Duration::from_secs(1);
/// Bytes at the end of a log that are searched for a reason.
const LOG_TAIL_BYTES: u64 = 4096;

/// The letter of the state of a process or thread, by its folder below `/proc`; `None` if it does not exist.
fn letter_of(folder: &Path) -> Option<char> {
    let stat = fs::read_to_string(folder.join("stat")).ok()?;
    // The state follows the name, which is in parentheses.
    stat.rsplit_once(") ")?.1.chars().next()
}

/// Whether a thread of a process has not ended. The first one ends at once when the process is killed; others may still wait for
/// the disk, and until they have ended the process keeps its ports and locks.
fn has_running_thread(proc: &Path) -> bool {
    let threads = fs::read_dir(proc.join("task")).into_iter().flatten();
    threads
        .flatten()
        .any(|thread| !matches!(letter_of(&thread.path()), None | Some('Z' | 'X')))
}

impl LocalNode {
    /// The state of its process.
    pub(super) fn process(&self) -> Result<ProcessState, Failure> {
        let text = read(&self.pid_path())?;
        let Ok(pid) = text.trim().parse::<u32>() else {
            return Ok(ProcessState::Down);
        };
        let proc = Path::new("/proc").join(pid.to_string());
        let path = self.config_path();
        let begin = Instant::now();
        loop {
            // A process that does not exist, or that we may not read, is not ours.
            let command_line = fs::read(proc.join("cmdline")).unwrap_or_default();
            let state = match letter_of(&proc) {
                Some('Z') if has_running_thread(&proc) => return Ok(ProcessState::Running(pid)),
                None | Some('Z' | 'X') => return Ok(ProcessState::Down),
                Some('T' | 't') => ProcessState::Paused(pid),
                Some(_) => ProcessState::Running(pid),
            };
            let mut arguments = command_line.split(|byte| *byte == 0);
            if arguments.any(|argument| argument == path.as_os_str().as_bytes()) {
                return Ok(state);
            }
            // A starting process has no command line for a moment.
            if !command_line.is_empty() || begin.elapsed() > EXEC_TIMEOUT {
                return Ok(ProcessState::Down);
            }
            std::thread::sleep(INTERVAL / 10);
        }
    }

    /// Starts its process, which must not be running.
    pub(super) fn start(&self) -> Result<u32, Failure> {
        if let Some(pid) = self.process()?.pid() {
            return Err(Failure::Running { node: self.id, pid });
        }
        let program = std::env::current_exe().map_err(device("find", Path::new("this program")))?;
        let log_path = self.log_path();
        let log = File::options().create(true).append(true).open(&log_path);
        let log = log.map_err(device("write", &log_path))?;
        let child = Command::new(&program)
            .args(["node", "--detach", "--config"])
            .arg(self.config_path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .map_err(device("start", &program))?;
        let pid = child.id();
        write(&self.pid_path(), &format!("{pid}\n"))?;
        Ok(pid)
    }

    /// Sends a signal to its process. Returns its number.
    pub(super) fn signal(&self, signal: Signal) -> Result<u32, Failure> {
        let pid = self.process()?.pid().ok_or(Failure::NotRunning(self.id))?;
        let raw = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let Some(raw) = raw else {
            return Err(Failure::NotRunning(self.id));
        };
        kill_process(raw, signal).map_err(|error| {
            device("signal", &Path::new("/proc").join(pid.to_string()))(error.into())
        })?;
        Ok(pid)
    }

    /// Waits until its process has ended. Returns whether it has.
    pub(super) fn wait_for_end(&self, timeout: Duration) -> Result<bool, Failure> {
        let begin = Instant::now();
        while self.process()? != ProcessState::Down {
            if begin.elapsed() >= timeout {
                return Ok(false);
            }
            std::thread::sleep(INTERVAL);
        }
        Ok(true)
    }

    /// Fails if its process has ended.
    pub(super) fn check_runs(&self) -> Result<(), Failure> {
        match self.process()? {
            ProcessState::Down => Err(self.why_ended()),
            _ => Ok(()),
        }
    }

    /// The reason for which its process ended by itself.
    pub(super) fn why_ended(&self) -> Failure {
        let tail = || {
            let mut log = File::open(self.log_path()).ok()?;
            let length = log.metadata().ok()?.len();
            let from = length.saturating_sub(LOG_TAIL_BYTES);
            log.seek(SeekFrom::Start(from)).ok()?;
            let mut bytes = Vec::new();
            log.read_to_end(&mut bytes).ok()?;
            let text = String::from_utf8_lossy(&bytes).into_owned();
            let said = text
                .lines()
                .rev()
                .find_map(|line| line.strip_prefix("namiki-cluster: "));
            Some(said?.to_owned())
        };
        Failure::NodeEnded {
            node: self.id,
            said: tail().unwrap_or_else(|| "it gives no reason".to_owned()),
            log: self.log_path(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_runs_until_its_last_thread_ends() {
        // The first thread ends, and another one waits for the end of the standard input.
        let program = "import ctypes, sys, threading
threading.Thread(target=sys.stdin.read).start()
ctypes.CDLL(None).pthread_exit(None)";
        let child = Command::new("python3")
            .args(["-c", program])
            .stdin(Stdio::piped())
            .spawn();
        let Ok(mut child) = child else {
            eprintln!("left out: there is no python3");
            return;
        };
        let proc = Path::new("/proc").join(child.id().to_string());
        while letter_of(&proc) != Some('Z') {
            std::thread::sleep(INTERVAL);
        }
        assert!(has_running_thread(&proc));
        drop(child.stdin.take());
        while has_running_thread(&proc) {
            std::thread::sleep(INTERVAL);
        }
        assert_eq!(letter_of(&proc), Some('Z'));
        child.wait().unwrap();
        assert_eq!(letter_of(&proc), None);
    }
}
