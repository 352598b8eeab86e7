//! Payloads that identify their writer by thread and operation number. Afterwards each can be
//! traced to an operation on its key, and no payload is written twice.
//!
//! ```text
//!  63      55 54              44 43                        0
//! |    0     | thread + 1 (11)  | number of operation (44)  |   what a thread wrote
//! |    0     |        0         | number of the key         |   what was loaded
//! ```
//! The upper bits stay free, because some trees reserve them.

/// Bits of a number: enough for four days at 50 million operations a second.
const NUMBER_BITS: u32 = 44;

/// The writer of a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writer {
    /// The load of this key.
    Load(u64),
    /// This operation of a thread.
    Operation {
        /// The thread's number, from 0.
        thread: usize,
        /// The operation's number among the thread's, from 0.
        number: u64,
    },
}

/// The payload with which key `number` is loaded.
pub(crate) const fn loaded(number: u64) -> u64 {
    number
}

/// The payload that operation `number` of a thread writes.
#[inline]
pub(crate) const fn written(thread: usize, number: u64) -> u64 {
    (thread as u64 + 1) << NUMBER_BITS | number
}

/// The writer of this payload.
pub(crate) const fn writer(payload: u64) -> Writer {
    let number = payload & ((1 << NUMBER_BITS) - 1);
    match (payload >> NUMBER_BITS).checked_sub(1) {
        None => Writer::Load(number),
        Some(thread) => Writer::Operation {
            thread: thread as usize,
            number,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_payload_names_its_writer() {
        for (thread, number) in [(0, 0), (1, 7), (1023, (1 << NUMBER_BITS) - 1)] {
            let payload = written(thread, number);
            assert!(payload < 1 << 55);
            assert_eq!(writer(payload), Writer::Operation { thread, number });
        }
        assert_eq!(writer(loaded(12)), Writer::Load(12));
    }
}
