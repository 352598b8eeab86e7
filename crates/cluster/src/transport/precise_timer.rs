//! A timer with microsecond resolution. The runtime's timer counts in milliseconds, which is too
//! coarse for a link with a delay of 7.5 ms.

use std::io;
use std::time::Instant;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use tokio::net::unix::pipe::Receiver;

/// A timer of the system. The runtime treats it as a pipe: a descriptor that is not ready before it
/// is due, and is then read.
pub(super) struct PreciseTimer {
    timer: Receiver,
}

impl PreciseTimer {
    /// Must be called within the runtime.
    pub(super) fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        Ok(Self {
            timer: Receiver::from_owned_fd_unchecked(timer)?,
        })
    }

    /// Returns when the time `due` is reached.
    pub(super) async fn until(&self, due: Instant) -> io::Result<()> {
        let wait = due.saturating_duration_since(Instant::now());
        let nothing = Timespec::default();
        if wait.is_zero() {
            return Ok(());
        }
        let value = Timespec {
            tv_sec: i64::try_from(wait.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: wait.subsec_nanos().into(),
        };
        let once = Itimerspec {
            it_interval: nothing,
            it_value: value,
        };
        // Discards leftovers of an earlier use.
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &once)?;
        loop {
            self.timer.readable().await?;
            let mut expirations = [0; 8];
            match self.timer.try_read(&mut expirations) {
                // It was ready for an earlier use.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return read.map(drop),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn it_never_returns_early() {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_io().build().unwrap().block_on(async {
            let timer = PreciseTimer::new().unwrap();
            for micros in [0, 1, 200, 1500] {
                let due = Instant::now() + Duration::from_micros(micros);
                timer.until(due).await.unwrap();
                assert!(Instant::now() >= due);
            }
        });
    }
}
