//! The possible origins of a payload.

use super::expected_presence::Facts;
use crate::index::drawn_operations::Operations;
use crate::index::payload_writer_id::{Writer, writer};

/// All drawn operations, by which a payload is traced to the operation that wrote it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origins<'a> {
    pub(crate) facts: &'a Facts,
    /// The operations of each thread.
    pub(crate) operations: &'a [Operations],
}

impl Origins<'_> {
    /// Whether this payload is written to this key by its load or by some operation. `executed`
    /// returns the number of operations that a thread can have executed.
    pub(crate) fn explain(
        &self,
        key: u64,
        payload: u64,
        executed: impl Fn(usize) -> u64,
    ) -> Result<Writer, String> {
        let unexplained = |why: &str| Err(format!("key {key} holds payload {payload:#x}, {why}"));
        let writer = writer(payload);
        match writer {
            Writer::Load(number) if number == key && self.facts.is_loaded(key) => Ok(writer),
            Writer::Load(_) => unexplained("which it was not loaded with"),
            Writer::Operation { thread, number } => {
                let Some(operations) = self.operations.get(thread) else {
                    return unexplained("of a thread that there is not");
                };
                if number >= executed(thread) {
                    return unexplained("of an operation that has not begun");
                }
                let place = operations.place(number);
                let wrote = operations.operation(place).leaves_payload();
                if wrote && operations.number(place) == key {
                    return Ok(writer);
                }
                unexplained("of an operation that wrote nothing to it")
            }
        }
    }
}
