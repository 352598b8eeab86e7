//! Whether the client of a statement that takes long is still there.

use std::pin::Pin;
use std::task::Context;
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep};

use super::stream::Stream;

/// Interval of checks whether the client of a statement that runs is still there.
const PRESENCE_INTERVAL: Duration = Duration::from_secs(1);

/// The checks of a session's client. The timer is left from one statement to the next: setting one for each wait would call
/// the system each time.
#[derive(Default)]
pub(super) struct Presence(Option<Pin<Box<Sleep>>>);

impl Presence {
    /// Whether it is time for a check, and the client has gone. Otherwise the task is woken for the next check.
    pub(super) fn poll_gone(&mut self, stream: &Stream, context: &mut Context<'_>) -> bool {
        let timer = &mut self.0;
        let timer = timer.get_or_insert_with(|| Box::pin(sleep(PRESENCE_INTERVAL)));
        let mut is_due = false;
        while timer.as_mut().poll(context).is_ready() {
            is_due = true;
            timer.as_mut().reset(Instant::now() + PRESENCE_INTERVAL);
        }
        is_due && stream.is_closed()
    }
}
