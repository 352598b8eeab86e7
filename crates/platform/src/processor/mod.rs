//! The machine that a program runs on, its processors, and threads on them.

pub mod cpu_affinity;
pub mod machine;
pub mod threads;
