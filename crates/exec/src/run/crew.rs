//! Threads that wait for queries. A thread keeps its queue of reads from query to query: making one registers all page
//! frames with the kernel.

use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Weak};

use namiki_platform::disk::ReadQueue;
use namiki_platform::threads;
use parking_lot::Mutex;

/// What a thread does for a query, with its queue of reads.
pub(super) type Work = Box<dyn FnOnce(&mut Option<Box<dyn ReadQueue>>) + Send>;

/// A thread's way to get work. It goes along with the work, and back to the crew when that is done.
struct Hand(Sender<(Work, Hand)>);

/// Threads, as many as were ever needed at a time.
#[derive(Default)]
pub(super) struct Crew {
    idle: Mutex<Vec<Hand>>,
}

impl Crew {
    /// Lets a thread do something; starts one if all are busy.
    ///
    /// # Errors
    /// If no thread can be started. The work is dropped.
    pub(super) fn work(self: &Arc<Self>, work: Work) -> std::io::Result<()> {
        let idle = self.idle.lock().pop();
        let hand = match idle {
            Some(hand) => hand,
            None => self.start()?,
        };
        let sender = hand.0.clone();
        sender
            .send((work, hand))
            .map_err(|_| std::io::Error::other("a thread of the executor has ended"))
    }

    fn start(self: &Arc<Self>) -> std::io::Result<Hand> {
        let (sender, receiver) = channel::<(Work, Hand)>();
        let crew = Arc::downgrade(self);
        threads::start("namiki-exec", move || {
            let mut queue = None;
            // Ends when the crew is gone, and with it the last sender.
            while let Ok((work, hand)) = receiver.recv() {
                work(&mut queue);
                if let Some(crew) = Weak::upgrade(&crew) {
                    crew.idle.lock().push(hand);
                }
            }
        })?;
        Ok(Hand(sender))
    }
}
