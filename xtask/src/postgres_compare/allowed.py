"""The differences from PostgreSQL that are meant: docs/sql.md lists each of them."""


def allowed(what, ours, theirs, statement):
    """The reason for a difference; None if it is an error."""
    for reason, applies in RULES:
        if applies(what, ours, theirs, statement):
            return reason
    return None


def order_of_evaluation(what, ours, theirs, statement):
    """One of the servers has met a value that the other one did not need to compute."""
    one, other = sorted((ours.sqlstate, theirs.sqlstate))
    words = (" AND ", " OR ", "CASE ", "coalesce(", " LIMIT ", "nullif(", "JOIN ", " IN (")
    return not one and other[:2] == "22" and any(word in statement.text for word in words)


RULES = [
    ("the order in which parts of a condition are evaluated is not defined", order_of_evaluation),
]
