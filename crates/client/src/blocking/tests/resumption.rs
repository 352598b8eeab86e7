//! Sessions that another process resumes, and results that are acknowledged for it.

use super::*;
use crate::GroupOutcomes;

/// A session is resumed where another process left it: earlier groups are not acknowledged until
/// the program says so.
#[test]
fn a_session_is_resumed_by_its_token() {
    let address = Address::new();
    let addresses = [address.name.clone()];
    let stored = format!("{CLUSTER:x}.4.2c");
    let node = script(move || {
        let _client = address.accept();
        let mut node = address.accept();
        let Some(Request::ResumeSession {
            session: SESSION,
            nonce: 0x2c,
            attempt,
        }) = node.request()
        else {
            panic!("it is resumed first")
        };
        assert_ne!(attempt, 0);
        node.say(&Response::SessionResumed {
            session: SESSION,
            fence: 50,
            first_group: 100,
            acknowledged_through: 3,
            groups: vec![4, 5],
            lsn: 51,
        });
        for (lsn, outcomes) in [
            (52, None),
            (53, Some(Vec::new())),
            (54, Some(vec![Some(Outcome::Done), None])),
            (55, Some(vec![Some(Outcome::Done)])),
        ] {
            let Some(Request::Outcomes {
                request,
                session: SESSION,
                fence: 50,
                group: 5,
            }) = node.request()
            else {
                panic!("it asks for outcomes")
            };
            node.say(&Response::GroupOutcomes {
                request,
                outcomes,
                lsn,
            });
        }
        for (number, acknowledged) in [(5, 3), (100, 3), (101, 100)] {
            assert_eq!(node.group(), (number, acknowledged));
            node.results(number);
        }
        // Another process has resumed it since.
        assert_eq!(node.group(), (102, 101));
        node.say(&Response::SessionTaken { session: SESSION });
    });
    let client = Client::connect(addresses, options()).unwrap();
    let token = stored.parse().unwrap();
    let mut session = client.resume(&token).unwrap();
    assert_eq!((session.token(), session.next_group()), (token, 100));
    assert_eq!(session.earlier_groups(), [4, 5]);
    // The LSN of the answer counts for later reads from followers.
    assert_eq!(client.seen(), 51);
    for expected in [
        GroupOutcomes::Forgotten,
        GroupOutcomes::NotExecuted,
        GroupOutcomes::Some(vec![Some(Outcome::Done), None]),
        GroupOutcomes::All(vec![Outcome::Done]),
    ] {
        assert_eq!(session.outcomes(5).unwrap(), expected);
    }
    assert_eq!(client.seen(), 55);
    for number in [0, 100] {
        let refused = session.submit_again(number, commands());
        assert!(matches!(refused, Err(ClientError::NoEarlierGroup { .. })));
    }
    let group = session.submit_again(5, commands()).unwrap();
    let twice = session.submit_again(5, commands());
    assert!(matches!(
        twice,
        Err(ClientError::GroupInFlight { group: 5 })
    ));
    assert_eq!(session.wait(group).unwrap(), [outcome_of(5)]);
    for number in [100, 101] {
        let group = session.submit(commands()).unwrap();
        assert_eq!(group.number(), number);
        assert_eq!(session.wait(group).unwrap(), [outcome_of(number)]);
        session.acknowledge_through(number);
    }
    session.acknowledge_taken();
    assert_eq!(client.seen(), 101);
    let group = session.submit(commands()).unwrap();
    let taken = session.wait(group);
    assert!(matches!(
        taken,
        Err(ClientError::SessionTaken { session: SESSION })
    ));
    node.join().unwrap();
}

/// The process may die with results that the program has not seen.
#[test]
fn groups_are_acknowledged_when_their_results_are_taken_or_recorded() {
    let address = Address::new();
    let addresses = [address.name.clone()];
    let node = script(move || {
        let _client = address.accept();
        let mut node = address.accept();
        node.opens_session();
        for (number, acknowledged) in [(1, 0), (2, 0), (3, 2), (4, 3), (5, 3), (6, 4), (7, 6)] {
            assert_eq!(node.group(), (number, acknowledged));
            node.results(number);
        }
    });
    let mut session = session_at(&addresses, options());
    let first = session.submit(commands()).unwrap();
    let deadline = std::time::Instant::now() + WATCHDOG;
    assert_eq!(session.next_answered(deadline), Some(first));
    let second = session.submit(commands()).unwrap();
    session.wait(second).unwrap();
    session.wait(first).unwrap();
    let pay = |session: &mut Session| {
        let group = session.submit(commands()).unwrap();
        session.wait(group).unwrap();
    };
    pay(&mut session);
    session.hold_outcomes();
    pay(&mut session);
    pay(&mut session);
    session.acknowledge_through(4);
    pay(&mut session);
    session.acknowledge_taken();
    pay(&mut session);
    node.join().unwrap();
}
