//! Tests the flags of `txn` other than workloads, protocols and devices, which are in
//! `commands.rs`.

use crate::support::{MACHINE, assert_keys, refused, rows};

const SMALL: &[&str] = &["--records", "3000", "--ops", "600"];

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
    let args = ["txn", "--workload", "u5r5,u10", "--threads", "2"];
    let more = ["--skew", "0.99", "--verify-recovery"];
    let locking = [
        "S2PL(NLR)+PWAL(16)",
        "S2PL(ELR)+PWAL(16)",
        "S2PL(NLR)+PWAL(16)+ARIES",
    ];
    let flags = locking.map(|spec| ["--spec", spec]).concat();
    for policy in ["wound-wait", "no-wait"] {
        let chosen = ["--wait-policy", policy, "--spec", "TT(NLR)+PWAL(16)"];
        let rows = rows(&[&args[..], &more, &flags[..], &chosen, SMALL].concat());
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
    let args = ["txn", "--workload", "u1", "--spec", "S2PL(ELR)+PWAL(16)"];
    let default = rows(&[&args[..], SMALL].concat());
    assert_eq!(default[0]["wait_policy"], "wound-wait");
    refused(
        &["txn", "--workload", "u1", "--wait-policy", "die"],
        2,
        "wound-wait",
    );
}

/// An epoch longer than the run is never closed; the shortest one is closed at every check of the
/// clock.
#[test]
fn epochs_have_a_length_and_closed_ones_are_counted() {
    let args = ["txn", "--workload", "u1", "--spec", "NOLOG", "--ops"];
    for (length, are_some) in [("18446744073709551615", false), ("1", true)] {
        let more = ["10000", "--records", "3000", "--epoch-us", length];
        let rows = rows(&[&args[..], &more].concat());
        let epochs = rows[0]["epochs"].as_u64().unwrap();
        assert_eq!(epochs > 0, are_some, "{epochs}");
    }
    let txn = ["txn", "--workload", "u1", "--epoch-us"];
    for bad in ["0", "-1", "x", "none"] {
        let said = format!("'{bad}' for '--epoch-us");
        refused(&[&txn[..], &[bad]].concat(), 2, &said);
    }
}

/// Tasks that await, interleaved with threads that wait themselves.
#[test]
fn tasks_that_await_their_commits_are_checked_too() {
    let args = ["txn", "--workload", "u1,payment", "--await", "0,1,16"];
    let more = ["--threads", "2", "--streams", "1", "--verify-recovery"];
    let specs = ["--spec", "TT(EPOCH)+PWAL(auto)", "--spec", "NOLOG"];
    let logged = rows(&[&args[..], &more, &specs[..2], SMALL].concat());
    let unlogged = rows(&[&args[..], &more[..4], &specs[2..], SMALL].concat());
    for rows in [logged, unlogged] {
        assert_eq!(rows.len(), 2 * 3);
        for (row, tasks) in rows.iter().zip([0, 1, 16].into_iter().cycle()) {
            assert_keys(row, &[MACHINE]);
            assert_eq!(row["await"], tasks, "{row}");
            assert_eq!(row["streams"], 1, "{row}");
            assert_eq!(row["committed"], 600, "{row}");
        }
    }
    refused(
        &["txn", "--workload", "u1", "--await", "2000"],
        2,
        "--await",
    );
}

/// Batches that do not divide the run, in groups that do not divide the batches; some groups exceed
/// all batches together.
#[test]
fn batches_are_checked_and_answered_as_a_whole() {
    let args = ["txn", "--workload", "payment,u1", "--threads", "1,2"];
    let specs = [
        "TT(NLR)+PWAL(7)",
        "S2PL(ELR)+PWAL(16)",
        "TT(EPOCH)+PWAL(auto)",
        "NOLOG",
    ];
    let specs = specs.map(|spec| ["--spec", spec]).concat();
    let batches = ["--batch", "50"];
    let closed = rows(&[&args[..], &specs, &batches, SMALL].concat());
    let rate = [
        "--rate",
        "20000",
        "--spec",
        "TT(ELR)+PWAL(1000)",
        "--verify-recovery",
    ];
    let open = rows(&[&args[..], &rate, &batches, SMALL].concat());
    assert_eq!((closed.len(), open.len()), (2 * 2 * 4, 2 * 2));
    for row in closed.iter().chain(&open) {
        assert_keys(row, &[MACHINE]);
        assert_eq!(
            (&row["committed"], &row["batch"]),
            (&600.into(), &50.into())
        );
        assert!(row["latency_us"]["max"].is_number(), "{row}");
    }
    assert!(
        closed
            .iter()
            .all(|row| row["in_flight"] == 4 && row["rate"].is_null())
    );
    assert!(
        open.iter()
            .all(|row| row["rate"] == 20_000 && row["in_flight"].is_null())
    );
    for bad in [
        &["--in-flight", "2"][..],
        &["--batch", "8", "--await", "2"],
        &["--batch", "8", "--outstanding", "2"],
        &["--batch", "8", "--rate", "9", "--in-flight", "2"],
    ] {
        refused(&[&["txn", "--workload", "u1"], bad].concat(), 2, bad[0]);
    }
}
