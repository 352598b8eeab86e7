//! Executes the steps of a channel with blocking I/O on the caller's thread.

use std::thread;
use std::time::Instant;

use super::connection::Connection;
use crate::channel::{Channel, Step};
use crate::error::ConnectionError;
use crate::links::OverChannel;

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
    pub(super) fn drive(&mut self, is_done: impl Fn(&Channel) -> bool, deadline: Instant) -> bool {
        loop {
            if is_done(&self.channel) {
                return true;
            }
            let now = Instant::now();
            if now >= deadline {
                return false;
            }
            self.take_step(now, deadline);
        }
    }

    /// Sends without waiting, and receives the responses that have arrived.
    pub(super) fn pump(&mut self) {
        while self.channel.is_ready() {
            let now = Instant::now();
            match self.channel.step(now) {
                Step::Send(frame) => self.send(&frame),
                step => return self.perform(step, now),
            }
        }
    }

    fn take_step(&mut self, now: Instant, deadline: Instant) {
        let step = self.channel.step(now);
        self.perform(step, deadline);
    }

    fn perform(&mut self, step: Step, deadline: Instant) {
        match step {
            Step::Connect(address) => self.connect(&address, deadline),
            Step::Close => self.connection = None,
            Step::Send(frame) => self.send(&frame),
            Step::Receive(until) => self.receive(until.min(deadline)),
            Step::Pause(until) => {
                let until = until.min(deadline);
                thread::sleep(until.saturating_duration_since(Instant::now()));
            }
        }
    }

    fn connect(&mut self, address: &str, deadline: Instant) {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = self.channel.options().connect_timeout.min(left);
        if timeout.is_zero() {
            return;
        }
        let security = &self.channel.options().security;
        match Connection::open(address, security, timeout) {
            Ok(connection) => {
                self.connection = Some(connection);
                self.channel.connected(Instant::now());
            }
            Err(error) => self.broken(&error),
        }
    }

    /// Sends a frame. If that fails, it first receives the responses that have arrived: the node may have sent the addresses of
    /// other nodes before it ended.
    fn send(&mut self, frame: &[u8]) {
        let Some(connection) = &mut self.connection else {
            return self.broken(&ConnectionError::Closed);
        };
        if let Err(error) = connection.send(frame) {
            let now = Instant::now();
            while let Ok(Some(response)) = connection.receive(now) {
                self.channel.received(response, now);
            }
            self.broken(&error);
        }
    }

    fn receive(&mut self, until: Instant) {
        let received = match &mut self.connection {
            Some(connection) => connection.receive(until),
            None => Err(ConnectionError::Closed),
        };
        match received {
            Ok(Some(response)) => self.channel.received(response, Instant::now()),
            Ok(None) => {}
            Err(error) => self.broken(&error),
        }
    }

    fn broken(&mut self, error: &ConnectionError) {
        self.connection = None;
        self.channel.broken(Instant::now(), error);
    }
}
