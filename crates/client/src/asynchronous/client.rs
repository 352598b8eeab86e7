//! The client of a cluster for tasks of tokio.

use std::time::Instant;

use super::link::Link;
use super::pending::PendingRequest;
use super::reader::AsyncReader;
use super::session::AsyncSession;
use crate::channel::SeenLsn;
use crate::error::ClientError;
use crate::links::{Links, OverChannel};
use crate::options::{ClientOptions, later};
use crate::protocol::{MemberChange, Request, ScanRange, Scanned, TableEntry};
use crate::read_options::ReadOptions;
use crate::requests::{self, Rows};
use crate::token::SessionToken;

/// As [`Client`](crate::Client), for tasks of tokio. Dropping a call before it is done may close
/// the connection, and has no other effect.
#[derive(Debug)]
pub struct AsyncClient {
    links: Links<Link>,
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
        let deadline = later(Instant::now(), options.timeout);
        let mut link = Link::over(requests::channel(addresses, options, SeenLsn::default())?);
        if !link.drive(|channel| channel.is_ready(), deadline).await {
            return Err(link.channel.unavailable());
        }
        Ok(Self {
            links: Links::new(link),
        })
    }

    /// Opens a session, with a connection of its own.
    /// It looks for the leader at the addresses that this client knows. Members that were added since are
    /// learned with the calls of the client, and of each session.
    ///
    /// # Errors
    /// [`ClientError::Unavailable`], [`ClientError::OtherCluster`] or [`ClientError::Refused`].
    pub async fn open_session(&self) -> Result<AsyncSession, ClientError> {
        AsyncSession::open(requests::channel_of_session(&self.links.leader.channel)?).await
    }

    /// Resumes a session of a process that has died, or of this one: continues it here, with a
    /// connection of its own. From then on the cluster accepts no groups of earlier holders: they
    /// get [`ClientError::SessionTaken`]. Groups that were accepted before are finished first, so
    /// [`outcomes`](AsyncSession::outcomes) is final. If several processes resume one session, the last
    /// one holds it.
    ///
    /// The session still counts for the client that has opened it.
    ///
    /// # Errors
    /// [`ClientError::NoSuchSession`] if it was closed. [`ClientError::SessionElsewhere`],
    /// [`ClientError::Unavailable`], [`ClientError::OtherCluster`] or [`ClientError::Refused`].
    pub async fn resume(&self, token: &SessionToken) -> Result<AsyncSession, ClientError> {
        requests::check_token(&self.links.leader.channel, token)?;
        AsyncSession::resume(
            requests::channel_of_session(&self.links.leader.channel)?,
            *token,
        )
        .await
    }

    /// Reads by these options: from followers, or of an older state.
    pub fn reading<'a>(&'a mut self, options: &'a ReadOptions) -> AsyncReader<'a> {
        AsyncReader::new(&mut self.links, options)
    }

    /// The highest LSN that this client and its sessions have seen in an answer: reads of
    /// [`Consistency::Session`](crate::Consistency::Session) see the log through it.
    #[must_use]
    pub fn seen(&self) -> u64 {
        self.links.leader.channel.seen.get()
    }

    /// Has reads of [`Consistency::Session`](crate::Consistency::Session) see the log through this
    /// LSN, too: another process, which has told this one something, has seen it.
    pub fn note_seen(&self, lsn: u64) {
        self.links.leader.channel.seen.note(lsn);
    }

    /// Reads rows, named by table and key, all at one moment after this call began.
    ///
    /// # Errors
    /// [`ClientError::Unavailable`], [`ClientError::OtherCluster`] or [`ClientError::Refused`].
    pub async fn read(&mut self, keys: Vec<(u32, Vec<u8>)>) -> Result<Rows, ClientError> {
        self.reading(&ReadOptions::default()).read(keys).await
    }

    /// All tables, as of one moment after this call began, in the order of their numbers.
    ///
    /// # Errors
    /// [`ClientError::Unavailable`], [`ClientError::OtherCluster`] or [`ClientError::Refused`].
    pub async fn tables(&mut self) -> Result<Vec<TableEntry>, ClientError> {
        self.reading(&ReadOptions::default()).tables().await
    }

    /// Reads the rows of a range, all at one moment after this call began: as many as it asks for,
    /// or as fit into an answer of some mebibytes. It delays no command.
    ///
    /// Another scan, from behind the last key, reads the rest, as of a later entry. Parts that differ in
    /// [`Scanned::lsn`] may together show a state that never was. A backup has all rows after one entry.
    ///
    /// # Errors
    /// [`ClientError::Unavailable`], [`ClientError::OtherCluster`] or [`ClientError::Refused`].
    pub async fn scan(&mut self, range: ScanRange) -> Result<Scanned, ClientError> {
        self.reading(&ReadOptions::default()).scan(range).await
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
        self.ask(request)?.answer(requests::table_of).await
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
        self.ask(request)?.answer(requests::dropped_of).await
    }

    /// Changes the members of the cluster. The call is idempotent. A node that is replaced counts no
    /// more from then on, so the caller must know that its directory is lost; one that is removed stops. A new member does not
    /// vote yet: see [`NodeStatus::members`](crate::protocol::NodeStatus::members).
    ///
    /// # Errors
    /// [`ClientError::Unavailable`]: the change may still be made later, so check the members or ask
    /// again. [`ClientError::Refused`] if it would stop the cluster, or does not fit the members.
    pub async fn change_members(&mut self, change: &MemberChange) -> Result<(), ClientError> {
        let request = Request::ChangeMembers(change.clone());
        let answer = requests::members_changed_of;
        self.ask(request)?.answer(answer).await
    }

    /// Clears a table: in one step it is dropped with its rows, and an empty one is created in its place, with its name, its kind
    /// of keys and another number, which is returned. Commands on the earlier number have the outcome
    /// [`NoSuchTable`](crate::protocol::Outcome::NoSuchTable) from then on, so none that was sent before writes a row into the
    /// empty table. `None`: there is no table of this number; an earlier attempt of this call may have cleared it, and
    /// [`tables`](Self::tables) has the number that its name has now.
    ///
    /// # Errors
    /// [`ClientError::Unavailable`]: it may still be cleared later. [`ClientError::OtherCluster`], [`ClientError::Refused`].
    pub async fn clear_table(&mut self, table: u32) -> Result<Option<u32>, ClientError> {
        let request = Request::ClearTable { table };
        self.ask(request)?.answer(requests::cleared_of).await
    }

    /// The address of the last node that was asked: the leader's, once it has answered.
    #[must_use]
    pub fn leader(&self) -> Option<&str> {
        self.links.leader.channel.leader()
    }

    fn ask(&mut self, request: Request) -> Result<PendingRequest<'_>, ClientError> {
        let key = requests::ask_control(&mut self.links.leader.channel, request)?;
        Ok(PendingRequest::new(&mut self.links.leader, key))
    }
}
