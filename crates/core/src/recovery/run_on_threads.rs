//! Work that several threads of a recovery share.

use namiki_platform::threads;

use crate::error::OpenError;

/// Runs the same work on `threads` threads, including this one, or on as many as the system allows.
pub(in crate::recovery) fn on_threads(
    threads: usize,
    work: impl Fn() -> Result<(), OpenError> + Sync,
) -> Result<(), OpenError> {
    std::thread::scope(|scope| {
        let others =
            (1..threads).map_while(|_| threads::start_scoped(scope, "namiki-recovery", &work).ok());
        let others: Vec<_> = others.collect();
        let mut result = work();
        for other in others {
            let joined = other
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            result = result.and(joined);
        }
        result
    })
}
