//! Effects of the system on a process: forks, a second process with the same directory, few
//! threads.
//!
//! These tests have a program of their own, because a forked child copies the state of all other
//! running tests of its program.

mod fork_during_backup;
mod fork_during_bulk_load;
mod fork_during_query;
mod os_thread_limit;
mod second_process;
