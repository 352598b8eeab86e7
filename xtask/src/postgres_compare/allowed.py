"""The differences from PostgreSQL that are meant: docs/sql.md lists each of them."""

import decimal

NUMERIC = 1700
# Behind the point: averages and quotients have at least so many on both.
DIGITS = 6


def allowed(what, ours, theirs, statement):
    """The reason for a difference; None if it is an error."""
    for reason, applies in RULES:
        if applies(ours, theirs, statement):
            return reason
    return None


def order_of_evaluation(ours, theirs, statement):
    """One of the servers has met a value that the other one did not need to compute, or has met it later."""
    one, other = sorted((ours.sqlstate[:2], theirs.sqlstate[:2]))
    if one:
        return (one, other) == ("22", "23")
    words = (" AND ", " OR ", "CASE ", "coalesce(", " LIMIT ", "nullif(", "JOIN ", " IN (", " UNION ", "EXCEPT", "INTERSECT")
    succeeded = theirs if ours.sqlstate else ours
    return other == "22" and (any(word in statement.text for word in words) or not succeeded.rows)


def repeated(ours, theirs, statement):
    """A transaction that the client has to repeat."""
    return ours.sqlstate == "40001"


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
    ("an average of large numbers has all its digits", long_average),
    ("two aggregates over one column that differ in a cast only", equal_names),
    ("a window that is ordered by bytea", window_over_bytes),
]
