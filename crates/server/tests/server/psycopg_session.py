"""psycopg 3 against a server: what an application does. The connection comes from the environment (PGHOST, ...)."""

import datetime
import decimal
import threading
import uuid

import psycopg
from psycopg import errors, sql

with psycopg.connect(autocommit=True) as connection:
    connection.execute(
        "CREATE TABLE item (id int PRIMARY KEY, name text NOT NULL UNIQUE, price numeric(12,2) CHECK (price >= 0),"
        " made date, seen timestamp, weight float8, small smallint, big bigint, ok boolean, tag uuid, data bytea)"
    )
    values = (
        1,
        "spoon",
        decimal.Decimal("12.50"),
        datetime.date(2024, 2, 29),
        datetime.datetime(2024, 2, 29, 23, 59, 59, 123456),
        0.1,
        -32768,
        9223372036854775807,
        True,
        uuid.UUID("12345678-1234-5678-1234-567812345678"),
        b"\x00\xff",
    )
    insert = "INSERT INTO item VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"
    connection.execute(insert, values)
    for binary in (False, True):
        with connection.cursor(binary=binary) as cursor:
            row = cursor.execute("SELECT * FROM item WHERE id = %s", (1,)).fetchone()
            assert row == values, (binary, row)
    connection.execute(insert, (2, "fork") + (None,) * 9)
    row = connection.execute("SELECT price, made, seen, weight, ok, tag, data FROM item WHERE id = 2").fetchone()
    assert row == (None,) * 7, row

    # Errors have their classes.
    for statement, error in (
        ("INSERT INTO item (id, name) VALUES (1, 'knife')", errors.UniqueViolation),
        ("INSERT INTO item (id, name) VALUES (3, 'spoon')", errors.UniqueViolation),
        ("INSERT INTO item (id, name) VALUES (3, NULL)", errors.NotNullViolation),
        ("INSERT INTO item (id, name, price) VALUES (3, 'knife', -1)", errors.CheckViolation),
        ("SELECT * FROM no_such_table", errors.UndefinedTable),
        ("SELECT no_such_column FROM item", errors.UndefinedColumn),
        ("SELEC 1", errors.SyntaxError),
        ("SELECT 1 / 0", errors.DivisionByZero),
        ("SELECT 2147483647::int + 1::int", errors.NumericValueOutOfRange),
    ):
        try:
            connection.execute(statement)
        except error:
            pass
        else:
            raise AssertionError(statement)

    # Returned values, and changes of what is there.
    statement = (
        "INSERT INTO item (id, name, price) VALUES (%s, %s, %s)"
        " ON CONFLICT (id) DO UPDATE SET price = excluded.price RETURNING id, price"
    )
    for price in ("1.00", "2.00"):
        row = connection.execute(statement, (7, "cup", decimal.Decimal(price))).fetchone()
        assert row == (7, decimal.Decimal(price)), row
    changed = connection.execute("UPDATE item SET price = price + 1 WHERE id = 7 RETURNING price").fetchone()
    assert changed == (decimal.Decimal("3.00"),), changed
    assert connection.execute("DELETE FROM item WHERE id = 7").rowcount == 1
    assert connection.execute("DELETE FROM item WHERE id = 7").rowcount == 0

    # Statements that are prepared, and more of them than psycopg keeps.
    connection.prepare_threshold = 0
    connection.prepared_max = 5
    for number in range(20):
        query = sql.SQL("SELECT id + {} FROM item WHERE id = %s").format(sql.Literal(number))
        assert connection.execute(query, (1,)).fetchone() == (1 + number,)

    # Pipelines.
    with connection.pipeline():
        cursors = [connection.execute("SELECT name FROM item WHERE id = %s", (1 + n % 2,)) for n in range(50)]
        names = [cursor.fetchone()[0] for cursor in cursors]
    assert names == ["spoon", "fork"] * 25, names
    try:
        with connection.pipeline():
            connection.execute("INSERT INTO item (id, name) VALUES (20, 'a')")
            connection.execute("INSERT INTO item (id, name) VALUES (20, 'b')")
    except errors.UniqueViolation:
        pass
    else:
        raise AssertionError("a pipeline did not fail")

    # COPY, in and out.
    with connection.cursor() as cursor:
        with cursor.copy("COPY item (id, name, price) FROM STDIN") as copy:
            for number in range(100, 1100):
                copy.write_row((number, f"item {number}", decimal.Decimal(number)))
        assert cursor.rowcount == 1000
        with cursor.copy("COPY item (id, name) TO STDOUT") as copy:
            copied = sum(1 for _ in copy.rows())
        assert copied >= 1002, copied

# Transactions.
with psycopg.connect() as connection:
    with connection.transaction():
        connection.execute("INSERT INTO item (id, name) VALUES (30, 'kept')")
    try:
        with connection.transaction():
            connection.execute("INSERT INTO item (id, name) VALUES (31, 'not kept')")
            raise KeyError
    except KeyError:
        pass
    connection.execute("INSERT INTO item (id, name) VALUES (32, 'not kept')")
    connection.rollback()
    rows = connection.execute("SELECT id FROM item WHERE id BETWEEN 30 AND 39 ORDER BY id").fetchall()
    assert rows == [(30,)], rows
    connection.commit()
    connection.execute("SELECT 1 FROM item WHERE id = 1")
    try:
        connection.execute("SELECT no_such_column FROM item")
    except errors.UndefinedColumn:
        pass
    try:
        connection.execute("SELECT 1")
    except errors.InFailedSqlTransaction:
        pass
    else:
        raise AssertionError("a failed transaction goes on")

# Rows as they come.
with psycopg.connect(autocommit=True) as connection:
    total = sum(row[0] for row in connection.cursor().stream("SELECT id FROM item WHERE id >= 100"))
    assert total == sum(range(100, 1100)), total

# Many clients at once.
def pay(number):
    with psycopg.connect(autocommit=True) as connection:
        for _ in range(50):
            connection.execute("UPDATE item SET big = big - 1 WHERE id = 1")


threads = [threading.Thread(target=pay, args=(number,)) for number in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
with psycopg.connect(autocommit=True) as connection:
    row = connection.execute("SELECT big FROM item WHERE id = 1").fetchone()
    assert row == (9223372036854775807 - 8 * 50,), row
    connection.execute("DROP TABLE item")
print("psycopg: all as expected")
