//! The papers' trees under the contract suite, and what is special to each.
#![cfg(not(loom))]

mod ascending_keys;
mod blink;
mod bwtree;
mod bztree;
mod masstree;
