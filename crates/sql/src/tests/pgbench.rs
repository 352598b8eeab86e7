//! What pgbench sends: its tables, its load, TPC-B.

use super::harness::Fixture;

const TABLES: &[&str] = &[
    "drop table if exists pgbench_accounts, pgbench_branches, pgbench_history, pgbench_tellers",
    "create table pgbench_history(tid int,bid int,aid    int,delta int,mtime timestamp,filler char(22))",
    "create table pgbench_tellers(tid int not null,bid int,tbalance int,filler char(84)) with (fillfactor=100)",
    "create table pgbench_accounts(aid    int not null,bid int,abalance int,filler char(84)) with (fillfactor=100)",
    "create table pgbench_branches(bid int not null,bbalance int,filler char(88)) with (fillfactor=100)",
    "begin",
    "truncate table pgbench_accounts, pgbench_branches, pgbench_history, pgbench_tellers",
    "insert into pgbench_branches(bid,bbalance) values(1,0)",
    "insert into pgbench_tellers(tid,bid,tbalance) values (1,1,0)",
    "insert into pgbench_tellers(tid,bid,tbalance) values (2,1,0)",
];

#[test]
fn the_load_and_tpc_b_run_as_pgbench_sends_them() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    for text in TABLES {
        client.tag(text);
    }
    let lines: String = (1..=1000).map(|aid| format!("{aid}\t1\t0\t\n")).collect();
    let copied = client.copy_in(
        "copy pgbench_accounts from stdin with (freeze on)",
        lines.as_bytes(),
        777,
    );
    assert_eq!(copied.unwrap(), "COPY 1000");
    client.tag("commit");
    for text in [
        "vacuum analyze pgbench_accounts",
        "alter table pgbench_branches add primary key (bid)",
        "alter table pgbench_tellers add primary key (tid)",
        "alter table pgbench_accounts add primary key (aid)",
        "vacuum pgbench_branches",
        "truncate pgbench_history",
    ] {
        client.tag(text);
    }
    assert_eq!(client.lines("select count(*) from pgbench_branches"), ["1"]);
    let partitions = "select o.n, p.partstrat, pg_catalog.count(i.inhparent) from pg_catalog.pg_class as c join \
         pg_catalog.pg_namespace as n on (n.oid = c.relnamespace) cross join lateral (select \
         pg_catalog.array_position(pg_catalog.current_schemas(true), n.nspname)) as o(n) left join \
         pg_catalog.pg_partitioned_table as p on (p.partrelid = c.oid) left join pg_catalog.pg_inherits as i on \
         (c.oid = i.inhparent) where c.relname = 'pgbench_accounts' and o.n is not null group by 1, 2 order by 1 asc \
         limit 1";
    assert_eq!(client.lines(partitions).len(), 1);
    for (at, aid) in [(1, 5), (2, 999), (3, 5)] {
        client.tag("BEGIN;");
        for (text, values) in [
            (
                "UPDATE pgbench_accounts SET abalance = abalance + $1 WHERE aid = $2;",
                vec![at, aid],
            ),
            (
                "SELECT abalance FROM pgbench_accounts WHERE aid = $1;",
                vec![aid],
            ),
            (
                "UPDATE pgbench_tellers SET tbalance = tbalance + $1 WHERE tid = $2;",
                vec![at, 2],
            ),
            (
                "UPDATE pgbench_branches SET bbalance = bbalance + $1 WHERE bid = $2;",
                vec![at, 1],
            ),
            (
                "INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES ($1, $2, $3, $4, CURRENT_TIMESTAMP);",
                vec![2, 1, aid, at],
            ),
        ] {
            let values: Vec<String> = values.iter().map(ToString::to_string).collect();
            let values: Vec<Option<&str>> = values.iter().map(|it| Some(it.as_str())).collect();
            client.prepared(text, &[], &values).unwrap();
        }
        client.tag("END;");
    }
    client.tag("UPDATE pgbench_accounts SET abalance = abalance + -3806 WHERE aid = 7;");
    let sums = "SELECT (SELECT sum(abalance) FROM pgbench_accounts), (SELECT sum(bbalance) FROM pgbench_branches), \
                (SELECT sum(delta) FROM pgbench_history)";
    assert_eq!(client.lines(sums), ["-3800|6|6"]);
    assert!(fixture.engine.stats().row_programs >= 15);
}
