//! One thread of a run with awaited transactions: it drives several tasks, as an executor does.
//!
//! A task commits, awaits the acknowledgement ([`Database::acknowledged`]), and commits again. The
//! thread polls woken tasks in FIFO order and parks when the queue is empty. All tasks of a thread
//! use its session, one after the other.
//!
//! [`Database::acknowledged`]: namiki::Database::acknowledged

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Instant;

use namiki::Acknowledged;
use namiki_platform::clock::now_ns;

use super::body::{Body, Values};
use super::precomputed_keys::Drawn;
use super::worker::{Worker, stage_end};
use crate::args::Length;
use crate::error::BenchError;
use crate::latency::Latencies;
use crate::run_stages::{StageResult, Stages};

/// The woken tasks of a thread, by their numbers.
struct Ready {
    queue: Mutex<VecDeque<usize>>,
    thread: Thread,
}

impl Ready {
    fn queue(&self) -> MutexGuard<'_, VecDeque<usize>> {
        // A panic cannot interrupt a change of the queue.
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes all woken tasks; parks until a task is woken.
    fn take(&self, into: &mut VecDeque<usize>) {
        loop {
            std::mem::swap(&mut *self.queue(), into);
            if !into.is_empty() {
                return;
            }
            std::thread::park();
        }
    }
}

/// Wakes one task.
struct Signal {
    ready: Arc<Ready>,
    task: usize,
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        let mut queue = self.ready.queue();
        queue.push_back(self.task);
        let was_empty = queue.len() == 1;
        drop(queue);
        if was_empty {
            self.ready.thread.unpark();
        }
    }
}

struct Task {
    waker: Waker,
    /// The awaited commit.
    commit: Option<Acknowledged>,
    /// The start time of that commit.
    start: u64,
}

impl<D: Drawn> Worker<'_, D> {
    /// As [`Worker::stage`], with several tasks.
    pub(crate) fn stage_awaiting<B: Body>(
        &mut self,
        body: B,
        tasks: u16,
        length: Length,
        stages: &Stages,
    ) -> Result<StageResult, BenchError> {
        let end = stage_end(length, self.done.thread, self.threads);
        let before = self.done.committed();
        let attempts = self.session.attempts();
        let mut latencies = Latencies::new();
        let mut values = Values::new();
        let ready = Arc::new(Ready {
            queue: Mutex::new((0..usize::from(tasks)).collect()),
            thread: std::thread::current(),
        });
        let mut tasks: Vec<Task> = (0..usize::from(tasks))
            .map(|task| {
                let ready = Arc::clone(&ready);
                Task {
                    waker: Arc::new(Signal { ready, task }).into(),
                    commit: None,
                    start: 0,
                }
            })
            .collect();
        let mut running = tasks.len();
        let mut woken = VecDeque::new();
        let began = Instant::now();
        while running > 0 {
            ready.take(&mut woken);
            for task in woken.drain(..) {
                let task = &mut tasks[task];
                loop {
                    if let Some(commit) = &mut task.commit {
                        let mut context = Context::from_waker(&task.waker);
                        match Pin::new(commit).poll(&mut context) {
                            Poll::Pending => break,
                            Poll::Ready(ended) => ended?,
                        }
                        latencies.add_ns(now_ns() - task.start);
                        task.commit = None;
                    }
                    if self.done.committed() - before >= end || stages.must_stop() {
                        running -= 1;
                        break;
                    }
                    task.start = now_ns();
                    let ticket = self.run_next(body, &mut values)?;
                    task.commit = ticket.map(|ticket| self.db.acknowledged(ticket));
                }
            }
        }
        let committed = self.done.committed() - before;
        Ok(StageResult {
            began,
            ended: Instant::now(),
            done: committed,
            aborted: self.session.attempts() - attempts - committed,
            latencies,
        })
    }
}
