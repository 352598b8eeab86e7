//! Wakes a thread of the transport: one system call for a burst of messages, however many lanes they are for.
//!
//! Waking a task of the runtime from another thread writes to an event descriptor. A node that
//! sends a message to four others would do so four times. Here it adds the tasks to a list; the
//! first entry of the list wakes the dispatcher, a task that wakes the lanes' tasks from within the
//! runtime, where that costs nothing.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

/// The tasks to be woken.
#[derive(Default)]
pub(super) struct Wakeups {
    tasks: Mutex<Vec<Arc<Notify>>>,
    dispatcher: Notify,
}

impl Wakeups {
    /// Schedules a task of the runtime to be woken.
    pub(super) fn announce(&self, task: &Arc<Notify>) {
        let first = {
            let mut tasks = self.tasks.lock();
            tasks.push(Arc::clone(task));
            tasks.len() == 1
        };
        if first {
            self.dispatcher.notify_one();
        }
    }

    /// Wakes tasks, for ever.
    pub(super) async fn dispatch(&self) {
        let mut tasks = Vec::new();
        loop {
            self.dispatcher.notified().await;
            std::mem::swap(&mut *self.tasks.lock(), &mut tasks);
            for task in tasks.drain(..) {
                task.notify_one();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_announced_task_is_woken() {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.build().unwrap().block_on(async {
            let wakeups = Arc::new(Wakeups::default());
            let tasks: Vec<Arc<Notify>> = (0..3).map(|_| Arc::default()).collect();
            let dispatching = tokio::spawn({
                let wakeups = Arc::clone(&wakeups);
                async move { wakeups.dispatch().await }
            });
            for _ in 0..100 {
                for task in &tasks {
                    wakeups.announce(task);
                }
                for task in &tasks {
                    task.notified().await;
                }
            }
            dispatching.abort();
        });
    }
}
