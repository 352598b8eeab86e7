//! Images of the own tables that other nodes or clients copy. Their files are open, so they can be read although a newer image
//! has taken their place.

use std::sync::Arc;

use namiki::OpenError;
use namiki::replica::{PinnedImage, Replica};

/// Looks of the checkpointer without a request, after which an image is not being sent any more.
const BUSY_LOOKS: u32 = 10;
/// Looks without a request after which its files are closed. It is long, because the other end first verifies the runs that an
/// earlier copy has left.
const PINNED_LOOKS: u32 = 3000;
/// Images that are pinned at once: each keeps files that newer ones have superseded.
const PINNED_MAX: usize = 3;

/// The pinned images, the latest last.
#[derive(Debug, Default)]
pub(crate) struct PinnedImages {
    images: Vec<Pinned>,
}

#[derive(Debug)]
struct Pinned {
    image: Arc<PinnedImage>,
    /// Looks of the checkpointer since the last request.
    looks: u32,
}

impl PinnedImages {
    /// Some time has passed. Files of images that were not asked for any more are closed.
    pub(crate) fn look(&mut self) {
        for pinned in &mut self.images {
            pinned.looks += 1;
        }
        self.images.retain(|it| it.looks <= PINNED_LOOKS);
    }

    /// An image that is being sent, if it has this entry.
    pub(crate) fn being_sent(&mut self, from: u64) -> Option<Arc<PinnedImage>> {
        let is_such = |it: &&Pinned| it.looks < BUSY_LOOKS && it.image.stamp().0 >= from;
        let sent = self.images.iter().rev().find(is_such);
        sent.map(|it| Arc::clone(&it.image))
    }

    /// Pins the replica's image; `None` if it has none.
    ///
    /// # Errors
    /// Why it cannot be read.
    pub(crate) fn pin(&mut self, replica: &Replica) -> Result<Option<Arc<PinnedImage>>, OpenError> {
        let Some(image) = replica.pin_image()? else {
            return Ok(None);
        };
        self.images.retain(|it| it.image.id() != image.id());
        if self.images.len() >= PINNED_MAX
            && let Some(idle) = self.images.iter().map(|it| it.looks).max()
            && let Some(at) = self.images.iter().position(|it| it.looks == idle)
        {
            self.images.remove(at);
        }
        let image = Arc::new(image);
        self.images.push(Pinned {
            image: Arc::clone(&image),
            looks: 0,
        });
        Ok(Some(image))
    }

    /// Forgets an image: a file of it is damaged.
    pub(crate) fn forget(&mut self, id: u128) {
        self.images.retain(|it| it.image.id() != id);
    }

    /// The image of this identity, which is asked for.
    pub(crate) fn get(&mut self, id: u128) -> Option<Arc<PinnedImage>> {
        let pinned = self.images.iter_mut().find(|it| it.image.id() == id)?;
        pinned.looks = 0;
        Some(Arc::clone(&pinned.image))
    }
}
