//! Tickets belong to the opening, and savepoints to the transaction, that issued them.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use namiki::{Database, Error, ProtocolSpec, Session, Ticket};
use namiki_platform::disk::SimDisk;
use namiki_tests::small_database::{Numbers, builder, keys, numbers};

fn commit(session: &mut Session, table: &Numbers, key: u64) -> Ticket {
    let committed = session.transact_async(|tx| tx.put(table, &key, &key));
    committed.unwrap().1
}

fn assert_foreign(db: &Database, session: &Session, ticket: &Ticket) {
    assert!(!db.is_acknowledged(ticket));
    assert!(!session.is_acknowledged(ticket));
    for waited in [db.wait(ticket), session.wait(ticket)] {
        assert!(matches!(waited, Err(Error::ForeignTicket)), "{waited:?}");
    }
}

#[test]
fn a_ticket_of_another_database_or_opening_is_foreign() {
    for spec in ProtocolSpec::tested() {
        let spec = spec.to_string();
        let disk = SimDisk::new();
        let before = builder(&spec, &disk).open("/db").unwrap();
        let another = builder(&spec, &SimDisk::new()).open("/db").unwrap();
        let mut foreign = Vec::new();
        for db in [&before, &another] {
            let table = numbers(db);
            let mut session = db.session().unwrap();
            // Tickets of a durable commit, of one that is not durable, and of one without writes.
            let durable = commit(&mut session, &table, 1);
            session.flush().unwrap();
            assert!(db.is_acknowledged(&durable), "{spec}");
            let ((), read) = session
                .transact_async(|tx| tx.get(&table, &9).map(drop))
                .unwrap();
            foreign.extend([durable, commit(&mut session, &table, 2), read]);
            session.flush().unwrap();
        }
        before.close().unwrap();
        let db = builder(&spec, &disk).open("/db").unwrap();
        let table = numbers(&db);
        let mut session = db.session().unwrap();
        for ticket in &foreign {
            assert_foreign(&db, &session, ticket);
        }
        // As many commits here as there: the numbers in the tickets match, and their owner does
        // not.
        let own: Vec<_> = (3..9)
            .map(|key| commit(&mut session, &table, key))
            .collect();
        session.flush().unwrap();
        for ticket in &foreign {
            assert_foreign(&db, &session, ticket);
        }
        for ticket in &own {
            db.wait(ticket).unwrap();
            assert!(session.is_acknowledged(ticket));
        }
        assert_eq!(keys(&db), (1..9).collect::<Vec<_>>());
    }
}

#[test]
fn a_savepoint_of_another_transaction_is_stale() {
    let db = builder("TT(NLR)+PWAL(1)", &SimDisk::new())
        .open("/db")
        .unwrap();
    let table = numbers(&db);
    let mut one = db.begin().unwrap();
    let mut two = db.begin().unwrap();
    one.put(&table, &1, &1).unwrap();
    let of_one = one.savepoint();
    two.put(&table, &2, &2).unwrap();
    let of_two = two.savepoint();
    two.put(&table, &3, &3).unwrap();
    for (tx, stale) in [(&mut one, &of_two), (&mut two, &of_one)] {
        let refused = tx.rollback_to(stale);
        assert!(matches!(refused, Err(Error::StaleSavepoint)), "{refused:?}");
    }
    // Nothing was rolled back, and both transactions continue.
    two.rollback_to(&of_two).unwrap();
    two.put(&table, &4, &4).unwrap();
    one.commit().unwrap();
    two.commit().unwrap();
    assert_eq!(keys(&db), [1, 2, 4]);
}

#[test]
fn an_earlier_transactions_savepoint_is_stale() {
    let db = builder("TT(ELR)+PWAL(1)", &SimDisk::new())
        .open("/db")
        .unwrap();
    let table = numbers(&db);
    let mut session = db.session().unwrap();
    let earlier = session
        .transact(|tx| {
            tx.put(&table, &1, &1)?;
            Ok(tx.savepoint())
        })
        .unwrap();
    session
        .transact(|tx| {
            tx.put(&table, &2, &2)?;
            let own = tx.savepoint();
            tx.put(&table, &3, &3)?;
            let refused = tx.rollback_to(&earlier);
            assert!(matches!(refused, Err(Error::StaleSavepoint)), "{refused:?}");
            assert_eq!(tx.get(&table, &3)?, Some(3));
            tx.rollback_to(&own)
        })
        .unwrap();
    assert_eq!(keys(&db), [1, 2]);
}

#[test]
fn a_savepoint_that_was_taken_back_is_stale() {
    let db = builder("TT(NLR)+PWAL(1)", &SimDisk::new())
        .open("/db")
        .unwrap();
    let table = numbers(&db);
    db.transact(|tx| {
        tx.put(&table, &1, &1)?;
        let outer = tx.savepoint();
        tx.put(&table, &1, &2)?;
        tx.put(&table, &2, &2)?;
        let inner = tx.savepoint();
        tx.put(&table, &3, &3)?;
        tx.rollback_to(&outer)?;
        // As many writes as when the inner savepoint was made.
        tx.put(&table, &5, &5)?;
        tx.put(&table, &6, &6)?;
        let refused = tx.rollback_to(&inner);
        assert!(matches!(refused, Err(Error::StaleSavepoint)), "{refused:?}");
        assert_eq!(tx.scan(&table, ..)?, [(1, 1), (5, 5), (6, 6)]);
        Ok(())
    })
    .unwrap();
    assert_eq!(keys(&db), [1, 5, 6]);
}
