//! Reads with options: of any node, and of older states.

use std::time::Instant;

use super::link::Link;
use crate::channel::{Channel, Key};
use crate::error::ClientError;
use crate::links::Links;
use crate::options::later;
use crate::protocol::{Freshness, Request, ScanRange, Scanned, TableEntry};
use crate::read_options::ReadOptions;
use crate::requests::{self, Rows};

/// Reads of a client by its options: see [`Client::reading`](crate::Client::reading).
///
/// # Errors
/// Of all reads: [`ClientError::Unavailable`] if no node answers in time, or for strong reads no
/// leader; [`ClientError::Behind`] if nodes answer, and have not applied enough of the log;
/// [`ClientError::OtherCluster`] or [`ClientError::Refused`].
#[derive(Debug)]
pub struct Reader<'a> {
    links: &'a mut Links<Link>,
    options: &'a ReadOptions,
}

impl<'a> Reader<'a> {
    pub(super) fn new(links: &'a mut Links<Link>, options: &'a ReadOptions) -> Self {
        Self { links, options }
    }

    /// Reads rows, named by table and key, all at one moment.
    ///
    /// # Errors
    /// See [`Reader`].
    pub fn read(&mut self, keys: Vec<(u32, Vec<u8>)>) -> Result<Rows, ClientError> {
        let (link, key) = self.ask(|request, freshness| Request::Read {
            request,
            freshness,
            keys,
        })?;
        requests::rows_of(&mut link.channel, key)
    }

    /// All tables, as of one moment, in the order of their numbers.
    ///
    /// # Errors
    /// See [`Reader`].
    pub fn tables(&mut self) -> Result<Vec<TableEntry>, ClientError> {
        let (link, key) = self.ask(|request, freshness| Request::Tables { request, freshness })?;
        requests::tables_of(&mut link.channel, key)
    }

    /// Reads the rows of a range, all at one moment: as many as it asks for, or as fit into an
    /// answer of some mebibytes. It delays no command.
    ///
    /// Another scan, from behind the last key, reads the rest, as of a later entry. Parts that differ in
    /// [`Scanned::lsn`] may together show a state that never was. A backup has all rows after one entry.
    ///
    /// # Errors
    /// See [`Reader`].
    pub fn scan(&mut self, range: ScanRange) -> Result<Scanned, ClientError> {
        let (link, key) = self.ask(|request, freshness| Request::Scan {
            request,
            freshness,
            range,
        })?;
        requests::scanned_of(&mut link.channel, key)
    }

    /// The number of a table's rows, at one moment: it reads them all.
    ///
    /// # Errors
    /// See [`Reader`].
    pub fn count(&mut self, table: u32) -> Result<u64, ClientError> {
        let range = ScanRange {
            table,
            ..ScanRange::default()
        };
        Ok(self.scan(range)?.count)
    }

    /// Asks, and waits for the answer.
    fn ask(
        &mut self,
        make: impl FnOnce(u64, Freshness) -> Request,
    ) -> Result<(&mut Link, Key), ClientError> {
        let (link, number) = self.links.for_reads(&self.options.node);
        let freshness = requests::freshness(self.options, &link.channel.seen);
        let make = |request| make(request, freshness);
        let key = requests::ask_read(&mut link.channel, number, make)?;
        let deadline = later(Instant::now(), link.channel.options().timeout);
        let is_answered = |channel: &Channel| channel.exchange.is_answered(key);
        if link.drive(is_answered, deadline) {
            return Ok((link, key));
        }
        Err(requests::timed_out(&mut link.channel, key))
    }
}
