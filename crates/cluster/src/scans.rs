//! What reads many rows of a node: in a view, and on a thread of its own, while later entries are applied.

use std::ops::{Bound, ControlFlow};

use namiki::replica::ReplicaView;
use namiki::{Error, TableId};
use namiki_client::protocol::{Response, ScanRange};

use crate::events::Scan;
use crate::shared::Shared;

/// Byte limit of the values of one read; the value that crosses it is still returned.
pub(crate) const READ_BYTES_MAX: usize = 8 << 20;
/// Largest number of scans of clients that wait. Each keeps a view open.
pub(crate) const SCANS_MAX: usize = 16;
/// Rows between two checks whether the node stops.
const ROWS_PER_CHECK: u64 = 1024;

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
                let answer = match view.state_hash() {
                    Ok(tables) => {
                        status.state_hash = Some(tables.wrapping_add(sessions));
                        Response::Status(status)
                    }
                    Err(error) => refused(0, &error),
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
                let answer = scan_rows(shared, request, &range, &view)
                    .unwrap_or_else(|error| refused(request, &error));
                shared.network.reply(connection, answer);
            }
        }
    }
}

fn refused(request: u64, error: &Error) -> Response {
    Response::Refused {
        request,
        reason: error.to_string(),
    }
}

fn scan_rows(
    shared: &Shared,
    request: u64,
    range: &ScanRange,
    view: &ReplicaView,
) -> Result<Response, Error> {
    let bound = if range.after {
        Bound::Excluded
    } else {
        Bound::Included
    };
    let from = bound(&range.from[..]);
    let until = range.until.as_deref();
    let until = until.map_or(Bound::Unbounded, Bound::Excluded);
    let rows_max = range.rows_max as usize;
    let (mut rows, mut bytes, mut count, mut has_more) = (Vec::new(), 0, 0_u64, false);
    view.scan(TableId(range.table), (from, until), |key, value, _| {
        if rows_max > 0 && (rows.len() == rows_max || bytes > READ_BYTES_MAX) {
            has_more = true;
            return ControlFlow::Break(());
        }
        if count.is_multiple_of(ROWS_PER_CHECK) && shared.scans.is_closed() {
            return ControlFlow::Break(());
        }
        count += 1;
        if rows_max > 0 {
            bytes += key.len() + value.len();
            rows.push((key.to_vec(), value.to_vec()));
        }
        ControlFlow::Continue(())
    })?;
    Ok(Response::Scanned {
        request,
        rows,
        count,
        has_more,
        lsn: view.stamp().0,
    })
}
