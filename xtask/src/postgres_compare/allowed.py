"""The differences from PostgreSQL that are meant: docs/sql.md lists each of them."""

import decimal
import re

NUMERIC = 1700
# Behind the point: averages and quotients have at least so many on both.
DIGITS = 6


def allowed(what, ours, theirs, statement):
    """The reason for a difference; None if it is an error."""
    for reason, applies in RULES:
        if applies(ours, theirs, statement):
            return reason
    return None


# Values that only a run can refuse: beyond a range, divisors, texts that expressions have made.
OF_VALUES = ("22003", "22012", "22P02", "22007", "22008", "22011")
# Where the parts of an expression decide whether, and for which rows, another part is computed.
UNORDERED = re.compile(r" (AND|OR|LIMIT|JOIN|IN|EXCEPT|INTERSECT|ON CONFLICT|BETWEEN|HAVING)\b|\bCASE |\bcoalesce\(")


def order_of_evaluation(ours, theirs, statement):
    """One of the servers has met a value that the other one did not need to compute, or has met it later."""
    states = {ours.sqlstate, theirs.sqlstate}
    if states == {""}:
        return False
    if "" not in states:
        # A row's value, or another row's constraint.
        return bool(statement.changes) and sorted(state[:2] for state in states) == ["22", "23"]
    (refused,) = states - {""}
    succeeded = theirs if ours.sqlstate else ours
    has_no_row = succeeded.tag in ("SELECT 0", "UPDATE 0", "DELETE 0")
    return refused in OF_VALUES and (has_no_row or bool(UNORDERED.search(statement.text)))


def repeated(ours, theirs, statement):
    """A transaction that the client has to repeat. A statement of its own is repeated by the server."""
    return ours.sqlstate == "40001" and statement.is_in_block


def text_of_numeric(ours, theirs, statement):
    """The text of a parameter that is a numeric."""
    is_text = "::text" in statement.text and any(kind == "numeric" for kind, _ in statement.parameters)
    without_zeros = lambda value, of: value.rstrip("0").rstrip(".") if value and "." in value else value
    if not is_text or ours.sqlstate or theirs.sqlstate:
        return False
    return ours.normal_rows(False, without_zeros) == theirs.normal_rows(False, without_zeros)


def moved_keys(ours, theirs, statement):
    """A statement that moves keys: each is checked when its row is written, in an order that is not defined."""
    moves = "SET id = id + 1000" in statement.text
    return moves and "23505" in (ours.sqlstate, theirs.sqlstate)


def text_for_varchar(ours, theirs, statement):
    """An expression over varchar."""
    plain = lambda types: [25 if of == 1043 else of for of in types]
    same = plain(ours.types) == plain(theirs.types) and ours.types != theirs.types
    return same and equal_numbers(ours, theirs, statement)


def equal_numbers(ours, theirs, statement):
    """The same numbers, with other zeros behind the point, or more digits there."""
    def value(text, of):
        if text is not None and of == NUMERIC:
            return f"{round(decimal.Decimal(text), DIGITS).normalize():f}"
        return text

    if ours.sqlstate or theirs.sqlstate or ours.tag != theirs.tag:
        return False
    return ours.normal_rows(statement.is_ordered, value) == theirs.normal_rows(statement.is_ordered, value)


def digits_of_numeric(ours, theirs, statement):
    return ours.types == theirs.types and NUMERIC in ours.types and equal_numbers(ours, theirs, statement)


def no_number(ours, theirs, statement):
    """PostgreSQL has a numeric that is NaN or infinite."""
    is_refused = ours.sqlstate == "22003" and not theirs.sqlstate
    return is_refused and any(word in ours.message.lower() for word in ("nan", "inf"))


def long_average(ours, theirs, statement):
    """The average of large numbers, of which PostgreSQL keeps sixteen digits or so."""
    if "avg(" not in statement.text or ours.sqlstate or theirs.sqlstate:
        return False
    short = lambda value, of: f"{float(value):.12g}" if value and of == NUMERIC else value
    return ours.normal_rows(False, short) == theirs.normal_rows(False, short)


def equal_names(ours, theirs, statement):
    """Two aggregates whose arguments differ in a cast only."""
    return ours.sqlstate == "42701" and "(" in ours.message and not theirs.sqlstate


def window_over_bytes(ours, theirs, statement):
    return ours.sqlstate == "0A000" and "range queries on datatype: Binary" in ours.message


RULES = [
    ("the order in which parts of a condition are evaluated is not defined", order_of_evaluation),
    ("keys that a statement moves are checked row by row", moved_keys),
    ("a transaction may have to be repeated (40001)", repeated),
    ("a numeric shows the digits of its type", text_of_numeric),
    ("an expression over varchar is of type text", text_for_varchar),
    ("a numeric shows the digits of its type", digits_of_numeric),
    ("a numeric is neither NaN nor infinite", no_number),
    ("an average of large numbers has all its digits", long_average),
    ("two aggregates over one column that differ in a cast only", equal_names),
    ("a window that is ordered by bytea", window_over_bytes),
]
