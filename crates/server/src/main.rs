//! `namiki-server`: serves a database to PostgreSQL clients. `namiki serve` starts it.
//!
//! It is a separate program, as its SQL engine takes long to build.
//!
//! | file | contents |
//! |---|---|
//! | `program/arguments.rs` | the command line, and its help |
//! | `program/run.rs` | a server in the foreground, from its first to its last message |
//! | `program/password.rs` | a new password for a role |
//! | `program/failure.rs` | failures of commands |

mod program;

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    program::main()
}
