"""Sends the same statements to PostgreSQL and to Namiki, and compares what they answer.

    compare.py POSTGRESQL NAMIKI STATEMENTS SEED DIFFERENCES FOLDER

The first two are connection strings. First the files of FOLDER run on PostgreSQL, then STATEMENTS random statements on
both. It stops after DIFFERENCES that are not allowed, each with the smallest rows that show it, and fails.
"""

import collections
import dataclasses
import pathlib
import random
import re
import sys

import psycopg

import sqllogic
from allowed import allowed
from random_statements import OIDS, Maker, Statement

# New tables after this number of statements.
STATEMENTS_OF_TABLES = 100
# How many of these are transactions of several statements.
BLOCKS = 0.05
NO_NUMBERS = ("'NaN'", "'Infinity'", "'-Infinity'")
# Numbers of floating point: their sums depend on the order of rows.
FLOATS = (700, 701)


class Server:
    def __init__(self, name, connection):
        self.name, self.connection = name, connection

    def run(self, statement):
        """Runs a statement, and returns its Answer."""
        text = statement.text.encode()
        if statement.parameters:
            types = [OIDS[kind] for kind, _ in statement.parameters]
            values = [None if value is None else value.encode() for _, value in statement.parameters]
            result = self.connection.pgconn.exec_params(text, values, types)
        else:
            result = self.connection.pgconn.exec_(text)
        return Answer(result)

    def must(self, text):
        result = self.connection.pgconn.exec_(text.encode())
        if result.error_field(67) is not None:
            raise SystemExit(f"{self.name}: {text}: {result.error_message.decode()}")


def normal(value, of):
    if value is not None and of in FLOATS:
        return f"{float(value):.10g}" if of == 701 else f"{float(value):.5g}"
    return value


class Answer:
    def __init__(self, result):
        sqlstate = result.error_field(67)
        self.sqlstate = sqlstate.decode() if sqlstate else ""
        self.message = (result.error_field(77) or b"").decode()
        if result.status == 7 and not sqlstate:
            self.sqlstate, self.message = "08000", result.error_message.decode()
        self.tag = (result.command_status or b"").decode()
        self.types = [result.ftype(column) for column in range(result.nfields)]
        self.names = [result.fname(column).decode() for column in range(result.nfields)]
        self.rows = [
            tuple(self.value(result, row, column) for column in range(result.nfields)) for row in range(result.ntuples)
        ]

    def value(self, result, row, column):
        value = result.get_value(row, column)
        return None if value is None else value.decode()

    def normal_rows(self, is_ordered, normal=normal):
        rows = [tuple(normal(value, of) for value, of in zip(row, self.types)) for row in self.rows]
        return rows if is_ordered else sorted(rows, key=lambda row: [(value is not None, value or "") for value in row])

    def shown(self):
        if self.sqlstate:
            return f"{self.sqlstate} {self.message}"
        rows = "".join(f"\n    {row}" for row in self.rows[:20])
        return f"{self.tag}, types {self.types}, names {self.names}{rows}"


def differ(ours, theirs, statement):
    """In what two answers differ; empty if they agree."""
    if ours.sqlstate or theirs.sqlstate:
        return "" if ours.sqlstate[:2] == theirs.sqlstate[:2] else "errors"
    if ours.tag != theirs.tag:
        return "tags"
    if ours.types != theirs.types:
        return "types"
    if ours.names != theirs.names:
        return "names"
    if ours.normal_rows(statement.is_ordered) != theirs.normal_rows(statement.is_ordered):
        return "rows"
    return ""


class Comparison:
    def __init__(self, postgresql, namiki, random_numbers):
        self.postgresql, self.namiki = postgresql, namiki
        self.maker = Maker(random_numbers)
        self.number = self.runs = 0
        self.found = []
        self.allowed = collections.Counter()
        self.equal = self.equal_errors = 0

    def new_tables(self):
        for table in self.maker.tables:
            self.both(f"DROP TABLE {table.name}")
        self.number += 1
        for table in self.maker.make_tables(self.number):
            for text in table.statements():
                self.both(text)
        for table in self.maker.tables:
            for _ in range(12):
                self.step(self.filling(table))

    def filling(self, table):
        statement = self.maker.statement()
        statement.text, statement.parameters = self.maker.insert(table), []
        statement.is_ordered, statement.changes = False, table.name
        return statement

    def both(self, text):
        self.postgresql.must(text)
        self.namiki.must(text)

    def step(self, statement):
        rows = self.rows_of(self.tables_of(statement)) if statement.changes else None
        theirs, ours = self.postgresql.run(statement), self.namiki.run(statement)
        what = differ(ours, theirs, statement)
        if not what:
            self.equal += 1
            self.equal_errors += bool(ours.sqlstate)
            return
        reason = allowed(what, ours, theirs, statement)
        if reason:
            self.allowed[reason] += 1
        else:
            self.report(what, statement, rows)
        if statement.changes:
            for table in self.tables_of(statement):
                self.fill(table, self.rows_of([table])[table.name])

    def block(self, statements, end):
        """Runs a transaction. A difference is shown with all that came before it."""
        ran = []
        for statement in [Statement("BEGIN"), *statements, Statement(end)]:
            statement.is_in_block = True
            theirs, ours = self.postgresql.run(statement), self.namiki.run(statement)
            ran.append(statement)
            what = differ(ours, theirs, statement)
            if not what:
                self.equal += 1
                self.equal_errors += bool(ours.sqlstate)
                continue
            reason = allowed(what, ours, theirs, statement)
            self.postgresql.run(Statement("ROLLBACK"))
            self.namiki.run(Statement("ROLLBACK"))
            if reason:
                self.allowed[reason] += 1
            else:
                text = [f"\n-- {what} differ in a transaction"]
                for table in self.maker.tables:
                    text += [line + ";" for line in self.of_rows(table, self.rows_of([table])[table.name])]
                for part in ran:
                    text.append(f"{part.text};" + (f" -- {part.parameters}" if part.parameters else ""))
                text.append(f"-- PostgreSQL: {theirs.shown()}\n-- Namiki:     {ours.shown()}")
                self.found.append((what, ours.message))
                print("\n".join(text), flush=True)
            break
        else:
            return
        for table in self.maker.tables:
            self.fill(table, self.rows_of([table])[table.name])

    def tables_of(self, statement):
        return [table for table in self.maker.tables if re.search(rf"\b{table.name}\b", statement.text)]

    def rows_of(self, tables):
        """The rows that PostgreSQL has, as literals."""
        rows = {}
        for table in tables:
            columns = ", ".join(f"quote_nullable({column.name})" for column in table.columns)
            found = self.postgresql.connection.execute(f"SELECT {columns} FROM {table.name}".encode())
            # A numeric is always a number here.
            is_number = [column.kind == "numeric" for column in table.columns]
            finite = (row for row in found if not any(map(lambda it, of: of and it in NO_NUMBERS, row, is_number)))
            rows[table.name] = [", ".join(row) for row in finite]
        return rows

    def fill(self, table, rows):
        """Makes a table anew on both, with these rows."""
        self.both(f"DROP TABLE {table.name}")
        for text in self.of_rows(table, rows):
            self.both(text)

    def of_rows(self, table, rows):
        create, *indexes = table.statements()
        filled = [f"INSERT INTO {table.name} VALUES " + ", ".join(f"({row})" for row in rows)] if rows else []
        return [create, *filled, *indexes]

    def report(self, what, statement, rows):
        tables = self.tables_of(statement)
        rows = rows or self.rows_of(tables)
        before = {name: list(of) for name, of in rows.items()}
        reduced = self.reduced(statement, tables, rows)
        self.again(statement, tables, reduced)
        text = [f"\n-- {what} differ"]
        for table in tables:
            text += [line + ";" for line in self.of_rows(table, reduced[table.name])]
        text.append(statement.text + ";")
        if statement.parameters:
            text.append(f"-- parameters: {statement.parameters}")
        theirs, ours = self.again(statement, tables, reduced)
        text.append(f"-- PostgreSQL: {theirs.shown()}\n-- Namiki:     {ours.shown()}")
        for table in tables:
            self.fill(table, before[table.name])
        if statement.changes:
            self.postgresql.run(statement)
        self.found.append((what, ours.message))
        print("\n".join(text), flush=True)

    def again(self, statement, tables, rows):
        for table in tables:
            self.fill(table, rows[table.name])
        # Not a plan that is kept.
        self.runs += 1
        fresh = dataclasses.replace(statement, text=f"{statement.text} /* {self.runs} */")
        return self.postgresql.run(fresh), self.namiki.run(fresh)

    def reduced(self, statement, tables, rows):
        """Fewer rows, as long as the answers differ."""
        rows = {name: list(of) for name, of in rows.items()}
        for name in rows:
            size = max(1, len(rows[name]) // 2)
            while size:
                at = 0
                while at < len(rows[name]):
                    fewer = rows | {name: rows[name][:at] + rows[name][at + size :]}
                    theirs, ours = self.again(statement, tables, fewer)
                    if differ(ours, theirs, statement) and not allowed("", ours, theirs, statement):
                        rows = fewer
                    else:
                        at += size
                size //= 2
        return rows

    def run(self, statements, most):
        while self.equal < statements:
            self.new_tables()
            for _ in range(STATEMENTS_OF_TABLES):
                if self.maker.random.random() < BLOCKS:
                    parts = [self.maker.statement() for _ in range(self.maker.random.randint(1, 5))]
                    self.block(parts, self.maker.random.choice(["COMMIT", "ROLLBACK"]))
                else:
                    self.step(self.maker.statement())
                if len(self.found) >= most:
                    return


def new_database(postgresql, name):
    """Makes a database that orders texts by their bytes. Returns a function that connects to it."""
    with psycopg.connect(postgresql, autocommit=True) as admin:
        admin.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        locale = "ENCODING 'UTF8' LC_COLLATE 'C' LC_CTYPE 'C.UTF-8'"
        admin.execute(f"CREATE DATABASE {name} TEMPLATE template0 {locale}")
    return lambda: psycopg.connect(postgresql, dbname=name, autocommit=True, options="-c timezone=UTC")


def main():
    postgresql, namiki, statements, seed, most, folder = sys.argv[1:]
    files = sorted(pathlib.Path(folder).glob("*.slt"))
    records = 0
    for path in files:
        connect = new_database(postgresql, "of_a_file")
        ran, differing = sqllogic.failures(path.read_text(), "postgresql", connect)
        records += ran
        for text in differing:
            print(f"{path.name}, {text}")
        if differing:
            raise SystemExit("PostgreSQL does not answer as the files say")
    print(f"{records} records of {len(files)} files have the answers of PostgreSQL")
    theirs = Server("PostgreSQL", new_database(postgresql, "random")())
    ours = Server("Namiki", psycopg.connect(namiki, autocommit=True))
    comparison = Comparison(theirs, ours, random.Random(int(seed)))
    comparison.run(int(statements), int(most))
    print(f"\nseed {seed}: {comparison.equal} statements equal, of which {comparison.equal_errors} are refused by both")
    for reason, count in comparison.allowed.most_common():
        print(f"  {count} differ as docs/sql.md says: {reason}")
    if comparison.found:
        raise SystemExit(f"{len(comparison.found)} differences")


if __name__ == "__main__":
    main()
