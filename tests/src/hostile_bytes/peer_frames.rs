//! Frames between nodes on a lane, one after the other, including the hello.
//!
//! ```text
//!  lane u8 | step u8 | what arrives, in pieces of 1 + step bytes
//! ```

use namiki_cluster::transport::hostile_bytes::look_at_peer;

use super::Input;

pub(super) fn accepts(bytes: &[u8]) -> bool {
    let mut input = Input(bytes);
    let lane = input.byte();
    let step = 1 + usize::from(input.byte());
    look_at_peer(lane, input.rest(), step).is_ok()
}
