//! The backups that survive a crash, and the next backup after it.

use namiki::files::Manifest;
use namiki::{BackupOptions, Database, Stamp};
use namiki_platform::disk::SimDisk;
use namiki_platform::seeded_random::Random;

use super::backups::{COPY, arc, back_up};
use super::shown_views::ShownView;
use super::{Oracle, Setup, Tables};
use crate::key_encoding::Numbered;

/// The directory into which a state is restored, on a disk of its own.
const RESTORED: &str = "/restored";

/// Checks the backup left by a crash after `events` events: it is the state of its stamp, and so is
/// each earlier backup. Returns the number of states checked.
///
/// # Errors
/// The first mismatch.
pub(super) fn check_left<K: Numbered>(
    image: &SimDisk,
    setup: Setup,
    oracle: &Oracle,
    events: usize,
    random: &mut Random,
) -> Result<u64, String> {
    let told = |error: &dyn std::fmt::Debug| format!("of the backup: {error:?}");
    let acknowledged = oracle.backups.acknowledged(events);
    let manifest = Manifest::read(image, COPY.as_ref()).map_err(|error| told(&error))?;
    let Some(mark) = manifest.and_then(|manifest| manifest.backup) else {
        return match acknowledged {
            Some(stamp) => Err(format!("the backup at {stamp} is gone")),
            None => Ok(0),
        };
    };
    if acknowledged.is_some_and(|stamp| mark.stamp < stamp) {
        return Err(format!(
            "the backup is at {}, not {acknowledged:?}",
            mark.stamp
        ));
    }
    check_state::<K>(image, COPY, setup, oracle, mark.stamp)?;
    let points = setup.builder(image).restore_points_of(COPY);
    let points = points.map_err(|error| told(&error))?;
    if points.is_empty() {
        return Ok(1);
    }
    let point = points[random.index(points.len())].stamp;
    let disk = SimDisk::new();
    let options = BackupOptions::default().disk(arc(&disk));
    let restored = setup
        .builder(image)
        .restore_to(COPY, RESTORED, point, &options);
    restored.map_err(|error| format!("{point} cannot be restored: {}", told(&error)))?;
    check_state::<K>(&disk, RESTORED, setup, oracle, point)?;
    Ok(2)
}

/// Compares a directory with the transactions up to a stamp.
fn check_state<K: Numbered>(
    disk: &SimDisk,
    dir: &str,
    setup: Setup,
    oracle: &Oracle,
    stamp: Stamp,
) -> Result<(), String> {
    let shown = shown::<K>(disk, dir, setup)?;
    let same = oracle.check_is_state_at(&ShownView { stamp, ..shown });
    same.map_err(|wrong| format!("{dir} at {stamp}: {wrong}"))
}

fn shown<K: Numbered>(disk: &SimDisk, dir: &str, setup: Setup) -> Result<ShownView, String> {
    let db = setup.builder(disk).open_read_only(dir);
    let db = db.map_err(|error| format!("{dir} does not open: {error:?}"))?;
    let read = Tables::<K>::of(&db).and_then(|tables| ShownView::read(&db.view()?, &tables));
    read.map_err(|error| format!("{dir}: {error:?}"))
}

/// Takes the next backup of a recovered database, and compares the two.
///
/// # Errors
/// The first mismatch.
pub(super) fn check_next<K: Numbered>(
    db: &Database,
    tables: &Tables<K>,
    image: &SimDisk,
    setup: Setup,
) -> Result<(), String> {
    let taken = back_up(db, image).map_err(|error| format!("no next backup: {error:?}"))?;
    if taken.is_none() {
        return Ok(());
    }
    let view = db.view().and_then(|view| ShownView::read(&view, tables));
    let expected = view.map_err(|error| format!("{error:?}"))?.data;
    if shown::<K>(image, COPY, setup)?.data == expected {
        Ok(())
    } else {
        Err("the next backup is not the database".to_owned())
    }
}
