//! What the system gives and does to a process: forks, a second process with the same directory, few threads.
//!
//! A program of their own: a forked child has a copy of everything that other tests of its program are in the middle of.

mod backup_forks;
mod forked_queries;
mod image_forks;
mod os_thread_limit;
mod second_process;
