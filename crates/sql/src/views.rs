//! Views for statements outside of transactions. Opening one waits for the device, so it is done on the second pool, and one
//! view serves all that wait when it is opened.

use std::sync::Arc;

use namiki::{Database, View};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::error::{SqlError, SqlResult};
use crate::sqlstate;

type Waiter = oneshot::Sender<SqlResult<Arc<View>>>;

/// Opens views.
#[derive(Debug)]
pub(crate) struct Views {
    db: Database,
    pool: Handle,
    waiting: Arc<Mutex<Waiting>>,
}

#[derive(Debug, Default)]
struct Waiting {
    waiters: Vec<Waiter>,
    /// Whether a thread opens views now.
    is_running: bool,
}

impl Views {
    pub(crate) fn new(db: Database, pool: Handle) -> Self {
        Self {
            db,
            pool,
            waiting: Arc::default(),
        }
    }

    /// A view that was opened after this call.
    ///
    /// # Errors
    /// Those of the core; 57P01 while the engine is shut down.
    pub(crate) async fn open(&self) -> SqlResult<Arc<View>> {
        let (sender, receiver) = oneshot::channel();
        let starts = {
            let mut waiting = self.waiting.lock();
            waiting.waiters.push(sender);
            !std::mem::replace(&mut waiting.is_running, true)
        };
        if starts {
            let (db, waiting) = (self.db.clone(), Arc::clone(&self.waiting));
            self.pool.spawn_blocking(move || open_all(&db, &waiting));
        }
        match receiver.await {
            Ok(opened) => opened,
            Err(_) => Err(SqlError::new(
                sqlstate::ADMIN_SHUTDOWN,
                "the server is shutting down",
            )),
        }
    }
}

fn open_all(db: &Database, waiting: &Mutex<Waiting>) {
    loop {
        let waiters = {
            let mut waiting = waiting.lock();
            if waiting.waiters.is_empty() {
                waiting.is_running = false;
                return;
            }
            std::mem::take(&mut waiting.waiters)
        };
        let opened = db.view().map(Arc::new).map_err(SqlError::from);
        for waiter in waiters {
            // A statement that was cancelled does not wait any more.
            let _ = waiter.send(opened.clone());
        }
    }
}
