//! The checker against brute force on small histories, and against a million transactions.

use super::*;

/// A small generator of our own (SplitMix64), so that a printed seed means the same for ever.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (bits ^ (bits >> 31)) % sides
    }
}

/// Runs the transactions in this order on a map: are all reads as recorded, do the versions of every key
/// rise, and (if promised) is the clock never contradicted?
fn replays(history: &History, order: &[usize], promise: Promise) -> bool {
    let mut now = vec![NEVER_WRITTEN; history.names.len()];
    for &(key, stamp) in &history.initial {
        now[key.0 as usize] = stamp;
    }
    for (place, &index) in order.iter().enumerate() {
        let transaction = &history.transactions[index];
        if transaction
            .reads
            .iter()
            .any(|(key, stamp)| now[key.0 as usize] != *stamp)
        {
            return false;
        }
        for key in &transaction.writes {
            let current = &mut now[key.0 as usize];
            if *current >= transaction.stamp {
                return false;
            }
            *current = transaction.stamp;
        }
        let too_late = |later: &usize| history.transactions[*later].ended < transaction.started;
        if promise == Promise::StrictlySerializable && order[place..].iter().any(too_late) {
            return false;
        }
    }
    true
}

fn some_order_replays(history: &History, promise: Promise) -> bool {
    fn extend(history: &History, order: &mut Vec<usize>, promise: Promise) -> bool {
        let count = history.transactions.len();
        if order.len() == count {
            return replays(history, order, promise);
        }
        (0..count).any(|next| {
            if order.contains(&next) {
                return false;
            }
            order.push(next);
            let found = extend(history, order, promise);
            order.pop();
            found
        })
    }
    extend(history, &mut Vec::new(), promise)
}

/// Up to five transactions on three keys that read arbitrary versions, so that good and bad histories are
/// both frequent.
fn small_history(dice: &mut Dice) -> History {
    let mut history = History::new();
    let keys = [b"a", b"b", b"c"].map(|name| history.key(1, name));
    let mut versions = keys.map(|_| vec![NEVER_WRITTEN]);
    for (key, versions) in keys.iter().zip(&mut versions) {
        if dice.roll(3) == 0 {
            history.push_initial(*key, 5);
            *versions = vec![5];
        }
    }
    let count = 2 + dice.roll(4);
    let mut writes = Vec::new();
    for id in 0..count {
        let stamp = 10 + id;
        let wrote: Vec<usize> = (0..keys.len()).filter(|_| dice.roll(3) == 0).collect();
        wrote.iter().for_each(|&key| versions[key].push(stamp));
        writes.push(wrote);
    }
    for id in 0..count {
        let mut transaction = Transaction::new(id, 10 + id);
        for (key, versions) in keys.iter().zip(&versions) {
            let version = versions[dice.roll(versions.len() as u64) as usize];
            if dice.roll(2) == 0 && version != transaction.stamp {
                transaction = transaction.read(*key, version);
            }
        }
        for &key in &writes[id as usize] {
            transaction = transaction.write(keys[key]);
        }
        let started = dice.roll(20);
        history.push(transaction.during(started, started + dice.roll(15)));
    }
    history
}

#[test]
fn the_verdict_is_that_of_trying_every_order() {
    let seed = 0x6e61_6d69_6b69;
    println!("seed {seed:#x}");
    let mut dice = Dice(seed);
    let (mut kept, mut broken) = ([0, 0], [0, 0]);
    for round in 0..20_000 {
        let history = small_history(&mut dice);
        let promises = [Promise::Serializable, Promise::StrictlySerializable];
        for (which, promise) in promises.into_iter().enumerate() {
            match check(&history, promise) {
                Ok(proof) => {
                    // Ids are indexes here.
                    let order: Vec<usize> = proof.order.iter().map(|id| *id as usize).collect();
                    assert!(
                        replays(&history, &order, promise),
                        "round {round}: {history:#?}"
                    );
                    kept[which] += 1;
                }
                Err(violation) => {
                    assert!(
                        !some_order_replays(&history, promise),
                        "round {round}: {violation}\n{history:#?}"
                    );
                    assert_is_a_circle(&violation);
                    broken[which] += 1;
                }
            }
        }
    }
    let fewest = kept.into_iter().chain(broken).min();
    assert!(
        fewest > Some(1_000),
        "one-sided: {kept:?} kept, {broken:?} broken"
    );
}

fn assert_is_a_circle(violation: &Violation) {
    let Violation::Cycle(cycle) = violation else {
        panic!("{violation}")
    };
    let after = cycle.steps.iter().map(|step| step.after);
    let before = cycle.steps.iter().map(|step| step.before);
    assert!(
        after.eq(before.cycle().skip(1).take(cycle.steps.len())),
        "{cycle}"
    );
}

/// A serial execution: each transaction reads and writes the newest versions, and runs while a few
/// others do.
fn long_history(transactions: u64, keys: u64, dice: &mut Dice) -> History {
    let mut history = History::new();
    let keys: Vec<_> = (0..keys)
        .map(|key| history.key(1, &key.to_be_bytes()))
        .collect();
    let mut newest = vec![NEVER_WRITTEN; keys.len()];
    for id in 0..transactions {
        let stamp = 1 + id;
        let mut transaction = Transaction::new(id, stamp);
        for turn in 0..4 {
            let key = dice.roll(keys.len() as u64) as usize;
            // A key written a moment ago would read its own version; leave that out.
            if newest[key] != stamp {
                transaction = transaction.read(keys[key], newest[key]);
                if turn % 2 == 0 {
                    transaction = transaction.write(keys[key]);
                    newest[key] = stamp;
                }
            }
        }
        history.push(transaction.during(10 * id, 10 * id + dice.roll(100)));
    }
    history
}

#[test]
fn a_million_transactions_are_checked() {
    let transactions = 1_000_000;
    let seed = 42;
    println!("seed {seed}");
    let mut history = long_history(transactions, 10_000, &mut Dice(seed));
    let proof = check(&history, Promise::StrictlySerializable).unwrap();
    assert_eq!(proof.order.len(), history.transactions.len());

    // And one stale read among them is found: T700000 reads what T10 read.
    let stale = history.transactions[10].reads[0];
    history.transactions[700_000].reads[0] = stale;
    let Err(Violation::Cycle(cycle)) = check(&history, Promise::Serializable) else {
        panic!("the planted stale read was not found");
    };
    assert!(
        cycle
            .steps
            .iter()
            .any(|step| step.before == Party::Transaction(700_000)),
        "{cycle}"
    );
}
