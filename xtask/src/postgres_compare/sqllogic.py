"""Runs files of sqllogictest (crates/server/tests/sqllogic) against a server. PostgreSQL must give every answer that is
expected of Namiki, except in records that say `onlyif namiki` or `skipif postgresql`.

The format is that of the crate `sqllogictest`. Read are: `statement ok`, `statement count N`, `statement error SQLSTATE`,
`query TYPES [rowsort]`, `skipif`, `onlyif`, `connection`, and comments.
"""

from dataclasses import dataclass, field

# The letter of a column's type, by OID: as in `query ITRBDP?`.
LETTERS = {16: "B", 20: "I", 21: "I", 23: "I", 26: "I", 25: "T", 1042: "T", 1043: "T", 19: "T", 18: "T", 700: "R"}
LETTERS |= {701: "R", 1700: "R", 1082: "D", 1114: "P", 1184: "P"}


@dataclass
class Record:
    line: int
    kind: str
    expected: str
    sort: bool
    text: str
    rows: list
    connection: str
    engines: list = field(default_factory=list)

    def runs_on(self, engine):
        return all((name == engine) == wanted for wanted, name in self.engines)


def records(text):
    """The records of a file."""
    lines = text.split("\n") + [""]
    at, engines, connection, found = 0, [], "default", []
    while at < len(lines):
        words = lines[at].split()
        if not words or lines[at].startswith("#"):
            at += 1
            continue
        if words[0] in ("skipif", "onlyif"):
            engines.append((words[0] == "onlyif", words[1]))
            at += 1
            continue
        if words[0] == "connection":
            connection = words[1]
            at += 1
            continue
        if words[0] not in ("statement", "query"):
            raise ValueError(f"line {at + 1}: no record begins with {words[0]}")
        line, statement, rows = at + 1, [], []
        at += 1
        while lines[at].strip() and lines[at] != "----":
            statement.append(lines[at])
            at += 1
        if lines[at] == "----":
            at += 1
            while lines[at].strip():
                rows.append(lines[at])
                at += 1
        if words[0] == "query" and words[1] == "error":
            words[0] = "statement"
        expected, sort = " ".join(words[1:]), False
        if words[0] == "query":
            expected, sort = words[1], words[2:] == ["rowsort"]
        found.append(Record(line, words[0], expected, sort, "\n".join(statement), rows, connection, engines))
        engines, connection = [], "default"
    return found


def shown(value):
    """A value as a file shows it."""
    if value is None:
        return "NULL"
    return " ".join(value.decode().split()) or "(empty)"


def answer(connection, text):
    """Runs a statement. Returns what a record of it expects, its rows, and the message of an error."""
    result = connection.pgconn.exec_(text.encode())
    sqlstate = result.error_field(67)
    if sqlstate is not None:
        return "statement", "error " + sqlstate.decode(), [], (result.error_field(77) or b"").decode()
    if result.nfields:
        types = "".join(LETTERS.get(result.ftype(column), "?") for column in range(result.nfields))
        rows = [
            " ".join(shown(result.get_value(row, column)) for column in range(result.nfields))
            for row in range(result.ntuples)
        ]
        return "query", types, rows, ""
    words = (result.command_status or b"").decode().split()
    if words and words[0] in ("INSERT", "UPDATE", "DELETE"):
        return "statement", "count " + words[-1], [], ""
    return "statement", "ok", [], ""


def failures(text, engine, connect):
    """Runs the records of a file. Returns how many ran, and what differs."""
    connections, differing, ran = {}, [], 0
    for record in records(text):
        if not record.runs_on(engine):
            continue
        if record.connection not in connections:
            connections[record.connection] = connect()
        ran += 1
        kind, expected, rows, message = answer(connections[record.connection], record.text)
        wanted = [" ".join(row.split()) for row in record.rows]
        if record.sort:
            rows, wanted = sorted(rows), sorted(wanted)
        is_ok = record.kind == "statement" and record.expected == "ok" and kind == "statement"
        is_ok = is_ok and not expected.startswith("error")
        if not is_ok and (kind, expected, rows) != (record.kind, record.expected, wanted):
            lines = "\n".join([f"line {record.line}: {record.text}", f"  expected {record.kind} {record.expected}"])
            lines += "".join(f"\n    {row}" for row in wanted)
            lines += f"\n  answered {kind} {expected} {message}" + "".join(f"\n    {row}" for row in rows)
            differing.append(lines)
    for connection in connections.values():
        connection.close()
    return ran, differing
