//! Refused backups: damage is reported, and only a backup of the same database is overwritten.

use namiki_log::{ReadError, log_file_path};
use namiki_platform::WorkerId;

use super::*;
use crate::catalogue::image_files::image_dir;
use crate::error::OpenError;

const SPEC: &str = "TT(EPOCH)+PWAL(auto)";

/// A database with an image, some log, and a backup of an earlier state.
fn backed_up() -> (SimDisk, Database, Contents) {
    let disk = SimDisk::new();
    let db = builder(SPEC.parse().unwrap(), &disk).open(DIR).unwrap();
    put(&db, 0..100, 1);
    back_up(&db, &disk).unwrap();
    let expected = contents(&db);
    db.checkpoint().unwrap();
    put(&db, 0..100, 2);
    (disk, db, expected)
}

fn put(db: &Database, keys: std::ops::Range<u64>, byte: u8) {
    let table = table_of(db);
    for key in keys {
        db.transact(|tx| tx.put(&table, &key, &[byte; 200]))
            .unwrap();
    }
}

fn copy_of(disk: &SimDisk) -> Contents {
    copied(SPEC.parse().unwrap(), disk, ReplayOrder::HighestStamp)
}

#[test]
fn damage_in_the_source_is_named_and_not_copied() {
    let (disk, db, expected) = backed_up();
    let image = disk.list(&image_dir(Path::new(DIR))).unwrap();
    let rows = image.iter().map(|file| &file.path);
    let rows = rows.filter(|path| path.extension().is_some_and(|it| it == "rows"));
    let rows = rows.max().unwrap().clone();
    let manifest = Manifest::read(&disk, Path::new(DIR)).unwrap().unwrap();
    let info = manifest.generations.last().unwrap();
    let file_number = info.start(WorkerId(0)).file_number;
    let log = log_file_path(
        Path::new("/db/wal"),
        info.generation,
        WorkerId(0),
        file_number,
    );
    let bytes = disk.read(&log).unwrap();
    let frame = bytes.windows(4).position(|four| four == b"NLF1").unwrap() as u64;
    for (path, offset) in [(&rows, 5000), (&log, frame + 80)] {
        disk.flip(path, offset, 1).unwrap();
        let told = format!("{:?}", back_up(&db, &disk).unwrap_err());
        assert!(told.contains(&path.display().to_string()), "{told}");
        disk.flip(path, offset, 1).unwrap();
        assert_eq!(copy_of(&disk), expected);
    }
    back_up(&db, &disk).unwrap();
    assert_eq!(copy_of(&disk), contents(&db));
}

#[test]
fn an_interruption_leaves_the_backup_before() {
    let (disk, db, expected) = backed_up();
    let asked = Arc::new(AtomicBool::new(false));
    let asks = Arc::clone(&asked);
    let options = BackupOptions::default()
        .disk(Arc::new(disk.clone()))
        .interrupt(asked)
        .on_progress(Arc::new(move |_| asks.store(true, Ordering::Relaxed)));
    let stopped = db.backup_with(COPY, &options);
    assert!(
        matches!(stopped, Err(BackupError::Interrupted)),
        "{stopped:?}"
    );
    assert_eq!(copy_of(&disk), expected);
    back_up(&db, &disk).unwrap();
    assert_eq!(copy_of(&disk), contents(&db));
}

#[test]
fn what_is_no_backup_of_the_database_is_left_alone() {
    let (disk, db, expected) = backed_up();
    let spec = SPEC.parse().unwrap();
    let on = || BackupOptions::default().disk(Arc::new(disk.clone()));
    let other = builder(spec, &disk).open("/other").unwrap();
    let refused = other.backup_with(COPY, &on());
    assert!(
        matches!(refused, Err(BackupError::OtherDatabase { .. })),
        "{refused:?}"
    );

    // A database that was restored from an earlier backup has other commits than the next backup.
    builder(spec, &disk)
        .restore(COPY, "/restored", &on())
        .unwrap();
    let restored = builder(spec, &disk).open("/restored").unwrap();
    let refused = restored.backup_with(COPY, &on());
    assert!(
        matches!(refused, Err(BackupError::OtherHistory { .. })),
        "{refused:?}"
    );
    restored.backup_with("/its-own", &on()).unwrap();

    disk.create_dir_all(Path::new("/notes")).unwrap();
    disk.replace(Path::new("/notes/a"), b"x").unwrap();
    let refused = db.backup_with("/notes", &on());
    assert!(
        matches!(refused, Err(BackupError::NotEmpty { .. })),
        "{refused:?}"
    );
    let refused = builder(spec, &disk).restore(COPY, "/notes", &on());
    assert!(
        matches!(refused, Err(BackupError::NotEmpty { .. })),
        "{refused:?}"
    );
    let refused = builder(spec, &disk).restore(COPY, "/restored", &on());
    assert!(refused.is_err(), "{refused:?}");

    assert_eq!(copy_of(&disk), expected);
    builder(spec, &disk).open(COPY).unwrap().close().unwrap();
    let refused = db.backup_with(COPY, &on());
    assert!(
        matches!(refused, Err(BackupError::WasOpened { .. })),
        "{refused:?}"
    );
    let without_log = Database::in_memory().unwrap().backup("/nowhere");
    assert!(
        matches!(without_log, Err(BackupError::NoLog)),
        "{without_log:?}"
    );
}

/// The same after a crash: the log is recovered to find its end.
#[test]
fn a_closed_database_is_backed_up() {
    for spec in ProtocolSpec::tested() {
        let disk = SimDisk::new();
        let mut expected = Contents::new();
        for round in 0..6_u64 {
            let db = builder(spec, &disk).open(DIR).unwrap();
            put(&db, 10 * round..10 * round + 10, round as u8);
            if round == 2 {
                db.checkpoint().unwrap();
            }
            expected = contents(&db);
            let crashed = disk.crash_image(disk.events(), Loss::All);
            db.close().unwrap();
            let source = match round % 2 {
                0 => crashed,
                _ => disk.clone(),
            };
            let on = BackupOptions::default().disk(Arc::new(disk.clone()));
            let done = builder(spec, &source).backup_closed(DIR, COPY, &on);
            done.unwrap_or_else(|error| panic!("{spec}, {round}: {error:?}"));
            let found = copied(spec, &disk, ReplayOrder::HighestStamp);
            assert_eq!(found, expected, "{spec}, {round}");
        }
        assert_eq!(expected.len(), 60);
    }
}

/// Its log has frames that the backup's manifest does not announce: acknowledged commits would be
/// skipped, and deleted.
#[test]
fn the_manifest_of_an_opened_backup_is_not_taken_back() {
    let (disk, db, mut expected) = backed_up();
    let spec = SPEC.parse().unwrap();
    let manifest = Manifest::path(Path::new(COPY));
    let of_backup = disk.read(&manifest).unwrap();
    let begin = disk.events();
    let opened = builder(spec, &disk).open(COPY).unwrap();
    for at in begin..=disk.events() {
        let crashed = disk.crash_image(at, Loss::Seeded(at as u64));
        let again = builder(spec, &crashed).open(COPY).unwrap();
        assert_eq!(contents(&again), expected, "{}", disk.describe(at));
    }
    put(&opened, 0..1, 3);
    expected.insert(0, vec![3; 200]);
    opened.close().unwrap();
    let of_opened = disk.read(&manifest).unwrap();

    disk.replace(&manifest, &of_backup).unwrap();
    let is_noticed = |refused: Result<Database, OpenError>| {
        assert!(
            matches!(
                refused,
                Err(OpenError::Log(ReadError::NotInManifest { .. }))
            ),
            "{refused:?}"
        );
    };
    is_noticed(builder(spec, &disk).open_read_only(COPY));
    is_noticed(builder(spec, &disk).open(COPY));
    let refused = back_up(&db, &disk);
    assert!(
        matches!(refused, Err(BackupError::WasOpened { .. })),
        "{refused:?}"
    );

    disk.replace(&manifest, &of_opened).unwrap();
    assert_eq!(copy_of(&disk), expected);
}
