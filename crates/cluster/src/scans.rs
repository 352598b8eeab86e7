//! What reads many rows of a node: in a view, and on a thread of its own, while later entries are applied.

use std::ops::{Bound, ControlFlow};

use namiki::replica::ReplicaView;
use namiki::{Error, TableId};
use namiki_client::protocol::{Response, ScanRange, Scanned};

use crate::events::Scan;
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
        // A newer view does.
        Error::ViewExpired { .. } => Response::Busy { request },
        error => Response::Refused {
            request,
            reason: error.to_string(),
        },
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
    view.scan(TableId(range.table), (from, until), |key, value, _| {
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
        // The node stops: another one answers.
        let leader = None;
        return Ok(Response::NotLeader { request, leader });
    }
    Ok(Response::Scanned { request, scanned })
}
