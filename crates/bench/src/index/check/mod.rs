//! Checks that an index executed a run correctly: every answer while threads run
//! ([`live_answers`]); afterwards the numbers of operations and answers ([`operation_counts`]) and
//! the final state ([`final_state`]).

pub(super) mod expected_presence;
pub(super) mod final_state;
pub(super) mod live_answers;
pub(super) mod operation_counts;
pub(super) mod payload_origin;
pub(super) mod thread_tally;
