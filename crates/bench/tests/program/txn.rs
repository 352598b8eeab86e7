//! Tests the flags of `txn` other than workloads, protocols and devices, which are in
//! `commands.rs`.

use crate::support::{MACHINE, assert_keys, refused, rows};

const SMALL: &str = "--records 3000 --ops 600";

const LOCK_WAITS: [&str; 5] = [
    "lock_waits",
    "lock_wounds",
    "lock_promotions",
    "lock_held_back",
    "lock_wait_us_max",
];

/// Reads and writes of a few popular records, under two-phase locking and under a protocol without
/// it.
#[test]
fn two_phase_locking_takes_a_wait_policy() {
    let locking = [
        "S2PL(NLR)+PWAL(16)",
        "S2PL(ELR)+PWAL(16)",
        "S2PL(NLR)+PWAL(16)+ARIES",
    ];
    let specs = locking.map(|spec| format!("--spec {spec}")).join(" ");
    for policy in ["wound-wait", "no-wait"] {
        let rows = rows(&format!(
            "txn --workload u5r5,u10 --threads 2 --skew 0.99 --verify-recovery {specs} --wait-policy {policy} \
             --spec TT(NLR)+PWAL(16) {SMALL}"
        ));
        assert_eq!(rows.len(), 2 * 4);
        for row in &rows {
            assert_keys(row, &[MACHINE]);
            assert_eq!(row["committed"], 600, "{row}");
            let locks = locking.contains(&row["spec"].as_str().unwrap());
            assert_eq!(
                row["wait_policy"].as_str(),
                locks.then_some(policy),
                "{row}"
            );
            for key in LOCK_WAITS {
                assert_eq!(row[key].is_number(), locks, "{key} in {row}");
            }
            // With no-wait, no transaction waits or is wounded.
            if locks && policy == "no-wait" {
                assert_eq!(row["lock_waits"], 0, "{row}");
                assert_eq!(row["lock_wounds"], 0, "{row}");
                assert_eq!(row["lock_wait_us_max"], 0.0, "{row}");
            }
        }
    }
    let default = rows(&format!(
        "txn --workload u1 --spec S2PL(ELR)+PWAL(16) {SMALL}"
    ));
    assert_eq!(default[0]["wait_policy"], "wound-wait");
    refused("txn --workload u1 --wait-policy die", 2, "wound-wait");
}

/// An epoch longer than the run is never closed; the shortest one is closed at every check of the
/// clock.
#[test]
fn epochs_have_a_length_and_closed_ones_are_counted() {
    for (length, are_some) in [("18446744073709551615", false), ("1", true)] {
        let rows = rows(&format!(
            "txn --workload u1 --spec NOLOG --ops 10000 --records 3000 --epoch-us {length}"
        ));
        let epochs = rows[0]["epochs"].as_u64().unwrap();
        assert_eq!(epochs > 0, are_some, "{epochs}");
    }
    for bad in ["0", "-1", "x", "none"] {
        let said = format!("'{bad}' for '--epoch-us");
        refused(&format!("txn --workload u1 --epoch-us {bad}"), 2, &said);
    }
}

/// Tasks that await, interleaved with threads that wait themselves.
#[test]
fn tasks_that_await_their_commits_are_checked_too() {
    let args = "txn --workload u1,payment --await 0,1,16 --threads 2 --streams 1";
    let logged = rows(&format!(
        "{args} --verify-recovery --spec TT(EPOCH)+PWAL(auto) {SMALL}"
    ));
    let unlogged = rows(&format!("{args} --spec NOLOG {SMALL}"));
    for rows in [logged, unlogged] {
        assert_eq!(rows.len(), 2 * 3);
        for (row, tasks) in rows.iter().zip([0, 1, 16].into_iter().cycle()) {
            assert_keys(row, &[MACHINE]);
            assert_eq!(row["await"], tasks, "{row}");
            assert_eq!(row["streams"], 1, "{row}");
            assert_eq!(row["committed"], 600, "{row}");
        }
    }
    refused("txn --workload u1 --await 2000", 2, "--await");
}

/// Batches that do not divide the run, in groups that do not divide the batches; some groups exceed
/// all batches together.
#[test]
fn batches_are_checked_and_answered_as_a_whole() {
    let args = format!("txn --workload payment,u1 --threads 1,2 --batch 50 {SMALL}");
    let closed = rows(&format!(
        "{args} --spec TT(NLR)+PWAL(7) --spec S2PL(ELR)+PWAL(16) --spec TT(EPOCH)+PWAL(auto) --spec NOLOG"
    ));
    let open = rows(&format!(
        "{args} --rate 20000 --spec TT(ELR)+PWAL(1000) --verify-recovery"
    ));
    assert_eq!((closed.len(), open.len()), (2 * 2 * 4, 2 * 2));
    for row in closed.iter().chain(&open) {
        assert_keys(row, &[MACHINE]);
        assert_eq!(
            (&row["committed"], &row["batch"]),
            (&600.into(), &50.into())
        );
        assert!(row["latency_us"]["max"].is_number(), "{row}");
    }
    for row in &closed {
        assert!(row["in_flight"] == 4 && row["rate"].is_null(), "{row}");
    }
    for row in &open {
        assert!(row["rate"] == 20_000 && row["in_flight"].is_null(), "{row}");
    }
    for (bad, flag) in [
        ("--in-flight 2", "--in-flight"),
        ("--batch 8 --await 2", "--batch"),
        ("--batch 8 --outstanding 2", "--batch"),
        ("--batch 8 --rate 9 --in-flight 2", "--batch"),
    ] {
        refused(&format!("txn --workload u1 {bad}"), 2, flag);
    }
}
