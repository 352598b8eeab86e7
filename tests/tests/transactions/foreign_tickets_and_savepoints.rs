//! Tickets belong to the opening, and savepoints to the transaction, that issued them.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use namiki::{Database, Error, ProtocolSpec, Session, Ticket};
use namiki_platform::disk::SimDisk;
use namiki_tests::small_database::{Numbers, builder, in_memory, keys, numbers};

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
        let another = in_memory(&spec);
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
fn an_earlier_transactions_savepoint_is_stale() {
    let db = in_memory("TT(ELR)+PWAL(1)");
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
