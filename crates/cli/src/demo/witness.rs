//! The witness process: it starts the victim, records its messages, and kills it.

use std::io::{self, Read};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use namiki_terminal::interrupt;
use namiki_terminal::number_format::grouped;

use super::pipe_message::{Decoder, Message};
use super::victim::{VICTIM_COMMAND, VictimArguments};
use crate::failure::{Failure, device};
use crate::progress::Progress;

/// Interval at which the witness checks the clock.
const TICK: Duration = Duration::from_millis(20);
/// The signal that cannot be caught.
const SIGKILL: i32 = 9;

/// The witness's records after the kill.
pub(super) struct Testimony {
    /// The ids of all payments that were acknowledged, in no order.
    pub(super) acknowledged: Vec<u64>,
    pub(super) load_seconds: f64,
    pub(super) pay_seconds: f64,
}

/// The messages received through the pipe so far.
#[derive(Default)]
struct Heard {
    loaded: AtomicU64,
    acknowledged: AtomicU64,
    paying_since: Mutex<Option<Instant>>,
    /// The pipe was closed: the victim is gone.
    ended: AtomicBool,
}

impl Heard {
    /// Reads until the pipe is closed, and returns the acknowledged ids.
    fn listen(&self, mut pipe: ChildStdout) -> io::Result<Vec<u64>> {
        let mut ids = Vec::new();
        let mut decoder = Decoder::default();
        let mut bytes = vec![0; 1 << 16];
        let heard = loop {
            match pipe.read(&mut bytes) {
                Ok(0) => break Ok(()),
                Ok(read) => decoder.take(&bytes[..read], |message| match message {
                    Message::Loaded(accounts) => {
                        self.loaded.fetch_add(accounts, Ordering::Relaxed);
                    }
                    Message::Paying => {
                        if let Ok(mut since) = self.paying_since.lock() {
                            *since = Some(Instant::now());
                        }
                    }
                    Message::Acknowledged(id) => ids.push(id),
                }),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => break Err(error),
            }
            self.acknowledged.store(ids.len() as u64, Ordering::Relaxed);
        };
        self.ended.store(true, Ordering::Relaxed);
        heard.map(|()| ids)
    }

    fn paying_since(&self) -> Option<Instant> {
        self.paying_since.lock().ok().and_then(|since| *since)
    }
}

/// Kills the victim in any case, also if the witness fails.
struct Victim(Child);

impl Drop for Victim {
    fn drop(&mut self) {
        // It may have ended already; then there is nothing to do.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Lets the victim load and pay, and kills it after some seconds of paying.
pub(super) fn watch(arguments: &VictimArguments, seconds: u64) -> Result<Testimony, Failure> {
    let program = std::env::current_exe().map_err(device("find", Path::new("this program")))?;
    let began = Instant::now();
    let mut child = Command::new(&program)
        .arg(VICTIM_COMMAND)
        .arg("--dir")
        .arg(&arguments.dir)
        .args(["--accounts", &arguments.accounts.to_string()])
        .args(["--threads", &arguments.threads.to_string()])
        .args(["--spec", &arguments.spec.to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(device("start", &program))?;
    let pipes = child.stdout.take().zip(child.stderr.take());
    let mut victim = Victim(child);
    let Some((pipe, errors)) = pipes else {
        return Err(device("listen to", &program)(
            io::ErrorKind::BrokenPipe.into(),
        ));
    };

    let heard = Heard::default();
    std::thread::scope(|scope| {
        let listener = scope.spawn(|| heard.listen(pipe));
        let complaints = scope.spawn(|| io::read_to_string(errors));
        let times = wait_for_the_moment(&heard, arguments.accounts, seconds, began);
        let killed = victim.0.kill().and_then(|()| victim.0.wait());
        let ids = listener
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let said = complaints
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let (load_seconds, pay_seconds) = times?;
        let status = killed.map_err(device("kill", &program))?;
        if status.signal() != Some(SIGKILL) {
            let said = said.unwrap_or_default();
            return Err(Failure::VictimEnded { status, said });
        }
        Ok(Testimony {
            acknowledged: ids.map_err(device("listen to", &program))?,
            load_seconds,
            pay_seconds,
        })
    })
}

/// Shows the victim's progress until it is time to kill it, or it has ended by itself. Returns the
/// seconds of loading and the seconds of paying.
fn wait_for_the_moment(
    heard: &Heard,
    accounts: u64,
    seconds: u64,
    began: Instant,
) -> Result<(f64, f64), Failure> {
    let mut progress = Progress::new();
    loop {
        interrupt::check()?;
        let paying_since = heard.paying_since();
        let times = paying_since.map(|since| (since - began, since.elapsed()));
        if let Some((loading, paying)) = times
            && (paying >= Duration::from_secs(seconds) || heard.ended.load(Ordering::Relaxed))
        {
            return Ok((loading.as_secs_f64(), paying.as_secs_f64()));
        }
        if heard.ended.load(Ordering::Relaxed) {
            return Ok((began.elapsed().as_secs_f64(), 0.0));
        }
        progress.say(|| match times {
            None => format!(
                "loading     {} of {} accounts",
                grouped(heard.loaded.load(Ordering::Relaxed)),
                grouped(accounts)
            ),
            Some((_, paying)) => {
                let paid = heard.acknowledged.load(Ordering::Relaxed);
                let paying = paying.as_secs_f64();
                format!(
                    "paying      {paying:.1} s of {seconds} s, {} acknowledged, {} a second",
                    grouped(paid),
                    grouped((paid as f64 / paying.max(0.001)) as u64)
                )
            }
        });
        std::thread::sleep(TICK);
    }
}
