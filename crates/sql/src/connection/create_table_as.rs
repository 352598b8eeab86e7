//! CREATE TABLE AS: the rows of a query, in batches, into a table that the transaction makes.

use std::sync::Arc;

use super::portal::Portal;
use super::{Connection, shared};
use crate::cancel::Cancelled;
use crate::ddl::BulkLoad;
use crate::ddl_command::{CreateTable, DdlCommand};
use crate::error::SqlResult;
use crate::front_end::{Plan, Planned};

impl Connection {
    /// Makes the table and fills it; returns the number of rows.
    pub(super) async fn create_table_as(
        &mut self,
        planned: &Arc<Planned>,
        (table, plan): (&CreateTable, &Plan),
        portal: &Portal,
        is_alone: bool,
        cancelled: &Cancelled,
    ) -> SqlResult<u64> {
        self.ensure_begun()?;
        let before = self.effects.created.len();
        self.ddl(DdlCommand::CreateTable(table.clone()), false)
            .await?;
        let mut count = 0;
        // Otherwise it is there, and a notice says so.
        if self.effects.created.len() > before {
            let environment = self.environment(&portal.parameters);
            let batches = self
                .plan_in_transaction(planned, plan, environment, cancelled)
                .await?;
            let target = self.copy_target(table.name.schema(), &table.name.name)?;
            let shared = shared(self);
            let for_task = Arc::clone(&shared);
            let filled = shared.blocking(move || {
                let columns = Arc::clone(&target.relation);
                let (mut bulk, mut writer) =
                    BulkLoad::new(&for_task.db, &for_task.storage, target)?;
                let mut count = 0;
                for batch in &batches {
                    for at in 0..batch.len() {
                        let row = batch.row(at)?.into_iter().zip(columns.columns());
                        let row = row.map(|(value, column)| column.sql_type.assign(value));
                        if bulk.push(row.collect::<SqlResult<_>>()?)? {
                            writer.write(&bulk.take_batch())?;
                        }
                        count += 1;
                    }
                }
                writer.write(&bulk.take_batch())?;
                writer.finish()?;
                SqlResult::Ok(count)
            });
            count = filled.await??;
        }
        if is_alone {
            self.commit().await?;
        }
        Ok(count)
    }
}
