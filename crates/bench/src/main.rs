//! `namiki-bench`.
fn main() {}
