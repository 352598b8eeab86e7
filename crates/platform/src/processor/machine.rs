//! The facts about its machine that a measurement reports.
//!
//! Speeds of different hours and machines compare only against the machine's miss latency, the
//! yardstick of every benchmark: see [`miss_ns`].
#![expect(unsafe_code, reason = "memory that is kept on small pages")]

use std::fs;
use std::io;
use std::path::Path;
use std::ptr::NonNull;
use std::time::Instant;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use serde::Serialize;

use crate::cpu_affinity;
use crate::seeded_random::Random;

/// The machine, in words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Machine {
    /// Processors that this process may use.
    pub cores: usize,
    /// The processor's model.
    pub cpu: String,
    /// File system and device of the directory in question.
    pub disk: String,
    /// Name and release of the operating system.
    pub kernel: String,
}

impl Machine {
    /// The current machine, and the disk under `dir`. A fact that cannot be found out is "unknown".
    #[must_use]
    pub fn describe(dir: &Path) -> Self {
        let unknown = || "unknown".to_owned();
        Self {
            cores: cpu_affinity::available().map_or(1, |cpus| cpus.len()),
            cpu: fs::read_to_string("/proc/cpuinfo")
                .ok()
                .and_then(|text| cpu_model(&text))
                .unwrap_or_else(unknown),
            disk: disk_of(dir).unwrap_or_else(|_| unknown()),
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease")
                .map_or_else(|_| unknown(), |release| format!("Linux {}", release.trim())),
        }
    }
}

fn cpu_model(cpuinfo: &str) -> Option<String> {
    let line = cpuinfo
        .lines()
        .find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn disk_of(dir: &Path) -> io::Result<String> {
    let dir = dir.canonicalize()?;
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    mount_of(&mounts, &dir).ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// "ext4 on /dev/vda": the deepest mount that holds `dir`, the latest of several in one place.
///
/// A line is `id parent major:minor root place options [tags…] - type source options`.
fn mount_of(mountinfo: &str, dir: &Path) -> Option<String> {
    let mounts = mountinfo.lines().filter_map(|line| {
        let (mount, kind) = line.split_once(" - ")?;
        let place = mount.split(' ').nth(4)?.replace("\\040", " ");
        let mut kind = kind.split(' ');
        let (kind, source) = (kind.next()?, kind.next()?);
        dir.starts_with(&place)
            .then(|| (place.len(), format!("{kind} on {source}")))
    });
    mounts.max_by_key(|(depth, _)| *depth).map(|(_, disk)| disk)
}

/// Bytes of memory that this process holds now.
///
/// # Errors
/// The error of the operating system.
pub fn resident_bytes() -> io::Result<u64> {
    let text = fs::read_to_string("/proc/self/statm")?;
    let pages = text.split(' ').nth(1).and_then(|pages| pages.parse().ok());
    let pages: u64 = pages.ok_or(io::ErrorKind::InvalidData)?;
    Ok(pages * rustix::param::page_size() as u64)
}

/// The yardstick: median nanoseconds of a load that misses, measured now, in less than a second.
///
/// A chain of dependent loads visits 64 MiB of 64-byte lines, each line once per round, in random
/// order, on pages of 4 KiB; the median is over stretches of the chain.
///
/// # Errors
/// `OutOfMemory` without 64 MiB to spare; otherwise the error of the operating system.
pub fn miss_ns() -> io::Result<f64> {
    miss_ns_over(64 << 20)
}

/// [`miss_ns`] over a number of bytes, rounded down to whole lines but at least two.
///
/// # Errors
/// As for [`miss_ns`].
fn miss_ns_over(bytes: usize) -> io::Result<f64> {
    const STRETCHES: usize = 65;
    let mut lines = Lines::new((bytes / LINE_BYTES).max(2))?;
    link(lines.as_mut_slice());
    let lines = lines.as_slice();
    let steps = lines.len().div_ceil(16);
    let mut at = 0_usize;
    let mut stretches = [0.0; STRETCHES];
    for stretch in &mut stretches {
        let start = Instant::now();
        for _ in 0..steps {
            at = lines[at].next as usize;
        }
        *stretch = start.elapsed().as_nanos() as f64 / steps as f64;
    }
    std::hint::black_box(at);
    stretches.sort_by(f64::total_cmp);
    Ok(stretches[STRETCHES / 2])
}

const LINE_BYTES: usize = 64;

/// One cache line; all zeros is one.
#[repr(C, align(64))]
struct Line {
    next: u64,
    _rest: [u64; 7],
}
const _: () = assert!(size_of::<Line>() == LINE_BYTES);

/// Links all lines into one ring in random order (Sattolo's shuffle, which makes a single cycle).
fn link(lines: &mut [Line]) {
    let mut random = Random::seeded(0);
    for (number, line) in lines.iter_mut().enumerate() {
        line.next = number as u64;
    }
    for last in (1..lines.len()).rev() {
        let other = random.index(last);
        let (next, others) = (lines[last].next, lines[other].next);
        lines[last].next = others;
        lines[other].next = next;
    }
}

/// Lines in memory of their own, which the kernel is asked to keep on small pages.
///
/// # Invariants
/// - L1. `start` is the start of a private mapping of `count` lines, owned.
struct Lines {
    start: NonNull<Line>,
    count: usize,
}

impl Lines {
    fn new(count: usize) -> io::Result<Self> {
        let bytes = count * LINE_BYTES;
        // SAFETY: a new mapping at an address of the kernel's choice overlaps no other memory.
        let start = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE,
            )?
        };
        // A kernel that knows no huge pages refuses, and needs no asking.
        // SAFETY: exactly the new mapping; the advice changes no bytes.
        let _ = unsafe { madvise(start, bytes, Advice::LinuxNoHugepage) };
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, count })
    }

    fn as_slice(&self) -> &[Line] {
        // SAFETY: L1; a fresh mapping is zeros, which are valid lines, on a page's boundary.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.count) }
    }

    fn as_mut_slice(&mut self) -> &mut [Line] {
        // SAFETY: as above, and `&mut self` is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.count) }
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping of L1; no reference into it outlives `self`. It can only
        // fail on a range that was never mapped.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.count * LINE_BYTES) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chain_visits_every_line_once() {
        for count in [2, 3, 1000] {
            let mut lines = Lines::new(count).unwrap();
            link(lines.as_mut_slice());
            let mut seen = vec![false; count];
            let mut at = 0;
            for _ in 0..count {
                assert!(!seen[at], "{count}: line {at} twice");
                seen[at] = true;
                at = lines.as_slice()[at].next as usize;
            }
            assert_eq!(at, 0);
        }
    }

    #[test]
    fn memory_that_is_used_is_resident() {
        let before = resident_bytes().unwrap();
        let used = std::hint::black_box(vec![1_u8; 256 << 20]);
        assert!(resident_bytes().unwrap() > before + (128 << 20));
        drop(used);
    }

    #[test]
    fn the_yardstick_is_a_positive_number() {
        assert!(miss_ns_over(1 << 16).unwrap() > 0.0);
    }

    #[test]
    fn the_deepest_mount_names_the_disk() {
        let mounts = "\
22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 27 8:1 / /data/my\\040disk rw - xfs /dev/sda1 rw
31 27 8:1 / /dat rw - tmpfs none rw
";
        let of = |dir| mount_of(mounts, Path::new(dir)).unwrap();
        assert_eq!(of("/home"), "ext4 on /dev/vda");
        assert_eq!(of("/data/x"), "ext4 on /dev/vda");
        assert_eq!(of("/data/my disk/x"), "xfs on /dev/sda1");
        assert_eq!(of("/dat"), "tmpfs on none");
    }

    #[test]
    fn the_machine_at_hand_is_described() {
        let machine = Machine::describe(&std::env::temp_dir());
        assert!(machine.cores >= 1);
        assert!(machine.kernel.starts_with("Linux "));
        assert_eq!(
            cpu_model("processor : 0\nmodel name\t: A CPU\n").as_deref(),
            Some("A CPU")
        );
    }
}
