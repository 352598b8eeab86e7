//! Lanes: the connections from one node to another, each with its own order, queue and limit.
//!
//! A node dials every other node once for each lane, and sends only on the connections it dialled.
//! So a payload delays neither a Raft message nor a payload of another worker, and a repair delays
//! none of them.
//!
//! Paper: raft-pwal §3.1 (a receiver for each worker)

/// A connection from one node to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Lane {
    /// Raft messages.
    Control,
    /// The payloads of a worker, from 0.
    Payloads(u16),
    /// Payloads that are fetched, and images that are copied: requests and answers.
    CatchUp,
}

impl Lane {
    /// All lanes of a cluster with this number of workers.
    pub(super) fn all(workers: u16) -> impl Iterator<Item = Self> {
        let payloads = (0..workers).map(Self::Payloads);
        [Self::Control, Self::CatchUp].into_iter().chain(payloads)
    }

    /// Its two numbers on the wire.
    pub(super) fn to_wire(self) -> (u8, u16) {
        match self {
            Self::Control => (0, 0),
            Self::Payloads(worker) => (1, worker),
            Self::CatchUp => (2, 0),
        }
    }

    /// From its numbers on the wire, if a cluster with this number of workers has such a lane.
    pub(super) fn from_wire(kind: u8, worker: u16, workers: u16) -> Option<Self> {
        match (kind, worker) {
            (0, 0) => Some(Self::Control),
            (1, worker) if worker < workers => Some(Self::Payloads(worker)),
            (2, 0) => Some(Self::CatchUp),
            _ => None,
        }
    }
}

impl std::fmt::Display for Lane {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Control => f.write_str("control lane"),
            Self::Payloads(worker) => write!(f, "lane of worker {worker}"),
            Self::CatchUp => f.write_str("catch-up lane"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_lane_has_its_numbers() {
        for lane in Lane::all(3) {
            let (kind, worker) = lane.to_wire();
            assert_eq!(Lane::from_wire(kind, worker, 3), Some(lane));
        }
        assert_eq!(Lane::all(3).count(), 5);
    }

    #[test]
    fn there_is_no_lane_beyond_the_workers() {
        for (kind, worker) in [(1, 3), (0, 1), (2, 1), (3, 0)] {
            assert_eq!(Lane::from_wire(kind, worker, 3), None);
        }
    }
}
