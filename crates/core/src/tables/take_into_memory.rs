//! Opening a table that was loaded into a segment: if its rows fit into memory, it becomes an
//! ordinary table.
//!
//! ```text
//!   reserve the name → write the segment's rows as runs, each synced → read them into memory
//!   → with the catalogue locked: list of the image with the table → the segment gets its first name back
//!     → replace the manifest: the table is in memory, and its rows are those of the list
//!   → remove the segment
//! ```
//! The replacement is what makes it one: a crash before it leaves the table in its segment and runs
//! that the next opening removes, and one after it leaves runs and a segment that the next opening
//! removes. The image keeps its moment, because loaded rows come before every commit.
//!
//! A table that does not fit stays where it is: views and queries read it there, and transactions are refused. That is found out
//! when the table is opened first, and stays so until the database is opened again.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::api::database::Shared;
use crate::catalogue::image_list::ImageList;
use crate::catalogue::loaded_tables::LoadedTable;
use crate::catalogue::manifest::Manifest;
use crate::checkpoint::announce_image::announce_image;
use crate::error::{Error, OpenError};
use crate::events;
use crate::image::image_error::ImageError;
use crate::image::write::image_writer::{ImageTarget, RUN_BYTES};
use crate::live::catalogue::Catalogue;
use crate::live::tables_in_segments::memory_bytes;
use crate::loaded_tables::loaded_runs::{LoadedRuns, NoRuns};
use crate::recovery::{ImageFiles, ImageLoader};
use crate::table::raw_table::{RawTable, TableId, TableInfo};
use crate::tables::create_table::room_bytes;
use crate::tables::reserved_name::ReservedName;
use crate::tables::types_of_columns::table_info;

impl Shared {
    /// The table of this name that lies in a segment, to be used: after this call, it is in memory
    /// if possible. `None` if no table of this name lies in a segment any more. `check` is called
    /// with the types of the table.
    ///
    /// The caller must not hold the catalogue's lock.
    pub(crate) fn open_table_in_segment(
        &self,
        name: &str,
        check: &dyn Fn(&TableInfo) -> Result<(), Error>,
    ) -> Result<Option<Arc<RawTable>>, Error> {
        let in_segments = &self.in_segments;
        {
            // Known already: it need not wait until another table is in memory.
            let catalogue = self.catalogue.lock();
            if catalogue.closed.is_none()
                && let Some(table) = catalogue.manifest.loaded_tables.table(name)
                && let Some(raw_table) = in_segments.staying(table)
            {
                check(&table_info(table, TableId(0), 0))?;
                return Ok(Some(raw_table));
            }
        }
        let _one_after_the_other = in_segments.taking.lock();
        let (table, reserved, expected_id) = {
            let mut catalogue = self.catalogue.lock();
            if catalogue.closed.is_some() {
                return Err(Error::Closed);
            }
            let Some(table) = catalogue.manifest.loaded_tables.table(name).cloned() else {
                return Ok(None);
            };
            check(&table_info(&table, TableId(0), 0))?;
            if let Some(raw_table) = in_segments.staying(&table) {
                return Ok(Some(raw_table));
            }
            if let Some(why) = self.why_it_stays(&table) {
                return self.stay(&catalogue, &table, why).map(Some);
            }
            let reserved = ReservedName::reserve(self, &mut catalogue, name);
            (table, reserved, catalogue.manifest.next_table())
        };
        let table_name = || name.to_owned();
        // Another load of the name could not have begun: the name is taken.
        let _reserved = reserved.ok_or_else(|| Error::TableBeingLoaded {
            table: table_name(),
        })?;
        self.take_into_memory(&table, expected_id).map(Some)
    }

    /// Why a table takes no transactions; `None` if it can be taken into memory.
    fn why_it_stays(&self, table: &LoadedTable) -> Option<Error> {
        let name = table.name.clone();
        if self.engine.read_only {
            return Some(Error::TableInSegments { table: name });
        }
        if !table.indexes.is_empty() {
            return Some(Error::TableHasIndexes { table: name });
        }
        let bytes = memory_bytes(table.rows, table.segment.len_bytes());
        let (taken_bytes, bytes_max) =
            (self.in_segments.taken_bytes(), self.in_segments.bytes_max());
        (taken_bytes.saturating_add(bytes) > bytes_max).then_some(Error::TableTooLarge {
            table: name,
            bytes,
            taken_bytes,
            bytes_max,
        })
    }

    /// A handle of a table that views read from its segment, and on which transactions get this
    /// error.
    fn stay(
        &self,
        catalogue: &Catalogue,
        table: &LoadedTable,
        why: Error,
    ) -> Result<Arc<RawTable>, Error> {
        let info = table_info(table, self.in_segments.next_number(), 0);
        let mut raw_table = self.empty_table(info.clone());
        raw_table.made_by = self.in_segments.made_by(table);
        let raw_table = Arc::new(raw_table);
        raw_table.load_state.begin(&Arc::default(), 0);
        raw_table.load_state.end(Err(why));
        let files = self.image_files(&catalogue.manifest);
        self.loader
            .read_in_segment(&raw_table, &info, table, &files);
        self.in_segments.stay(table, &raw_table);
        Ok(raw_table)
    }

    fn take_into_memory(
        &self,
        table: &LoadedTable,
        expected_id: TableId,
    ) -> Result<Arc<RawTable>, Error> {
        let files = self.image_files(&self.catalogue.lock().manifest);
        let take_number = || {
            let loaded_tables = &mut self.catalogue.lock().manifest.loaded_tables;
            loaded_tables.take_number()
        };
        let target = ImageTarget {
            disk: &self.disk,
            dir: &self.dir,
            identity: files.database,
            take_number: &take_number,
        };
        let mut go_on = || {
            if self.check_goes_on() {
                Ok(())
            } else {
                Err(ImageError::Interrupted)
            }
        };
        let written = LoadedRuns::write(&target, table, expected_id, RUN_BYTES, &mut go_on);
        let runs = written.map_err(|error| match error {
            NoRuns::Unreadable(source) => self.not_loaded(table, source),
            NoRuns::Unwritten(source) => self.not_written(table, source),
        })?;
        let bytes: u64 = runs.runs.iter().map(|run| run.bytes).sum();
        let mean_bytes = bytes.checked_div(table.rows).unwrap_or(0) as usize;
        let info = table_info(table, expected_id, room_bytes(mean_bytes));
        let loaded = ImageLoader::load_table(
            self.empty_table(info.clone()),
            &info,
            runs.runs.clone(),
            &files,
            (self.engine.spec.concurrency, self.loading_threads),
            &|_, _| {
                if self.check_goes_on() {
                    Ok(())
                } else {
                    Err(OpenError::Interrupted)
                }
            },
        );
        let raw_table = loaded.map_err(|source| self.not_loaded(table, source))?;
        let raw_table = self.put_into_image(table, runs, raw_table, info)?;
        let taken = memory_bytes(table.rows, bytes);
        self.in_segments.take(raw_table.id, taken);
        events::table_ready(&table.name);
        Ok(raw_table)
    }

    /// Turns the table into one in memory, with the rows of the image.
    fn put_into_image(
        &self,
        table: &LoadedTable,
        runs: LoadedRuns,
        raw_table: RawTable,
        info: TableInfo,
    ) -> Result<Arc<RawTable>, Error> {
        let mut done = None;
        let body = |list: Option<&ImageList>| {
            let (list, raw_table) = self.announce_in_memory(table, list, runs, raw_table, info)?;
            done = Some(raw_table);
            Ok::<_, Error>(list)
        };
        match &self.checkpointer {
            Some(checkpointer) => checkpointer.replace_image(body)?,
            None => {
                let (identity, named) = {
                    let manifest = &self.catalogue.lock().manifest;
                    (manifest.identity(), manifest.image_list.clone())
                };
                let list = named.map(|named| {
                    ImageList::read(&*self.disk, &self.dir, identity, &named)
                        .map_err(|source| self.not_loaded(table, source))
                });
                let _list = body(list.transpose()?.as_ref())?;
            }
        }
        Ok(done.unwrap_or_else(|| unreachable!("there was no error")))
    }

    fn announce_in_memory(
        &self,
        table: &LoadedTable,
        list: Option<&ImageList>,
        runs: LoadedRuns,
        mut raw_table: RawTable,
        mut info: TableInfo,
    ) -> Result<(ImageList, Arc<RawTable>), Error> {
        let mut catalogue = self.catalogue.lock();
        if catalogue.closed.is_some() {
            return Err(Error::Closed);
        }
        // From here on, no other table is created.
        let id = catalogue.manifest.next_table();
        (raw_table.id, info.id) = (id, id);
        // A view that is open sees the rows: they were there when it was opened, if the segment was.
        raw_table.made_by = self.in_segments.made_by(table);
        let list_file = catalogue.manifest.loaded_tables.take_number();
        let list_file =
            list_file.ok_or_else(|| self.not_written(table, ImageError::NumbersUsedUp))?;
        let target = ImageTarget {
            disk: &self.disk,
            dir: &self.dir,
            identity: catalogue.manifest.identity(),
            take_number: &|| Some(list_file),
        };
        let before = catalogue.manifest.image_list.as_ref().zip(list);
        let new = runs.into_image(&target, before, id);
        let new = new.map_err(|source| self.not_written(table, source))?;
        self.give_segments_first_names(table)?;
        let (disk, dir) = (&*self.disk, &*self.dir);
        let name = &table.name;
        let announced = announce_image((disk, dir), &mut catalogue, new, |manifest| {
            manifest
                .loaded_tables
                .tables
                .retain(|table| table.name != *name);
            manifest.tables.push(info);
        });
        let new = announced.map_err(|error| match error {
            Error::CheckpointFailed(source) => Error::TableNotWritten {
                table: name.clone(),
                source,
            },
            other => other,
        })?;
        let raw_table = Arc::new(raw_table);
        catalogue.ids.add(name.clone(), id);
        let mut raw_tables = self.engine.raw_tables.lock();
        raw_tables.insert(id, Arc::clone(&raw_table));
        drop(raw_tables);
        self.opened.forget(table);
        drop(catalogue);
        let list = new.remove_superseded();
        self.remove_segments(table);
        Ok((list, raw_table))
    }

    fn empty_table(&self, info: TableInfo) -> RawTable {
        let index = self.indexes.of(&info.name);
        RawTable::new(info, index, self.engine.owner)
            .unwrap_or_else(|error| unreachable!("the database was opened with it: {error}"))
    }

    fn image_files(&self, manifest: &Manifest) -> Arc<ImageFiles> {
        Arc::new(ImageFiles {
            disk: Arc::clone(&self.disk),
            dir: self.dir.clone(),
            database: manifest.identity(),
        })
    }

    /// Whether the database is open.
    fn check_goes_on(&self) -> bool {
        !matches!(self.engine.check_open(), Err(Error::Closed | Error::Forked))
    }

    /// Why the database cannot continue.
    fn interrupted(&self) -> Error {
        self.engine.check_open().err().unwrap_or(Error::Closed)
    }

    fn not_loaded(&self, table: &LoadedTable, source: OpenError) -> Error {
        match source {
            OpenError::Interrupted => self.interrupted(),
            source => Error::TableNotLoaded {
                table: table.name.clone(),
                source: Arc::new(source),
            },
        }
    }

    fn not_written(&self, table: &LoadedTable, source: ImageError) -> Error {
        match source {
            ImageError::Interrupted => self.interrupted(),
            source => Error::TableNotWritten {
                table: table.name.clone(),
                source: Arc::new(source),
            },
        }
    }

    /// A table in a segment was dropped: handles from before are refused.
    pub(crate) fn drop_staying(&self, table: &LoadedTable) {
        if let Some(raw_table) = self.in_segments.staying(table) {
            raw_table.dropped().store(true, Ordering::SeqCst);
            self.loader.forget(raw_table.id);
        }
    }
}
