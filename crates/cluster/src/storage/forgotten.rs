//! The note in the manifest that a node may have forgotten votes and acknowledgements.
//!
//! ```text
//!   damage to stream 0, or a torn payload where frames are damaged
//!        │  the manifest is replaced: the note, and the seals that cut stream 0
//!        ▼
//!   every start asks all other voters, and does not go on without one ── all have answered, and the log durably
//!        ▲                                                               has what they had
//!        └── a crash: the note is still there                               │  the manifest is replaced
//!                                                                           ▼
//!                                                                        forgotten no more
//! ```
//! The answers themselves are not enough to remove it: what they say of the log is only in memory, and a voter that has
//! answered may be down at the next start.

use namiki_log::ReadError;

use super::error::StoreError;
use super::manifest::Manifest;
use super::raft_stream::RaftDamage;
use super::recovery::Cut;
use super::store::NodeStore;

impl Manifest {
    /// Cuts stream 0 before damage, behind which it had entries above `last`. All generations are sealed.
    pub(super) fn forget_behind(&mut self, damage: &RaftDamage, last: u64) {
        damage.cut(&mut self.generations);
        self.forgotten = Some(format!("all behind entry {last}: {}", damage.error));
    }

    /// The tail of the log was cut off.
    pub(super) fn forget_tail(&mut self, cut: &Cut, damage: Option<&ReadError>) {
        if let (Some(from), Some(damage)) = (cut.from, damage)
            && cut.may_be_acknowledged
            && self.forgotten.is_none()
        {
            self.forgotten = Some(format!("the payload of entry {from}, perhaps: {damage}"));
        }
    }
}

impl NodeStore {
    /// What the node had forgotten is back: all other voters have answered, and the log durably has what they had. Later starts
    /// do not need all answers. Has no effect if nothing was forgotten.
    ///
    /// # Errors
    /// [`StoreError::Closed`]; the disk's own, after which a later start may ask all once more.
    pub fn note_remembered(&self) -> Result<(), StoreError> {
        let mut held = self.held.lock();
        let Some((manifest, _)) = &mut *held else {
            let dir = self.dir.clone();
            return Err(StoreError::Closed { dir });
        };
        if manifest.forgotten.is_none() {
            return Ok(());
        }
        let mut next = manifest.clone();
        next.forgotten = None;
        next.write(&*self.disk, &self.dir)?;
        *manifest = next;
        Ok(())
    }
}
