//! The channel of rows from the thread that generates them to the one that writes them.
//!
//! Rows are sent in batches, and their end is a separate message: if the channel ends without it,
//! the generator has panicked, and the rows before are not the whole table.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use namiki::query::Datum;

/// Number of rows in a batch.
const BATCH_ROWS: usize = 1024;
/// Number of batches that may wait in the channel.
const BATCHES_WAITING: usize = 8;

type Row = Vec<Datum>;

enum Message {
    Rows(Vec<Row>),
    /// The end of the rows.
    End,
}

/// Both ends of a channel for one table's rows.
pub(super) fn channel() -> (RowSender, RowReceiver) {
    let (sender, receiver) = sync_channel(BATCHES_WAITING);
    let receiver = RowReceiver {
        receiver,
        batch: Vec::new().into_iter(),
        is_over: false,
    };
    (RowSender(sender), receiver)
}

/// The maker's end.
pub(super) struct RowSender(SyncSender<Message>);

impl RowSender {
    /// Sends all rows and their end, or as many as the receiver takes.
    pub(super) fn send_all(self, mut rows: impl Iterator<Item = Row>) {
        loop {
            let batch: Vec<Row> = rows.by_ref().take(BATCH_ROWS).collect();
            let message = if batch.is_empty() {
                Message::End
            } else {
                Message::Rows(batch)
            };
            let is_end = matches!(message, Message::End);
            if self.0.send(message).is_err() || is_end {
                return;
            }
        }
    }
}

/// The writer's end: the rows, and an error if they are incomplete.
pub(super) struct RowReceiver {
    receiver: Receiver<Message>,
    batch: std::vec::IntoIter<Row>,
    is_over: bool,
}

/// The thread that generates the rows has ended before it sent their end.
#[derive(Debug, thiserror::Error)]
#[error("the thread that makes the rows has panicked; please report this as a bug")]
pub(super) struct EndedEarly;

impl Iterator for RowReceiver {
    type Item = Result<Row, EndedEarly>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(row) = self.batch.next() {
                return Some(Ok(row));
            }
            if self.is_over {
                return None;
            }
            match self.receiver.recv() {
                Ok(Message::Rows(batch)) => self.batch = batch.into_iter(),
                Ok(Message::End) => self.is_over = true,
                Err(_) => {
                    self.is_over = true;
                    return Some(Err(EndedEarly));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_without_their_end_are_an_error() {
        let row = || vec![Datum::I64(1)];
        let (sender, receiver) = channel();
        sender.send_all((0..3).map(|_| row()));
        assert_eq!(
            receiver.map(|row| row.is_ok()).collect::<Vec<_>>(),
            [true; 3]
        );
        let (sender, receiver) = channel();
        sender.0.send(Message::Rows(vec![row()])).unwrap();
        drop(sender);
        let found: Vec<bool> = receiver.map(|row| row.is_ok()).collect();
        assert_eq!(found, [true, false]);
    }
}
