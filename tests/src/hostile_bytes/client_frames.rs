//! Frames between clients and nodes, one after the other.
//!
//! ```text
//!  flags u8 | step u8 | what arrives, in pieces of 1 + step bytes
//! ```

use namiki_client::protocol::{Response, decode, encoded};
use namiki_cluster::transport::hostile_bytes::requests;

use super::Input;

/// Set if the bytes arrive at a client; otherwise they arrive at a node.
pub(super) const AT_CLIENT: u8 = 1;

pub(super) fn accepts(bytes: &[u8]) -> bool {
    let mut input = Input(bytes);
    let flags = input.byte();
    let step = 1 + usize::from(input.byte());
    match flags & AT_CLIENT {
        0 => {
            let (requests, refusal) = requests(input.rest(), step);
            for request in requests {
                let bytes = encoded(&request).expect("it was read");
                assert_eq!(decode(&bytes[4..]).ok(), Some(request));
            }
            refusal.is_none()
        }
        _ => {
            let (responses, refusal) = namiki_client::hostile_bytes::responses(input.rest(), step);
            for response in responses {
                let bytes = encoded(&response).expect("it was read");
                assert_eq!(decode::<Response>(&bytes[4..]).ok(), Some(response));
            }
            refusal.is_none()
        }
    }
}
