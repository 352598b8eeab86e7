//! Changes of the catalogue: on a thread that may block, in the connection's transaction.

use super::{Connection, shared};
use crate::ddl::{self, DdlContext};
use crate::ddl_command::DdlCommand;
use crate::error::{SqlError, SqlResult};
use crate::sqlstate;

impl Connection {
    /// Runs a command. Alone, it commits, too.
    pub(super) async fn ddl(&mut self, command: DdlCommand, is_alone: bool) -> SqlResult<()> {
        self.ensure_begun()?;
        let Some(mut session) = self.session.take() else {
            return Err(SqlError::new(
                sqlstate::INTERNAL_ERROR,
                "the connection has no session",
            ));
        };
        let shared = shared(self);
        let (for_task, info) = (std::sync::Arc::clone(&shared), self.info.clone());
        let mut effects = std::mem::take(&mut self.effects);
        let (session, effects, notices, done) = shared
            .blocking(move || {
                let mut context = DdlContext {
                    db: &for_task.db,
                    catalogue: &for_task.catalogue,
                    storage: &for_task.storage,
                    front_end: &for_task.front_end,
                    info: &info,
                    session: &mut session,
                    effects: &mut effects,
                    is_alone,
                    rows_max: for_task.options.scan_rows_max,
                    notices: Vec::new(),
                };
                let done = ddl::run(&mut context, command);
                let notices = std::mem::take(&mut context.notices);
                effects.has_changed_catalogue = true;
                (session, effects, notices, done)
            })
            .await?;
        self.session = Some(session);
        self.effects = effects;
        done?;
        self.notices.extend(notices);
        if is_alone {
            self.commit().await?;
        }
        Ok(())
    }
}
