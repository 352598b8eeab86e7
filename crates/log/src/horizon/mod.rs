//! Hardened prefixes over all streams: by LSNs that are drawn from a sequencer, or by epochs.
//!
//! | file | content |
//! |---|---|
//! | `sequencer.rs` | draws LSNs |
//! | `lsn_horizon.rs` | the LSN below which everything is hardened |
//! | `epoch_source.rs` | where epochs come from |
//! | `epoch_horizon.rs` | the epochs that are certified |
//! | `async_waiters.rs` | tasks that wait for either |

pub(crate) mod async_waiters;
pub(crate) mod epoch_horizon;
#[cfg(test)]
#[cfg(loom)]
mod epoch_horizon_loom_model;
pub(crate) mod epoch_source;
pub(crate) mod lsn_horizon;
pub(crate) mod sequencer;
