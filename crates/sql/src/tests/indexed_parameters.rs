//! Values of all types are found again by key and by index: as literals and as parameters, in text and in binary, by row
//! programs and by plans.

use super::harness::{Client, Fixture};

/// A type, values, and other texts of the same values.
const VALUES: [(&str, &[(&str, &str)]); 19] = [
    ("boolean", &[("true", "t"), ("false", "off")]),
    ("smallint", &[("0", " 0 "), ("-32768", "-32768")]),
    ("integer", &[("7", "+7"), ("-2147483648", "-2147483648")]),
    ("bigint", &[("5000000000", "5000000000"), ("-1", "-01")]),
    (
        "real",
        &[
            ("123456.789", "123456.79"),
            ("0.1", "1e-1"),
            ("NaN", "nan"),
            ("1e-40", "1e-40"),
        ],
    ),
    (
        "double precision",
        &[
            ("123456.789", "1.23456789e5"),
            ("0.1", "0.10"),
            ("-Infinity", "-inf"),
        ],
    ),
    ("numeric(8,2)", &[("1.50", "1.5"), ("-0.01", "-0.010")]),
    (
        "numeric(30,4)",
        &[
            ("1.5", "1.5000"),
            ("12345678901234567890.25", "12345678901234567890.2500"),
        ],
    ),
    ("numeric", &[("1.5", "1.50"), ("0", "0.0")]),
    ("text", &[("a", "a"), ("", ""), ("a ", "a ")]),
    ("varchar(5)", &[("a", "a"), ("a ", "a ")]),
    ("char(5)", &[("a", "a    "), ("", "  "), ("abcde", "abcde")]),
    (
        "date",
        &[("2024-02-29", "20240229"), ("1969-12-31", "1969-12-31")],
    ),
    (
        "timestamp",
        &[("2024-02-29 12:00:00.5", "2024-02-29T12:00:00.500000")],
    ),
    (
        "timestamptz",
        &[("2024-02-29 12:00:00+02", "2024-02-29 10:00:00+00")],
    ),
    (
        "uuid",
        &[(
            "00000000-0000-0000-0000-0000000000ff",
            "000000000000000000000000000000FF",
        )],
    ),
    ("bytea", &[("\\x00ff", "\\x00FF"), ("\\x", "")]),
    (
        "timestamp",
        &[("1969-12-31 23:59:59.999999", "1969-12-31 23:59:59.999999")],
    ),
    ("date", &[("0100-06-15", "0100-06-15")]),
];

/// Runs a statement with one parameter as a text, and once more in binary, as the server has it itself.
fn both_ways(client: &mut Client, text: &str, of: &str, value: &str) -> Vec<Vec<String>> {
    let as_text = client.prepared(text, &[], &[Some(value)]).unwrap();
    let binary = client.binary_value(&format!("SELECT '{value}'::{of}"));
    let as_binary = client.prepared_binary(text, &binary).unwrap();
    vec![as_text.lines(), as_binary.lines()]
}

#[test]
fn values_are_found_by_key_and_index() {
    let fixture = Fixture::new();
    let mut client = fixture.client();
    client.tag("CREATE TABLE one (x int PRIMARY KEY); INSERT INTO one VALUES (1)");
    for (number, (of, values)) in VALUES.into_iter().enumerate() {
        let (indexed, keyed) = (format!("i{number}"), format!("k{number}"));
        client.tag(&format!(
            "CREATE TABLE {indexed} (id int PRIMARY KEY, c {of}, n int DEFAULT 0)"
        ));
        client.tag(&format!("CREATE INDEX ON {indexed} (c)"));
        client.tag(&format!(
            "CREATE TABLE {keyed} (c {of} PRIMARY KEY, id int, n int DEFAULT 0)"
        ));
        for (id, (value, _)) in values.iter().enumerate() {
            client.tag(&format!("INSERT INTO {indexed} VALUES ({id}, '{value}')"));
            client.tag(&format!("INSERT INTO {keyed} VALUES ('{value}', {id})"));
        }
        for (id, (value, other)) in values.iter().enumerate() {
            for (table, value) in [
                (&indexed, value),
                (&indexed, other),
                (&keyed, value),
                (&keyed, other),
            ] {
                let found = [id.to_string()];
                let shown = format!("{of} {value} in {table}");
                for text in [
                    format!("SELECT id FROM {table} WHERE c = '{value}'"),
                    format!("SELECT id FROM {table} WHERE c IN ('{value}', '{value}')"),
                    format!("SELECT id FROM {table} JOIN one ON x = 1 WHERE c = '{value}'"),
                    format!("UPDATE {table} SET n = n + 1 WHERE c = '{value}' RETURNING id"),
                ] {
                    assert_eq!(client.lines(&text), found, "{shown}: {text}");
                }
                for text in [
                    format!("SELECT id FROM {table} WHERE c = $1"),
                    format!("SELECT id FROM {table} WHERE c IN ($1, $1)"),
                    format!("SELECT id FROM {table} WHERE c >= $1 AND c <= $1"),
                    format!("SELECT id FROM {table} JOIN one ON x = 1 WHERE c = $1"),
                    format!("UPDATE {table} SET n = n + 1 WHERE c = $1 RETURNING id"),
                    format!("UPDATE {table} SET n = n + 1 FROM one WHERE c = $1 RETURNING id"),
                    format!("DELETE FROM {table} WHERE c = $1 AND n < 0 RETURNING {id}"),
                ] {
                    let expected: &[String] = if text.starts_with("DELETE") {
                        &[]
                    } else {
                        &found
                    };
                    for lines in both_ways(&mut client, &text, of, value) {
                        assert_eq!(lines, expected, "{shown}: {text}");
                    }
                }
            }
        }
    }
}
