//! A gate that blocks one step of a disk.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

/// The test's side of a gate.
pub(crate) struct Gate {
    /// Closes the gate, for the next step.
    pub(crate) closed: Arc<AtomicBool>,
    /// A step waits at the gate.
    pub(crate) arrived: Receiver<()>,
    /// Opens it.
    pub(crate) open: Sender<()>,
}

/// Returns a gate, and the function that a step calls to pass it.
pub(crate) fn gate() -> (Gate, impl Fn() + Send + Sync + 'static) {
    let closed = Arc::<AtomicBool>::default();
    let (arrive, arrived) = channel();
    let (open, opened) = channel::<()>();
    let gate = Mutex::new((arrive, opened));
    let pass = {
        let closed = Arc::clone(&closed);
        move || {
            if closed.swap(false, Ordering::SeqCst) {
                let (arrive, opened) = &*gate.lock().unwrap();
                arrive.send(()).unwrap();
                opened.recv().unwrap();
            }
        }
    };
    let gate = Gate {
        closed,
        arrived,
        open,
    };
    (gate, pass)
}
