//! Terminal functions shared by Namiki's programs: `namiki`, and `namiki-cluster` and `namiki-server`,
//! which it starts.
//!
//! | file | contents |
//! |---|---|
//! | `arguments.rs` | parsing of the command line |
//! | `command_failure.rs` | failures that any command may have, and their exit status |
//! | `finish.rs` | the end of a program |
//! | `interrupt.rs` | Ctrl-C |
//! | `output.rs` | standard output, with interruptible writes |
//! | `number_format.rs`, `time_of_day.rs` | numbers and times as people read them |
//! | `completions.rs` | the completion script for a shell |
//! | `log_lines.rs` | the log of a program that runs for long; a feature, as it needs `slog` |
//! | `open_files.rs` | the limit on open files |
//! | `version.rs` | the release and the build |

mod arguments;
mod command_failure;
pub mod completions;
mod finish;
pub mod interrupt;
#[cfg(feature = "log-lines")]
pub mod log_lines;
pub mod number_format;
mod open_files;
mod output;
pub mod time_of_day;
mod version;

pub use arguments::read_arguments;
pub use command_failure::{CommandFailure, Ending, WaitInterrupted};
pub use finish::finish;
pub use open_files::allow_many_files;
pub use output::{Output, print, standard_output};
pub use version::version;
