//! The parts of an open database that its background threads share with it. They keep its tables in
//! memory, but do not keep the database open.

use std::path::PathBuf;
use std::sync::Arc;

use namiki_platform::disk::Disk;

use crate::commit::engine::Engine;
use crate::live::catalogue::CatalogueCell;
use crate::recovery::ImageLoader;

/// The parts of a database that checkpoints and backups use.
pub(crate) struct Parts {
    pub(crate) engine: Arc<Engine>,
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) dir: PathBuf,
    pub(crate) catalogue: CatalogueCell,
    /// A checkpoint waits until it has loaded all tables.
    pub(crate) loader: Arc<ImageLoader>,
}
