//! Averages, quotients and rounding, as PostgreSQL has them.

use super::harness::{Client, Fixture};

fn filled(fixture: &Fixture) -> Client {
    let mut client = fixture.client();
    client.tag(
        "CREATE TABLE t (id int PRIMARY KEY, s smallint, i int, l bigint, d numeric(8,2), n numeric, f float8)",
    );
    client.tag("INSERT INTO t VALUES (1, 1, 1, 1, 1.00, 1, 1)");
    client.tag("INSERT INTO t VALUES (2, 2, 2, 2, 2.00, 2.5, 2)");
    client.tag("INSERT INTO t VALUES (3, 2, 2, 9000000000000000002, 2.00, 2.50, 2)");
    client
}

#[test]
fn averages_of_exact_numbers_are_exact() {
    let fixture = Fixture::new();
    let mut client = filled(&fixture);
    for (text, expected) in [
        ("SELECT avg(s) FROM t", "1.6666666666666667"),
        ("SELECT avg(i) FROM t", "1.6666666666666667"),
        (
            "SELECT avg(l) FROM t",
            "3000000000000000001.6666666666666667",
        ),
        ("SELECT avg(d) FROM t", "1.6666666666666667"),
        ("SELECT avg(n) FROM t", "2.0000000000000000"),
        ("SELECT avg(f) FROM t", "1.6666666666666667"),
        ("SELECT avg(i) FROM t WHERE id < 3", "1.5000000000000000"),
        ("SELECT avg(-i) FROM t", "-1.6666666666666667"),
        ("SELECT avg(DISTINCT i) FROM t", "1.5000000000000000"),
        ("SELECT avg(i) FROM t WHERE id > 9", "-"),
        ("SELECT round(avg(d), 2) FROM t", "1.67"),
        ("SELECT avg(i) + 1 FROM t", "2.6666666666666667"),
        ("SELECT avg(i) > 1.6 FROM t", "t"),
    ] {
        assert_eq!(client.lines(text), [expected], "{text}");
    }
    assert_eq!(
        client.lines("SELECT s, avg(i) FROM t GROUP BY s ORDER BY s"),
        ["1|1.0000000000000000", "2|2.0000000000000000"]
    );
    assert_eq!(
        client.lines("SELECT id, avg(i) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM t ORDER BY id"),
        ["1|1.0000000000000000", "2|1.5000000000000000", "3|2.0000000000000000"]
    );
    let portal = client
        .prepared("SELECT avg(i), avg(f) FROM t", &[], &[])
        .unwrap();
    assert_eq!(portal.rows.len(), 1);
    assert_eq!(client.state("SELECT avg('a'::text)"), "42883");
}

#[test]
fn quotients_have_the_kind_of_their_operands() {
    let fixture = Fixture::new();
    let mut client = filled(&fixture);
    for (text, expected) in [
        ("SELECT 7 / 2", "3"),
        ("SELECT -7 / 2", "-3"),
        ("SELECT 7 % -2", "1"),
        ("SELECT 7 / 2.0", "3.5000000000000000"),
        ("SELECT 1.0 / 3", "0.3333333333333333"),
        ("SELECT 2 / 3.0", "0.6666666666666667"),
        ("SELECT 7 / 2.0::float8", "3.5"),
        ("SELECT sum(d) / count(*) FROM t", "1.6666666666666667"),
        ("SELECT n / 2 FROM t WHERE id = 2", "1.25"),
        ("SELECT d / 3 FROM t WHERE id = 2", "0.6666666666666667"),
        ("SELECT i / 2 FROM t WHERE id = 3", "1"),
        ("SELECT l / 4 FROM t WHERE id = 3", "2250000000000000000"),
    ] {
        assert_eq!(client.lines(text), [expected], "{text}");
    }
    for text in [
        "SELECT 1 / 0",
        "SELECT 1.0 / 0",
        "SELECT d / 0 FROM t",
        "SELECT d / (i - i) FROM t WHERE id = 1",
        "SELECT i / (i - i) FROM t WHERE id = 1",
    ] {
        assert_eq!(client.state(text), "22012", "{text}");
    }
}

#[test]
fn numbers_without_precision_hide_their_zeros() {
    let fixture = Fixture::new();
    let mut client = filled(&fixture);
    for (text, expected) in [
        ("SELECT n FROM t WHERE id = 1", "1"),
        ("SELECT n FROM t WHERE id = 3", "2.5"),
        ("SELECT n + 1 FROM t WHERE id = 3", "3.5"),
        ("SELECT n * 1.5 FROM t WHERE id = 3", "3.75"),
        ("SELECT sum(n) FROM t", "6"),
        ("SELECT d FROM t WHERE id = 3", "2.00"),
        ("SELECT sum(d) FROM t", "5.00"),
        ("SELECT 1.50", "1.50"),
        ("SELECT 1200::numeric", "1200"),
        ("SELECT round(2.5)", "3"),
        ("SELECT round(-2.5)", "-3"),
        ("SELECT round(1.005, 2)", "1.01"),
        ("SELECT round(d / 3, 3) FROM t WHERE id = 2", "0.667"),
        ("SELECT round(n / 3, 1) FROM t WHERE id = 3", "0.8"),
        ("SELECT Round (d, 1) FROM t WHERE id = 2", "2.0"),
        ("SELECT round(1234.5, -2)", "1200"),
        ("SELECT max(round(d / 3, 2)) FROM t", "0.67"),
    ] {
        assert_eq!(client.lines(text), [expected], "{text}");
    }
}
