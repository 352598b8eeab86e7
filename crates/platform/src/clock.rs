//! Time: a monotonic clock in nanoseconds and a calibrated busy wait.
//!
//! Durations inside the engine are plain nanoseconds in a `u64` (584 years), because they are
//! added up in counters and histograms.
#![expect(
    unsafe_code,
    reason = "the instruction that orders execution, the processor time, the waits of threads"
)]

use std::hint::{black_box, spin_loop};
use std::io;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Nanoseconds since this process first asked. Never decreases, also across threads.
#[must_use]
pub fn now_ns() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    nanoseconds(START.get_or_init(Instant::now).elapsed())
}

/// Nanoseconds of processor time that all threads of this process have used.
///
/// # Errors
/// The error of the operating system.
pub fn process_cpu_ns() -> io::Result<u64> {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is ours to write to for the length of the call.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// Nanoseconds of processor time that this thread has used; 0 where the system does not say.
#[must_use]
pub fn thread_cpu_ns() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is ours to write to for the length of the call.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    if result != 0 {
        return 0;
    }
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// How often threads of this process have given up their processor to wait: for a device, a lock, or
/// work.
///
/// # Errors
/// The error of the operating system.
pub fn process_waits() -> io::Result<u64> {
    // SAFETY: the structure has integers alone, for which zeros are valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is ours to write to for the length of the call.
    let result = unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(usage.ru_nvcsw as u64)
}

/// A duration in nanoseconds; the largest number if it does not fit.
#[must_use]
pub fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Measures the time since it was started.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    /// Starts now.
    #[must_use]
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// Seconds since the start.
    #[must_use]
    pub fn elapsed_s(&self) -> f64 {
        self.0.elapsed().as_secs_f64()
    }
}

/// A busy wait of fixed length.
///
/// Pauses below [`Pause::COUNTED_BELOW`] are a counted loop, because asking any clock takes as
/// long as the shortest of them; longer ones watch the clock. The processor may not carry work
/// across a counted pause, so it adds to what surrounds it, as a device would.
#[derive(Clone, Copy, Debug)]
pub struct Pause {
    wanted: Duration,
    /// Steps of the counted loop; `None` watches the clock.
    steps: Option<u32>,
}

impl Pause {
    /// The clock is precise enough for durations from here on.
    pub const COUNTED_BELOW: Duration = Duration::from_micros(2);

    /// A pause of `wanted`, calibrated now, which takes a few milliseconds if it is short.
    #[must_use]
    pub fn calibrated(wanted: Duration) -> Self {
        if wanted.is_zero() || wanted >= Self::COUNTED_BELOW {
            let steps = wanted.is_zero().then_some(0);
            return Self { wanted, steps };
        }
        let at = |steps| Self {
            wanted,
            steps: Some(steps),
        };
        // Two points of the line "time over steps" tell what a step takes and what the rest does.
        let (few, many) = (8, 200);
        let (few_ns, many_ns) = (at(few).measure_ns(), at(many).measure_ns());
        let step_ns = ((many_ns - few_ns) / f64::from(many - few)).max(0.01);
        let steps = f64::from(few) + (wanted.as_nanos() as f64 - few_ns) / step_ns;
        at((steps.round() as i64).clamp(1, i64::from(u32::MAX)) as u32)
    }

    /// The length asked for.
    #[must_use]
    pub fn wanted(&self) -> Duration {
        self.wanted
    }

    /// Waits.
    #[inline]
    pub fn wait(&self) {
        match self.steps {
            Some(0) => {}
            Some(steps) => {
                serialise();
                let mut step = 0_u32;
                while step < steps {
                    step = black_box(step + 1);
                }
                serialise();
            }
            None => {
                let start = Instant::now();
                while start.elapsed() < self.wanted {
                    spin_loop();
                }
            }
        }
    }

    /// Nanoseconds that one pause really takes: the median of some rounds of many pauses.
    #[must_use]
    pub fn measure_ns(&self) -> f64 {
        const ROUNDS: usize = 21;
        let pauses = (50_000 / nanoseconds(self.wanted).max(50)).clamp(1, 1000);
        let mut rounds = [0.0; ROUNDS];
        for round in &mut rounds {
            let start = Instant::now();
            for _ in 0..pauses {
                self.wait();
            }
            *round = start.elapsed().as_nanos() as f64 / pauses as f64;
        }
        rounds.sort_by(f64::total_cmp);
        rounds[ROUNDS / 2]
    }
}

/// Nothing before it in the program is still running when something after it starts.
#[inline]
fn serialise() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the instruction needs SSE2, which every x86-64 processor has.
    unsafe {
        core::arch::x86_64::_mm_lfence();
    }
    #[cfg(not(target_arch = "x86_64"))]
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_never_goes_back() {
        let mut last = now_ns();
        for _ in 0..10_000 {
            let now = now_ns();
            assert!(now >= last);
            last = now;
        }
    }

    #[test]
    fn work_uses_processor_time() {
        let before = process_cpu_ns().unwrap();
        let pause = Pause::calibrated(Duration::from_millis(1));
        while process_cpu_ns().unwrap() < before + 2_000_000 {
            pause.wait();
        }
    }

    /// A pause may be longer than asked for on a busy machine, never absent.
    #[test]
    fn a_long_pause_lasts_as_long_as_requested() {
        let pause = Pause::calibrated(Duration::from_micros(300));
        let began = Instant::now();
        pause.wait();
        assert!(began.elapsed() >= Duration::from_micros(300));
    }

    #[test]
    fn counted_pauses_take_steps_in_proportion() {
        let steps = |ns| Pause::calibrated(Duration::from_nanos(ns)).steps;
        assert_eq!(steps(0), Some(0));
        assert!(steps(50) >= Some(1));
        assert!(steps(1900) > steps(20));
        assert_eq!(steps(2000), None);
    }
}
