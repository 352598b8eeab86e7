//! Sessions of clients that died, and of clients that only seem to be dead.

use namiki_client::protocol::{Command, Outcome, Write};
use namiki_client::{Client, ClientError, GroupOutcomes, SessionToken};

use crate::alone;
use crate::cluster::Cluster;

fn balance(client: &mut Client, table: u32, account: u64) -> u64 {
    let rows = client.read(vec![(table, account.to_be_bytes().to_vec())]);
    let value = rows.unwrap().values.remove(0).unwrap();
    u64::from_le_bytes(value.try_into().unwrap())
}

/// Moves 10 from account 1 to account 2.
fn payment(table: u32) -> Vec<Command> {
    vec![Command::Transfer {
        table,
        from: 1,
        to: 2,
        amount: 10,
    }]
}

fn accounts(client: &mut Client) -> u32 {
    let table = client.create_table("accounts", true).unwrap();
    let row = |account: u64, balance: u64| {
        let key = account.to_be_bytes().to_vec();
        (table, key, Some(balance.to_le_bytes().to_vec()))
    };
    let write = Write {
        rows: vec![row(1, 100), row(2, 0)],
        ..Write::default()
    };
    let mut session = client.open_session().unwrap();
    let group = session.submit(vec![Command::Write(Box::new(write))]);
    assert_eq!(session.wait(group.unwrap()).unwrap(), [Outcome::Done]);
    session.close().unwrap();
    table
}

#[test]
fn a_dead_clients_payments_are_made_once() {
    let _alone = alone();
    let cluster = Cluster::start_plain();
    let mut client = cluster.client();
    let table = accounts(&mut client);
    let mut session = client.open_session().unwrap();
    let stored = session.token().to_string();
    let mut numbers = Vec::new();
    for _ in 0..3 {
        numbers.push(session.next_group());
        let group = session.submit(payment(table)).unwrap();
        assert_eq!(group.number(), *numbers.last().unwrap());
    }
    // It is not known how many of them have left the machine.
    drop(session);

    let token: SessionToken = stored.parse().unwrap();
    let mut session = cluster.client().resume(&token).unwrap();
    assert_eq!((session.id(), session.token()), (token.session(), token));
    for number in numbers {
        let is_listed = session.earlier_groups().contains(&number);
        match session.outcomes(number).unwrap() {
            GroupOutcomes::All(outcomes) => {
                assert_eq!((outcomes, is_listed), (vec![Outcome::Done], true));
            }
            GroupOutcomes::NotExecuted => {
                assert!(!is_listed);
                let group = session.submit_again(number, payment(table)).unwrap();
                assert_eq!(session.wait(group).unwrap(), [Outcome::Done]);
            }
            other => panic!("{other:?}"),
        }
        // Asked again, it is not executed again.
        let group = session.submit_again(number, payment(table)).unwrap();
        let in_flight = session.outcomes(number);
        assert!(matches!(in_flight, Err(ClientError::GroupInFlight { .. })));
        assert_eq!(session.wait(group).unwrap(), [Outcome::Done]);
        let known = session.outcomes(number).unwrap();
        assert_eq!(known, GroupOutcomes::All(vec![Outcome::Done]));
    }
    assert_eq!(balance(&mut client, table, 2), 30);
    // Of this holder.
    let number = session.next_group();
    let not_earlier = session.submit_again(number, payment(table));
    assert!(matches!(
        not_earlier,
        Err(ClientError::NoEarlierGroup { .. })
    ));
    assert_eq!(session.outcomes(4).unwrap(), GroupOutcomes::NotExecuted);
    session.acknowledge_taken();
    let group = session.submit(payment(table)).unwrap();
    assert_eq!(session.wait(group).unwrap(), [Outcome::Done]);
    assert_eq!(session.outcomes(1).unwrap(), GroupOutcomes::Forgotten);
    assert_eq!(balance(&mut client, table, 1), 60);
    session.close().unwrap();
    let closed = client.resume(&token);
    assert!(matches!(closed, Err(ClientError::NoSuchSession { .. })));
}

#[test]
fn the_last_one_that_resumes_a_session_has_it() {
    let _alone = alone();
    let cluster = Cluster::start_plain();
    let mut client = cluster.client();
    let table = accounts(&mut client);
    let mut first = client.open_session().unwrap();
    let token = first.token();
    let group = first.submit(payment(table)).unwrap();
    assert_eq!(first.wait(group).unwrap(), [Outcome::Done]);
    // All at the same time.
    let resumed: Vec<_> = std::thread::scope(|scope| {
        let resume = |_| scope.spawn(|| cluster.client().resume(&token).unwrap());
        let resuming: Vec<_> = (0..4).map(resume).collect();
        resuming.into_iter().map(|it| it.join().unwrap()).collect()
    });
    let mut holders = 0;
    for mut session in resumed {
        let number = session.next_group();
        let group = session.submit(payment(table)).unwrap();
        match session.wait(group) {
            Ok(outcomes) => {
                assert_eq!(outcomes, [Outcome::Done]);
                holders += 1;
            }
            Err(ClientError::SessionTaken { session }) => assert_eq!(session, token.session()),
            Err(error) => panic!("{error}"),
        }
        if holders == 0 {
            let taken = session.close();
            assert!(matches!(taken, Err(ClientError::SessionTaken { .. })));
        } else {
            assert_eq!(number, session.next_group() - 1);
        }
    }
    assert_eq!(holders, 1, "each has a fence of its own");
    let taken = first.outcomes(1);
    assert!(matches!(taken, Err(ClientError::SessionTaken { .. })));
    let group = first.submit(payment(table)).unwrap();
    let taken = first.wait(group);
    assert!(matches!(taken, Err(ClientError::SessionTaken { .. })));
    assert_eq!(balance(&mut client, table, 2), 20);
    // It may take the session back.
    let mut again = client.resume(&token).unwrap();
    assert_eq!(again.earlier_groups().len(), 2);
    assert_eq!(
        again.outcomes(1).unwrap(),
        GroupOutcomes::All(vec![Outcome::Done])
    );
    again.close().unwrap();
}

#[test]
fn a_token_is_of_one_session_of_one_cluster() {
    let _alone = alone();
    let cluster = Cluster::start_plain();
    let client = cluster.client();
    let session = client.open_session().unwrap();
    let text = session.token().to_string();
    let [cluster_part, number, nonce] = text.split('.').collect::<Vec<_>>()[..] else {
        panic!("{text}")
    };
    let resume = |text: String| client.resume(&text.parse().unwrap());
    let elsewhere = resume(format!("77.{number}.{nonce}"));
    assert!(matches!(
        elsewhere,
        Err(ClientError::SessionElsewhere { expected: 0x77, .. })
    ));
    for text in [
        format!("{cluster_part}.{number}.1"),
        format!("{cluster_part}.fffff.{nonce}"),
    ] {
        let none = resume(text);
        assert!(matches!(none, Err(ClientError::NoSuchSession { .. })));
    }
    assert!(resume(text.clone()).is_ok());
}
