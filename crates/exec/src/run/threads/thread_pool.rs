//! The thread pool. A thread keeps its read queue from query to query, because making one registers
//! all page frames with the kernel.

use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Weak};

use namiki_platform::disk::ReadQueue;
use namiki_platform::threads;
use parking_lot::Mutex;

/// The work of a thread for a query, with its read queue.
pub(crate) type Job = Box<dyn FnOnce(&mut Option<Box<dyn ReadQueue>>) + Send>;

/// The sender of a thread that waits for work. It moves with the work, and returns to the pool
/// after it.
struct IdleThread(Sender<(Job, IdleThread)>);

/// Limit of waiting threads: others end with their work.
const IDLE_MAX: usize = 128;

/// See the module.
#[derive(Default)]
pub(crate) struct ThreadPool {
    idle: Mutex<Vec<IdleThread>>,
}

impl ThreadPool {
    /// Runs a job in an idle thread; starts one if all are busy.
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
