//! Nothing but the README's example, so that it keeps compiling. The command itself is `main.rs`.

#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
