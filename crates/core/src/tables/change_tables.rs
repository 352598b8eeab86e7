//! Dropping, clearing and renaming tables: each is one replacement of the manifest, outside of
//! transactions.
//!
//! ```text
//!   shut transactions out of the table (drops.rs)      those under way commit, or fail
//!   harden all commits                                 what came before must not be lost if this is kept
//!   replace the manifest                               the table is gone, or is another one, or has another name
//!   release its memory
//! ```
//! If the manifest cannot be replaced, that of before is put back, and the table is used as before. If that fails, too,
//! the disk may have either: the table stays shut until the database is opened again, since what was committed to it
//! now would be lost if the disk has the manifest without it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::MutexGuard;

use crate::api::database::{Database, Shared};
use crate::catalogue::catalogue_files::NotWritten;
use crate::catalogue::image_files::image_dir;
use crate::catalogue::loaded_tables::LoadedTable;
use crate::catalogue::manifest::Manifest;
use crate::commit::commit_path::not_appended;
use crate::error::Error;
use crate::events;
use crate::live::catalogue::{Catalogue, catalogue_error, not_changed};
use crate::protocol_spec::LockRelease;
use crate::table::raw_table::{ChangeNumber, RawTable, TableId, TableInfo};
use crate::tables::create_table::check_name;

impl Database {
    /// Drops a table with all its rows, in memory or in segments. The drop is atomic, and durable
    /// when this returns.
    ///
    /// It is not part of a transaction. It waits for transactions that are committing changes of
    /// the table, which come before it; all others that have used it, or use an earlier handle,
    /// fail with [`Error::TableDropped`]. Earlier [views](Database::view), and queries in them,
    /// continue to read it by earlier handles. Its memory is freed when the last of those views has
    /// ended, the last handle is dropped, and the last [`Session`](crate::Session) that has used it
    /// has begun another transaction.
    ///
    /// # Errors
    /// [`Error::NoSuchTable`], [`Error::TableBeingLoaded`], [`Error::Closed`], [`Error::Forked`]; [`Error::LogFailed`];
    /// [`Error::AnotherWriter`]; [`Error::Manifest`], and then the table is there as before, unless that could not be
    /// written either: transactions on it go on failing then, and the next opening has the table as it was, or not at
    /// all.
    pub fn drop_table(&self, name: &str) -> Result<(), Error> {
        let shared = &*self.shared;
        let mut catalogue = shared.open_catalogue(name)?;
        let loaded = catalogue.manifest.loaded_tables.table(name).cloned();
        if let Some(table) = loaded {
            shared.drop_loaded_table(&mut catalogue, &table)?;
        } else {
            let id = shared.id_of(&catalogue, name)?;
            shared.begin_change(&mut catalogue, name);
            shared.replace_table(&mut catalogue, id, |manifest| manifest.drop_table(id))?;
            catalogue.ids.remove(name);
        }
        events::table_dropped(name);
        Ok(())
    }

    /// Removes all rows of a table at once, and keeps its name and its types. It gets a new number:
    /// earlier handles are refused, and [`Database::table`] returns one of the empty table, which
    /// earlier views refuse. Otherwise it behaves as [`Database::drop_table`].
    ///
    /// # Errors
    /// As [`Database::drop_table`], and [`Error::TableInSegments`].
    pub fn clear_table(&self, name: &str) -> Result<(), Error> {
        let shared = &*self.shared;
        let mut catalogue = shared.open_catalogue(name)?;
        let id = shared.id_of(&catalogue, name)?;
        let info = catalogue.manifest.table(id).cloned();
        let info = info.ok_or_else(|| Error::NoSuchTable {
            table: name.to_owned(),
        })?;
        let cleared = TableInfo {
            id: catalogue.manifest.next_table(),
            ..info
        };
        let change = shared.begin_change(&mut catalogue, name);
        shared.replace_table(&mut catalogue, id, |manifest| {
            manifest.drop_table(id);
            manifest.tables.push(cleared.clone());
        })?;
        catalogue.ids.remove(name);
        catalogue.ids.add(name.to_owned(), cleared.id);
        shared.add_raw_table(cleared, change);
        events::table_cleared(name);
        Ok(())
    }

    /// Renames a table, in memory or in segments. Handles stay valid, and transactions that use it
    /// are not affected. Durable when this returns.
    ///
    /// The index that the database was opened with for the new name
    /// ([`Builder::table_index`](crate::Builder::table_index)) applies from the next opening on.
    ///
    /// # Errors
    /// [`Error::NoSuchTable`], [`Error::TableExists`], [`Error::TableName`], [`Error::TableBeingLoaded`],
    /// [`Error::Closed`], [`Error::Forked`]; [`Error::AnotherWriter`]; [`Error::Manifest`], and then the table has the
    /// name that it had, and after the next opening, if the device has failed altogether, one of the two.
    pub fn rename_table(&self, from: &str, to: &str) -> Result<(), Error> {
        let shared = &*self.shared;
        let mut catalogue = shared.open_catalogue(from)?;
        let is_loaded = catalogue.manifest.loaded_tables.table(from).is_some();
        let id = catalogue.ids.get(from);
        if !is_loaded && id.is_none() {
            let table = from.to_owned();
            return Err(Error::NoSuchTable { table });
        }
        if from == to {
            return Ok(());
        }
        check_name(to)?;
        let table = to.to_owned();
        if catalogue.loading.names.contains(to) {
            return Err(Error::TableBeingLoaded { table });
        }
        if catalogue.ids.get(to).is_some() || catalogue.manifest.loaded_tables.table(to).is_some() {
            return Err(Error::TableExists { table });
        }
        shared.begin_change(&mut catalogue, from);
        shared.begin_change(&mut catalogue, to);
        let changed = catalogue.change_manifest(&*shared.disk, &shared.dir, |manifest| {
            let is_named = |table: &&mut LoadedTable| table.name == from;
            if let Some(table) = manifest.loaded_tables.tables.iter_mut().find(is_named) {
                to.clone_into(&mut table.name);
            }
            if let Some(table) = id.and_then(|id| manifest.table_mut(id)) {
                to.clone_into(&mut table.name);
            }
        });
        changed.map_err(|unchanged| not_changed(&shared.dir, unchanged))?;
        let staying = catalogue.manifest.loaded_tables.table(to);
        if let Some(raw_table) = staying.and_then(|table| shared.in_segments.staying(table)) {
            raw_table.rename(to);
        }
        if let Some(id) = id {
            catalogue.ids.remove(from);
            catalogue.ids.add(to.to_owned(), id);
            if let Some(raw_table) = shared.engine.raw_tables.lock().get(&id) {
                raw_table.rename(to);
            }
        }
        events::table_renamed(from, to);
        Ok(())
    }
}

impl Shared {
    /// The catalogue, to change a table of this name.
    fn open_catalogue(&self, name: &str) -> Result<MutexGuard<'_, Catalogue>, Error> {
        // Checked first: in a forked child, the lock may be held by a thread that does not exist
        // there.
        self.engine.check_process()?;
        if self.engine.read_only {
            return Err(Error::ReadOnly);
        }
        let catalogue = self.catalogue.lock();
        if catalogue.closed.is_some() {
            return Err(Error::Closed);
        }
        if self.engine.read_only {
            return Err(Error::ReadOnly);
        }
        if catalogue.loading.names.contains(name) {
            let table = name.to_owned();
            return Err(Error::TableBeingLoaded { table });
        }
        Ok(catalogue)
    }

    /// The number of a table in memory.
    fn id_of(&self, catalogue: &Catalogue, name: &str) -> Result<TableId, Error> {
        let table = name.to_owned();
        match catalogue.ids.get(name) {
            Some(id) => Ok(id),
            None if catalogue.manifest.loaded_tables.table(name).is_some() => {
                Err(Error::TableInSegments { table })
            }
            None => Err(Error::NoSuchTable { table }),
        }
    }

    /// Creates a table in memory that this change has put into the catalogue.
    pub(crate) fn add_raw_table(&self, info: TableInfo, change: ChangeNumber) -> Arc<RawTable> {
        let (id, index) = (info.id, self.indexes.of(&info.name));
        let mut raw_table = RawTable::new(info, index, self.engine.owner)
            .unwrap_or_else(|error| unreachable!("the database was opened with it: {error}"));
        raw_table.made_by = change;
        let raw_table = Arc::new(raw_table);
        let mut raw_tables = self.engine.raw_tables.lock();
        raw_tables.insert(id, Arc::clone(&raw_table));
        raw_table
    }

    /// Marks a table as dropped for all transactions, and replaces the manifest by one without it.
    fn replace_table(
        &self,
        catalogue: &mut Catalogue,
        id: TableId,
        change: impl Fn(&mut Manifest),
    ) -> Result<(), Error> {
        let engine = &self.engine;
        let raw_table = engine.raw_tables.lock().get(&id).cloned();
        let Some(raw_table) = raw_table else {
            unreachable!("the catalogue has it");
        };
        // First: a view does not read a table that is shut and not kept.
        self.keep_dropped(catalogue, &raw_table);
        let check = || engine.check_poison();
        engine
            .drops
            .shut_out(raw_table.dropped(), &engine.epochs, check)?;
        let readmit = |error| {
            raw_table.dropped().store(false, Ordering::SeqCst);
            Err(error)
        };
        if let Err(error) = self.harden_commits() {
            return readmit(error);
        }
        engine.views.keep_dropped_table(&raw_table);
        let last_point = catalogue.last_point;
        let changed = catalogue.change_manifest(&*self.disk, &self.dir, |manifest| {
            change(manifest);
            manifest.give_up_restore_points(last_point);
        });
        if let Err(unchanged) = changed {
            let is_as_before = unchanged.is_as_before;
            let error = not_changed(&self.dir, unchanged);
            return if is_as_before {
                readmit(error)
            } else {
                Err(error)
            };
        }
        engine.raw_tables.lock().remove(&id);
        self.loader.forget(id);
        self.in_segments.release(id);
        // Idle sessions of the pools may keep it in memory.
        for pool in &self.pools {
            let idle = std::mem::take(&mut *pool.lock());
            drop(idle);
        }
        Ok(())
    }

    /// Makes all earlier commits durable, whether acknowledged or not: the change that follows is
    /// durable at once, and must not survive without them. Afterwards no group holds earlier locks
    /// of a table's records.
    fn harden_commits(&self) -> Result<(), Error> {
        let engine = &self.engine;
        let Some(log) = &engine.log else {
            return Ok(());
        };
        let hardened = log.flush_all().and_then(|()| match engine.spec.release {
            LockRelease::Normal => Ok(()),
            LockRelease::Early => log.wait_covered(log.last_drawn()),
            LockRelease::EpochEarly => log.wait_certified(None, engine.epochs.current()),
        });
        hardened.map_err(not_appended)
    }

    /// A segment without a name in the manifest is damage if it has its lasting name. So it gets back its first one
    /// before the manifest is replaced (image_files.rs, I6).
    fn drop_loaded_table(
        &self,
        catalogue: &mut Catalogue,
        table: &LoadedTable,
    ) -> Result<(), Error> {
        // A transaction may have copied what a query has read of it.
        self.harden_commits()?;
        self.begin_change(catalogue, &table.name);
        if let Some(raw_table) = self.in_segments.staying(table) {
            self.keep_dropped(catalogue, &raw_table);
        }
        self.give_segments_first_names(table)?;
        let (disk, dir) = (&*self.disk, &*self.dir);
        let name = &table.name;
        let changed = catalogue.change_manifest(disk, dir, |manifest| {
            manifest
                .loaded_tables
                .tables
                .retain(|table| table.name != *name);
        });
        changed.map_err(|unchanged| not_changed(dir, unchanged))?;
        self.opened.forget(table);
        self.drop_staying(table);
        self.remove_segments(table);
        Ok(())
    }

    /// Called for a replacement of the manifest by one without the table.
    pub(crate) fn give_segments_first_names(&self, table: &LoadedTable) -> Result<(), Error> {
        let (disk, dir) = (&*self.disk, &*self.dir);
        // Either name is fine as long as the manifest names the segment.
        let failed = |source| catalogue_error(dir, NotWritten::Device(source), false);
        for segment in table.segments() {
            match disk.rename(&segment.file.path(dir), &segment.file.new_path(dir)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
                _ => {}
            }
        }
        disk.sync_dir(&image_dir(dir)).map_err(failed)
    }

    /// Called after the change. The next opening removes the files that remain.
    pub(crate) fn remove_segments(&self, table: &LoadedTable) {
        for segment in table.segments() {
            let _ = self.disk.remove(&segment.file.new_path(&self.dir));
        }
        let _ = self.disk.sync_dir(&image_dir(&self.dir));
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use namiki_platform::disk::SimDisk;

    use super::*;

    #[test]
    fn the_memory_of_a_dropped_table_is_freed() {
        for spec in ["TT(NLR)+PWAL(4)", "S2PL(NLR)+PWAL(16)", "SILO(NLR)+NOLOG"] {
            let builder = Database::builder().disk(Arc::new(SimDisk::new()));
            let db = builder.spec(spec.parse().unwrap()).open(Path::new("/db"));
            let db = db.unwrap();
            let table = db.table::<u64, [u8]>("a").unwrap();
            let mut session = db.session().unwrap();
            for key in 0..100 {
                let put = session.transact_async(|tx| tx.put(&table, &key, &[7; 100]));
                put.unwrap();
            }
            let raw_table = Arc::downgrade(table.raw_table());
            db.drop_table("a").unwrap();
            drop(table);
            assert!(raw_table.upgrade().is_some(), "the session has used it");
            let other = db.table::<u64, u64>("b").unwrap();
            session.transact(|tx| tx.put(&other, &1, &1)).unwrap();
            assert!(raw_table.upgrade().is_none(), "{spec}");
        }
    }
}
