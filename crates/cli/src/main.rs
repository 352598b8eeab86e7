//! `namiki`.
fn main() {}
