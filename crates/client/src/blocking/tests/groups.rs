//! Several groups of a session at once.

use super::*;

#[test]
fn groups_are_submitted_together() {
    let address = Address::new();
    let addresses = [address.name.clone()];
    let node = script(move || {
        let (_client, mut node) = accept_session(&address);
        for group in 1..=2 {
            assert_eq!(node.group().0, group);
        }
        for group in 1..=2 {
            node.results(group);
        }
        // More than the window, when none is in flight.
        for group in 3..=7 {
            assert_eq!(node.group().0, group);
            node.results(group);
        }
    });
    let mut session = session_at(&addresses, options());
    for groups in [2, 5] {
        let all = vec![commands(); groups];
        let groups = session.submit_all(all).unwrap();
        for group in groups {
            let outcomes = session.wait(group).unwrap();
            assert_eq!(outcomes, [outcome_of(group.number())]);
        }
    }
    assert!(session.submit_all(Vec::new()).unwrap().is_empty());
    node.join().unwrap();
}
