//! COPY TO STDOUT: the rows of a SELECT as lines.

use super::found_rows::{CopyOut, Outcome, PortalRows};
use super::portal::{Portal, Work};
use super::prepare;
use super::progress::{Progress, Scope};
use super::{Block, Connection};
use crate::cancel::Cancelled;
use crate::error::{SqlError, SqlResult};
use crate::front_end::Body;
use crate::sink::RowBuffer;
use crate::syntax::{CopyCommand, CopySource, quoted};
use crate::text_cache::TextKey;

impl Connection {
    pub(super) async fn begin_copy_out(
        &mut self,
        copy: &CopyCommand,
        portal: &mut Portal,
        scope: Scope,
        cancelled: &Cancelled,
    ) -> SqlResult<Progress> {
        let text = match &copy.source {
            CopySource::Query(text) => text.clone(),
            CopySource::Table {
                schema,
                name,
                columns,
            } => {
                let columns = match columns.as_slice() {
                    [] => "*".to_owned(),
                    names => names
                        .iter()
                        .map(|name| quoted(name))
                        .collect::<Vec<_>>()
                        .join(", "),
                };
                let schema = schema
                    .as_ref()
                    .map_or_else(String::new, |schema| format!("{}.", quoted(schema)));
                format!("SELECT {columns} FROM {schema}{}", quoted(name))
            }
        };
        let is_alone = scope == Scope::Alone && self.block == Block::Idle;
        let key = TextKey {
            text: text.into(),
            types: std::sync::Arc::new([]),
            is_lifted: false,
        };
        let (mut refills, mut sets) = (0, 0);
        self.shared.sequences.forget_settings(self.number);
        let (planned, inner, source) = loop {
            let planned = self.planned(&key).await?;
            let statement = prepare::statement(key.clone(), planned);
            let Work::Planned(planned) = &statement.work else {
                return Err(SqlError::syntax("COPY needs a query"));
            };
            if !matches!(planned.body, Body::Select { .. }) {
                return Err(SqlError::unsupported(
                    "COPY of a statement that is no SELECT",
                ));
            }
            let planned = std::sync::Arc::clone(planned);
            if planned.uses_sequence() {
                self.shared.sequences.begin_attempt(self.number);
            }
            let inner = self.bind(&statement, &[], &[], &[])?;
            if !is_alone {
                if self.block == Block::Idle {
                    self.block = Block::Implicit;
                }
                self.ensure_begun()?;
            } else {
                self.now = crate::types::now_micros();
            }
            self.effects.touch(&planned.tables);
            // Of a plan, also where there is a program: lines are made of batches.
            let mut nothing = RowBuffer::new(0);
            let outcome = self
                .select(&planned, &inner, is_alone, 1, cancelled, &mut nothing)
                .await;
            match outcome {
                Ok(Outcome::Found(source)) => break (planned, inner, source),
                Ok(Outcome::Rows(_)) => {
                    return Err(SqlError::new(
                        crate::sqlstate::INTERNAL_ERROR,
                        "COPY has no rows to write",
                    ));
                }
                Err(error) if error.is_stale_plan() => {
                    cancelled.check()?;
                    self.shared.cache.remove(&key);
                }
                Err(error) => match (error.sequence_to_refill(), error.sequence_to_set()) {
                    (Some(sequence), _) => {
                        self.refill(sequence, refills).await?;
                        refills += 1;
                    }
                    (None, Some(setting)) => {
                        cancelled.check()?;
                        self.set_sequence_again(setting, &mut sets).await?;
                    }
                    (None, None) => return Err(error),
                },
            }
        };
        let names = planned
            .columns
            .iter()
            .flatten()
            .map(|column| column.name.clone());
        portal.output = inner.output;
        let columns = portal.output.len();
        portal.rows = Some(PortalRows {
            source,
            batch: None,
            next: 0,
            written: 0,
            since_limit: 0,
            copy: Some(CopyOut::new(copy.format.clone(), names.collect())),
            cancelled: cancelled.clone(),
        });
        Ok(Progress::CopyOut {
            columns,
            binary: false,
        })
    }
}
