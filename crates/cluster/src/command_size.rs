//! Sizes of commands: for limits, and to seal a group before it is too long for a log buffer.

use namiki_client::protocol::{Command, Condition, Write};

/// Largest overhead of a row in a payload, in addition to its key and its value.
pub(crate) const ROW_BYTES: usize = 24;
/// Overhead of an allocation.
const ALLOCATION_BYTES: usize = 16;
/// Memory of a command in addition to its own: its outcome, its number in the queue of a worker and
/// among the members of a group, and its place and keys if it is parked.
pub(crate) const BOOKKEEPING_BYTES: usize = 64;

/// Approximate size of a command in a payload.
pub(crate) fn command_bytes(command: &Command) -> usize {
    match command {
        Command::Transfer { .. } => size_of::<Command>(),
        Command::Write(write) => {
            let conditions = write.conditions.iter().map(|it| (&it.key, &it.value));
            let rows = write.rows.iter().map(|(_, key, value)| (key, value));
            let fields = conditions.chain(rows);
            let bytes = fields.map(|(key, value)| key.len() + value.as_ref().map_or(0, Vec::len));
            bytes.map(|it| it + ROW_BYTES).sum::<usize>()
        }
    }
}

/// Memory that these commands take until they are answered. It counts capacity, not length: short
/// rows take ten times as much memory as bytes in a payload.
pub(crate) fn memory_of_commands(commands: &Vec<Command>) -> usize {
    let own = commands.capacity() * size_of::<Command>() + commands.len() * BOOKKEEPING_BYTES;
    own + commands.iter().map(memory_of_command).sum::<usize>()
}

fn memory_of_command(command: &Command) -> usize {
    let Command::Write(write) = command else {
        return 0;
    };
    let conditions = write.conditions.iter().map(|it| (&it.key, &it.value));
    let rows = write.rows.iter().map(|(_, key, value)| (key, value));
    let fields = conditions
        .chain(rows)
        .map(|(key, value)| memory_of(key) + value.as_ref().map_or(0, memory_of));
    size_of::<Write>()
        + ALLOCATION_BYTES
        + write.conditions.capacity() * size_of::<Condition>()
        + write.rows.capacity() * size_of::<(u32, Vec<u8>, Option<Vec<u8>>)>()
        + fields.sum::<usize>()
}

/// Memory of the keys of a read.
pub(crate) fn memory_of_keys(keys: &Vec<(u32, Vec<u8>)>) -> usize {
    let own = keys.capacity() * size_of::<(u32, Vec<u8>)>();
    own + keys.iter().map(|(_, key)| memory_of(key)).sum::<usize>()
}

fn memory_of(bytes: &Vec<u8>) -> usize {
    match bytes.capacity() {
        0 => 0,
        capacity => capacity + ALLOCATION_BYTES,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_rows_count_with_their_capacity() {
        let mut write = Write::default();
        for key in 0..100_u8 {
            write.rows.push((1, vec![key], None));
        }
        let command = Command::Write(Box::new(write));
        let payload = command_bytes(&command);
        let memory = memory_of_commands(&vec![command]);
        assert_eq!(payload, 100 * (ROW_BYTES + 1));
        // A hundred rows of 56 bytes with keys of their own, in a vector for 128.
        assert!(memory >= 128 * 56 + 100 * 17, "{memory}");
    }
}
