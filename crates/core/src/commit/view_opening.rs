//! The opening of a view: how its stamp is determined, and when it may be used.

use std::ops::ControlFlow;
use std::sync::Arc;

use namiki_index::ScanRange;
use namiki_log::EpochSource;
use namiki_platform::{Epoch, Stamp};

use crate::commit::commit_path::{Awaits, not_appended};
use crate::commit::engine::Engine;
use crate::commit::ticket::{self, Ticket};
use crate::commit::views::ViewState;
use crate::concurrency::cc::Checks;
use crate::error::Error;
use crate::protocol_spec::LockRelease;
use crate::storage::record::RecordRef;
use crate::table::raw_table::{RawTable, Step, TableId};

/// A view that is open: it ends when this is dropped.
pub(crate) struct OpenView {
    pub(crate) engine: Arc<Engine>,
    state: Arc<ViewState>,
    /// S.
    pub(crate) stamp: Stamp,
}

/// A view that is pinned between two epochs' commits, and cannot be read yet.
pub(crate) struct PinnedView(OpenView);

impl OpenView {
    /// Opens a view that includes every commit that was acknowledged before, and shows only durable
    /// versions. `is_limited`: whether it ends when the versions that are kept for views take too
    /// much memory. It can be opened while the database is being closed.
    ///
    /// # Errors
    /// [`Error::Forked`], [`Error::LogFailed`]; [`Error::DiskFull`] if what was committed before has no room to become durable.
    pub(crate) fn open<C: Checks>(engine: &Arc<Engine>, is_limited: bool) -> Result<Self, Error> {
        loop {
            if let Some(view) = Self::pin(engine, is_limited)?.make_usable::<C>()? {
                return Ok(view);
            }
        }
    }

    /// A view of every commit that has registered before this call, and of none that registers after it. It waits for nothing;
    /// in a replica, for the group that is being installed.
    ///
    /// # Errors
    /// [`Error::Forked`], [`Error::LogFailed`].
    pub(crate) fn pin(engine: &Arc<Engine>, is_limited: bool) -> Result<PinnedView, Error> {
        engine.check_process()?;
        engine.check_poison()?;
        if let Some(installed) = &engine.installed {
            let stamp = installed.read();
            return Ok(PinnedView(Self {
                engine: Arc::clone(engine),
                state: engine.views.pin_at(*stamp, is_limited),
                stamp: *stamp,
            }));
        }
        let view = Self {
            engine: Arc::clone(engine),
            state: engine.views.pin(&engine.epochs, is_limited),
            stamp: Stamp(0),
        };
        engine.epochs.close(view.state.epoch);
        Ok(PinnedView(view))
    }

    /// For a checkpoint: all rows up to this key of the table are written, and are not read again;
    /// without a key, the whole table.
    pub(crate) fn set_written(&self, table: TableId, key: Option<&[u8]>) {
        self.state.set_written(table, key);
    }

    /// For a checkpoint: a record was copied for the last time.
    pub(crate) fn forget_written(&self, record: RecordRef) {
        let views = &self.engine.views;
        views.forget_written(&self.state, self.stamp, record);
    }

    /// The epoch that S closes.
    pub(crate) fn epoch(&self) -> Epoch {
        self.state.epoch
    }

    /// Copies the value of a record into `out`; returns the stamp of its version, if there is one.
    ///
    /// # Errors
    /// As [`OpenView::check`].
    pub(crate) fn copy(
        &self,
        record: RecordRef,
        out: &mut Vec<u8>,
    ) -> Result<Option<Stamp>, Error> {
        let views = &self.engine.views;
        let read = views.read(&self.state, self.stamp, record, out);
        let found = read.map_err(|_| self.expired())?;
        self.check()?;
        Ok(found)
    }

    /// Visits the rows of a table in memory that it sees in a range, in order: key, record, value, and the stamp of its
    /// version.
    ///
    /// # Errors
    /// As [`OpenView::check`]; errors that name a bad bound; what `visit` returns.
    pub(crate) fn scan(
        &self,
        raw_table: &RawTable,
        range: ScanRange<'_>,
        mut visit: impl FnMut(&[u8], RecordRef, &[u8], Stamp) -> Result<ControlFlow<()>, Error>,
    ) -> Result<(), Error> {
        let mut value = Vec::new();
        let mut outcome = Ok(());
        let scanned = raw_table.scan(range, |step| {
            let Step::Entry(key, record) = step else {
                return ControlFlow::Continue(());
            };
            let step = match self.copy(record, &mut value) {
                Ok(Some(stamp)) => visit(key, record, &value, stamp),
                Ok(None) => Ok(ControlFlow::Continue(())),
                Err(error) => Err(error),
            };
            step.unwrap_or_else(|error| {
                outcome = Err(error);
                ControlFlow::Break(())
            })
        });
        scanned.map_err(|error| Error::from_index(&error, &raw_table.name()))?;
        outcome?;
        // Once it has ended, keys that it sees may have left the index.
        self.check()
    }

    /// Whether it can still be read. Checked after an index look-up: once it has ended, keys that
    /// it sees may leave the index.
    ///
    /// # Errors
    /// [`Error::ViewExpired`].
    #[inline]
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.state.is_expired() {
            Err(self.expired())
        } else {
            Ok(())
        }
    }

    #[cold]
    pub(crate) fn expired(&self) -> Error {
        Error::ViewExpired {
            bytes_max: self.engine.views.bytes_max(),
        }
    }
}

impl PinnedView {
    /// Waits until all commits that the view sees are finished and durable. `None` if the wait
    /// outlasted the memory of its epoch's floor: the caller then pins another view.
    ///
    /// # Errors
    /// As [`OpenView::open`].
    pub(crate) fn make_usable<C: Checks>(self) -> Result<Option<OpenView>, Error> {
        let mut view = self.0;
        let Some(stamp) = stamp_when_durable::<C>(&view.engine, &view.state)? else {
            return Ok(None);
        };
        view.stamp = stamp;
        Ok(Some(view))
    }
}

impl Drop for OpenView {
    fn drop(&mut self) {
        if self.engine.is_own() {
            self.engine.views.end(&self.state, &self.engine.epochs);
        }
    }
}

/// Waits until all commits below the view are finished and durable. `None` if its epoch is too old
/// and its floor is forgotten.
fn stamp_when_durable<C: Checks>(
    engine: &Engine,
    view: &ViewState,
) -> Result<Option<Stamp>, Error> {
    if C::VIEW_WAITS_FOR_COMMITS && engine.installed.is_none() {
        engine.wait_until_finished(view.epoch)?;
    }
    let Some(stamp) = view.known_stamp(&engine.epochs) else {
        return Ok(None);
    };
    // A replica has none, and installs only what is durable.
    let Some(log) = &engine.log else {
        return Ok(Some(stamp));
    };
    // Commits append before they deregister. Right after an opening, what the view shows was durable before, and the first
    // write of a stream may have to wait for its file to be made.
    if log.is_untouched() {
        return Ok(Some(stamp));
    }
    let awaits = match engine.spec.release {
        // Certified, not flushed: an idle stream writes no frame, and recovery would cut off
        // versions that were shown.
        LockRelease::EpochEarly if C::VIEW_CERTIFIES => Awaits::Epoch(None, view.epoch),
        // Not what is at or below the stamp alone: a commit above it may have drawn a smaller LSN.
        LockRelease::Early => Awaits::Prefix(None, log.last_drawn()),
        LockRelease::Normal | LockRelease::EpochEarly => {
            log.flush_all().map_err(not_appended)?;
            Awaits::Nothing
        }
    };
    let ticket = Ticket {
        owner: engine.owner,
        stamp,
        awaits,
    };
    match ticket::wait(engine, &ticket) {
        // This caller has committed nothing: the commits that are not durable yet are other
        // callers'.
        Err(Error::OutcomeUnknown(source)) => Err(not_appended(source)),
        waited => waited.map(|()| Some(stamp)),
    }
}
