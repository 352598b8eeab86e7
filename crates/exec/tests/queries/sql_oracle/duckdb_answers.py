"""DuckDB behind a pipe: a JSON object a line in, one a line out.

{"run": [SQL, ...]} runs statements and says {}; {"ask": SQL} says {"rows": [[...], ...]}. What DuckDB refuses is {"error": ...}.
The queries give texts alone, so no type of this language stands between the answer and its reader.
"""

import json
import sys

import duckdb


def answer(connection, request):
    if "run" in request:
        for statement in request["run"]:
            connection.execute(statement)
        return {}
    return {"rows": connection.execute(request["ask"]).fetchall()}


def main():
    connection = duckdb.connect(":memory:", config={"threads": 1})
    for line in sys.stdin:
        try:
            reply = answer(connection, json.loads(line))
        except duckdb.Error as error:
            reply = {"error": str(error)}
        print(json.dumps(reply), flush=True)


main()
