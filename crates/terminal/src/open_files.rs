//! The limit on open files: each client needs one.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the limit on open files to the highest one that this user may have. If that is not
/// allowed, fewer clients are served. Returns the limit; `None` if there is none.
pub fn allow_many_files() -> Option<u64> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    let _ = setrlimit(Resource::Nofile, raised);
    getrlimit(Resource::Nofile).current
}
