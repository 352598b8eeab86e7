//! Threads that wait for queries. A thread keeps its queue of reads from query to query: making one registers all page
//! frames with the kernel.

use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Weak};

use namiki_platform::disk::ReadQueue;
use namiki_platform::threads;
use parking_lot::Mutex;

/// What a thread does for a query, with its queue of reads.
pub(crate) type Job = Box<dyn FnOnce(&mut Option<Box<dyn ReadQueue>>) + Send>;

/// The sender of a thread that waits for work. It goes along with the work, and back to the pool when that is done.
struct IdleThread(Sender<(Job, IdleThread)>);

/// Threads that wait at a time, at most: others end with their work.
const IDLE_MAX: usize = 128;

/// Threads, as many as were needed at a time.
#[derive(Default)]
pub(crate) struct ThreadPool {
    idle: Mutex<Vec<IdleThread>>,
}

impl ThreadPool {
    /// Lets a thread do something; starts one if all are busy.
    ///
    /// # Errors
    /// If no thread can be started. The job is dropped.
    pub(crate) fn run(self: &Arc<Self>, job: Job) -> std::io::Result<()> {
        let idle = self.idle.lock().pop();
        let thread = match idle {
            Some(thread) => thread,
            None => self.start()?,
        };
        let sender = thread.0.clone();
        sender
            .send((job, thread))
            .map_err(|_| std::io::Error::other("a thread of the executor has ended"))
    }

    fn start(self: &Arc<Self>) -> std::io::Result<IdleThread> {
        let (sender, receiver) = channel::<(Job, IdleThread)>();
        let pool = Arc::downgrade(self);
        threads::start("namiki-exec", move || {
            let mut queue = None;
            // Ends when the pool is gone, and with it the last sender.
            while let Ok((job, thread)) = receiver.recv() {
                job(&mut queue);
                if let Some(pool) = Weak::upgrade(&pool) {
                    let mut idle = pool.idle.lock();
                    if idle.len() < IDLE_MAX {
                        idle.push(thread);
                    }
                }
            }
        })?;
        Ok(IdleThread(sender))
    }
}
