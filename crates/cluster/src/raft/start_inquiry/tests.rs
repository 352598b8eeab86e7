//! Inquiries without drivers: messages are passed by hand.

use super::*;
use crate::membership::MembershipChange;

const TICKS: usize = 10;

fn members() -> Membership {
    Membership::new(&[1, 2, 3].map(NodeId::first))
}

fn inquiry(node: u64, start: u64) -> StartInquiry {
    let options = InquiryOptions {
        node: NodeId::first(node),
        start,
        had: AtStart { term: 3, last: 7 },
        backup: None,
        election_ticks: TICKS,
        asks_all: false,
        configured: vec![1, 2, 3],
        planted: FaultInjection::default(),
    };
    let mut inquiry = StartInquiry::new(options, &members());
    inquiry.begin();
    inquiry
}

/// One that began with this backup.
fn with_backup(node: u64, backup: Option<u128>) -> StartInquiry {
    let mut inquiry = inquiry(node, 10 * node);
    inquiry.options.backup = backup.and_then(NonZeroU128::new);
    drop(inquiry.take_messages());
    inquiry.send_due();
    inquiry
}

/// Passes messages from one to another, and returns those that it answers.
fn pass(from: u64, messages: &[StartMessage], to: &mut StartInquiry) -> Vec<StartMessage> {
    pass_with_end(9, from, messages, to)
}

/// The same for a receiver with a log that ends there.
fn pass_with_end(
    end: u64,
    from: u64,
    messages: &[StartMessage],
    to: &mut StartInquiry,
) -> Vec<StartMessage> {
    let members = members();
    let now = Present {
        term: 4,
        last: LogEnd {
            term: 4,
            index: end,
        },
        committed: LogEnd::default(),
        members: &members,
        next_voters: &Vec::new,
    };
    for message in messages {
        to.receive(NodeId::first(from), message.clone(), &now);
    }
    to_node(from, to)
}

fn to_node(node: u64, from: &mut StartInquiry) -> Vec<StartMessage> {
    let messages = from.take_messages().into_iter();
    let messages = messages.filter(|(to, _)| *to == NodeId::first(node));
    messages.map(|(_, message)| message).collect()
}

/// Two nodes exchange messages until there are none.
fn exchange(one: (u64, &mut StartInquiry), other: (u64, &mut StartInquiry)) {
    let mut messages = to_node(other.0, one.1);
    while !messages.is_empty() {
        let answers = pass(one.0, &messages, other.1);
        messages = pass(other.0, &answers, one.1);
    }
}

#[test]
fn nodes_of_different_backups_do_not_start_together() {
    let third = NodeId::first(3);
    for (one, two, fits) in [
        (Some(7), Some(7), true),
        (None, None, true),
        (Some(7), None, false),
        (None, Some(7), false),
        (Some(7), Some(8), false),
    ] {
        let (mut one, mut two) = (with_backup(1, one), with_backup(2, two));
        drop(two.take_messages());
        exchange((1, &mut one), (2, &mut two));
        assert_eq!(two.take_other_backup().is_none(), fits);
        assert_eq!(two.take_noted().is_empty(), !fits);
    }
    // One that speaks goes on, and tells the one that starts.
    let (mut old, mut new) = (with_backup(2, Some(7)), with_backup(3, Some(8)));
    old.voice = Voice::Speaks;
    drop(old.take_messages());
    exchange((3, &mut new), (2, &mut old));
    assert_eq!(old.take_other_backup(), None);
    assert!(old.starts_to(third).is_none());
    assert_eq!(new.take_other_backup(), Some(NodeId::first(2)));
}

#[test]
fn two_nodes_note_each_other() {
    let (mut one, mut two) = (inquiry(1, 11), inquiry(2, 22));
    drop(two.take_messages());
    exchange((1, &mut one), (2, &mut two));
    assert_eq!(
        two.take_noted(),
        [(NodeId::first(1), AtStart { term: 3, last: 7 })]
    );
    let starts = Starts { of: 11, to: 22 };
    assert_eq!(one.starts_to(NodeId::first(2)), Some(starts));
    assert!(two.admits(NodeId::first(1), starts));
    assert!(!two.admits(NodeId::first(1), Starts { of: 10, to: 22 }));
    assert!(!two.admits(NodeId::first(1), Starts { of: 11, to: 0 }));
}

/// A node that is no member in the own log, and has noted the start, may learn of other members later.
#[test]
fn a_silent_node_asks_unknown_nodes_for_the_members_again() {
    let mut one = inquiry(1, 11);
    let mut other = inquiry(4, 44);
    one.peer(NodeId::first(4));
    one.send_due();
    drop(other.take_messages());
    exchange((1, &mut one), (4, &mut other));
    drop(one.take_messages());
    let mut told = Vec::new();
    for _ in 0..TICKS {
        one.tick(false);
        told.extend(to_node(4, &mut one));
    }
    assert!(one.voice == Voice::Silent);
    assert!(told.iter().any(|it| it.body == StartBody::Hello));
}

#[test]
fn nodes_that_are_quiet_are_greeted() {
    let mut one = inquiry(1, 11);
    one.voice = Voice::Speaks;
    one.stage = Stage::Rest;
    for node in [2, 3] {
        let peer = one.peer(NodeId::first(node));
        (peer.start, peer.has_noted) = (Some(node), Some(false));
    }
    drop(one.take_messages());
    let mut greeted = BTreeSet::new();
    for _ in 0..2 * GREETING_TIMEOUTS * TICKS {
        let starts = Starts { of: 2, to: 11 };
        assert!(one.admits(NodeId::first(2), starts));
        one.tick(false);
        greeted.extend(one.take_messages().into_iter().map(|(to, _)| to));
    }
    assert_eq!(greeted, BTreeSet::from([NodeId::first(3)]));
}

fn to_ask(members: &Membership, configured: &[u64]) -> Vec<u64> {
    let options = InquiryOptions {
        node: NodeId::first(1),
        start: 11,
        had: AtStart { term: 3, last: 7 },
        backup: None,
        election_ticks: TICKS,
        asks_all: false,
        configured: configured.to_vec(),
        planted: FaultInjection::default(),
    };
    let mut inquiry = StartInquiry::new(options, members);
    assert!(inquiry.take_messages().is_empty(), "it has not begun");
    inquiry.begin();
    inquiry.to_ask().into_iter().map(NodeId::to_raft).collect()
}

/// The model has a counter-example for each that is left out.
#[test]
fn learners_and_earlier_voters_and_configured_nodes_are_asked() {
    let mut it = members();
    assert_eq!(to_ask(&it, &[1, 2, 3, 4]), [2, 3, 4]);
    let later = NodeId::new(3, 2);
    it.apply(&MembershipChange::Replace {
        lost: NodeId::first(3),
        replacement: later,
    });
    // The lost one, until that is settled, and the learner.
    assert_eq!(to_ask(&it, &[1, 2, 3]), [2, 3, later.to_raft()]);
    it.apply(&MembershipChange::Settle);
    assert_eq!(to_ask(&it, &[1, 2, 3]), [2, later.to_raft()]);
    let node = NodeId::first(2);
    it.apply(&MembershipChange::Remove { node });
    assert_eq!(to_ask(&it, &[1, 2, 3]), [2, later.to_raft()]);
    it.apply(&MembershipChange::Settle);
    // A number that was removed is not expected, although a configuration has it.
    assert_eq!(to_ask(&it, &[1, 2, 3]), [later.to_raft()]);
    assert_eq!(to_ask(&Membership::new(&[NodeId::first(1)]), &[1, 2]), [2]);
}

/// A member that has started again may know none that is left. A leader goes on sending to its earlier start.
#[test]
fn a_node_learns_the_members_of_an_unknown_sender() {
    let (mut one, mut five) = (inquiry(1, 11), inquiry(5, 55));
    drop((one.take_messages(), five.take_messages()));
    assert!(!one.admits(NodeId::first(5), Starts { of: 55, to: 10 }));
    (0..RETRY_TICKS).for_each(|_| one.tick(false));
    let mut latest = members();
    let node = NodeId::first(2);
    latest.apply(&MembershipChange::Remove { node });
    let now = Present {
        term: 4,
        last: LogEnd { term: 4, index: 9 },
        committed: LogEnd { term: 4, index: 8 },
        members: &latest,
        next_voters: &Vec::new,
    };
    let mut messages = to_node(5, &mut one);
    assert!(!messages.is_empty());
    while !messages.is_empty() {
        for message in messages {
            five.receive(NodeId::first(1), message, &now);
        }
        let answers = to_node(1, &mut five);
        messages = pass(5, &answers, &mut one);
    }
    assert_eq!(one.members(), &latest);
    assert_eq!(one.take_committed(), Some(LogEnd { term: 4, index: 8 }));
    assert!(one.take_newer_members() && !one.take_newer_members());
}

/// Whatever an earlier start has sent, it does not replace a later one.
#[test]
fn late_messages_of_an_earlier_start_change_nothing() {
    let mut peer = inquiry(2, 22);
    drop(peer.take_messages());
    let mut old = inquiry(1, 10);
    let hello = to_node(2, &mut old);
    let tickets = pass(1, &hello, &mut peer);
    // It asks to be noted, and that is late.
    let late = pass(2, &tickets, &mut old);
    assert!(matches!(
        late[..],
        [StartMessage {
            body: StartBody::Note { .. },
            ..
        }]
    ));
    let mut new = inquiry(1, 11);
    exchange((1, &mut new), (2, &mut peer));
    pass(1, &hello, &mut peer);
    pass(1, &late, &mut peer);
    assert!(peer.admits(NodeId::first(1), Starts { of: 11, to: 22 }));
    assert!(!peer.admits(NodeId::first(1), Starts { of: 10, to: 22 }));
}

#[test]
fn a_start_waits_for_all_and_then_for_a_majority() {
    let (mut one, mut two) = (inquiry(1, 11), inquiry(2, 22));
    exchange((1, &mut one), (2, &mut two));
    assert!(one.take_findings().is_none());
    for _ in 0..ANSWER_TIMEOUTS * TICKS + RETRY_TICKS {
        one.tick(true);
        exchange((1, &mut one), (2, &mut two));
    }
    let third = NodeId::first(3);
    let findings = Findings {
        term: 4,
        without: vec![third],
    };
    assert_eq!(one.take_findings(), Some(findings));
    assert_eq!(one.floor(), Some(LogEnd { term: 4, index: 9 }));
    one.speak();
    let end = |index| LogEnd { term: 4, index };
    assert!(!one.may_vote_for(end(8)) && one.may_vote_for(end(9)));
    one.log_reaches(end(9));
    assert!(one.may_vote_for(end(8)));
    // The third comes up.
    let mut three = inquiry(3, 33);
    for _ in 0..4 * TICKS {
        one.tick(false);
        let to_two = one.take_messages();
        let (to_two, to_three): (Vec<_>, Vec<_>) = to_two
            .into_iter()
            .partition(|(to, _)| *to == NodeId::first(2));
        for (number, messages, peer) in [(2, to_two, &mut two), (3, to_three, &mut three)] {
            let mut messages: Vec<_> = messages.into_iter().map(|(_, it)| it).collect();
            while !messages.is_empty() {
                let answers = pass(1, &messages, peer);
                messages = pass(number, &answers, &mut one);
            }
        }
    }
    assert_eq!(one.without(), []);
}

/// The voter with the last entry may be about to answer, and it may be gone for good.
#[test]
fn a_part_of_the_answers_lowers_a_floor_late() {
    let mut one = inquiry(1, 11);
    let mut peers = BTreeMap::from([(2, inquiry(2, 22)), (3, inquiry(3, 33))]);
    // Each of these answers with this end of its log, for some ticks without a leader.
    let mut ask = |one: &mut StartInquiry, ticks: usize, ends: &[(u64, u64)]| {
        for _ in 0..ticks {
            one.tick(true);
            let mut sent = one.take_messages();
            while !sent.is_empty() {
                for (to, message) in std::mem::take(&mut sent) {
                    let end = ends.iter().find(|(node, _)| *node == to.number());
                    let Some((node, end)) = end else { continue };
                    let peer = peers.get_mut(node).expect("it is one of the others");
                    let answers = pass_with_end(*end, 1, &[message], peer);
                    let more = pass(*node, &answers, one);
                    sent.extend(more.into_iter().map(|message| (to, message)));
                    sent.extend(one.take_messages());
                }
            }
            one.take_findings();
            one.speak();
        }
        one.floor().map(|floor| floor.index)
    };
    assert_eq!(ask(&mut one, TICKS, &[(2, 7), (3, 9)]), Some(9));
    let answer_timeout = ANSWER_TIMEOUTS * TICKS;
    assert_eq!(ask(&mut one, 2 * answer_timeout, &[(2, 7)]), Some(9));
    assert_eq!(
        ask(&mut one, 2 * FLOOR_ROUNDS * answer_timeout, &[(2, 7)]),
        Some(7)
    );
    assert_eq!(one.without(), [NodeId::first(3)]);
}
