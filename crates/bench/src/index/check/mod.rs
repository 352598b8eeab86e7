//! Whether an index did what a run asked of it: while threads are at work, every answer that it gives
//! ([`live_answers`]); afterwards, how many operations and answers there were ([`operation_counts`]) and what is
//! left in it ([`final_state`]).

pub(super) mod expected_presence;
pub(super) mod final_state;
pub(super) mod live_answers;
pub(super) mod operation_counts;
pub(super) mod payload_origin;
pub(super) mod thread_tally;
