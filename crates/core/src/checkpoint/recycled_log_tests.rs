//! Tests: an image stands for the beginning of the log. The tests do by hand what a checkpoint does
//! with the log, under each durability rule; the image is the model's state at its stamp.

use std::collections::BTreeMap;
use std::num::NonZeroU16;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use namiki_log::{EpochSource, Prepare, RecyclePoint, remove_generations};
use namiki_platform::disk::Disk;
use namiki_platform::disk::sim::{Loss, SimDisk};
use namiki_platform::seeded_random::Random;
use namiki_platform::{Generation, Stamp};

use crate::api::database::Database;
use crate::api::session::Session;
use crate::api::table::Table;
use crate::catalogue::catalogue_files::CatalogueFiles;
use crate::catalogue::image_files::FileNumber;
use crate::catalogue::image_list::NamedList;
use crate::catalogue::manifest::Manifest;
use crate::error::{Error, OpenError};
use crate::open::assemble_database::{Opened, epochs_after};
use crate::open::lock_directory::lock;
use crate::recovery::{self, RecoverySettings, ReplayOrder};
use crate::settings::builder::Builder;
use crate::table::raw_table::Owner;
use crate::txn::Transaction;

type Rows = BTreeMap<u64, Vec<u8>>;
type Bytes = Table<u64, [u8]>;

const DIR: &str = "/db";

const SPECS: [&str; 8] = [
    "TT(NLR)+PWAL(2)",
    "TT(ELR)+PWAL(auto)",
    "TT(EPOCH)+PWAL(auto)",
    "SILO(EPOCH)+PWAL(1)",
    "S2PL(ELR)+SWAL(1)",
    "S2PL(NLR)+PWAL(2)+ARIES",
    "S2PL(ELR)+PWAL(auto)+ARIES",
    "S2PL(ELR)+SWAL(1)+ARIES",
];

fn builder(spec: &str, disk: &Arc<dyn Disk>) -> Builder {
    Database::builder()
        .spec(spec.parse().unwrap())
        .streams(NonZeroU16::new(2).unwrap())
        .group_wait_max(Duration::MAX)
        // Epochs end at checkpoints, and for waiters.
        .epoch_length(Duration::MAX)
        .buffer_bytes(4096)
        .log_file_bytes(16 << 10)
        .prepare(Prepare::Inline)
        .disk(Arc::clone(disk))
}

/// The stamp of the image that a manifest names; the image has no file.
fn image_stamp(manifest: &Manifest) -> Stamp {
    let list = manifest.image_list.as_ref();
    list.map_or(Stamp(0), |list| list.stamp)
}

/// The rows that are recovered after a crash, over an image of this stamp.
fn recover(
    builder: Builder,
    disk: &Arc<dyn Disk>,
    stamp: Stamp,
) -> Result<(Rows, recovery::RecoveryReport), OpenError> {
    let dir = Path::new(DIR);
    let manifest = Manifest::read(&**disk, dir)?.unwrap();
    let owner = Owner::new();
    let raw_tables = builder.raw_tables(&manifest, owner)?;
    let settings = RecoverySettings {
        image_stamp: stamp,
        hardens: false,
        ..builder.tuning.recovery_settings(&builder.testing)
    };
    let spec = manifest.spec;
    let concurrency = spec.concurrency;
    let found = recovery::recover(
        disk,
        dir,
        &manifest,
        None,
        &raw_tables,
        concurrency,
        &settings,
    )?;
    let report = found.report.clone();
    let db = builder.database(Opened {
        spec,
        read_only: true,
        tuned_config: None,
        owner,
        raw_tables,
        epochs: epochs_after(&found.report, Duration::MAX),
        log: None,
        lock: lock(&**disk, dir)?,
        disk: Arc::clone(disk),
        dir: dir.to_owned(),
        recovery: found.report,
        manifest,
        files: CatalogueFiles::none(),
        image: None,
        loader: found.loader,
    });
    let table: Bytes = db.table("rows").unwrap();
    let rows = db.transact(|tx| tx.scan(&table, ..)).unwrap();
    Ok((rows.into_iter().collect(), report))
}

/// A database, and its expected contents.
struct Run {
    sim: SimDisk,
    db: Database,
    table: Bytes,
    sessions: Vec<Session>,
    /// The table's contents after each commit, from the empty table on.
    models: Vec<Rows>,
    /// The contents of the images, by their stamps.
    images: BTreeMap<Stamp, Rows>,
    random: Random,
    /// A transaction that spans many others, and its writes.
    long: Option<(Transaction, Rows)>,
}

impl Run {
    fn new(spec: &str, seed: u64) -> Self {
        let sim = SimDisk::new();
        let disk: Arc<dyn Disk> = Arc::new(sim.clone());
        let db = builder(spec, &disk).open(DIR).unwrap();
        let table = db.table("rows").unwrap();
        Self {
            sessions: vec![db.session().unwrap(), db.session().unwrap()],
            sim,
            db,
            table,
            models: vec![Rows::new()],
            images: BTreeMap::from([(Stamp(0), Rows::new())]),
            random: Random::seeded(seed),
            long: None,
        }
    }

    fn value(&mut self) -> Vec<u8> {
        let bytes = self.random.below(600) as usize;
        vec![self.random.below(256) as u8; bytes]
    }

    /// The transaction is acknowledged.
    fn committed(&mut self, rows: Rows) {
        self.sim.mark(self.models.len() as u64);
        self.models.push(rows);
    }

    /// One transaction, which may be rolled back, in part or as a whole.
    fn short(&mut self) {
        let changes: Vec<_> = (0..1 + self.random.below(3))
            .map(|_| {
                let key = self.random.below(40);
                let value = self.random.chance(0.8).then(|| self.value());
                (key, value)
            })
            .collect();
        let (aborts, forgets) = (self.random.chance(0.15), self.random.chance(0.2));
        let at = self.random.below(2) as usize;
        let table = &self.table;
        let done = self.sessions[at].transact(|tx| {
            if forgets {
                let savepoint = tx.savepoint();
                tx.put(table, &7, &[1, 2, 3][..])?;
                tx.rollback_to(&savepoint)?;
            }
            for (key, value) in &changes {
                match value {
                    Some(value) => tx.put(table, key, &value[..])?,
                    None => {
                        tx.delete(table, key)?;
                    }
                }
            }
            if aborts {
                return tx.abort("on purpose");
            }
            Ok(())
        });
        if aborts {
            assert!(matches!(done, Err(Error::Aborted(_))), "{done:?}");
            return;
        }
        done.unwrap();
        let mut rows = self.models.last().unwrap().clone();
        for (key, value) in changes {
            match value {
                Some(value) => rows.insert(key, value),
                None => rows.remove(&key),
            };
        }
        self.committed(rows);
    }

    /// A commit that is not waited for, in the stream of a session.
    fn put_async(&mut self, at: usize, key: u64) {
        let table = &self.table;
        let put = self.sessions[at].transact_async(|tx| tx.put(table, &key, &[7; 900][..]));
        put.unwrap();
    }

    /// The long transaction continues.
    fn go_on(&mut self) {
        let (key, value) = (1000 + self.random.below(9), self.value());
        let (mut tx, mut written) = match self.long.take() {
            Some(long) => long,
            None => (self.db.begin().unwrap(), Rows::new()),
        };
        tx.put(&self.table, &key, &value[..]).unwrap();
        written.insert(key, value);
        self.long = Some((tx, written));
    }

    fn end_long(&mut self) {
        let Some((tx, written)) = self.long.take() else {
            return;
        };
        if self.random.chance(0.3) {
            tx.rollback();
            return;
        }
        tx.commit().unwrap();
        let mut rows = self.models.last().unwrap().clone();
        rows.extend(written);
        self.committed(rows);
    }

    /// Records in the manifest that an image of this stamp, with these rows, replaces the earlier
    /// log.
    fn announce(&mut self, stamp: Stamp, rows: Rows) {
        self.images.insert(stamp, rows);
        let mut catalogue = self.db.shared.catalogue.lock();
        catalogue.manifest.image_list = Some(NamedList {
            file: FileNumber(1),
            identity: format!("{:016x}", stamp.0),
            stamp,
        });
        catalogue.manifest.write(&self.sim, Path::new(DIR)).unwrap();
    }

    /// Returns whether anything was recycled.
    fn checkpoint(&mut self) -> bool {
        let engine = Arc::clone(&self.db.shared.engine);
        let log = engine.log.as_ref().unwrap();
        // In this order: transactions that have ended by now are in the image.
        let below_lsn = engine.oldest_operation();
        let epoch = engine.epochs.current();
        engine.epochs.close(epoch);
        assert!(engine.epochs.finished() >= epoch);
        let stamp = Stamp(engine.epochs.floor_after(epoch).0 - 1);
        let rows = self.models.last().unwrap().clone();
        log.flush_all().unwrap();
        log.wait_certified(None, epoch).unwrap();
        if self.random.chance(0.5) {
            // Its stamp is above the image's.
            self.end_long();
            self.short();
        }
        let start = log.recyclable(RecyclePoint { stamp, below_lsn }).unwrap();
        let oldest = {
            let manifest = &mut self.db.shared.catalogue.lock().manifest;
            manifest.drop_superfluous_generations(stamp);
            manifest.generations.last_mut().unwrap().begin_at(&start);
            manifest.oldest_generation
        };
        self.announce(stamp, rows);
        let removed = remove_generations(&self.sim, &Path::new(DIR).join("wal"), oldest);
        assert!(removed.failed.is_empty());
        assert!(
            log.recycle(&start, oldest, 1 << 20)
                .unwrap()
                .failed
                .is_empty()
        );
        !start.streams.is_empty()
    }

    /// Runs transactions with checkpoints among them. Returns how many of those recycled something.
    fn run(&mut self, steps: u64) -> u64 {
        let is_aries = self.db.spec().to_string().contains("ARIES");
        let mut recycled = 0;
        for _ in 0..steps {
            match self.random.below(30) {
                0 => recycled += u64::from(self.checkpoint()),
                1..4 if is_aries => self.go_on(),
                4 if is_aries => self.end_long(),
                _ => self.short(),
            }
        }
        recycled
    }

    /// Crashes at various moments, and compares the recovered rows with the model.
    fn check(&self, spec: &str, from: usize) {
        let mut random = Random::seeded(from as u64);
        let mut in_image = 0;
        for at in (from..=self.sim.events()).filter(|_| random.chance(0.2)) {
            for (loss, order) in [
                (Loss::None, ReplayOrder::HighestStamp),
                (Loss::All, ReplayOrder::Merge),
                (Loss::Seeded(at as u64), ReplayOrder::HighestStamp),
            ] {
                let disk: Arc<dyn Disk> = Arc::new(self.sim.crash_image(at, loss));
                let acknowledged = self.sim.marks_before(at).last().map_or(0, |last| *last);
                let manifest = Manifest::read(&*disk, Path::new(DIR)).unwrap().unwrap();
                let stamp = image_stamp(&manifest);
                let image = &self.images[&stamp];
                let what = format!("{spec}, event {at}, {loss:?}, {order:?}, image of {stamp}");
                let builder = builder(spec, &disk).replay_order(order);
                let (rows, report) = recover(builder, &disk, stamp)
                    .unwrap_or_else(|error| panic!("{what}: {error}"));
                assert!(report.max_stamp >= stamp, "{what}");
                in_image += report.in_image;
                let acknowledged = acknowledged as usize;
                let maybe = self.models.get(acknowledged + 1);
                let models = [Some(&self.models[acknowledged]), maybe];
                let is_one = models
                    .into_iter()
                    .flatten()
                    .any(|model| is_beyond(&rows, image, model));
                assert!(is_one, "{what}: {rows:?} {:?} {image:?}", models[0]);
            }
        }
        assert!(in_image > 0, "{spec}");
    }
}

/// Whether these rows, over the image, are the model. Where both agree, the rows may say nothing.
fn is_beyond(rows: &Rows, image: &Rows, model: &Rows) -> bool {
    let keys = rows.keys().chain(image.keys()).chain(model.keys());
    keys.into_iter().all(|key| {
        let (row, before, now) = (rows.get(key), image.get(key), model.get(key));
        row == now || row.is_none() && before == now
    })
}

#[test]
fn an_image_and_a_recycled_log_give_every_commit() {
    for (seed, spec) in SPECS.iter().enumerate() {
        let mut run = Run::new(spec, seed as u64);
        let from = run.sim.events();
        let recycled = run.run(700);
        assert!(recycled > 3, "{spec}: {recycled}");
        run.check(spec, from);
    }
}

/// Every frame that is left was written before the horizon had passed what was recycled: only the manifest says from where
/// on nothing is missing.
#[test]
fn replay_trusts_the_manifest_where_no_frame_tells_of_l0() {
    let spec = "TT(ELR)+PWAL(auto)";
    let mut run = Run::new(spec, 0);
    let engine = Arc::clone(&run.db.shared.engine);
    let log = engine.log.as_ref().unwrap();
    // It holds the horizon back.
    run.put_async(1, 0);
    let mut key = 0;
    let stamp = loop {
        key += 1;
        let epoch = engine.epochs.current();
        engine.epochs.close(epoch);
        let kept_bytes = log.kept_bytes();
        run.put_async(0, key);
        run.sessions[0].flush().unwrap();
        if key > 1 && log.kept_bytes() > kept_bytes {
            // It begins the second log file.
            break Stamp(engine.epochs.floor_after(epoch).0 - 1);
        }
    };
    log.flush_all().unwrap();
    let point = RecyclePoint {
        stamp,
        below_lsn: None,
    };
    let start = log.recyclable(point).unwrap();
    assert_eq!(start.streams[0].file_number, 2, "{start:?}");
    let info = |manifest: &mut Manifest| manifest.generations.last_mut().unwrap().begin_at(&start);
    info(&mut run.db.shared.catalogue.lock().manifest);
    run.announce(stamp, Rows::new());
    log.recycle(&start, Generation(0), 1 << 20).unwrap();
    let disk: Arc<dyn Disk> = Arc::new(run.sim.crash_image(run.sim.events(), Loss::All));
    for order in [ReplayOrder::HighestStamp, ReplayOrder::Merge] {
        let builder = builder(spec, &disk).replay_order(order);
        let (rows, report) = recover(builder, &disk, stamp).unwrap();
        assert_eq!(rows.into_keys().collect::<Vec<_>>(), [key], "{order:?}");
        assert_eq!(
            (report.replayed, report.in_image, report.dropped),
            (1, 1, 0)
        );
    }
}
