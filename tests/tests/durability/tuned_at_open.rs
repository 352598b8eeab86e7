//! Databases that choose their protocol when they are opened.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::ErrorKind;
use std::num::NonZeroU16;
use std::path::Path;
use std::sync::Arc;

use namiki::files::Manifest;
use namiki::{Builder, Database, Isolation, OpenError, ProtocolChoice, ProtocolSpec};
use namiki_platform::disk::sim::Loss;
use namiki_platform::disk::{Disk, SimDisk};
use namiki_tests::small_database::{builder, keys, put};

fn automatic(disk: &SimDisk, isolation: Isolation) -> Builder {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    Database::builder()
        .disk(disk)
        .protocol(ProtocolChoice::Auto(isolation))
}

#[test]
fn the_tuned_config_is_reported_kept_and_used() {
    let disk = SimDisk::new();
    let promises = [Isolation::Serializable, Isolation::StrictlySerializable];
    for (round, isolation) in (0..).zip(promises.into_iter().cycle().take(4)) {
        let db = automatic(&disk, isolation).open("/db").unwrap();
        let choice = *db.tuned_config().unwrap();
        assert_eq!(choice.spec, db.spec());
        assert!(choice.to_string().starts_with(&choice.spec.to_string()));
        let strict = isolation == Isolation::StrictlySerializable;
        assert_eq!(db.spec().concurrency.is_strict(), strict);
        let manifest = Manifest::read(&disk, Path::new("/db")).unwrap().unwrap();
        assert_eq!(manifest.spec, choice.spec);
        assert_eq!(
            manifest.generations.last().unwrap().streams,
            choice.streams.get()
        );
        assert_eq!(keys(&db), (0..round).collect::<Vec<_>>());
        put(&db, round).unwrap();
    }
    let db = builder("TT(ELR)+PWAL(1)", &disk).open("/db").unwrap();
    assert_eq!(db.tuned_config(), None);
    assert_eq!(keys(&db), [0, 1, 2, 3]);
}

/// The choice does not depend on the previous opening: the manifest only records it.
#[test]
fn an_opening_without_a_spec_is_strict() {
    let disk = SimDisk::new();
    for (round, before) in (0..).zip(["TT(EPOCH)+PWAL(auto)", "S2PL(NLR)+PWAL(1)+ARIES"]) {
        let db = builder(before, &disk).open("/db").unwrap();
        put(&db, 2 * round).unwrap();
        // Once closed, and once as after a crash.
        if round == 0 {
            db.close().unwrap();
        }
        let image = disk.crash_image(disk.events(), Loss::None);
        drop(db);
        let shared: Arc<dyn Disk> = Arc::new(image.clone());
        let db = Database::builder().disk(shared).open("/db").unwrap();
        assert_eq!(db.spec(), ProtocolSpec::DEFAULT);
        assert!(db.spec().concurrency.is_strict());
        let manifest = Manifest::read(&image, Path::new("/db")).unwrap().unwrap();
        assert_eq!(manifest.spec, ProtocolSpec::DEFAULT);
        put(&db, 2 * round + 1).unwrap();
        assert_eq!(keys(&db).last(), Some(&(2 * round + 1)));
    }
    assert!(
        Database::in_memory()
            .unwrap()
            .spec()
            .concurrency
            .is_strict()
    );
}

#[test]
fn explicit_settings_are_not_tuned() {
    let disk = SimDisk::new();
    let streams = NonZeroU16::new(7).unwrap();
    let builder = automatic(&disk, Isolation::Serializable).streams(streams);
    let _db = builder.open("/db").unwrap();
    let manifest = Manifest::read(&disk, Path::new("/db")).unwrap().unwrap();
    assert_eq!(manifest.generations.last().unwrap().streams, 7);
}

#[test]
fn an_unmeasurable_device_is_reported_and_harms_nothing() {
    let disk = SimDisk::new();
    let db = builder("TT(NLR)+PWAL(1)", &disk).open("/db").unwrap();
    put(&db, 1).unwrap();
    drop(db);
    disk.fail_after(3, ErrorKind::Other);
    let refused = automatic(&disk, Isolation::Serializable).open("/db");
    assert!(
        matches!(refused, Err(OpenError::Device { .. })),
        "{refused:?}"
    );
    disk.heal();
    let db = automatic(&disk, Isolation::Serializable)
        .open("/db")
        .unwrap();
    assert_eq!(keys(&db), [1]);
}

/// At every event of a creation, including those of the files written to measure.
#[test]
fn a_crash_while_the_device_is_measured_is_no_obstacle() {
    let disk = SimDisk::new();
    let db = automatic(&disk, Isolation::Serializable)
        .open("/db")
        .unwrap();
    drop(db);
    for at in 0..=disk.events() {
        for loss in [Loss::None, Loss::All] {
            let image = disk.crash_image(at, loss);
            let db = automatic(&image, Isolation::Serializable)
                .open("/db")
                .unwrap();
            put(&db, 1).unwrap();
            drop(db);
            let left = image.list(Path::new("/db")).unwrap();
            let left = left
                .iter()
                .filter(|file| file.path.to_string_lossy().contains("profile"));
            assert_eq!(left.count(), 0, "after event {at}");
        }
    }
}
