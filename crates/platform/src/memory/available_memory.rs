//! The memory that a program can take: the available memory of the machine, limited by its control
//! group.

use std::fs;
use std::path::Path;

/// Bytes of memory that the system can give to programs without swapping, or that the control group
/// of this process may have in all, whichever is less. `None` if the system says neither.
#[must_use]
pub fn available_memory_bytes() -> Option<u64> {
    let read = |path: &Path| fs::read_to_string(path).ok();
    let machine = machine_available_bytes();
    let group = read(Path::new("/proc/self/cgroup")).and_then(|groups| group_limit(&groups, read));
    machine.into_iter().chain(group).min()
}

/// Bytes of memory that the system can give to programs without swapping, if it says so.
#[must_use]
pub fn machine_available_bytes() -> Option<u64> {
    available(&fs::read_to_string("/proc/meminfo").ok()?)
}

/// `MemAvailable:   12345 kB`.
fn available(meminfo: &str) -> Option<u64> {
    let mut lines = meminfo.lines();
    let says = lines.find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kilobytes: u64 = says.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kilobytes.checked_mul(1024)
}

/// The least limit of the control groups of a process, of their parents too: `groups` is its
/// `/proc/self/cgroup`.
fn group_limit(groups: &str, read: impl Fn(&Path) -> Option<String>) -> Option<u64> {
    let limits = groups.lines().flat_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, group) = (parts.next(), parts.next(), parts.next());
        // Without controllers, it is that of version 2.
        let (root, file) = match controllers.unwrap_or_default() {
            "" => ("/sys/fs/cgroup", "memory.max"),
            "memory" => ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
            _ => return Vec::new(),
        };
        let group = group.unwrap_or_default().trim_start_matches('/');
        let folders = Path::new(group).ancestors();
        // "max" is no number.
        let limit = |folder| {
            read(&Path::new(root).join(folder).join(file))?
                .trim()
                .parse::<u64>()
                .ok()
        };
        folders.filter_map(limit).collect()
    });
    limits.min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_some() {
        let bytes = available_memory_bytes().unwrap();
        assert!(bytes > 1 << 20, "{bytes}");
    }

    #[test]
    fn available_memory_is_read_in_bytes() {
        let text = "MemTotal: 9 kB\nMemAvailable:   2048 kB\nBuffers: 1 kB\n";
        assert_eq!(available(text), Some(2 << 20));
        assert_eq!(available("MemTotal: 9 kB\n"), None);
        assert!(machine_available_bytes().unwrap() > 1 << 20);
    }

    #[test]
    fn the_least_limit_of_all_groups_counts() {
        let files = [
            ("/sys/fs/cgroup/a/b/memory.max", "max\n"),
            ("/sys/fs/cgroup/a/memory.max", "5000\n"),
            ("/sys/fs/cgroup/memory.max", "9000\n"),
            ("/sys/fs/cgroup/memory/c/memory.limit_in_bytes", "4000\n"),
        ];
        let read = |path: &Path| {
            let found = files.iter().find(|(name, _)| Path::new(name) == path);
            found.map(|(_, text)| (*text).to_owned())
        };
        assert_eq!(group_limit("0::/a/b\n", read), Some(5000));
        assert_eq!(group_limit("0::/\n", read), Some(9000));
        assert_eq!(
            group_limit("9:cpu,cpuacct:/c\n3:memory:/c\n0::/a\n", read),
            Some(4000)
        );
        assert_eq!(group_limit("9:cpu:/c\n", read), None);
    }
}
