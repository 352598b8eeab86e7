//! A directory that has lost a file of its backup is refused for the next backup.

use super::*;
use crate::backup::error::KeptFileFault;
use crate::catalogue::image_files::image_dir;

const SPEC: &str = "TT(EPOCH)+PWAL(auto)";
const HOUR: Duration = Duration::from_hours(1);

/// A database with several generations of the log, and an image, and a backup of it, perhaps with
/// earlier ones.
struct BackedUp {
    disk: SimDisk,
    copies: SimDisk,
    db: Database,
    keep: Option<Duration>,
}

impl BackedUp {
    fn new(keep: Option<Duration>) -> Self {
        let (disk, copies) = (SimDisk::new(), SimDisk::new());
        let open = || builder(SPEC.parse().unwrap(), &disk).open(DIR).unwrap();
        let put = |db: &Database, keys: std::ops::Range<u64>, byte: u8| {
            let table = table_of(db);
            for key in keys {
                db.transact(|tx| tx.put(&table, &key, &[byte; 300]))
                    .unwrap();
            }
        };
        let db = open();
        put(&db, 0..100, 1);
        db.checkpoint().unwrap();
        put(&db, 0..60, 2);
        let on = Self {
            disk: disk.clone(),
            copies: copies.clone(),
            db,
            keep,
        };
        on.back_up(false).unwrap();
        if keep.is_some() {
            on.db.checkpoint().unwrap();
            put(&on.db, 0..60, 3);
            on.back_up(false).unwrap();
        }
        on.db.close().unwrap();
        let db = open();
        put(&db, 0..60, 4);
        let on = Self { db, ..on };
        on.back_up(false).unwrap();
        put(&on.db, 0..9, 5);
        on
    }

    fn back_up(&self, verifies: bool) -> Result<BackupReport, BackupError> {
        let options = BackupOptions::default().disk(Arc::new(self.copies.clone()));
        let options = match self.keep {
            Some(keep) => options.keep(keep),
            None => options,
        };
        self.db.backup_with(COPY, &options.verify(verifies))
    }

    /// The backup's files, without the headers of its manifests.
    fn files(&self) -> Vec<(std::path::PathBuf, u64)> {
        let home = Path::new(COPY);
        let dirs = [
            image_dir(home),
            home.join("wal/0000"),
            home.join("wal/0001"),
        ];
        let files = dirs.iter().filter_map(|dir| self.copies.list(dir).ok());
        files.flatten().map(|it| (it.path, it.len_bytes)).collect()
    }

    /// Truncates a file, or removes it.
    fn cut(&self, path: &Path, len_bytes: Option<u64>) -> Vec<u8> {
        let bytes = self.copies.read(path).unwrap();
        self.copies.remove(path).unwrap();
        if let Some(len_bytes) = len_bytes {
            self.write(path, &bytes[..len_bytes as usize]);
        }
        bytes
    }

    fn write(&self, path: &Path, bytes: &[u8]) {
        let _ = self.copies.remove(path);
        let mut file = self.copies.append(path).unwrap();
        file.append(bytes).unwrap();
        file.finish().unwrap();
    }
}

#[test]
fn a_missing_or_shortened_file_is_named() {
    for keep in [None, Some(HOUR)] {
        let backed_up = BackedUp::new(keep);
        let (mut rows, mut logs) = (0, 0);
        for (path, len_bytes) in backed_up.files() {
            let is_log = path.starts_with("/copy/wal");
            let is_list = path.to_string_lossy().contains(".list");
            let shorter = len_bytes.saturating_sub(512);
            for cut in [None, Some(len_bytes / 2), Some(shorter)] {
                let bytes = backed_up.cut(&path, cut);
                let done = backed_up.back_up(false);
                let what = format!("{keep:?}, {}, {cut:?}: {done:?}", path.display());
                let told = done.unwrap_err();
                match &told {
                    BackupError::KeptFile { path: named, why } => {
                        assert_eq!(*named, path, "{what}");
                        match cut {
                            None => assert_eq!(*why, KeptFileFault::Missing, "{what}"),
                            Some(found) => {
                                let expected = len_bytes;
                                let length = KeptFileFault::Length { found, expected };
                                assert_eq!(*why, length, "{what}");
                            }
                        }
                        let text = told.to_string();
                        assert!(text.contains("name another directory"), "{text}");
                    }
                    BackupError::Source(_) if is_list => {}
                    _ => panic!("{what}"),
                }
                backed_up.write(&path, &bytes);
            }
            (rows, logs) = (rows + u32::from(!is_log), logs + u32::from(is_log));
        }
        assert!(rows > 1 && logs > 2, "{rows}, {logs}");
        backed_up.back_up(true).unwrap();
        let found = copied(SPEC.parse().unwrap(), &backed_up.copies, ReplayOrder::Merge);
        assert_eq!(found, contents(&backed_up.db));
    }
}

/// If no file is missing, only a full verification detects the damage.
#[test]
fn a_damaged_file_is_found_where_contents_are_verified() {
    for keep in [None, Some(HOUR)] {
        let backed_up = BackedUp::new(keep);
        let mut found = [0; 2];
        for (path, _) in backed_up.files() {
            let bytes = backed_up.copies.read(&path).unwrap();
            let is_list = path.to_string_lossy().contains(".list");
            let frame = bytes.windows(4).position(|four| four == b"NLF1");
            let at = match frame {
                Some(at) => at as u64 + 80,
                None => 100,
            };
            if is_list {
                continue;
            }
            backed_up.copies.flip(&path, at, 1).unwrap();
            let done = backed_up.back_up(true);
            let what = format!("{keep:?}, {}: {done:?}", path.display());
            match done.unwrap_err() {
                BackupError::KeptRows { path: named, .. } => {
                    assert_eq!(named, path, "{what}");
                    found[0] += 1;
                }
                error @ BackupError::KeptLog { .. } => {
                    let told = format!("{error:?}");
                    // A missing frame is reported at the end of the previous one, which may be in
                    // another file of its stream.
                    let stream = path.parent().unwrap().display().to_string();
                    assert!(told.contains(&stream), "{told}");
                    found[1] += 1;
                }
                _ => panic!("{what}"),
            }
            backed_up.copies.flip(&path, at, 1).unwrap();
        }
        assert!(found[0] > 0 && found[1] > 2, "{found:?}");
        backed_up.back_up(true).unwrap();
        let _ = &backed_up.disk;
    }
}
