//! The papers' trees under the contract suite, and tests of their own.
#![cfg(not(loom))]

mod ascending_keys;
mod blink;
mod bwtree;
mod bztree;
mod masstree;
