//! A request by a call that may be cancelled.

use std::time::Instant;

use super::link::Link;
use crate::channel::{Channel, Key};
use crate::error::ClientError;
use crate::options::later;
use crate::requests;

/// A read or a control request of one call. It is forgotten when it is dropped, so a call that is
/// cancelled leaves nothing that would be sent again on a later connection.
pub(super) struct PendingRequest<'l> {
    link: &'l mut Link,
    key: Key,
}

impl<'l> PendingRequest<'l> {
    pub(super) fn new(link: &'l mut Link, key: Key) -> Self {
        Self { link, key }
    }

    /// Waits for the answer, and reads it by `read`.
    pub(super) async fn answer<T>(
        self,
        read: impl FnOnce(&mut Channel, Key) -> Result<T, ClientError>,
    ) -> Result<T, ClientError> {
        let key = self.key;
        let deadline = later(Instant::now(), self.link.channel.options().timeout);
        let is_answered = |channel: &Channel| channel.exchange.is_answered(key);
        if self.link.drive(is_answered, deadline).await {
            return read(&mut self.link.channel, key);
        }
        Err(requests::timed_out(&mut self.link.channel, key))
    }
}

impl Drop for PendingRequest<'_> {
    fn drop(&mut self) {
        self.link.channel.exchange.forget(self.key);
    }
}
