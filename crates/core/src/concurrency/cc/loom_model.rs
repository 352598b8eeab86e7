//! Records that are used again, under a model checker: a transaction has looked up a key's record, and before it locks or
//! reads it, the key leaves the index and the record serves another key.
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test -p namiki --lib --release model
//! ```

use std::sync::Arc;

use loom::thread;
use namiki_platform::Stamp;
use namiki_platform::model_checker::explore;
use namiki_platform::sync::Mutex;

use super::{CcProtocol, Silo, TicToc, TwoPhase};
use crate::storage::arena::Arena;
use crate::storage::record::RecordRef;

const OLD: [u8; 8] = [1; 8];
const NEW: [u8; 8] = [2; 8];

struct World {
    arena: Arena,
    /// The record of a key without a value.
    old: RecordRef,
    /// Where an index would have it, and that of the other key.
    index: Mutex<[Option<RecordRef>; 2]>,
}

impl World {
    fn new<P: CcProtocol>() -> Arc<Self> {
        let arena = Arena::default();
        let old = arena.record(8, P::published(Stamp(0)));
        Arc::new(Self {
            arena,
            old,
            index: Mutex::new([Some(old), None]),
        })
    }

    /// Takes the key out, unless it has a value by now, and gives the other one its record.
    fn take_out_and_use_again<P: CcProtocol>(&self) {
        let Ok(before) = P::try_lock_whole(self.old) else {
            return;
        };
        if self.old.has_version(Stamp(0)) && self.old.is_absent() {
            let reusable = self.old.retire();
            self.index.lock()[0] = None;
            let _ = P::release_retired(self.old, before);
            self.arena
                .reuse(reusable.expect("there are more incarnations"));
        } else {
            let _ = P::unlock_whole(self.old, before);
        }
        let new = self.arena.locked_record(8, P::NEW_LOCKED).record;
        P::admit(new, 0);
        if !P::LOCKS_READS {
            while P::try_lock(new).is_err() {
                thread::yield_now();
            }
        }
        new.install(Some(&NEW), Stamp(3));
        let _ = P::publish(new, Stamp(3));
        self.index.lock()[1] = Some(new);
    }

    /// Writes the key that was looked up before; returns whether it did. `compares`: as it has to.
    fn write<P: CcProtocol>(&self, compares: bool) -> bool {
        let Ok(before) = P::try_lock(self.old) else {
            return false;
        };
        if compares && !self.old.is_current() {
            P::unlock(self.old, before);
            return false;
        }
        let record = self.old.as_it_is();
        record.install(Some(&OLD), Stamp(2));
        let _ = P::publish(record, Stamp(2));
        true
    }

    fn value<P: CcProtocol>(record: RecordRef) -> Option<Vec<u8>> {
        let mut value = Vec::new();
        let seen = P::read(record, &mut value).expect("it is not locked any more");
        (!seen.absent).then_some(value)
    }
}

fn a_writer_beside_reuse<P: CcProtocol>(compares: bool) {
    explore(3, move || {
        let world = World::new::<P>();
        let writer = {
            let world = Arc::clone(&world);
            thread::spawn(move || world.write::<P>(compares))
        };
        world.take_out_and_use_again::<P>();
        let has_written = writer.join().expect("a writer does not fail");
        let [old, new] = *world.index.lock();
        if has_written {
            let old = old.expect("a key that was written stays");
            assert_eq!(World::value::<P>(old).as_deref(), Some(&OLD[..]));
        }
        if let Some(new) = new {
            assert_eq!(World::value::<P>(new).as_deref(), Some(&NEW[..]));
        }
    });
}

#[test]
fn a_writer_changes_no_record_of_another_key() {
    a_writer_beside_reuse::<TicToc>(true);
    a_writer_beside_reuse::<Silo>(true);
    a_writer_beside_reuse::<TwoPhase>(true);
}

#[test]
#[should_panic(expected = "a key that was written stays")]
fn a_writer_that_does_not_compare_is_found() {
    a_writer_beside_reuse::<TicToc>(false);
}

fn a_reader_beside_reuse<P: CcProtocol>() {
    explore(3, || {
        let world = World::new::<P>();
        let reader = {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                let mut value = Vec::new();
                P::read(world.old, &mut value).map(|seen| seen.absent)
            })
        };
        world.take_out_and_use_again::<P>();
        let read = reader.join().expect("a reader does not fail");
        assert!(read.unwrap_or(true), "it saw another key's value");
    });
}

#[test]
fn a_reader_sees_nothing_of_another_key() {
    a_reader_beside_reuse::<TicToc>();
    a_reader_beside_reuse::<Silo>();
}

/// The reader finds the key absent. Its validation runs concurrently with the key's removal and an
/// insert into another record: at the reader's stamp the key is absent, or the validation fails.
fn a_validation_beside_reuse<P: CcProtocol>() {
    explore(3, || {
        let world = World::new::<P>();
        let mut value = Vec::new();
        let seen = P::read(world.old, &mut value).expect("no other thread has it");
        let reader = {
            let world = Arc::clone(&world);
            thread::spawn(move || P::validate::<super::NoFaults>(world.old, seen, Stamp(1)))
        };
        let removed = P::try_lock_whole(world.old).ok().map(|before| {
            let read_until = P::read_until(before);
            world.old.retire();
            let _ = P::release_retired(world.old, before);
            read_until
        });
        let is_valid = reader.join().expect("a validation does not fail");
        if let Some(read_until) = removed
            && is_valid
            && P::VALIDATES_AT_STAMP
        {
            // A later insert of the key gets a stamp above this.
            assert!(
                read_until >= Stamp(1),
                "the key could be there at the reader's stamp"
            );
        }
    });
}

#[test]
fn a_validated_absence_is_known_to_later_inserts() {
    a_validation_beside_reuse::<TicToc>();
    a_validation_beside_reuse::<Silo>();
}
