//! Every textbook anomaly is found and reported by its name.

use super::*;

/// A history under construction with keys named by letters.
#[derive(Default)]
struct Book(History);

impl Book {
    fn key(&mut self, name: &str) -> KeyId {
        self.0.key(1, name.as_bytes())
    }

    /// `reads` are `(key, version)`.
    fn commit(&mut self, id: u64, stamp: u64, reads: &[(&str, u64)], writes: &[&str]) -> &mut Self {
        let mut transaction = Transaction::new(id, stamp);
        for (key, version) in reads {
            transaction = transaction.read(self.key(key), *version);
        }
        for key in writes {
            transaction = transaction.write(self.key(key));
        }
        self.0.push(transaction);
        self
    }

    fn initially(&mut self, key: &str, stamp: u64) -> &mut Self {
        let key = self.key(key);
        self.0.push_initial(key, stamp);
        self
    }

    fn last_ran(&mut self, started: u64, ended: u64) -> &mut Self {
        let last = self.0.transactions.last_mut().unwrap();
        (last.started, last.ended) = (Some(started), Some(ended));
        self
    }

    fn order(&self, promise: Promise) -> Vec<u64> {
        check(&self.0, promise)
            .unwrap_or_else(|violation| panic!("{violation}"))
            .order
    }

    fn story(&self, promise: Promise) -> String {
        check(&self.0, promise).unwrap_err().to_string()
    }

    /// The circle that breaks plain serializability: its name and its arrows.
    #[track_caller]
    fn broken(&self, anomaly: &str, steps: &[&str]) {
        let Err(Violation::Cycle(cycle)) = check(&self.0, Promise::Serializable) else {
            panic!("no circle was found");
        };
        assert_eq!(cycle.anomaly(), anomaly, "{cycle}");
        let mut told: Vec<String> = cycle.steps.iter().map(Step::to_string).collect();
        told.sort_unstable();
        assert_eq!(told, steps);
    }
}

use Promise::{Serializable, StrictlySerializable};

#[test]
fn an_empty_history_is_serial() {
    assert!(Book::default().order(StrictlySerializable).is_empty());
}

#[test]
fn a_serial_history_passes_whatever_order_it_was_recorded_in() {
    let mut book = Book::default();
    book.commit(3, 30, &[("x", 20), ("y", 10)], &["y"])
        .last_ran(5, 6);
    book.commit(1, 10, &[("x", 0), ("y", 0)], &["x", "y"])
        .last_ran(1, 2);
    book.commit(2, 20, &[("x", 10)], &["x"]).last_ran(3, 4);
    assert_eq!(book.order(Serializable), [1, 2, 3]);
    assert_eq!(book.order(StrictlySerializable), [1, 2, 3]);
}

#[test]
fn a_read_only_transaction_may_be_ordered_into_the_past() {
    let mut book = Book::default();
    book.commit(1, 10, &[], &["x"]);
    book.commit(2, 20, &[], &["x"]);
    book.commit(3, 0, &[("x", 10)], &[]);
    assert_eq!(book.order(Serializable), [1, 3, 2]);
}

#[test]
fn blind_writes_conflict_with_nothing() {
    let mut book = Book::default();
    book.commit(1, 10, &[], &["x", "y"])
        .commit(2, 11, &[], &["y", "x", "x"]);
    assert_eq!(book.order(Serializable), [1, 2]);
}

#[test]
fn a_tombstone_is_a_version() {
    let mut book = Book::default();
    book.commit(1, 10, &[("x", 0)], &["x"]); // insert
    book.commit(2, 20, &[("x", 10)], &["x"]); // delete
    book.commit(3, 30, &[("x", 20)], &["x"]); // insert again
    assert_eq!(book.order(Serializable), [1, 2, 3]);
}

#[test]
fn write_skew_is_found() {
    let mut book = Book::default();
    book.initially("x", 1).initially("y", 1);
    book.commit(1, 10, &[("x", 1), ("y", 1)], &["x"]);
    book.commit(2, 11, &[("x", 1), ("y", 1)], &["y"]);
    let seen = "as written by the initial state (stamp 1)";
    book.broken(
        "write skew",
        &[
            &format!("T1 read t1[\"y\"] {seen}; T2 overwrote it at stamp 11, so T1 is before T2"),
            &format!("T2 read t1[\"x\"] {seen}; T1 overwrote it at stamp 10, so T2 is before T1"),
        ],
    );
}

#[test]
fn a_lost_update_is_found() {
    let mut book = Book::default();
    book.commit(3, 5, &[], &["x"]);
    book.commit(1, 10, &[("x", 5)], &["x"]);
    book.commit(2, 11, &[("x", 5)], &["x"]);
    book.broken(
        "lost update",
        &[
            "T1 wrote t1[\"x\"] at stamp 10; T2 overwrote it at stamp 11, so T1 is before T2",
            "T2 read t1[\"x\"] as written by T3 (stamp 5); T1 overwrote it at stamp 10, \
             so T2 is before T1",
        ],
    );
}

#[test]
fn a_phantom_is_found() {
    let mut book = Book::default();
    // T1 scans a..c, which is empty, and writes the sum; T2 inserts b but saw no sum.
    book.commit(1, 10, &[("a", 0), ("b", 0), ("c", 0)], &["sum"]);
    book.commit(2, 11, &[("sum", 0)], &["b"]);
    book.broken(
        "phantom",
        &[
            "T1 read t1[\"b\"] as never written; T2 wrote it at stamp 11, so T1 is before T2",
            "T2 read t1[\"sum\"] as never written; T1 wrote it at stamp 10, so T2 is before T1",
        ],
    );
}

#[test]
fn a_non_repeatable_read_is_found() {
    let mut book = Book::default();
    book.commit(1, 10, &[], &["x"]).commit(2, 11, &[], &["x"]);
    book.commit(3, 0, &[("x", 10), ("x", 11)], &[]);
    book.broken(
        "non-repeatable read",
        &[
            "T3 read t1[\"x\"] as written by T1 (stamp 10); T2 overwrote it at stamp 11, \
             so T3 is before T2",
            "T3 read t1[\"x\"] as written by T2 (stamp 11), so T2 is before T3",
        ],
    );
}

#[test]
fn half_of_a_transaction_is_a_read_skew() {
    let mut book = Book::default();
    book.commit(1, 10, &[], &["x", "y"])
        .commit(2, 11, &[], &["x", "y"]);
    book.commit(3, 0, &[("x", 10), ("y", 11)], &[]);
    let story = book.story(Serializable);
    assert!(
        story.starts_with("not serializable (read skew):\n"),
        "{story}"
    );
    assert!(story.contains("\n  T3: stamp 0; read t1[\"x\"]@10, t1[\"y\"]@11; wrote nothing"));
}

#[test]
fn versions_in_opposite_orders_are_found() {
    let mut book = Book::default();
    book.commit(1, 10, &[("y", 11)], &["x"])
        .commit(2, 11, &[("x", 10)], &["y"]);
    book.broken(
        "writes and reads out of order",
        &[
            "T1 read t1[\"y\"] as written by T2 (stamp 11), so T2 is before T1",
            "T2 read t1[\"x\"] as written by T1 (stamp 10), so T1 is before T2",
        ],
    );
}

#[test]
fn the_shortest_of_two_circles_is_told() {
    let mut book = Book::default();
    // A circle of four, connected both ways with a circle of two.
    book.commit(1, 10, &[("d", 0)], &["a"])
        .commit(2, 11, &[("a", 0)], &["b"]);
    book.commit(3, 12, &[("b", 0)], &["c"])
        .commit(4, 13, &[("c", 0), ("e", 0)], &["d", "f"]);
    book.commit(5, 14, &[("f", 0)], &["e"]);
    let Err(Violation::Cycle(cycle)) = check(&book.0, Serializable) else {
        panic!()
    };
    assert_eq!(cycle.steps.len(), 2, "{cycle}");
}

/// Paper: tictoc-pwal §2.1. TicToc's stamps may contradict the clock: with rts(z) = 5 left by an
/// earlier reader, T3 reads z and will write w; T1 overwrites z at 6 and returns; T2 begins, reads
/// w and returns; T3 commits at 1.
#[test]
fn tictoc_is_serializable_but_not_strictly() {
    let mut book = Book::default();
    book.commit(1, 6, &[], &["z"]).last_ran(10, 20);
    book.commit(2, 0, &[("w", 0)], &[]).last_ran(30, 40);
    book.commit(3, 1, &[("z", 0)], &["w"]).last_ran(5, 50);
    assert_eq!(book.order(Serializable), [2, 3, 1]);

    let story = book.story(StrictlySerializable);
    assert!(
        story.starts_with("not strictly serializable (real-time violation):\n"),
        "{story}"
    );
    for step in [
        "T1 had ended (at 20) when T2 started (at 30), so T1 is before T2",
        "T2 read t1[\"w\"] as never written; T3 wrote it at stamp 1, so T2 is before T3",
        "T3 read t1[\"z\"] as never written; T1 wrote it at stamp 6, so T3 is before T1",
        "T3: stamp 1, ran 5 to 50; read t1[\"z\"]@0; wrote t1[\"w\"]",
    ] {
        assert!(story.contains(step), "{step}\n{story}");
    }
}

#[test]
fn a_stale_read_is_found_across_many_moments() {
    let mut book = Book::default();
    book.commit(1, 10, &[], &["x"]).last_ran(1, 2);
    for id in 2..50 {
        book.commit(id, 10 + id, &[], &["y"])
            .last_ran(2 * id, 2 * id + 1);
    }
    book.commit(50, 0, &[("x", 0)], &[]).last_ran(200, 201);
    assert!(check(&book.0, Serializable).is_ok());
    let Err(Violation::Cycle(cycle)) = check(&book.0, StrictlySerializable) else {
        panic!()
    };
    assert_eq!(cycle.anomaly(), "real-time violation");
    assert_eq!(cycle.steps.len(), 2, "moments are not steps: {cycle}");
}

#[test]
fn the_same_instant_orders_nothing() {
    let mut book = Book::default();
    book.commit(1, 10, &[], &["x"]).last_ran(1, 2);
    book.commit(2, 0, &[("x", 0)], &[]).last_ran(2, 3);
    assert_eq!(book.order(StrictlySerializable), [2, 1]);
}

#[test]
fn a_transaction_without_instants_is_ordered_by_its_data_only() {
    let mut book = Book::default();
    book.commit(1, 10, &[], &["x"]).last_ran(1, 2);
    book.commit(2, 0, &[("x", 0)], &[]);
    assert_eq!(book.order(StrictlySerializable), [2, 1]);
}

#[test]
fn nothing_comes_before_the_initial_state() {
    let mut book = Book::default();
    book.initially("x", 5).commit(1, 0, &[("x", 0)], &[]);
    let story = book.story(Serializable);
    assert!(story.contains("T1 read t1[\"x\"] as never written; the initial state wrote it"));
    assert!(
        story.contains("the initial state is before every transaction"),
        "{story}"
    );

    let mut book = Book::default();
    book.initially("x", 5).commit(1, 3, &[], &["x"]);
    let story = book.story(Serializable);
    assert!(
        story.contains("the initial state overwrote it at stamp 5"),
        "{story}"
    );
}

#[test]
fn uncommitted_versions_cannot_be_read() {
    let mut book = Book::default();
    book.initially("x", 3)
        .commit(1, 10, &[], &["x"])
        .commit(2, 0, &[("x", 7)], &[]);
    assert_eq!(
        book.story(Serializable),
        "T2 read version 7 of t1[\"x\"], which no committed transaction wrote; \
         version 3 by the initial state was followed by 10 by T1"
    );
    let mut book = Book::default();
    book.commit(2, 0, &[("x", 7)], &[]);
    assert!(
        book.story(Serializable)
            .ends_with("that key was never written")
    );
}

#[test]
fn two_writers_of_one_version_are_found() {
    let mut book = Book::default();
    book.commit(1, 10, &[], &["x"]).commit(2, 10, &[], &["x"]);
    assert_eq!(
        book.story(Serializable),
        "T1 and T2 both wrote version 10 of t1[\"x\"]"
    );
    // Equal stamps on different keys are fine: TicToc draws them from no shared counter.
    let mut book = Book::default();
    book.commit(1, 10, &[], &["x"]).commit(2, 10, &[], &["y"]);
    assert!(check(&book.0, Serializable).is_ok());
}

#[test]
fn a_recording_that_cannot_be_right_is_refused() {
    let mut book = Book::default();
    book.commit(1, 10, &[], &[]).commit(1, 11, &[], &[]);
    assert!(
        book.story(Serializable)
            .contains("two transactions are called T1")
    );
    let mut book = Book::default();
    book.commit(1, 0, &[], &["x"]);
    assert!(
        book.story(Serializable)
            .contains("T1 wrote but committed with stamp 0")
    );
    let mut book = Book::default();
    book.commit(1, 10, &[], &[]).last_ran(9, 8);
    assert!(
        book.story(StrictlySerializable)
            .contains("T1 ended (8) before it started (9)")
    );
}

#[test]
fn the_proof_counts_the_conflicts() {
    let mut book = Book::default();
    book.commit(1, 10, &[("x", 0)], &["x"]); // Overwrites only what it read itself.
    book.commit(2, 0, &[("x", 10), ("y", 0)], &[]);
    book.commit(3, 20, &[], &["x", "y"]);
    let proof = check(&book.0, Serializable).unwrap();
    assert_eq!(
        (proof.versions, proof.reads_from, proof.reads_overwritten),
        (3, 1, 2)
    );
}
