//! The client of a cluster for tasks of tokio.

use std::time::Instant;

use super::link::Link;
use super::session::AsyncSession;
use crate::channel::Key;
use crate::error::ClientError;
use crate::options::ClientOptions;
use crate::protocol::{Request, ScanRange, Scanned, TableEntry};
use crate::requests::{self, Rows};

/// As [`Client`](crate::Client), for tasks of tokio. Dropping a call before it is done may close
/// the connection, and has no other effect.
#[derive(Debug)]
pub struct AsyncClient {
    link: Link,
    reads: u64,
}

impl AsyncClient {
    /// Finds the leader. The addresses are the client addresses of some nodes; the client learns
    /// the others. The first node that answers decides the cluster of the client and its sessions,
    /// unless the options name one.
    ///
    /// # Errors
    /// [`ClientError::NoAddress`], [`ClientError::NoCluster`]. [`ClientError::Unavailable`] if no
    /// node answers; [`ClientError::OtherCluster`] if only nodes of other clusters do.
    pub async fn connect<A: Into<String>>(
        addresses: impl IntoIterator<Item = A>,
        options: ClientOptions,
    ) -> Result<Self, ClientError> {
        let addresses = addresses.into_iter().map(Into::into).collect();
        let deadline = Instant::now() + options.timeout;
        let mut link = Link::new(requests::channel(addresses, options)?);
        if !link.drive(|channel| channel.is_ready(), deadline).await {
            return Err(link.channel.unavailable());
        }
        Ok(Self { link, reads: 0 })
    }

    /// Opens a session, with a connection of its own.
    ///
    /// # Errors
    /// [`ClientError::Unavailable`], [`ClientError::OtherCluster`] or [`ClientError::Refused`].
    pub async fn open_session(&self) -> Result<AsyncSession, ClientError> {
        let channel = &self.link.channel;
        let addresses = channel.addresses();
        AsyncSession::open(requests::channel(addresses, channel.options().clone())?).await
    }

    /// Reads rows, named by table and key, all at one moment after this call began.
    ///
    /// # Errors
    /// [`ClientError::Unavailable`], [`ClientError::OtherCluster`] or [`ClientError::Refused`].
    pub async fn read(&mut self, keys: Vec<(u32, Vec<u8>)>) -> Result<Rows, ClientError> {
        let key = self.ask_read(|request| Request::Read { request, keys })?;
        self.wait(key).await?;
        requests::rows_of(&mut self.link.channel, key)
    }

    /// All tables, as of one moment after this call began, in the order of their numbers.
    ///
    /// # Errors
    /// [`ClientError::Unavailable`], [`ClientError::OtherCluster`] or [`ClientError::Refused`].
    pub async fn tables(&mut self) -> Result<Vec<TableEntry>, ClientError> {
        let key = self.ask_read(|request| Request::Tables { request })?;
        self.wait(key).await?;
        requests::tables_of(&mut self.link.channel, key)
    }

    /// Reads the rows of a range, all at one moment after this call began: as many as it asks for,
    /// or as fit into an answer of some mebibytes. It delays no command.
    ///
    /// # Errors
    /// [`ClientError::Unavailable`], [`ClientError::OtherCluster`] or [`ClientError::Refused`].
    pub async fn scan(&mut self, range: ScanRange) -> Result<Scanned, ClientError> {
        let key = self.ask_read(|request| Request::Scan { request, range })?;
        self.wait(key).await?;
        requests::scanned_of(&mut self.link.channel, key)
    }

    /// The number of a table's rows, at one moment after this call began: it reads them all.
    ///
    /// # Errors
    /// As [`scan`](Self::scan).
    pub async fn count(&mut self, table: u32) -> Result<u64, ClientError> {
        let range = ScanRange {
            table,
            ..ScanRange::default()
        };
        Ok(self.scan(range).await?.count)
    }

    /// Creates a table unless one of that name exists. Returns its number. Keys of eight bytes,
    /// such as account numbers, take less memory and time; whether a table has them is fixed when
    /// it is created.
    ///
    /// # Errors
    /// [`ClientError::Unavailable`], [`ClientError::OtherCluster`] or [`ClientError::Refused`].
    pub async fn create_table(
        &mut self,
        name: &str,
        eight_byte_keys: bool,
    ) -> Result<u32, ClientError> {
        let request = Request::CreateTable {
            name: name.to_owned(),
            eight_byte_keys,
        };
        let key = requests::ask_control(&mut self.link.channel, &request)?;
        self.wait(key).await?;
        requests::table_of(&mut self.link.channel, key)
    }

    /// Drops a table with its rows. Returns whether there was one of this number; if not, an earlier
    /// attempt of this call may have dropped it. Its number is never used again: commands on it have
    /// the outcome [`NoSuchTable`](crate::protocol::Outcome::NoSuchTable).
    ///
    /// # Errors
    /// [`ClientError::Unavailable`]: the drop may still happen later. [`ClientError::OtherCluster`],
    /// [`ClientError::Refused`].
    pub async fn drop_table(&mut self, table: u32) -> Result<bool, ClientError> {
        let request = Request::DropTable { table };
        let key = requests::ask_control(&mut self.link.channel, &request)?;
        self.wait(key).await?;
        requests::dropped_of(&mut self.link.channel, key)
    }

    /// The address of the last node that was asked: the leader's, once it has answered.
    #[must_use]
    pub fn leader(&self) -> Option<&str> {
        self.link.channel.leader()
    }

    fn ask_read(&mut self, make: impl FnOnce(u64) -> Request) -> Result<Key, ClientError> {
        self.reads += 1;
        requests::ask_read(&mut self.link.channel, self.reads, make)
    }

    async fn wait(&mut self, key: Key) -> Result<(), ClientError> {
        let deadline = Instant::now() + self.link.channel.options().timeout;
        let is_answered = |channel: &crate::channel::Channel| channel.exchange.is_answered(key);
        if self.link.drive(is_answered, deadline).await {
            return Ok(());
        }
        Err(requests::timed_out(&mut self.link.channel, key))
    }
}
