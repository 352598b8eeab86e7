//! Changes of the catalogue: on a thread that may block, in the connection's transaction.

use std::sync::Arc;

use namiki::Session;

use super::{Connection, shared};
use crate::ddl::{self, DdlContext, Effects};
use crate::ddl_command::DdlCommand;
use crate::error::{SqlError, SqlResult};
use crate::shared::Shared;
use crate::sqlstate;

impl Connection {
    /// Runs a command. Alone, it commits, too.
    pub(super) async fn ddl(&mut self, command: DdlCommand, is_alone: bool) -> SqlResult<()> {
        self.ensure_begun()?;
        let Some(session) = self.session.take() else {
            return Err(SqlError::new(
                sqlstate::INTERNAL_ERROR,
                "the connection has no session",
            ));
        };
        let shared = shared(self);
        let (info, cancelled) = (self.info.clone(), self.running.clone());
        let mut lent = Lent {
            shared: Arc::clone(&shared),
            session: Some(session),
            effects: std::mem::take(&mut self.effects),
        };
        let (mut lent, notices, done) = shared
            .blocking(move || {
                let for_task = Arc::clone(&lent.shared);
                let Some(session) = lent.session.as_mut() else {
                    let none = SqlError::new(sqlstate::INTERNAL_ERROR, "there is no session");
                    return (lent, Vec::new(), Err(none));
                };
                let mut context = DdlContext {
                    db: &for_task.db,
                    catalogue: &for_task.catalogue,
                    storage: &for_task.storage,
                    front_end: &for_task.front_end,
                    info: &info,
                    session,
                    effects: &mut lent.effects,
                    is_alone,
                    rows_max: for_task.options.scan_rows_max,
                    cancelled,
                    notices: Vec::new(),
                };
                let done = ddl::run(&mut context, command);
                let notices = std::mem::take(&mut context.notices);
                lent.effects.has_changed_catalogue = true;
                (lent, notices, done)
            })
            .await?;
        self.session = lent.session.take();
        self.effects = std::mem::take(&mut lent.effects);
        drop(lent);
        done?;
        self.notices.extend(notices);
        if is_alone {
            self.commit().await?;
        }
        Ok(())
    }
}

/// The transaction that a command runs in, away from its connection. If the connection does not take it back, since its
/// client has gone or the command has panicked, it is not committed: it is rolled back, and what it has made is undone.
struct Lent {
    shared: Arc<Shared>,
    session: Option<Box<Session>>,
    effects: Effects,
}

impl Drop for Lent {
    fn drop(&mut self) {
        // First: what is dropped then is not used any more.
        if let Some(mut session) = self.session.take() {
            session.rollback();
        }
        let effects = std::mem::take(&mut self.effects);
        if !effects.is_empty() {
            self.shared.rolled_back(effects);
        }
    }
}
