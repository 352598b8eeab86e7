//! Opening a read view of a database.

use std::sync::Arc;

use crate::api::database::Database;
use crate::api::view::View;
use crate::commit::view_opening::OpenView;
use crate::concurrency::cc::{Checks, NoFaults};
use crate::error::Error;

impl Database {
    /// A view of all tables as they are now: of every transaction that was acknowledged before this
    /// call, and of none that began after it returns. Every commit that it shows is durable.
    ///
    /// Reading it takes no locks and meets no conflicts, and it does not delay transactions. Its
    /// cost is memory: versions that transactions overwrite are kept while the view may see them.
    /// Many views can be open at once, for minutes. If the kept versions exceed
    /// [`Builder::view_bytes_max`](crate::Builder::view_bytes_max), the oldest views expire:
    /// reading those fails with [`Error::ViewExpired`]; no transaction fails.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// let db = namiki::Database::open(dir.path().join("data"))?;
    /// let accounts = db.table::<u64, i64>("accounts")?;
    /// db.transact(|tx| tx.put(&accounts, &1, &100))?;
    /// let view = db.view()?;
    /// db.transact(|tx| tx.put(&accounts, &1, &0))?;
    /// assert_eq!(view.get(&accounts, &1)?, Some(100));
    /// let mut sum = 0;
    /// for row in view.range(&accounts, ..) {
    ///     let (_account, balance) = row?;
    ///     sum += balance;
    /// }
    /// assert_eq!(sum, 100);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// It is also a snapshot of the catalogue. It reads tables that are dropped, cleared or renamed
    /// later as they were, by earlier handles; and refuses those that are created, loaded or
    /// cleared later, with [`Error::TableYoungerThanView`].
    ///
    /// It waits for running commits, for a running change of the catalogue, and for the log.
    ///
    /// # Errors
    /// [`Error::Closed`], [`Error::Forked`], [`Error::LogFailed`]; [`Error::DiskFull`] if what was committed before has no
    /// room to become durable.
    pub fn view(&self) -> Result<View, Error> {
        self.faulty_view::<NoFaults>()
    }

    /// [`Database::view`] with an injected fault, to test that it is detected.
    #[doc(hidden)]
    pub fn faulty_view<C: Checks>(&self) -> Result<View, Error> {
        let engine = &self.shared.engine;
        engine.check_open()?;
        loop {
            let (pinned, catalogue) = {
                // While it is locked, no table is created, dropped or renamed.
                let mut catalogue = self.shared.catalogue.lock();
                if catalogue.closed.is_some() {
                    return Err(Error::Closed);
                }
                let pinned = OpenView::pin(engine, true)?;
                (pinned, catalogue.views.pin())
            };
            if let Some(open) = pinned.make_usable::<C>()? {
                return Ok(View {
                    open: Arc::new(open),
                    catalogue,
                    loader: Arc::clone(&self.shared.loader),
                });
            }
        }
    }

    /// Reads in a [view](Database::view) that ends when `body` does. Errors of your own: [`Database::read_with`].
    ///
    /// # Errors
    /// Those of [`Database::view`], and what `body` returns.
    pub fn read<T>(&self, body: impl FnOnce(&View) -> Result<T, Error>) -> Result<T, Error> {
        body(&self.view()?)
    }

    /// [`Database::read`] with an error type of your own. `body` passes errors of the database on with `?`.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let db = namiki::Database::open(dir.path().join("data"))?;
    /// # let accounts = db.table::<u64, i64>("accounts")?;
    /// #[derive(Debug, PartialEq)]
    /// enum Failed {
    ///     NoSuchAccount(u64),
    ///     Database(String),
    /// }
    /// impl From<namiki::Error> for Failed {
    ///     fn from(error: namiki::Error) -> Self {
    ///         Self::Database(error.to_string())
    ///     }
    /// }
    /// let balance = db.read_with(|view| view.get(&accounts, &7)?.ok_or(Failed::NoSuchAccount(7)));
    /// assert_eq!(balance, Err(Failed::NoSuchAccount(7)));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of [`Database::view`], and what `body` returns.
    pub fn read_with<T, E: From<Error>>(
        &self,
        body: impl FnOnce(&View) -> Result<T, E>,
    ) -> Result<T, E> {
        body(&self.view()?)
    }
}
