//! Reading the image of a node's tables, file by file.

use super::one_node::{OneNode, unexpected};
use crate::error::ClientError;
use crate::options::ClientOptions;
use crate::protocol::{Request, Response};

/// An image of a node's tables, as of one moment after it was asked for, with everything that was committed then as far as the
/// node knew it. The files are those of a directory with tables; `namiki cluster backup` makes one of them.
pub struct BackupSource {
    node: OneNode,
    address: String,
    options: ClientOptions,
    image: u128,
    lsn: u64,
    bytes: u64,
}

impl BackupSource {
    /// Has a node write an image. `options.timeout` has to be longer than that takes: a second for some hundred megabytes.
    ///
    /// # Errors
    /// [`ClientError::Node`] if it does not answer in time; [`ClientError::NodeRefused`] if it cannot write an image, or
    /// writes one for another client; [`ClientError::OtherCluster`].
    pub fn begin(address: &str, options: &ClientOptions) -> Result<Self, ClientError> {
        let mut node = OneNode::connect(address, options)?;
        match node.ask(&Request::BeginBackup, options.timeout)? {
            Response::BackupBegun { image, lsn, bytes } => Ok(Self {
                node,
                address: address.to_owned(),
                options: options.clone(),
                image,
                lsn,
                bytes,
            }),
            other => Err(unexpected(address, &other)),
        }
    }

    /// The image's identity.
    #[must_use]
    pub fn image(&self) -> u128 {
        self.image
    }

    /// LSN of the state that it has.
    #[must_use]
    pub fn lsn(&self) -> u64 {
        self.lsn
    }

    /// Length of its files.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Reads a file from an offset on: its length, and some of its bytes.
    ///
    /// # Errors
    /// [`ClientError::Node`] if the node does not answer in time; [`ClientError::NodeRefused`] if it has the image no more: begin
    /// again then.
    pub fn read(&mut self, file: u32, offset: u64) -> Result<(u64, Vec<u8>), ClientError> {
        let request = Request::BackupFile {
            image: self.image,
            file,
            offset,
        };
        match self.node.ask(&request, self.options.timeout)? {
            Response::BackupPart { file_bytes, bytes } => Ok((file_bytes, bytes)),
            other => Err(unexpected(&self.address, &other)),
        }
    }
}

impl std::fmt::Debug for BackupSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BackupSource")
            .field("address", &self.address)
            .field("lsn", &self.lsn)
            .finish_non_exhaustive()
    }
}
