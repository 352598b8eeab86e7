//! Access: roles, passwords, the users of this machine.
//!
//! | file | contents |
//! |---|---|
//! | `role_file.rs` | the roles of a data directory, with verifiers of their passwords |
//! | `scram.rs` | SCRAM-SHA-256: verifiers, and the server's side of an exchange |
//! | `cancel_numbers.rs` | which connection a cancel request may interrupt |
//! | `attempts.rs` | limits on connections without a login, and delays after wrong passwords |

pub(crate) mod attempts;
pub(crate) mod cancel_numbers;
pub(crate) mod role_file;
pub(crate) mod scram;
