//! The smaller table is the one that a join keeps in memory, however the query is written.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::harness::{Client, Fixture};
use crate::cancel::Cancelled;
use crate::front_end::{Body, Request, RunSettings, SessionInfo};
use crate::program::{Environment, Guard};
use crate::storage::{ReadHandle, Reader};
use crate::types::TimeZone;

/// The tables of a query in the order of its plan: that of a join's first input comes first.
fn order(fixture: &Fixture, client: &mut Client, text: &str) -> Vec<String> {
    let shared = &fixture.engine.shared;
    let handle = ReadHandle::View(client.runtime.block_on(shared.views.open()).unwrap());
    let session = SessionInfo {
        user: "tester".to_owned(),
        database: "test".to_owned(),
    };
    let request = Request {
        text,
        types: &[],
        session: &session,
    };
    let planned = shared
        .front_end
        .plan(&request, &mut Reader::Handle(&handle))
        .unwrap()
        .unwrap();
    let Body::Select { plan, .. } = &planned.body else {
        panic!("{text}");
    };
    let settings = RunSettings {
        user: "me".to_owned(),
        handle,
        environment: Environment {
            parameters: Arc::new([]),
            now: 0,
            zone: TimeZone::Utc,
            guard: Guard::none(),
            session: 0,
        },
        cancelled: Cancelled::default(),
        rows_max: usize::MAX,
    };
    let order = shared.front_end.tables_in_order(plan, settings);
    client.runtime.block_on(order).unwrap()
}

#[test]
fn joins_keep_the_smaller_table() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    for table in ["small", "middle", "big"] {
        client.tag(&format!("CREATE TABLE {table} (id int PRIMARY KEY, a int)"));
    }
    client.tag("INSERT INTO small SELECT x, x AS y FROM generate_series(1, 10) AS x");
    client.tag("INSERT INTO middle SELECT x, x AS y FROM generate_series(1, 3000) AS x");
    client.tag("INSERT INTO big SELECT x, x AS y FROM generate_series(1, 20000) AS x");
    for text in [
        "SELECT count(*) FROM small JOIN big ON small.a = big.a",
        "SELECT count(*) FROM big JOIN small ON small.a = big.a",
        "SELECT count(*) FROM big, small WHERE small.a = big.a",
    ] {
        assert_eq!(
            order(&fixture, &mut client, text),
            ["small", "big"],
            "{text}"
        );
        assert_eq!(client.lines(text), ["10"]);
    }
    // Both have more rows than are counted at once: the rest is counted beside.
    let text = "SELECT count(*) FROM big JOIN middle ON middle.a = big.a";
    let begun = Instant::now();
    while order(&fixture, &mut client, text) != ["middle", "big"] {
        assert!(begun.elapsed() < Duration::from_secs(30));
        std::thread::sleep(Duration::from_millis(10));
    }
    // And again, when the numbers are old.
    client.tag("DELETE FROM big WHERE id > 10");
    client.tag("INSERT INTO small SELECT x, x AS y FROM generate_series(11, 5000) AS x");
    let text = "SELECT count(*) FROM small JOIN big ON small.a = big.a";
    while order(&fixture, &mut client, text) != ["big", "small"] {
        assert!(begun.elapsed() < Duration::from_secs(60));
        std::thread::sleep(Duration::from_millis(50));
    }
    // One row by its key.
    let text = "SELECT count(*) FROM middle JOIN small ON middle.a = small.a WHERE middle.id = 7";
    assert_eq!(order(&fixture, &mut client, text), ["middle", "small"]);
    let text = "SELECT count(*) FROM small JOIN middle ON middle.a = small.a WHERE middle.id = 7";
    assert_eq!(order(&fixture, &mut client, text), ["middle", "small"]);
}
