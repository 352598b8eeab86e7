//! A row program answers as the plan does that it was compiled from.
//!
//! The same statement is run twice: as a program, and in a form that has none (a second relation of one row joins the table).

use super::harness::{Client, Fixture};

/// A sequence of numbers from a seed, printed when a test fails.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self, below: u64) -> u64 {
        // xorshift64*
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) % below
    }

    fn pick<'t>(&mut self, of: &[&'t str]) -> &'t str {
        of[self.next(of.len() as u64) as usize]
    }
}

const ROWS: u64 = 40;

fn filled(fixture: &Fixture, numbers: &mut Numbers) -> Client {
    let mut client = fixture.client();
    client.tag(
        "CREATE TABLE t (k int, l int, a int, b bigint, c text, d numeric(8,2), e float8, f date, g bool, \
         PRIMARY KEY (k, l))",
    );
    client.tag("CREATE INDEX t_a ON t (a)");
    client.tag("CREATE INDEX t_cd ON t (c, d)");
    client.tag("CREATE TABLE one (x int PRIMARY KEY)");
    client.tag("INSERT INTO one VALUES (1)");
    for row in 0..ROWS {
        let null = |numbers: &mut Numbers, text: String| {
            if numbers.next(6) == 0 {
                "NULL".to_owned()
            } else {
                text
            }
        };
        let a = numbers.next(9);
        let a = null(numbers, a.to_string());
        let b = numbers.next(1 << 40);
        let b = null(numbers, b.to_string());
        let c = numbers.pick(&["'x'", "'y'", "'xy'", "''"]).to_owned();
        let c = null(numbers, c);
        let d = numbers.next(500);
        let d = null(numbers, format!("{}.{:02}", d / 100, d % 100));
        let e = numbers.next(50);
        let e = null(numbers, format!("{e}e-1"));
        let f = numbers.next(27) + 1;
        let f = null(numbers, format!("'2026-01-{f:02}'"));
        let g = numbers.pick(&["true", "false", "NULL"]);
        let (k, l) = (row % 8, row / 8);
        client.tag(&format!(
            "INSERT INTO t VALUES ({k}, {l}, {a}, {b}, {c}, {d}, {e}, {f}, {g})"
        ));
    }
    client
}

fn condition(numbers: &mut Numbers) -> String {
    let compare = numbers.pick(&["=", "<>", "<", "<=", ">", ">="]);
    let small = numbers.next(10);
    match numbers.next(11) {
        0 => format!("a {compare} {small}"),
        1 => format!("b {compare} {}", numbers.next(1 << 40)),
        2 => format!(
            "c {compare} {}",
            numbers.pick(&["'x'", "'y'", "'xy'", "'z'"])
        ),
        3 => format!("d {compare} {}.{:02}", small / 2, numbers.next(100)),
        4 => format!("e {compare} 2.5"),
        5 => format!("f {compare} '2026-01-{:02}'", small + 1),
        6 => numbers
            .pick(&["g", "NOT g", "g IS NULL", "a IS NOT NULL"])
            .to_owned(),
        7 => format!("a IN ({small}, {}, 3)", numbers.next(9)),
        8 => format!("a BETWEEN {} AND {small}", numbers.next(5)),
        9 => format!("c LIKE '{}%'", numbers.pick(&["x", "y", ""])),
        _ => format!("l {compare} {}", numbers.next(6)),
    }
}

/// Values of a list, some of them twice or null.
fn list(numbers: &mut Numbers, below: u64) -> String {
    let length = numbers.next(6) + 1;
    let mut values = Vec::new();
    for _ in 0..length {
        values.push(match numbers.next(12) {
            0 => "NULL".to_owned(),
            _ => numbers.next(below).to_string(),
        });
    }
    values.join(", ")
}

fn output(numbers: &mut Numbers) -> String {
    let columns = ["k", "l", "a", "b", "c", "d", "e", "f", "g"];
    let mut parts = Vec::new();
    for _ in 0..=numbers.next(4) {
        let part = match numbers.next(8) {
            0 => format!("a + {}", numbers.next(100)),
            1 => "a * l - k".to_owned(),
            2 => "d + 1.25".to_owned(),
            3 => "e * 2".to_owned(),
            4 => "upper(c)".to_owned(),
            5 => "CASE WHEN g THEN a ELSE k END".to_owned(),
            6 => "a::bigint + b".to_owned(),
            _ => numbers.pick(&columns).to_owned(),
        };
        parts.push(format!("{part} AS o{}", parts.len()));
    }
    parts.join(", ")
}

/// How many random statements are compared: `NAMIKI_SQL_ROUNDS`, or else this number.
fn rounds(default: u64) -> u64 {
    let rounds = std::env::var("NAMIKI_SQL_ROUNDS").ok();
    rounds.and_then(|it| it.parse().ok()).unwrap_or(default)
}

#[test]
fn random_selects_are_equal() {
    let seed = 20_261_129;
    let fixture = Fixture::new();
    let mut numbers = Numbers(seed);
    let mut client = filled(&fixture, &mut numbers);
    let rounds = rounds(300);
    let mut programs = 0;
    for round in 0..rounds {
        let reach = match numbers.next(8) {
            0 => format!("k = {} AND l = {}", numbers.next(9), numbers.next(6)),
            1 => format!("k = {}", numbers.next(9)),
            2 => format!("a = {}", numbers.next(9)),
            3 => format!("k IN ({})", list(&mut numbers, 9)),
            4 => format!(
                "k IN ({}) AND l IN ({})",
                list(&mut numbers, 9),
                list(&mut numbers, 6)
            ),
            5 => format!("a IN ({})", list(&mut numbers, 9)),
            6 => format!(
                "(c = {} OR c = {}) AND d IN (1.5, 2.25, 3, 4.99, 0.5)",
                numbers.pick(&["'x'", "'y'", "NULL"]),
                numbers.pick(&["'x'", "'xy'"])
            ),
            _ => format!("c = {}", numbers.pick(&["'x'", "'y'", "'xy'"])),
        };
        let mut conditions = vec![reach];
        for _ in 0..numbers.next(3) {
            conditions.push(condition(&mut numbers));
        }
        let (output, conditions) = (output(&mut numbers), conditions.join(" AND "));
        let program = format!("SELECT {output} FROM t WHERE {conditions}");
        let plan = format!("SELECT {output} FROM t JOIN one ON x = 1 WHERE {conditions}");
        let before = fixture.engine.stats().row_programs;
        let answer = client.query(&program).map(|answer| sorted(answer.lines()));
        programs += fixture.engine.stats().row_programs - before;
        let expected = client.query(&plan).map(|answer| sorted(answer.lines()));
        match (&answer, &expected) {
            (Err(answer), Err(expected)) => {
                assert_eq!(
                    answer.sqlstate(),
                    expected.sqlstate(),
                    "seed {seed} round {round}: {program}"
                );
            }
            _ => assert_eq!(
                answer.ok(),
                expected.ok(),
                "seed {seed} round {round}: {program}"
            ),
        }
    }
    // Conditions that exclude each other leave nothing to be read.
    assert!(
        programs >= rounds * 3 / 4,
        "only {programs} of {rounds} ran as programs"
    );
}

#[test]
fn first_rows_of_the_key_are_equal() {
    let seed = 20_261_131;
    let fixture = Fixture::new();
    let mut numbers = Numbers(seed);
    let mut client = filled(&fixture, &mut numbers);
    let rounds = rounds(200);
    let mut programs = 0;
    for round in 0..rounds {
        let order = numbers.pick(&[
            "k, l",
            "k DESC, l DESC",
            "k, l, a",
            "k, l DESC",
            "l, k",
            "1, k, l",
            "k, a, l",
        ]);
        let reach = match numbers.next(6) {
            0 => String::new(),
            1 => format!("k = {}", numbers.next(9)),
            2 => format!("k > {}", numbers.next(9)),
            3 => format!("k IN ({})", list(&mut numbers, 9)),
            4 => format!("a = {}", numbers.next(9)),
            _ => format!("k = {} AND l >= {}", numbers.next(9), numbers.next(6)),
        };
        let mut conditions: Vec<String> = Vec::from_iter((!reach.is_empty()).then_some(reach));
        if numbers.next(3) == 0 {
            conditions.push(condition(&mut numbers));
        }
        let filter = |first: &str| match conditions.as_slice() {
            [] => String::new(),
            all => format!(" {first} {}", all.join(" AND ")),
        };
        let output = output(&mut numbers);
        let rows = format!("LIMIT {} OFFSET {}", numbers.next(9), numbers.next(4));
        let end = format!("ORDER BY {order} {rows}");
        let program = format!("SELECT {output} FROM t{} {end}", filter("WHERE"));
        let plan = format!(
            "SELECT {output} FROM t JOIN one ON x = 1{} {end}",
            filter("AND")
        );
        let before = fixture.engine.stats().row_programs;
        let answer = client.query(&program).map(|answer| answer.lines());
        programs += fixture.engine.stats().row_programs - before;
        let expected = client.query(&plan).map(|answer| answer.lines());
        match (&answer, &expected) {
            // A value that only one of both has met.
            (Err(_), _) | (_, Err(_)) => {}
            _ => assert_eq!(
                answer.ok(),
                expected.ok(),
                "seed {seed} round {round}: {program}"
            ),
        }
    }
    // The others are plans: an output column with another name hides those of ORDER BY.
    assert!(programs > 0);
}

fn sorted(mut lines: Vec<String>) -> Vec<String> {
    lines.sort();
    lines
}

#[test]
fn random_changes_are_equal() {
    let seed = 20_261_130;
    let (left, right) = (Fixture::new(), Fixture::new());
    let mut client = filled(&left, &mut Numbers(seed));
    let mut other = filled(&right, &mut Numbers(seed));
    let mut numbers = Numbers(seed + 1);
    let rounds = rounds(150);
    for round in 0..rounds {
        let reach = match numbers.next(3) {
            0 => format!(
                "k IN ({}) AND l IN ({})",
                list(&mut numbers, 9),
                list(&mut numbers, 6)
            ),
            _ => format!("k = {} AND l = {}", numbers.next(9), numbers.next(6)),
        };
        let also = condition(&mut numbers);
        let set = match numbers.next(6) {
            0 => format!("a = a + {}", numbers.next(50)),
            1 => "b = b * 2, c = c || 'z'".to_owned(),
            2 => format!("d = {}", numbers.next(100)),
            3 => "e = e / 2, g = NOT g".to_owned(),
            4 => "a = NULL".to_owned(),
            _ => "l = l + 10".to_owned(),
        };
        let (program, plan) = if numbers.next(8) == 0 {
            (
                format!("DELETE FROM t WHERE {reach} AND {also}"),
                format!("DELETE FROM t USING one WHERE x = 1 AND {reach} AND {also}"),
            )
        } else {
            (
                format!("UPDATE t SET {set} WHERE {reach} AND {also}"),
                format!("UPDATE t SET {set} FROM one WHERE x = 1 AND {reach} AND {also}"),
            )
        };
        let (answer, expected) = (client.query(&program), other.query(&plan));
        match (answer, expected) {
            (Ok(answer), Ok(expected)) => assert_eq!(
                answer.tag, expected.tag,
                "seed {seed} round {round}: {program}"
            ),
            (Err(answer), Err(expected)) => {
                assert_eq!(
                    answer.sqlstate(),
                    expected.sqlstate(),
                    "seed {seed} round {round}: {program}"
                );
            }
            (answer, expected) => {
                panic!("seed {seed} round {round}: {program}: {answer:?}, {expected:?}")
            }
        }
    }
    let all = "SELECT * FROM t ORDER BY k, l";
    assert_eq!(client.lines(all), other.lines(all));
    for a in 0..60 {
        let by_index = format!("SELECT k, l FROM t WHERE a = {a}");
        let by_scan = format!("SELECT k, l FROM t WHERE a + 0 = {a}");
        assert_eq!(
            sorted(client.lines(&by_index)),
            sorted(client.lines(&by_scan)),
            "seed {seed}: {a}"
        );
    }
}
