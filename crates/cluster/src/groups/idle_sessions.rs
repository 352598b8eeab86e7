//! A leader closes sessions that were not used for long, if it is configured to.

use crate::control::Control;
use crate::entry::EntryBody;
use crate::raft::RaftEvent;
use crate::shared::Shared;

/// Sessions that are closed after one interval.
const CLOSED_MAX: usize = 1000;

/// Time has passed.
pub(crate) fn tick_sessions(shared: &Shared) {
    let entry = {
        let mut ages = shared.session_ages.lock();
        let is_due = ages.tick(shared.applied());
        let idle = shared.session_idle_close.filter(|_| is_due);
        idle.and_then(|idle| ages.applied_before(idle))
    };
    if let Some(entry) = entry {
        close_unused(shared, entry);
    }
}

/// Closes sessions that occur in no entry above this one, on a leader.
fn close_unused(shared: &Shared, entry: u64) {
    let mut office = shared.office.lock();
    if office.term.is_none() {
        return;
    }
    let unused: Vec<_> = {
        let sessions = shared.sessions.lock();
        let unused = sessions.unused_since(entry);
        let unused = unused.filter(|(session, _)| !office.is_closing(*session));
        unused.take(CLOSED_MAX).collect()
    };
    let mut closed = 0;
    for (session, fence) in unused {
        // With groups in flight it is used.
        if office.begin_close(session, fence) {
            let control = Control::CloseSession { session, fence };
            let body = EntryBody::Control(control.encode());
            shared.raft.put(RaftEvent::Propose(body));
            closed += 1;
        }
    }
    if closed > 0 {
        slog::info!(shared.logger, "closes sessions that were not used for `session_idle_close_s`"; "sessions" => closed);
    }
}
