//! Reading a log back: frames of a stream in order, and the merge of all streams.
//!
//! # Where a stream ends
//! - *Torn tail.* One flush is in flight at a time, so a crash can spoil only the last frame. At
//!   the first place that holds no sound frame the reader looks on, through the rest of the
//!   generation's files; if no later frame turns up, the stream ends there.
//! - *Damage.* If a later frame does turn up, or anything else that no crash leaves there,
//!   something that was hardened is gone: an error that names file and byte, and nothing is
//!   replayed.
//! - *Recycled.* In the ring of a region, what lies before the beginning that the manifest gives is
//!   overwritten; what it says is there and is not was lost.
//! - *Seal.* A sealed generation has every frame up to the seal and ends there, whatever follows.
//! - *In doubt.* The last frame of an unsealed generation may be readable without being durable:
//!   [`harden_tail`] has to come before a seal.
//!
//! # How it is read
//! In pieces of a megabyte, two of which are under way while the one before is looked at, by a
//! thread that each reader starts with its second piece. So a reader holds up to six megabytes,
//! more only if its frames are longer than a quarter of a megabyte; and a merge has a reader for
//! each stream.
//!
//! Paper: pwal §4.3, §5.6

mod beyond_last_frame;
mod damage_notes;
mod damaged_frame;
mod error;
mod file_window;
mod harden_tail;
mod last_frame_position;
mod merge;
mod past_created_length;
mod readahead;
mod ring_file;
mod skipped_damage;
mod sorted_runs;
mod stream;
mod stream_files;
mod unannounced_generations;

pub use damage_notes::SkippedDamage;
pub use error::ReadError;
pub use harden_tail::harden_tail;
pub use merge::{Merge, MergeEnd};
pub use sorted_runs::{SortedRun, merge_by_stamp, merge_sorted};
pub use stream::{Frame, StreamEnd, StreamReader, durable_epoch};
pub use unannounced_generations::check_all_announced;
