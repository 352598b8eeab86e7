//! Advisory locks on rows that a transaction block has read and changed.
//!
//! Transactions are optimistic, and no result depends on these locks. But after a conflict at COMMIT, the client of a block
//! has to run it again. So a block that reads a row and changes it (`UPDATE t SET c = f(c) WHERE key = …`) keeps other
//! statements from changing the row until it has committed or ended. They wait for a while; then the commit decides.
//!
//! Sums that are made at the commit need none. A table is remembered, however, where a block reads a row after it has added
//! to it: from then on, its blocks lock the rows that they add to.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

/// How long a block without locks waits for one, and one that has some: the holder may be waiting for one of those.
const WAIT_MAX: Duration = Duration::from_secs(1);
const WAIT_WITH_LOCKS_MAX: Duration = Duration::from_millis(20);

/// A row: the number of its core table, and its key.
pub(crate) type RowId = (u64, Vec<u8>);

/// The locks of all connections.
#[derive(Debug, Default)]
pub(crate) struct RowLocks {
    rows: Mutex<HashMap<RowId, Arc<AsyncMutex<()>>>>,
}

/// A row that this block has locked, until this is dropped.
#[derive(Debug)]
pub(crate) struct RowLock {
    locks: Arc<RowLocks>,
    row: RowId,
    guard: Option<OwnedMutexGuard<()>>,
}

impl RowLock {
    pub(crate) fn is_of(&self, row: &RowId) -> bool {
        self.row == *row
    }
}

impl RowLocks {
    /// Locks a row; `None` if another block keeps it for too long. `held`: how many locks the block has. The timer is that
    /// of `pool`.
    pub(crate) async fn lock(
        self: &Arc<Self>,
        row: RowId,
        held: usize,
        pool: &Handle,
    ) -> Option<RowLock> {
        let lock = Arc::clone(self.rows.lock().entry(row.clone()).or_default());
        // From here on, its drop removes the entry.
        let mut kept = RowLock {
            locks: Arc::clone(self),
            row,
            guard: None,
        };
        kept.guard = match Arc::clone(&lock).try_lock_owned() {
            Ok(guard) => Some(guard),
            Err(_) => wait(lock, held, pool).await,
        };
        kept.guard.is_some().then_some(kept)
    }

    /// Waits until no block has locked the row, or for too long.
    pub(crate) async fn wait_for(&self, row: &RowId, held: usize, pool: &Handle) {
        let found = self.rows.lock().get(row).map(Arc::clone);
        if let Some(lock) = found {
            drop(wait(lock, held, pool).await);
            self.remove_if_unused(row);
        }
    }

    fn remove_if_unused(&self, row: &RowId) {
        let mut rows = self.rows.lock();
        // Clones are made under the lock of the map alone.
        if rows.get(row).is_some_and(|it| Arc::strong_count(it) == 1) {
            rows.remove(row);
        }
    }
}

async fn wait(
    lock: Arc<AsyncMutex<()>>,
    held: usize,
    pool: &Handle,
) -> Option<OwnedMutexGuard<()>> {
    let longest = if held == 0 {
        WAIT_MAX
    } else {
        WAIT_WITH_LOCKS_MAX
    };
    let waiting = {
        let _timers = pool.enter();
        tokio::time::timeout(longest, lock.lock_owned())
    };
    waiting.await.ok()
}

impl Drop for RowLock {
    fn drop(&mut self) {
        drop(self.guard.take());
        self.locks.remove_if_unused(&self.row);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_locked_once_and_forgotten_after() {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_time()
            .build()
            .unwrap();
        let pool = runtime.handle().clone();
        runtime.block_on(async {
            let locks = Arc::new(RowLocks::default());
            let row: RowId = (7, b"k".to_vec());
            let first = locks.lock(row.clone(), 0, &pool).await.unwrap();
            assert!(first.is_of(&row));
            assert!(locks.lock(row.clone(), 1, &pool).await.is_none());
            let other = locks.lock((8, b"k".to_vec()), 1, &pool).await;
            assert!(other.is_some());
            let waiting = {
                let (locks, row, pool) = (Arc::clone(&locks), row.clone(), pool.clone());
                runtime.spawn(async move { locks.lock(row, 0, &pool).await.is_some() })
            };
            tokio::task::yield_now().await;
            drop(first);
            assert!(waiting.await.unwrap());
            drop(other);
            assert!(locks.rows.lock().is_empty());
        });
    }
}
