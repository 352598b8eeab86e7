//! Executes the steps of a channel in the caller's task.

use std::time::{Duration, Instant};

use tokio::time::sleep_until;

use super::connection::Connection;
use crate::channel::{Channel, Step};
use crate::error::ConnectionError;
use crate::links::OverChannel;

/// Limit on the bytes of messages that are copied and sent together. A longer message is sent
/// without a copy.
const TOGETHER_BYTES_MAX: usize = 16 << 10;
/// Time to read what has arrived on a connection that failed: the runtime learns of it only when it
/// polls the system. A connection that is closed ends it sooner.
const ARRIVED_WITHIN: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(super) struct Link {
    pub(super) channel: Channel,
    connection: Option<Connection>,
}

impl OverChannel for Link {
    fn over(channel: Channel) -> Self {
        Self {
            channel,
            connection: None,
        }
    }

    fn channel(&self) -> &Channel {
        &self.channel
    }
}

impl Link {
    /// Executes steps until `is_done` holds or the deadline passes. Returns whether it holds.
    pub(super) async fn drive(
        &mut self,
        is_done: impl Fn(&Channel) -> bool,
        deadline: Instant,
    ) -> bool {
        loop {
            if is_done(&self.channel) {
                return true;
            }
            let now = Instant::now();
            if now >= deadline {
                return false;
            }
            self.take_step(now, deadline).await;
        }
    }

    /// Sends without waiting, short messages together, and receives the responses that have
    /// arrived.
    pub(super) async fn pump(&mut self) {
        let mut together = Vec::new();
        while self.channel.is_ready() {
            let now = Instant::now();
            let step = self.channel.step(now);
            if let Step::Send(frame) = &step
                && together.len() + frame.len() <= TOGETHER_BYTES_MAX
            {
                together.extend_from_slice(frame);
                continue;
            }
            if !together.is_empty() {
                let was_ready = self.channel.is_ready();
                self.send(&together).await;
                together.clear();
                if was_ready && !self.channel.is_ready() {
                    // The connection is gone, and so is its pending work.
                    return;
                }
            }
            match step {
                Step::Send(frame) => self.send(&frame).await,
                step => return self.perform(step, now).await,
            }
        }
    }

    async fn take_step(&mut self, now: Instant, deadline: Instant) {
        let step = self.channel.step(now);
        self.perform(step, deadline).await;
    }

    async fn perform(&mut self, step: Step, deadline: Instant) {
        match step {
            Step::Connect(address) => self.connect(&address, deadline).await,
            Step::Close => self.connection = None,
            Step::Send(frame) => self.send(&frame).await,
            Step::Receive(until) => self.receive(until.min(deadline)).await,
            Step::Pause(until) => {
                sleep_until(until.min(deadline).into()).await;
            }
        }
    }

    async fn connect(&mut self, address: &str, deadline: Instant) {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = self.channel.options().connect_timeout.min(left);
        if timeout.is_zero() {
            return;
        }
        let security = &self.channel.options().security;
        match Connection::open(address, security, timeout).await {
            Ok(connection) => {
                self.connection = Some(connection);
                self.channel.connected(Instant::now());
            }
            Err(error) => self.broken(&error),
        }
    }

    /// Sends a frame. If that fails, it first receives the responses that have arrived: the node may have sent the addresses of
    /// other nodes before it ended.
    async fn send(&mut self, frame: &[u8]) {
        // Half a frame must not be followed by another: if this future is dropped, the connection
        // is lost.
        let Some(mut connection) = self.connection.take() else {
            return self.broken(&ConnectionError::Closed);
        };
        match connection.send(frame).await {
            Ok(()) => self.connection = Some(connection),
            Err(error) => {
                let until = Instant::now() + ARRIVED_WITHIN;
                while let Ok(Some(response)) = connection.receive(until).await {
                    self.channel.received(response, Instant::now());
                }
                self.broken(&error);
            }
        }
    }

    async fn receive(&mut self, until: Instant) {
        let received = match &mut self.connection {
            Some(connection) => connection.receive(until).await,
            None => Err(ConnectionError::Closed),
        };
        match received {
            Ok(Some(response)) => {
                self.channel.received(response, Instant::now());
                self.take_arrived();
            }
            Ok(None) => {}
            Err(error) => self.broken(&error),
        }
    }

    /// Takes the responses that have arrived with the last one.
    fn take_arrived(&mut self) {
        while let Some(connection) = &mut self.connection {
            match connection.arrived() {
                Ok(Some(response)) => self.channel.received(response, Instant::now()),
                Ok(None) => return,
                Err(error) => return self.broken(&error),
            }
        }
    }

    fn broken(&mut self, error: &ConnectionError) {
        self.connection = None;
        self.channel.broken(Instant::now(), error);
    }
}
