//! The limit on scans of clients, which share it.

use std::collections::HashMap;

use parking_lot::Mutex;

use crate::fair_share::is_share;
use crate::network::ConnectionId;

/// Largest number of scans of clients that wait or run. Each keeps a view open.
const SCANS_MAX: usize = 32;

/// The scans of clients that wait or run. Clients share them by what is left.
#[derive(Debug, Default)]
pub(crate) struct ScanSlots {
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    total: usize,
    /// For each connection that has some.
    of: HashMap<ConnectionId, OfConnection>,
}

#[derive(Debug, Default)]
struct OfConnection {
    scans: usize,
    /// The client is gone.
    is_gone: bool,
}

impl ScanSlots {
    /// Takes a slot for a connection; false if it has none left.
    pub(crate) fn take(&self, connection: ConnectionId) -> bool {
        let mut taken = self.taken.lock();
        let own = taken.of.get(&connection).map_or(0, |it| it.scans);
        if !is_share(own, 1, taken.total, SCANS_MAX) {
            return false;
        }
        taken.total += 1;
        taken.of.entry(connection).or_default().scans += 1;
        true
    }

    /// A scan has ended.
    pub(crate) fn give_back(&self, connection: ConnectionId) {
        let mut taken = self.taken.lock();
        taken.total -= 1;
        if let Some(own) = taken.of.get_mut(&connection) {
            own.scans -= 1;
            if own.scans == 0 {
                taken.of.remove(&connection);
            }
        }
    }

    /// A client is gone: its scans end.
    pub(crate) fn client_gone(&self, connection: ConnectionId) {
        if let Some(own) = self.taken.lock().of.get_mut(&connection) {
            own.is_gone = true;
        }
    }

    /// Whether the client of a scan is gone.
    pub(crate) fn is_gone(&self, connection: ConnectionId) -> bool {
        let taken = self.taken.lock();
        taken.of.get(&connection).is_some_and(|it| it.is_gone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_leaves_slots_for_others() {
        let slots = ScanSlots::default();
        let take_all = |connection| {
            let connection = ConnectionId(connection);
            (0..100).take_while(|_| slots.take(connection)).count()
        };
        assert_eq!(take_all(1), SCANS_MAX / 2);
        assert_eq!(take_all(2), SCANS_MAX / 4);
        slots.client_gone(ConnectionId(1));
        assert!(slots.is_gone(ConnectionId(1)) && !slots.is_gone(ConnectionId(2)));
        for _ in 0..SCANS_MAX / 2 {
            slots.give_back(ConnectionId(1));
        }
        assert!(!slots.is_gone(ConnectionId(1)), "it is forgotten");
        assert!(slots.take(ConnectionId(2)));
    }
}
