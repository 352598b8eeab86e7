//! Sizes of commands: for limits, and to seal a group before it is too long for a log buffer.

use namiki_client::protocol::Command;

/// Largest overhead of a row in a payload, in addition to its key and its value.
pub(crate) const ROW_BYTES: usize = 24;

/// Approximate size of a command in memory and in a payload.
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
