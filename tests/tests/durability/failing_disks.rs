//! Full and failing disks: acknowledged commits survive, and unknown outcomes are reported as such.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::ErrorKind;

use namiki::{Builder, Error, LogError, OpenError, ProtocolSpec, WorkerId};
use namiki_platform::disk::SimDisk;
use namiki_platform::disk::sim::{Fault, Loss, Step};
use namiki_tests::crash::tested_combinations;
use namiki_tests::small_database::{builder, keys, numbers, put, written};

#[test]
fn a_full_disk_refuses_commits_and_loses_nothing() {
    for spec in ProtocolSpec::tested() {
        let disk = SimDisk::new();
        let spec = spec.to_string();
        let db = builder(&spec, &disk).open("/db").unwrap();
        put(&db, 0).unwrap();
        disk.set_capacity(Some(100 << 10));
        let mut acknowledged = vec![0];
        let error = loop {
            let key = acknowledged.len() as u64;
            match put(&db, key) {
                Ok(()) => acknowledged.push(key),
                Err(error) => break error,
            }
        };
        match &error {
            Error::DiskFull(LogError::DiskFull { path, .. }) => {
                assert!(path.starts_with("/db/wal"), "{path:?}");
            }
            other => panic!("{spec}: {other:?}"),
        }
        assert!(!error.is_retryable());
        assert!(acknowledged.len() > 20, "{spec}: {}", acknowledged.len());
        // Reads continue to work.
        assert_eq!(keys(&db), acknowledged, "{spec}");
        let name = db.table::<u64, u64>(&"long name ".repeat(20));
        if let Err(error) = name {
            assert!(matches!(error, Error::Manifest { .. }), "{error:?}");
        }
        // A crash in this state.
        let image = disk.crash_image(disk.events(), Loss::All);
        assert_eq!(
            keys(&builder(&spec, &image).open("/db").unwrap()),
            acknowledged
        );
        disk.set_capacity(None);
        for _ in 0..50 {
            let key = acknowledged.len() as u64;
            put(&db, key).unwrap();
            acknowledged.push(key);
        }
        drop(db);
        assert_eq!(
            keys(&builder(&spec, &disk).open("/db").unwrap()),
            acknowledged
        );
    }
}

#[test]
fn a_full_region_refuses_commits_until_moved() {
    let disk = SimDisk::new();
    // Without checkpoints, which would free it again.
    let shared = |builder: Builder| {
        let builder = builder.checkpoint_log_bytes(u64::MAX);
        builder.shared_device("/db/log", 16 << 10)
    };
    let db = shared(builder("TT(ELR)+PWAL(1)", &disk))
        .open("/db")
        .unwrap();
    let mut acknowledged = Vec::new();
    let error = loop {
        let key = acknowledged.len() as u64;
        match put(&db, key) {
            Ok(()) => acknowledged.push(key),
            Err(error) => break error,
        }
    };
    assert!(
        matches!(&error, Error::DiskFull(LogError::RegionFull { .. })),
        "{error:?}"
    );
    assert_eq!(keys(&db), acknowledged);
    drop(db);
    let db = builder("TT(ELR)+PWAL(1)", &disk).open("/db").unwrap();
    assert_eq!(keys(&db), acknowledged);
    put(&db, acknowledged.len() as u64).unwrap();
}

#[test]
fn a_failed_opening_on_a_full_disk_harms_nothing() {
    let disk = written("TT(NLR)+PWAL(1)", 5, true);
    disk.set_capacity(Some(0));
    let error = builder("TT(NLR)+PWAL(1)", &disk).open("/db").unwrap_err();
    assert!(
        matches!(&error, OpenError::Device { source, .. } if source.kind() == ErrorKind::StorageFull),
        "{error:?}"
    );
    disk.set_capacity(None);
    let db = builder("TT(NLR)+PWAL(1)", &disk).open("/db").unwrap();
    assert_eq!(keys(&db), [0, 1, 2, 3, 4]);
}

/// An obstacle to creating the next log file, while it lasts: nothing was written, so no outcome is
/// unknown.
#[test]
fn commits_resume_when_the_next_log_file_can_be_made() {
    let causes = [
        (Step::Create, ErrorKind::PermissionDenied),
        (Step::Create, ErrorKind::ReadOnlyFilesystem),
        (Step::SyncDir, ErrorKind::OutOfMemory),
        // Too many open files.
        (Step::Create, ErrorKind::Other),
    ];
    for (number, spec) in ProtocolSpec::tested().into_iter().enumerate() {
        let (step, kind) = causes[number % causes.len()];
        let (disk, spec) = (SimDisk::new(), spec.to_string());
        let db = builder(&spec, &disk).open("/db").unwrap();
        let table = numbers(&db);
        put(&db, 0).unwrap();
        let view = db.view().unwrap();
        disk.inject(Fault::once(step, 0, kind).and_ever_after());
        let mut acknowledged = vec![0];
        let error = loop {
            let key = acknowledged.len() as u64;
            match put(&db, key) {
                Ok(()) => acknowledged.push(key),
                Err(error) => break error,
            }
        };
        assert!(matches!(error, Error::NoLogFile(_)), "{spec}: {error:?}");
        let told = format!("{error:?}");
        assert!(told.contains("nothing was changed"), "{told}");
        // Reads and views continue to work: everything that they show is durable.
        assert_eq!(keys(&db), acknowledged, "{spec}");
        assert_eq!(view.get(&table, &0).unwrap(), Some(0), "{spec}");
        let count = db.read(|view| view.count(&table, ..));
        assert_eq!(count.unwrap(), acknowledged.len(), "{spec}");
        let image = disk.crash_image(disk.events(), Loss::All);
        assert_eq!(
            keys(&builder(&spec, &image).open("/db").unwrap()),
            acknowledged
        );
        disk.heal();
        for _ in 0..50 {
            let key = acknowledged.len() as u64;
            put(&db, key).unwrap();
            acknowledged.push(key);
        }
        db.close().unwrap();
        assert_eq!(
            keys(&builder(&spec, &disk).open("/db").unwrap()),
            acknowledged
        );
    }
}

/// A log that has failed permanently: the contents of an open view are durable, and those of a new
/// one may not be.
#[test]
fn open_views_outlive_the_log_and_none_is_opened() {
    for spec in ProtocolSpec::tested() {
        let (disk, spec) = (SimDisk::new(), spec.to_string());
        let db = builder(&spec, &disk).open("/db").unwrap();
        let table = numbers(&db);
        (0..5).for_each(|key| put(&db, key).unwrap());
        let view = db.view().unwrap();
        let mut session = db.session().unwrap();
        session.transact(|tx| tx.put(&table, &4, &4)).unwrap();
        disk.fail_after(0, ErrorKind::Other);
        let failed = session.transact(|tx| tx.put(&table, &0, &9));
        assert!(matches!(failed, Err(Error::OutcomeUnknown(_))), "{spec}");
        disk.heal();
        for _ in 0..2 {
            assert!(matches!(db.view(), Err(Error::LogFailed(_))), "{spec}");
            assert_eq!(view.get(&table, &0).unwrap(), Some(0), "{spec}");
            assert_eq!(view.count(&table, ..).unwrap(), 5, "{spec}");
        }
    }
}

#[test]
fn after_a_failed_write_nothing_is_acknowledged() {
    for spec in ProtocolSpec::tested() {
        let text = spec.to_string();
        let disk = SimDisk::new();
        let db = builder(&text, &disk).open("/db").unwrap();
        let table = numbers(&db);
        for key in 0..5 {
            put(&db, key).unwrap();
        }
        let mut session = db.session().unwrap();
        // The stream has created its file by now.
        session.transact(|tx| tx.put(&table, &4, &4)).unwrap();
        let mut open = db.begin().unwrap();
        assert_eq!(open.get(&table, &1).unwrap(), Some(1));
        disk.fail_after(0, ErrorKind::Other);
        let error = session.transact(|tx| tx.put(&table, &5, &5)).unwrap_err();
        assert!(
            matches!(error, Error::OutcomeUnknown(_)),
            "{spec}: {error:?}"
        );
        assert!(!error.is_retryable());
        // The disk works again, but the state of its writes is unknown.
        disk.heal();
        let error = put(&db, 6).unwrap_err();
        assert!(matches!(error, Error::LogFailed(_)), "{spec}: {error:?}");
        // The versions that a reader would see may be lost.
        let error = db.transact(|tx| tx.get(&table, &5)).unwrap_err();
        assert!(matches!(error, Error::LogFailed(_)), "{spec}: {error:?}");
        let written = open.put(&table, &7, &7);
        let error = written.and_then(|()| open.commit()).unwrap_err();
        assert!(matches!(error, Error::LogFailed(_)), "{spec}: {error:?}");
        assert!(matches!(db.begin(), Err(Error::LogFailed(_))));
        let error = db.close().unwrap_err();
        let is_unknown = matches!(
            error,
            Error::NotClosed {
                is_durable: false,
                ..
            }
        );
        assert!(is_unknown, "{spec}: {error:?}");
        drop((session, db));

        let db = builder(&text, &disk).open("/db").unwrap();
        let found = keys(&db);
        assert!(
            found == [0, 1, 2, 3, 4] || found == [0, 1, 2, 3, 4, 5],
            "{spec}: {found:?}"
        );
        put(&db, 8).unwrap();
    }
}

/// A write that was reported as failed may be readable, and a readable write need not be durable.
/// It could vanish in a power cut after a reader has seen it.
#[test]
fn a_failed_write_shown_once_stays() {
    for (spec, shared) in tested_combinations() {
        let open = |disk: &SimDisk| {
            let builder = builder(&spec.to_string(), disk);
            let builder = if shared {
                builder.shared_device("/db/log", 64 << 10)
            } else {
                builder
            };
            builder.open("/db").unwrap()
        };
        let mut shown = 0;
        for seed in 0..12 {
            let disk = SimDisk::new();
            let db = open(&disk);
            put(&db, 0).unwrap();
            let table = numbers(&db);
            let mut session = db.session_on(WorkerId(0)).unwrap();
            // The first commit creates the stream's file.
            session.transact(|tx| tx.put(&table, &1, &1)).unwrap();
            // The torn write contains a frame, or on a device the head that covers it.
            let fault = Fault::once(Step::Write, shared.into(), ErrorKind::Other);
            disk.inject(fault.torn(seed));
            let failed = session.transact(|tx| tx.put(&table, &2, &2));
            assert!(matches!(failed, Err(Error::OutcomeUnknown(_))), "{spec}");
            disk.heal();
            drop((session, table, db));

            let db = open(&disk);
            let found = keys(&db);
            shown += u32::from(found == [0, 1, 2]);
            assert!(found == [0, 1, 2] || found == [0, 1], "{spec}: {found:?}");
            // No commit since then could have made it durable.
            let crashed = disk.crash_image(disk.events(), Loss::All);
            assert_eq!(keys(&open(&crashed)), found, "{spec}, {shared}, {seed}");
        }
        assert!(shown > 0, "{spec}, {shared}: no write came to light");
    }
}

#[test]
fn a_failed_groups_ticket_has_an_unknown_outcome() {
    for spec in ["TT(NLR)+PWAL(16)", "TT(ELR)+PWAL(16)"] {
        let disk = SimDisk::new();
        let db = builder(spec, &disk).open("/db").unwrap();
        let table = numbers(&db);
        let mut session = db.session().unwrap();
        put(&db, 0).unwrap();
        let commit = |session: &mut namiki::Session, key: u64| {
            let ((), ticket) = session
                .transact_async(|tx| tx.put(&table, &key, &key))
                .unwrap();
            ticket
        };
        let durable = commit(&mut session, 1);
        session.wait(&durable).unwrap();
        let pending = [commit(&mut session, 2), commit(&mut session, 3)];
        disk.inject(Fault::once(Step::Write, 0, ErrorKind::Other).torn(3));
        assert!(matches!(session.flush(), Err(Error::OutcomeUnknown(_))));
        for ticket in &pending {
            assert!(!db.is_acknowledged(ticket));
            assert!(matches!(db.wait(ticket), Err(Error::OutcomeUnknown(_))));
        }
        assert!(db.is_acknowledged(&durable));
        db.wait(&durable).unwrap();
    }
}

#[test]
fn every_failing_opening_is_a_typed_error() {
    let steps = [
        Step::Write,
        Step::Create,
        Step::SyncDir,
        Step::Rename,
        Step::Read,
    ];
    let mut failures = 0;
    for step in steps {
        for after in 0..6 {
            let disk = written("TT(ELR)+PWAL(1)", 5, false);
            disk.inject(Fault::once(step, after, ErrorKind::Other));
            match builder("TT(NLR)+PWAL(1)", &disk).open("/db") {
                Err(OpenError::Device { .. } | OpenError::Log(_) | OpenError::StartLog { .. }) => {
                    failures += 1;
                }
                Err(other) => panic!("{step:?} after {after}: {other:?}"),
                Ok(db) => drop(db),
            }
            disk.heal();
            let db = builder("TT(NLR)+PWAL(1)", &disk).open("/db");
            let db = db.unwrap_or_else(|error| panic!("{step:?} after {after}: {error:?}"));
            assert_eq!(keys(&db), [0, 1, 2, 3, 4], "{step:?} after {after}");
            put(&db, 5).unwrap();
        }
    }
    assert!(failures > 5, "{failures}");
}

#[test]
fn closing_again_after_a_failure_gives_the_same_answer() {
    for spec in ["TT(NLR)+PWAL(16)", "TT(ELR)+SWAL(16)"] {
        for step in [Step::Write, Step::Rename] {
            let disk = SimDisk::new();
            let db = builder(spec, &disk).open("/db").unwrap();
            let table = numbers(&db);
            put(&db, 1).unwrap();
            let mut session = db.session().unwrap();
            session.transact_async(|tx| tx.put(&table, &2, &2)).unwrap();
            disk.inject(Fault::once(step, 0, ErrorKind::Other));
            let error = db.close().unwrap_err();
            let Error::NotClosed { is_durable, .. } = &error else {
                panic!("{spec}, {step:?}: {error:?}");
            };
            assert_eq!(*is_durable, step == Step::Rename, "{spec}: {error:?}");
            let told = format!("{error:?}");
            assert!(!told.contains("nothing was changed"), "{told}");
            let says = match step {
                Step::Rename => "all that was committed is durable",
                _ => "it is not known whether commits are that were not",
            };
            assert!(told.contains(says), "{told}");
            disk.heal();
            for _ in 0..2 {
                let again = db.clone().close().unwrap_err();
                assert_eq!(format!("{again:?}"), format!("{error:?}"));
            }
            // The lock on the directory is released in any case.
            let db = builder(spec, &disk).open("/db").unwrap();
            assert!(!db.recovery().closed);
            let found = keys(&db);
            assert!(found.contains(&1) && (step == Step::Write || found.contains(&2)));
        }
    }
}

/// The error of a final checkpoint is reported if closing failed, too; otherwise the log has
/// everything.
#[test]
fn a_failed_close_tells_of_its_checkpoint() {
    let disk = SimDisk::new();
    let open = || {
        let builder = builder("SILO(EPOCH)+PWAL(1)", &disk);
        builder.checkpoint_at_close(Some(1)).open("/db").unwrap()
    };
    let db = open();
    put(&db, 1).unwrap();
    disk.inject(Fault::once(Step::Append, 0, ErrorKind::Other).and_ever_after());
    db.close().unwrap();
    let db = open();
    assert_eq!(keys(&db), [1]);
    disk.inject(Fault::once(Step::Rename, 0, ErrorKind::Other).and_ever_after());
    let error = db.close().unwrap_err();
    let told = format!("{error:?}");
    assert!(told.contains("all that was committed is durable"), "{told}");
    assert!(told.contains("its last checkpoint was not taken"), "{told}");
    disk.heal();
    assert_eq!(keys(&open()), [1]);
}
