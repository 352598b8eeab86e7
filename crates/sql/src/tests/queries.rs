//! SELECT, types, parameters, and what clients are told of columns.

use super::harness::Fixture;
use crate::sqlstate;

#[test]
fn joins_groups_and_subqueries_are_answered() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client.tag("CREATE TABLE author (id int PRIMARY KEY, name text)");
    client.tag("CREATE TABLE book (id int PRIMARY KEY, author int, price numeric(10,2))");
    client.tag("CREATE INDEX ON book (author)");
    client.tag("INSERT INTO author VALUES (1, 'a'), (2, 'b'), (3, 'c')");
    client.tag("INSERT INTO book VALUES (1, 1, 5), (2, 1, 7.50), (3, 2, 1.25)");
    assert_eq!(
        client.lines(
            "SELECT a.name, count(b.id), sum(b.price) FROM author a LEFT JOIN book b ON b.author = a.id \
             GROUP BY a.name ORDER BY 1"
        ),
        ["a|2|12.50", "b|1|1.25", "c|0|-"]
    );
    assert_eq!(
        client.lines("SELECT id FROM book WHERE author = 1 ORDER BY price DESC LIMIT 1"),
        ["2"]
    );
    assert_eq!(
        client
            .lines("WITH cheap AS (SELECT * FROM book WHERE price < 6) SELECT count(*) FROM cheap"),
        ["2"]
    );
    assert_eq!(
        client.lines("SELECT name FROM author WHERE id NOT IN (SELECT author FROM book)"),
        ["c"]
    );
    assert_eq!(
        client.lines("SELECT 1 UNION SELECT 1 UNION ALL SELECT 2 ORDER BY 1"),
        ["1", "2"]
    );
}

#[test]
fn a_plan_gives_new_rows_at_each_run() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client.tag("CREATE TABLE t (id int PRIMARY KEY, a int)");
    let query = "SELECT x.id FROM t x JOIN t y ON x.id = y.a ORDER BY x.id LIMIT 2";
    for id in 1..4 {
        client.tag(&format!("INSERT INTO t VALUES ({id}, {id})"));
        let expected: Vec<String> = (1..=id.min(2)).map(|it| it.to_string()).collect();
        assert_eq!(client.lines(query), expected);
    }
}

#[test]
fn every_type_is_stored_and_shown() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client.tag(
        "CREATE TABLE t (id int PRIMARY KEY, a smallint, b bigint, c real, d float8, e numeric(12,3), f bool, g text, \
         h varchar(5), i char(4), j date, k timestamp, l timestamptz, m uuid, n bytea, o json, p numeric)",
    );
    client.tag(
        "INSERT INTO t VALUES (1, -5, 9000000000, 1.5, 0.1, 12345.678, true, 'text', 'vc', 'ch', '2026-02-28', \
         '2026-02-28 01:02:03.5', '2026-02-28 01:02:03+02', '11111111-2222-3333-4444-555555555555', '\\x00ff', \
         '{\"a\": 1}', 1.5)",
    );
    let shown = "1|-5|9000000000|1.5|0.1|12345.678|t|text|vc|ch  |2026-02-28|2026-02-28 01:02:03.5|\
                 2026-02-27 23:02:03+00|11111111-2222-3333-4444-555555555555|\\x00ff|{\"a\": 1}|1.5";
    // By a program, and by a plan.
    assert_eq!(client.lines("SELECT * FROM t WHERE id = 1"), [shown]);
    assert_eq!(client.lines("SELECT * FROM t"), [shown]);
    assert_eq!(
        client.lines("SELECT id FROM t WHERE m = '11111111-2222-3333-4444-555555555555'"),
        ["1"]
    );
    assert_eq!(
        client.lines("SELECT id FROM t WHERE k > '2026-01-01' AND j = '2026-02-28'"),
        ["1"]
    );
    client.tag("UPDATE t SET k = k + interval '1 day', e = e * 2, m = NULL WHERE id = 1");
    assert_eq!(
        client.lines("SELECT k, e, m FROM t"),
        ["2026-03-01 01:02:03.5|24691.356|-"]
    );
    assert_eq!(
        client.state("INSERT INTO t (id, h) VALUES (2, 'too long')"),
        "22001"
    );
    assert_eq!(
        client.state("INSERT INTO t (id, j) VALUES (2, '2026-02-30')"),
        sqlstate::DATETIME_FIELD_OVERFLOW
    );
}

#[test]
fn parameters_have_the_types_of_their_places() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client.tag("CREATE TABLE t (id int PRIMARY KEY, n text, v numeric(10,2))");
    client
        .prepared(
            "INSERT INTO t VALUES ($1, $2, $3)",
            &[],
            &[Some("1"), Some("a"), Some("1.5")],
        )
        .unwrap();
    let select = "SELECT n, v FROM t WHERE id = $1";
    assert_eq!(
        client.prepared(select, &[], &[Some("1")]).unwrap().lines(),
        ["a|1.50"]
    );
    assert_eq!(
        client
            .prepared(select, &[20], &[Some("1")])
            .unwrap()
            .lines(),
        ["a|1.50"]
    );
    assert_eq!(client.prepared(select, &[], &[None]).unwrap().rows.len(), 0);
    let update = "UPDATE t SET v = v + $1 WHERE id = $2";
    assert_eq!(
        client
            .prepared(update, &[], &[Some("0.25"), Some("1")])
            .unwrap()
            .tag,
        "UPDATE 1"
    );
    assert_eq!(client.lines("SELECT v FROM t"), ["1.75"]);
    assert_eq!(
        client
            .prepared("SELECT $1 + 1", &[], &[Some("2")])
            .unwrap()
            .lines(),
        ["3"]
    );
    assert_eq!(
        client
            .prepared("SELECT $1", &[], &[Some("x")])
            .unwrap()
            .lines(),
        ["x"]
    );
    let limit = "SELECT id FROM t ORDER BY id LIMIT $1::int OFFSET $2::int";
    assert_eq!(
        client
            .prepared(limit, &[], &[Some("1"), Some("0")])
            .unwrap()
            .lines(),
        ["1"]
    );
    assert_eq!(
        client
            .prepared(select, &[], &[Some("x")])
            .unwrap_err()
            .sqlstate(),
        "22P02"
    );
    assert_eq!(
        client.prepared(select, &[], &[]).unwrap_err().sqlstate(),
        sqlstate::PROTOCOL_VIOLATION
    );
}

#[test]
fn columns_have_the_names_that_postgresql_gives() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client.tag("CREATE TABLE t (id int PRIMARY KEY, a int)");
    let answer = client
        .query("SELECT id, a + 1, count(*), max(a) AS m, 5, a::text, *, CASE WHEN a > 1 THEN 1 END FROM t GROUP BY id, a")
        .unwrap();
    let expected = [
        "id", "?column?", "count", "m", "?column?", "a", "id", "a", "case",
    ];
    assert_eq!(answer.columns, expected);
}

#[test]
fn now_is_not_kept_in_a_plan() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client.tag("CREATE TABLE t (at timestamptz)");
    client.tag("INSERT INTO t VALUES (now())");
    std::thread::sleep(std::time::Duration::from_millis(5));
    client.tag("INSERT INTO t VALUES (now())");
    assert_eq!(client.lines("SELECT count(DISTINCT at) FROM t"), ["2"]);
    let first = client.lines("SELECT now()");
    std::thread::sleep(std::time::Duration::from_millis(5));
    assert_ne!(client.lines("SELECT now()"), first);
    client.tag("BEGIN");
    let first = client.lines("SELECT now(), current_date = now()::date");
    std::thread::sleep(std::time::Duration::from_millis(5));
    assert_eq!(
        client.lines("SELECT now(), current_date = now()::date"),
        first
    );
    client.tag("COMMIT");
}

#[test]
fn a_portal_stops_at_its_limit_and_goes_on() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client.tag("CREATE TABLE t (id int PRIMARY KEY)");
    client.tag("INSERT INTO t SELECT x FROM generate_series(1, 25) AS x");
    let (parts, tag) = client.in_parts("SELECT id FROM t", 10).unwrap();
    assert_eq!((parts, tag.as_str()), (vec![10, 10, 5], "SELECT 25"));
}

#[test]
fn statements_that_are_too_large_are_refused() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    let deep = format!("SELECT {}1{}", "(".repeat(10_000), ")".repeat(10_000));
    assert_eq!(client.state(&deep), sqlstate::STATEMENT_TOO_COMPLEX);
    let long = format!("SELECT 1{}", " + 1".repeat(5_000));
    assert_eq!(client.state(&long), sqlstate::STATEMENT_TOO_COMPLEX);
    let unions = format!("SELECT 1{}", " UNION SELECT 1".repeat(5_000));
    assert_eq!(client.state(&unions), sqlstate::STATEMENT_TOO_COMPLEX);
    assert_eq!(client.state("SELECT 'open"), sqlstate::SYNTAX_ERROR);
    assert_eq!(client.state("SELEC 1"), sqlstate::SYNTAX_ERROR);
    assert_eq!(
        client.state("SELECT nothing(1)"),
        sqlstate::UNDEFINED_FUNCTION
    );
    assert_eq!(client.state("SELECT x"), sqlstate::UNDEFINED_COLUMN);
    assert_eq!(client.lines("SELECT 1"), ["1"]);
}

#[test]
fn explain_says_which_way_is_taken() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client.tag("CREATE TABLE t (id int PRIMARY KEY, a int, b int)");
    client.tag("CREATE INDEX t_b ON t (b)");
    let mut first = |text: &str| client.lines(text).swap_remove(0);
    assert_eq!(
        first("EXPLAIN SELECT a FROM t WHERE id = 1"),
        "Row program: by primary key of t"
    );
    assert_eq!(
        first("EXPLAIN SELECT a FROM t WHERE b = 1"),
        "Row program: by index t_b on t"
    );
    assert!(first("EXPLAIN SELECT sum(a) FROM t").starts_with("Select: plan"));
    let update = first("EXPLAIN UPDATE t SET a = a + 1 WHERE id = 1");
    assert_eq!(
        update,
        "Row program: Update, by primary key of t, added at the commit"
    );
}
