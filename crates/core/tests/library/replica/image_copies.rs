//! An image on its way to another replica: whole, interrupted, superseded, damaged.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use namiki::Database;
use namiki::disk::{Disk, MemoryDisk};
use namiki::replica::{ImageCopy, ImageCopyError, PinnedImage};
use namiki_platform::disk::{AlignedBuf, DiskCall, HookedDisk};

use super::*;

/// A replica on a disk, and the disk.
fn open(disk: &Arc<dyn Disk>, dir: &str) -> Arc<Replica> {
    let builder = Database::builder().disk(Arc::clone(disk));
    Arc::new(Replica::open(builder, dir).unwrap())
}

fn fill(replica: &Arc<Replica>, stamp: u64, table: TableId, keys: std::ops::Range<u64>) {
    let mut group = replica.begin_group();
    for key in keys {
        let slot = group.lock(table, &key.to_be_bytes()).unwrap();
        group.write(slot, Some(&[stamp as u8; 100])).unwrap();
    }
    let changes = changes_of(&group);
    group.seal().install(Stamp(stamp), &changes).unwrap();
}

fn write_image(replica: &Replica) {
    let number = replica.applied_through().0.to_le_bytes();
    replica.put_reserved([(&b"at"[..], Some(&number[..]))]);
    let view = replica.view_for_image().unwrap();
    replica.write_image(view, |_| true).unwrap();
}

/// Two tables of some hundred rows each, with an image.
fn sender(disk: &Arc<dyn Disk>) -> Arc<Replica> {
    let replica = open(disk, "/sender");
    let notes = replica.create_table("notes", false).unwrap();
    let accounts = replica.create_table("accounts", true).unwrap();
    fill(&replica, 1, notes, 0..500);
    fill(&replica, 2, accounts, 0..300);
    write_image(&replica);
    replica
}

/// Takes stretches of this length, until the copy has everything or `most` of them.
fn copy(
    image: &PinnedImage,
    copy: &mut ImageCopy,
    stretch: usize,
    most: usize,
) -> Result<(), ImageCopyError> {
    for _ in 0..most {
        let Some((file, offset)) = copy.wanted() else {
            break;
        };
        let bytes = image.read(file, offset, stretch).unwrap();
        let file_bytes = image.file_bytes(file).unwrap();
        assert!(!copy.put((file, offset + 1), file_bytes, &bytes)?);
        assert!(copy.put((file, offset), file_bytes, &bytes)?);
        assert!(!copy.put((file, offset), file_bytes, &bytes)?);
    }
    Ok(())
}

fn reserved(replica: &Replica) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut rows = Vec::new();
    let view = replica.view().unwrap();
    (view.reserved(|key, value| rows.push((key.to_vec(), value.to_vec())))).unwrap();
    rows
}

#[test]
fn a_copy_opens_as_the_replica_it_was_made_of() {
    let (from, to): (Arc<dyn Disk>, Arc<dyn Disk>) =
        (Arc::new(MemoryDisk::new()), Arc::new(MemoryDisk::new()));
    let sender = sender(&from);
    for stretch in [97, 4096, 5000, 1 << 20] {
        let image = sender.pin_image().unwrap().unwrap();
        let mut copying =
            ImageCopy::begin(Arc::clone(&to), Path::new("/copy"), image.id()).unwrap();
        copy(&image, &mut copying, stretch, usize::MAX).unwrap();
        assert_eq!(copying.finish().unwrap(), image.stamp());
        let copied = open(&to, "/copy");
        assert_eq!(copied.applied_through(), image.stamp());
        assert_eq!(
            (rows(&copied), hash_of(&copied)),
            (rows(&sender), hash_of(&sender))
        );
        assert_eq!(reserved(&copied), reserved(&sender));
        assert_eq!(copied.tables(), sender.tables());
        // It goes on, with images of its own.
        let stamp = image.stamp().0 + 1;
        for replica in [&sender, &copied] {
            fill(
                replica,
                stamp,
                replica.table_id("notes").unwrap(),
                stamp..stamp + 40,
            );
        }
        write_image(&copied);
        write_image(&sender);
        assert_eq!(hash_of(&copied), hash_of(&sender));
        drop(copied);
        assert_eq!(hash_of(&open(&to, "/copy")), hash_of(&sender));
        ImageCopy::remove_replica(&*to, Path::new("/copy")).unwrap();
        let left = to.list(Path::new("/copy")).unwrap();
        assert!(left.is_empty(), "{left:?}");
    }
}

#[test]
fn a_replica_without_an_image_has_none_to_send() {
    let replica = replica();
    assert!(replica.pin_image().unwrap().is_none());
}

#[test]
fn a_pinned_image_is_read_after_newer_ones() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let sender = sender(&disk);
    let then = (rows(&sender), hash_of(&sender));
    let image = sender.pin_image().unwrap().unwrap();
    let notes = sender.table_id("notes").unwrap();
    for stamp in 3..6 {
        fill(&sender, stamp, notes, 0..500);
        write_image(&sender);
    }
    sender.drop_table(notes);
    sender.pass(Stamp(6)).unwrap();
    write_image(&sender);
    let mut copying = ImageCopy::begin(Arc::clone(&disk), Path::new("/copy"), image.id()).unwrap();
    copy(&image, &mut copying, 1 << 16, usize::MAX).unwrap();
    copying.finish().unwrap();
    let copied = open(&disk, "/copy");
    assert_eq!((rows(&copied), hash_of(&copied)), then);
}

/// A replica that began with another one's image numbers its files as that one does, so its image does not continue a backup of it.
#[test]
fn a_backup_is_continued_with_one_history() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let sender = sender(&disk);
    let notes = sender.table_id("notes").unwrap();
    let copy_to = |dir: &str, replica: &Replica| {
        let image = replica.pin_image().unwrap().unwrap();
        let begun = ImageCopy::begin_beside(Arc::clone(&disk), Path::new(dir), image.id());
        let mut copying = begun.unwrap();
        copy(&image, &mut copying, 1 << 20, usize::MAX)?;
        copying.finish()
    };
    sender.begin_history(1);
    for stamp in 3..5 {
        fill(&sender, stamp, notes, 0..500);
        write_image(&sender);
        copy_to("/backup", &sender).unwrap();
    }
    let saved = (rows(&sender), hash_of(&sender));
    copy_to("/copy", &sender).unwrap();
    let copied = open(&disk, "/copy");
    copied.begin_history(2);
    fill(&copied, 5, notes, 0..500);
    write_image(&copied);
    let refused = copy_to("/backup", &copied);
    assert!(
        matches!(refused, Err(ImageCopyError::OtherNode { .. })),
        "{refused:?}"
    );
    copy_to("/another", &copied).unwrap();
    let backup = open(&disk, "/backup");
    assert_eq!((rows(&backup), hash_of(&backup)), saved);
}

/// The runs that an interrupted copy has left are not copied again, not even for a newer image that shares them.
#[test]
fn an_interrupted_copy_goes_on_with_whole_runs() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let sender = sender(&disk);
    let dir = Path::new("/copy");
    let first = sender.pin_image().unwrap().unwrap();
    let mut copying = ImageCopy::begin(Arc::clone(&disk), dir, first.id()).unwrap();
    // Both heads, the cluster's rows, and those of the notes.
    copy(&first, &mut copying, 1 << 20, 4).unwrap();
    assert_eq!(copying.wanted(), Some((4, 0)));
    // A part of the accounts.
    copy(&first, &mut copying, 4096, 1).unwrap();
    assert_eq!(copying.wanted(), Some((4, 4096)));
    assert!(matches!(
        copying.finish(),
        Err(ImageCopyError::NoImage { .. })
    ));
    let accounts = sender.table_id("accounts").unwrap();
    fill(&sender, 3, accounts, 0..300);
    write_image(&sender);
    let second = sender.pin_image().unwrap().unwrap();
    assert_ne!(first.id(), second.id());
    let mut copying = ImageCopy::begin(Arc::clone(&disk), dir, second.id()).unwrap();
    copy(&second, &mut copying, 1 << 20, 2).unwrap();
    // The cluster's own row has changed, the notes have not.
    assert_eq!(copying.wanted(), Some((2, 0)));
    copy(&second, &mut copying, 1 << 20, 1).unwrap();
    assert_eq!(copying.wanted(), Some((4, 0)));
    copy(&second, &mut copying, 1 << 20, 1).unwrap();
    copying.finish().unwrap();
    assert_eq!(hash_of(&open(&disk, "/copy")), hash_of(&sender));
}

/// What is left is verified while the rest comes, not before.
#[test]
fn runs_that_are_left_are_verified_while_others_come() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let sender = sender(&disk);
    let dir = Path::new("/copy");
    let image = sender.pin_image().unwrap().unwrap();
    let begin = || ImageCopy::begin(Arc::clone(&disk), dir, image.id()).unwrap();
    let mut copying = begin();
    copy(&image, &mut copying, 1 << 20, 4).unwrap();
    drop(copying);
    assert!(ImageCopy::is_left_in(&*disk, dir).unwrap());
    let left = disk.list(&dir.join("image")).unwrap();
    let mut copying = begin();
    copy(&image, &mut copying, 1 << 20, 2).unwrap();
    assert_eq!(copying.wanted(), Some((4, 0)));
    for file in left {
        flip(&disk, &file.path);
    }
    // The last one comes, and one of the damaged ones is found; then the other one.
    copy(&image, &mut copying, 1 << 20, 1).unwrap();
    assert_eq!(copying.wanted(), Some((2, 0)));
    copy(&image, &mut copying, 1 << 20, 1).unwrap();
    assert_eq!(copying.wanted(), Some((3, 0)));
    copy(&image, &mut copying, 1 << 20, 1).unwrap();
    copying.finish().unwrap();
    assert_eq!(hash_of(&open(&disk, "/copy")), hash_of(&sender));
    ImageCopy::remove_all(&*disk, dir).unwrap();
    assert!(!ImageCopy::is_left_in(&*disk, dir).unwrap());
}

/// Its process ends, and does not wait until all of them are verified.
#[test]
fn a_copy_that_is_stopped_verifies_no_further_run() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let sender = sender(&disk);
    let dir = Path::new("/copy");
    let image = sender.pin_image().unwrap().unwrap();
    let begin = || ImageCopy::begin(Arc::clone(&disk), dir, image.id()).unwrap();
    let mut copying = begin();
    copy(&image, &mut copying, 1 << 20, usize::MAX).unwrap();
    drop(copying);
    for runs in 0..2 {
        let mut copying = begin();
        let asked = AtomicUsize::new(0);
        copying.stop_when(move || asked.fetch_add(1, Ordering::Relaxed) == runs);
        copy(&image, &mut copying, 1 << 20, 2).unwrap();
        assert!(copying.wanted().is_some(), "{runs}");
        assert!(matches!(
            copying.finish(),
            Err(ImageCopyError::NoImage { .. })
        ));
    }
    let mut copying = begin();
    copy(&image, &mut copying, 1 << 20, 2).unwrap();
    copying.finish().unwrap();
    assert_eq!(hash_of(&open(&disk, "/copy")), hash_of(&sender));
}

#[test]
fn damage_on_the_way_is_found() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let sender = sender(&disk);
    let image = sender.pin_image().unwrap().unwrap();
    let begin_in = |dir: &str, id| ImageCopy::begin(Arc::clone(&disk), Path::new(dir), id).unwrap();
    let begin = |id| begin_in("/copy", id);
    for damaged in 0..5 {
        let mut copying = begin_in(&format!("/damaged {damaged}"), image.id());
        copy(&image, &mut copying, 1 << 20, damaged).unwrap();
        let file = damaged as u32;
        assert_eq!(copying.wanted(), Some((file, 0)));
        let file_bytes = image.file_bytes(file).unwrap();
        let mut bytes = image.read(file, 0, 1 << 20).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        // The heads are read together.
        let found = copying
            .put((file, 0), file_bytes, &bytes)
            .and_then(|_| copy(&image, &mut copying, 1 << 20, usize::MAX));
        let is_expected = match damaged {
            0 | 1 => matches!(found, Err(ImageCopyError::NoImage { .. })),
            _ => matches!(found, Err(ImageCopyError::Damaged(_))),
        };
        assert!(is_expected, "{damaged}: {found:?}");
    }
    // Another image than the one that was begun.
    let mut copying = begin(image.id() + 1);
    let found = copy(&image, &mut copying, 1 << 20, usize::MAX);
    assert!(
        matches!(found, Err(ImageCopyError::NoImage { .. })),
        "{found:?}"
    );
    // A run that was damaged on the disk since is copied again.
    let mut copying = begin(image.id());
    copy(&image, &mut copying, 1 << 20, 4).unwrap();
    drop(copying);
    let run = disk.list(Path::new("/copy/image")).unwrap().pop().unwrap();
    flip(&disk, &run.path);
    let mut copying = begin(image.id());
    copy(&image, &mut copying, 1 << 20, usize::MAX).unwrap();
    copying.finish().unwrap();
    assert_eq!(hash_of(&open(&disk, "/copy")), hash_of(&sender));
}

fn flip(disk: &Arc<dyn Disk>, path: &Path) {
    let file = disk.open(path).unwrap();
    let mut page = AlignedBuf::zeroed(4096);
    file.read_at(0, &mut page).unwrap();
    page[100] ^= 1;
    file.write_durable(0, &page).unwrap();
}

/// A file of unchanged ranges would be kept by each later image.
#[test]
fn a_damaged_file_of_the_own_image_is_written_again() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let sender = sender(&disk);
    let image = sender.pin_image().unwrap().unwrap();
    let files: Vec<u32> = (0..)
        .take_while(|it| image.file_bytes(*it).is_some())
        .collect();
    assert!(files.len() > 3 && files.iter().all(|file| image.is_whole(*file)));
    let runs = disk.list(Path::new("/sender/image")).unwrap();
    let runs = runs.into_iter().map(|file| file.path);
    let runs = runs.filter(|path| path.extension().is_some_and(|it| it == "rows"));
    for path in runs {
        flip(&disk, &path);
    }
    let damaged: Vec<u32> = (files.iter().copied())
        .filter(|file| !image.is_whole(*file))
        .collect();
    assert_eq!(
        damaged.len(),
        files.len() - 2,
        "all but the manifest and the list"
    );
    let open_again = || Replica::open(Database::builder().disk(Arc::clone(&disk)), "/sender");
    for file in damaged {
        sender.rewrite_file(&image, file);
    }
    // Of the same entry.
    let view = sender.view_for_image().unwrap();
    sender.write_image(view, |_| true).unwrap();
    let newer = sender.pin_image().unwrap().unwrap();
    assert!(newer.id() != image.id() && newer.stamp() == image.stamp());
    assert!(files.iter().all(|file| newer.is_whole(*file)));
    let state = (rows(&sender), hash_of(&sender), reserved(&sender));
    drop(sender);
    let again = Arc::new(open_again().unwrap());
    assert_eq!((rows(&again), hash_of(&again), reserved(&again)), state);
}

/// Copies a whole image into the directory of a backup.
fn back_up(disk: &Arc<dyn Disk>, image: &PinnedImage) -> Result<Stamp, ImageCopyError> {
    let mut copying =
        ImageCopy::begin_beside(Arc::clone(disk), Path::new("/backup"), image.id()).unwrap();
    copy(image, &mut copying, 1 << 20, usize::MAX)?;
    copying.finish()
}

fn image_after_change(replica: &Arc<Replica>, stamp: u64) -> PinnedImage {
    let accounts = replica.table_id("accounts").unwrap();
    fill(replica, stamp, accounts, 0..300);
    write_image(replica);
    replica.pin_image().unwrap().unwrap()
}

fn hash_of_backup(disk: &Arc<dyn Disk>) -> u128 {
    hash_of(&open(disk, "/backup"))
}

/// Nodes that were installed from one image have the database's identity in common, and number their files alike.
#[test]
fn nodes_of_one_identity_do_not_replace_their_backups() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let sender = sender(&disk);
    let first = sender.pin_image().unwrap().unwrap();
    let mut copying = ImageCopy::begin(Arc::clone(&disk), Path::new("/twin"), first.id()).unwrap();
    copy(&first, &mut copying, 1 << 20, usize::MAX).unwrap();
    copying.finish().unwrap();
    let twin = open(&disk, "/twin");
    // The image that both have.
    back_up(&disk, &twin.pin_image().unwrap().unwrap()).unwrap();
    back_up(&disk, &image_after_change(&sender, 3)).unwrap();
    let state = hash_of(&sender);
    assert_eq!(hash_of_backup(&disk), state);
    let files = disk.list(Path::new("/backup/image")).unwrap();
    let refused = back_up(&disk, &image_after_change(&twin, 3));
    assert!(
        matches!(refused, Err(ImageCopyError::OtherNode { .. })),
        "{refused:?}"
    );
    assert_eq!(disk.list(Path::new("/backup/image")).unwrap(), files);
    assert_eq!(hash_of_backup(&disk), state);
    back_up(&disk, &image_after_change(&sender, 4)).unwrap();
    assert_eq!(hash_of_backup(&disk), hash_of(&sender));
}

/// A run that cannot be verified stays until it has come again, since reading it may have failed for the moment alone.
#[test]
fn a_named_run_stays_until_it_has_come_again() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let sender = sender(&disk);
    let image = sender.pin_image().unwrap().unwrap();
    back_up(&disk, &image).unwrap();
    let is_run = |path: &Path| path.extension().is_some_and(|it| it == "rows");
    let files = disk.list(Path::new("/backup/image")).unwrap();
    let runs = files.iter().filter(|file| is_run(&file.path));
    runs.for_each(|file| flip(&disk, &file.path));
    let mut copying =
        ImageCopy::begin_beside(Arc::clone(&disk), Path::new("/backup"), image.id()).unwrap();
    copy(&image, &mut copying, 1 << 20, 2).unwrap();
    assert_eq!(copying.wanted(), Some((2, 0)));
    // A part of it.
    copy(&image, &mut copying, 4096, 1).unwrap();
    drop(copying);
    assert_eq!(disk.list(Path::new("/backup/image")).unwrap(), files);
    back_up(&disk, &image).unwrap();
    assert_eq!(hash_of_backup(&disk), hash_of(&sender));
}

/// The manifest still names the list of the earlier backup, which may be of the same image.
#[test]
fn an_interrupted_end_leaves_the_earlier_backup() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let sender = sender(&disk);
    let image = sender.pin_image().unwrap().unwrap();
    back_up(&disk, &image).unwrap();
    for fails in 0..4 {
        let calls = std::sync::atomic::AtomicUsize::new(0);
        let failing: Arc<dyn Disk> = Arc::new(HookedDisk::new(
            Arc::clone(&disk),
            move |call, path: &Path| {
                let is_end = matches!(
                    call,
                    DiskCall::Append | DiskCall::Replace(_) | DiskCall::SyncDir
                );
                // The directory itself is synced at the beginning.
                let is_counted = is_end && path != Path::new("/backup");
                if is_counted && calls.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == fails {
                    return Err(std::io::ErrorKind::StorageFull.into());
                }
                Ok(())
            },
        ));
        let ended = back_up(&failing, &image);
        let is_failed = matches!(ended, Err(ImageCopyError::Device { .. }));
        assert!(is_failed || fails == 3, "{fails}: {ended:?}");
        let left = PinnedImage::of_directory(&disk, Path::new("/backup"));
        let left = left.unwrap().unwrap();
        assert_eq!(left.id(), image.id());
        let files = (0..).take_while(|file| left.file_bytes(*file).is_some());
        assert!(files.into_iter().all(|file| left.is_whole(file)));
    }
}

#[test]
fn one_backup_at_a_time_has_a_directory() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let sender = sender(&disk);
    let image = sender.pin_image().unwrap().unwrap();
    let begin = || ImageCopy::begin_beside(Arc::clone(&disk), Path::new("/backup"), image.id());
    let first = begin().unwrap();
    let second = begin();
    assert!(
        matches!(second, Err(ImageCopyError::InUse { .. })),
        "{second:?}"
    );
    drop(first);
    begin().unwrap();
}

#[test]
fn a_damaged_earlier_backup_is_not_written_beside() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let sender = sender(&disk);
    back_up(&disk, &sender.pin_image().unwrap().unwrap()).unwrap();
    let files = disk.list(Path::new("/backup/image")).unwrap();
    let list = files
        .iter()
        .find(|file| file.path.extension().is_some_and(|it| it == "new"));
    disk.replace(&list.unwrap().path, b"nothing").unwrap();
    let refused = back_up(&disk, &image_after_change(&sender, 3));
    assert!(
        matches!(refused, Err(ImageCopyError::EarlierDamaged { .. })),
        "{refused:?}"
    );
}
