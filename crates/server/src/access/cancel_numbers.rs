//! Which connection a cancel request may interrupt.
//!
//! A session learns its number and a secret from BackendKeyData. A cancel request comes on another
//! connection and repeats both. It interrupts the statement that runs at that moment, and none that
//! follows: that is the meaning of the engine's [`CancelHandle`].

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use namiki_sql::CancelHandle;
use parking_lot::Mutex;

use crate::access::scram::{NoRandomBytes, random_bytes};
use crate::wire::ProtocolVersion;

/// Bytes of a secret under protocol 3.2.
const SECRET_BYTES: usize = 32;
/// Bytes of a secret under protocol 3.0.
const SHORT_SECRET_BYTES: usize = 4;

struct Entry {
    secret: Box<[u8]>,
    handle: CancelHandle,
}

/// The sessions that can be interrupted, by number.
#[derive(Default)]
pub(crate) struct CancelNumbers {
    next: AtomicI32,
    entries: Mutex<HashMap<i32, Entry>>,
}

impl CancelNumbers {
    /// Gives a session a number, until the registration is dropped.
    pub(crate) fn register(
        self: &Arc<Self>,
        version: ProtocolVersion,
        handle: CancelHandle,
    ) -> Result<Registration, NoRandomBytes> {
        let random: [u8; SECRET_BYTES] = random_bytes()?;
        let length = match version {
            ProtocolVersion::V3_0 => SHORT_SECRET_BYTES,
            ProtocolVersion::V3_2 => SECRET_BYTES,
        };
        let secret: Box<[u8]> = random[..length].into();
        let mut entries = self.entries.lock();
        let number = loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed) & i32::MAX;
            if number != 0 && !entries.contains_key(&number) {
                break number;
            }
        };
        let entry = Entry {
            secret: secret.clone(),
            handle,
        };
        entries.insert(number, entry);
        Ok(Registration {
            numbers: Arc::clone(self),
            number,
            secret,
        })
    }

    /// Interrupts the statement of a session; false if the numbers are not those of a session.
    pub(crate) fn cancel(&self, number: i32, secret: &[u8]) -> bool {
        let entries = self.entries.lock();
        let Some(entry) = entries.get(&number) else {
            return false;
        };
        // The time of the comparison depends on the length alone.
        let differs = entry.secret.len() != secret.len()
            || (entry.secret.iter().zip(secret)).fold(0, |differs, (a, b)| differs | (a ^ b)) != 0;
        if differs {
            return false;
        }
        entry.handle.cancel();
        true
    }

    /// Interrupts the statements of all sessions.
    pub(crate) fn cancel_all(&self) {
        for entry in self.entries.lock().values() {
            entry.handle.cancel();
        }
    }
}

/// A session's number.
pub(crate) struct Registration {
    numbers: Arc<CancelNumbers>,
    number: i32,
    secret: Box<[u8]>,
}

impl Registration {
    /// The number of the session.
    pub(crate) fn number(&self) -> i32 {
        self.number
    }

    /// The secret that a cancel request has to repeat.
    pub(crate) fn secret(&self) -> &[u8] {
        &self.secret
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.numbers.entries.lock().remove(&self.number);
    }
}
