//! The memory of lines of COPY whose end has not come, of all connections together.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::error::{SqlError, SqlResult};
use crate::sqlstate;

/// Bytes of one connection that are not counted.
const UNCOUNTED: usize = 64 << 10;
/// Bytes of all connections together.
const BYTES_MAX: usize = 512 << 20;

/// The bytes of one connection.
pub(super) struct LineBytes {
    all: Arc<AtomicUsize>,
    counted: usize,
}

impl LineBytes {
    pub(super) fn new(all: &Arc<AtomicUsize>) -> Self {
        Self {
            all: Arc::clone(all),
            counted: 0,
        }
    }

    /// So many bytes are kept from now on.
    ///
    /// # Errors
    /// 53200 if all connections together have too many.
    pub(super) fn set(&mut self, bytes: usize) -> SqlResult<()> {
        let counted = bytes.saturating_sub(UNCOUNTED);
        if counted > self.counted {
            let more = counted - self.counted;
            let before = self.all.fetch_add(more, Ordering::Relaxed);
            self.counted = counted;
            if before + more > BYTES_MAX {
                return Err(SqlError::new(
                    sqlstate::OUT_OF_MEMORY,
                    "lines of COPY take too much memory",
                )
                .with_hint("Send COPY's lines in shorter messages, or run fewer COPYs at once."));
            }
        } else {
            self.all
                .fetch_sub(self.counted - counted, Ordering::Relaxed);
            self.counted = counted;
        }
        Ok(())
    }
}

impl Drop for LineBytes {
    fn drop(&mut self) {
        self.all.fetch_sub(self.counted, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_connections_together_have_a_bound() {
        let all = Arc::new(AtomicUsize::new(0));
        let (mut first, mut second) = (LineBytes::new(&all), LineBytes::new(&all));
        first.set(UNCOUNTED).unwrap();
        assert_eq!(all.load(Ordering::Relaxed), 0);
        first.set(BYTES_MAX / 2 + UNCOUNTED).unwrap();
        second.set(BYTES_MAX / 2 + UNCOUNTED).unwrap();
        assert_eq!(
            second
                .set(BYTES_MAX / 2 + UNCOUNTED + 1)
                .unwrap_err()
                .sqlstate(),
            sqlstate::OUT_OF_MEMORY
        );
        drop(first);
        second.set(BYTES_MAX / 2 + UNCOUNTED + 1).unwrap();
        drop(second);
        assert_eq!(all.load(Ordering::Relaxed), 0);
    }
}
