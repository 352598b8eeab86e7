//! What reads many rows of a node: in a view, and on a thread of its own, while later entries are applied.

use std::ops::{Bound, ControlFlow};

use namiki::replica::ReplicaView;
use namiki::{Error, TableId};
use namiki_client::protocol::{Response, ScanRange, Scanned};

use crate::events::{ApplierEvent, KeysRead, Scan};
use crate::image::sender::{CLIENT_PART_BYTES, client_part};
use crate::shared::Shared;

/// Memory limit of the rows of one answer; a single row may be longer.
pub(crate) const READ_BYTES_MAX: usize = 8 << 20;
/// Bytes that must be free for an answer before a scan begins: a few short rows.
const BYTES_FREE_MIN: usize = 4096;
/// Rows between two checks whether the client is there and the node goes on.
const ROWS_PER_CHECK: u64 = 1024;
/// Memory of a row in an answer beside its bytes.
const ROW_BYTES: usize = 64;

/// Makes the queued scans.
pub(crate) fn run_scans(shared: &Shared, scans: impl IntoIterator<Item = Scan>) {
    for scan in scans {
        match scan {
            Scan::StateHash {
                connection,
                mut status,
                view,
                sessions,
            } => {
                let answer = match view.state_hash(|| !shared.scans.is_closed()) {
                    Ok(Some(tables)) => {
                        status.state_hash = Some(tables.wrapping_add(sessions));
                        Response::Status(status)
                    }
                    // The node stops.
                    Ok(None) => Response::Busy { request: 0 },
                    Err(error) => failed(0, &error),
                };
                shared.hashes.end();
                shared.network.reply(connection, answer);
            }
            Scan::Keys { reads, view } => {
                for read in reads {
                    let answer = read_keys(&read, &view, || !shared.scans.is_closed());
                    let answer = answer.unwrap_or_else(|error| failed(read.request, &error));
                    shared.network.reply(read.connection, answer);
                }
                shared.applier.put(ApplierEvent::ImageRead);
            }
            Scan::Rows {
                connection,
                request,
                range,
                view,
            } => {
                let bytes_max = shared.network.response_bytes_free(connection);
                let go_on = || !shared.scans.is_closed() && !shared.scan_slots.is_gone(connection);
                let answer = if bytes_max < BYTES_FREE_MIN {
                    Ok(Response::Busy { request })
                } else {
                    scan_rows(request, &range, &view, bytes_max.min(READ_BYTES_MAX), go_on)
                };
                drop(view);
                let answer = answer.unwrap_or_else(|error| failed(request, &error));
                shared.network.reply(connection, answer);
                shared.scan_slots.give_back(connection);
            }
            Scan::ImageFile {
                connection,
                image,
                file,
                offset,
            } => {
                let answer = if shared.network.response_bytes_free(connection) < CLIENT_PART_BYTES {
                    Response::Busy { request: 0 }
                } else {
                    client_part(shared, image, file, offset)
                };
                shared.network.reply(connection, answer);
                shared.scan_slots.give_back(connection);
            }
            Scan::Free(table) => drop(table),
        }
    }
}

fn failed(request: u64, error: &Error) -> Response {
    match error {
        // A newer view does, or another node: this one stops.
        Error::ViewExpired { .. } | Error::TableNotLoaded { .. } => Response::Busy { request },
        error => Response::Refused {
            request,
            reason: error.to_string(),
        },
    }
}

/// Reads rows by their keys.
fn read_keys(
    read: &KeysRead,
    view: &ReplicaView,
    go_on: impl Fn() -> bool,
) -> Result<Response, Error> {
    let mut rows = RowsByKey::new(read.request);
    for (table, key) in &read.keys {
        if !go_on() {
            return Ok(node_stops(read.request));
        }
        if let Err(refused) = rows.add(|value| view.read(TableId(*table), key, value))? {
            return Ok(refused);
        }
    }
    Ok(rows.finish(view.stamp().0))
}

/// The node stops: another one answers.
fn node_stops(request: u64) -> Response {
    let leader = None;
    Response::NotLeader { request, leader }
}

/// The answer to a read of rows by their keys.
pub(crate) struct RowsByKey {
    request: u64,
    values: Vec<Option<Vec<u8>>>,
    bytes: usize,
}

impl RowsByKey {
    pub(crate) fn new(request: u64) -> Self {
        Self {
            request,
            values: Vec::new(),
            bytes: 0,
        }
    }

    /// Adds a row that `read` copies, or its absence. Refuses if the values are too long.
    ///
    /// # Errors
    /// Those of `read`.
    pub(crate) fn add<E>(
        &mut self,
        read: impl FnOnce(&mut Vec<u8>) -> Result<bool, E>,
    ) -> Result<Result<(), Response>, E> {
        if self.bytes > READ_BYTES_MAX {
            return Ok(Err(Response::Refused {
                request: self.request,
                reason: "the values together are too long: read fewer keys at once".to_owned(),
            }));
        }
        let mut value = Vec::new();
        let is_there = read(&mut value)?;
        self.bytes += value.len();
        self.values.push(is_there.then_some(value));
        Ok(Ok(()))
    }

    /// The answer, as of this entry.
    pub(crate) fn finish(self, lsn: u64) -> Response {
        Response::Rows {
            request: self.request,
            values: self.values,
            lsn,
        }
    }
}

fn scan_rows(
    request: u64,
    range: &ScanRange,
    view: &ReplicaView,
    bytes_max: usize,
    go_on: impl Fn() -> bool,
) -> Result<Response, Error> {
    let from = match &range.from[..] {
        [] if !range.after => Bound::Unbounded,
        from if range.after => Bound::Excluded(from),
        from => Bound::Included(from),
    };
    let until = range.until.as_deref();
    let until = until.map_or(Bound::Unbounded, Bound::Excluded);
    let rows_max = range.rows_max as usize;
    let mut scanned = Scanned {
        lsn: view.stamp().0,
        ..Scanned::default()
    };
    let (mut bytes, mut is_ended) = (0, false);
    view.rows(TableId(range.table), (from, until), |key, value| {
        let row_bytes = key.len() + value.len() + ROW_BYTES;
        let is_full = !scanned.rows.is_empty() && bytes + row_bytes > bytes_max;
        if rows_max > 0 && (is_full || scanned.rows.len() == rows_max) {
            scanned.has_more = true;
            return ControlFlow::Break(());
        }
        if scanned.count.is_multiple_of(ROWS_PER_CHECK) && !go_on() {
            is_ended = true;
            return ControlFlow::Break(());
        }
        scanned.count += 1;
        if rows_max > 0 {
            bytes += row_bytes;
            scanned.rows.push((key.to_vec(), value.to_vec()));
        }
        ControlFlow::Continue(())
    })?;
    // It may wait for a slow reader.
    scanned.rows.shrink_to_fit();
    if is_ended {
        return Ok(node_stops(request));
    }
    Ok(Response::Scanned { request, scanned })
}
