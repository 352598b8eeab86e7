//! What the programs of Namiki share at a terminal: `namiki`, and `namiki-cluster`, which it starts.
//!
//! | file | what it is |
//! |---|---|
//! | `arguments.rs` | what a command line says |
//! | `command_failure.rs` | how any command may fail, and the exit status that says so |
//! | `finish.rs` | the end of a program |
//! | `interrupt.rs` | Ctrl-C |
//! | `output.rs` | standard output, which must not wait for ever to be read |
//! | `number_format.rs`, `time_of_day.rs` | numbers and times as people read them |
//! | `completions.rs` | what a shell needs to complete commands |
//! | `version.rs` | which release and which build this is |

mod arguments;
mod command_failure;
pub mod completions;
mod finish;
pub mod interrupt;
pub mod number_format;
mod output;
pub mod time_of_day;
mod version;

pub use arguments::read_arguments;
pub use command_failure::{CommandFailure, Ending, WaitInterrupted};
pub use finish::finish;
pub use output::{Output, print, standard_output};
pub use version::version;
