//! Where the nodes of a number are reached.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use namiki_client::protocol::NodeAddresses;
use parking_lot::Mutex;

use crate::transport::settings::PeerSettings;

/// The addresses of a node's number, for all incarnations.
#[derive(Debug)]
pub(super) struct Site {
    pub(super) number: u64,
    /// The link is cut: nothing is sent there, and messages from there are dropped.
    cut: AtomicBool,
    /// As in [`PeerSettings`].
    pub(super) delay: Duration,
    pub(super) handling: Duration,
    configured: Option<NodeAddresses>,
    in_log: Mutex<Option<NodeAddresses>>,
}

impl Site {
    pub(super) fn configured(settings: &PeerSettings) -> Self {
        Self {
            delay: settings.delay,
            handling: settings.handling,
            configured: Some(settings.addresses.clone()),
            ..Self::unknown(settings.node)
        }
    }

    /// One with addresses that are not in the configuration.
    pub(super) fn unknown(number: u64) -> Self {
        Self {
            number,
            cut: AtomicBool::new(false),
            delay: Duration::ZERO,
            handling: Duration::ZERO,
            configured: None,
            in_log: Mutex::new(None),
        }
    }

    pub(super) fn is_configured(&self) -> bool {
        self.configured.is_some()
    }

    /// Sets the addresses according to the log. Returns whether they have changed, and are others than the configuration's.
    pub(super) fn set_addresses_in_log(&self, addresses: Option<&NodeAddresses>) -> bool {
        let before = std::mem::replace(&mut *self.in_log.lock(), addresses.cloned());
        let differs = self.configured.is_some() && self.configured.as_ref() != addresses;
        addresses.is_some() && before.as_ref() != addresses && differs
    }

    /// The address to be dialled at this attempt; `None`: none is known. The log has one, and the configuration may have another one.
    /// Either may be an old one: the hello finds out which node answers.
    pub(super) fn peer_address(&self, attempt: usize) -> Option<String> {
        let in_log = self.in_log.lock();
        let all = [in_log.as_ref(), self.configured.as_ref()];
        let mut addresses: Vec<&String> = all.into_iter().flatten().map(|it| &it.peer).collect();
        addresses.dedup();
        let index = attempt.checked_rem(addresses.len())?;
        addresses.get(index).map(|it| (*it).clone())
    }

    /// The address for clients, as far as it is known.
    pub(super) fn client_address(&self) -> Option<String> {
        let in_log = self.in_log.lock();
        let known = in_log.as_ref().or(self.configured.as_ref());
        known.map(|it| it.client.clone())
    }

    pub(super) fn is_cut(&self) -> bool {
        self.cut.load(Ordering::Relaxed)
    }

    /// Cuts or heals the link. Returns whether that is a change.
    pub(super) fn set_cut(&self, cut: bool) -> bool {
        self.cut.swap(cut, Ordering::Relaxed) != cut
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(host: &str) -> NodeAddresses {
        NodeAddresses {
            peer: format!("{host}:1"),
            client: format!("{host}:2"),
        }
    }

    #[test]
    fn both_addresses_are_tried_in_turn() {
        let settings = PeerSettings {
            node: 3,
            addresses: addresses("file"),
            delay: Duration::ZERO,
            handling: Duration::ZERO,
        };
        let site = Site::configured(&settings);
        let tried = |site: &Site| [0, 1, 2].map(|attempt| site.peer_address(attempt).unwrap());
        assert_eq!(tried(&site), ["file:1"; 3]);
        assert!(site.set_addresses_in_log(Some(&addresses("log"))));
        assert!(!site.set_addresses_in_log(Some(&addresses("log"))));
        assert_eq!(tried(&site), ["log:1", "file:1", "log:1"]);
        assert_eq!(site.client_address().unwrap(), "log:2");
        assert!(!site.set_addresses_in_log(Some(&addresses("file"))));
        assert_eq!(tried(&site), ["file:1"; 3]);
        let unknown = Site::unknown(4);
        assert_eq!(
            (unknown.peer_address(1), unknown.client_address()),
            (None, None)
        );
    }
}
