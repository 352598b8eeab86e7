"""Random tables, rows, and statements, from a seed."""

from dataclasses import dataclass, field

# Name, OID, and literals: ordinary ones, and the edges of the type.
INTEGERS = {
    "int2": (21, [0, 1, -1, 2, 3, 7, 10, 100, -5], [32767, -32768]),
    "int4": (23, [0, 1, -1, 2, 3, 7, 10, 100, -5, 1000], [2147483647, -2147483648]),
    "int8": (20, [0, 1, -1, 2, 3, 7, 10, 100, -5, 5000000000], [9223372036854775807, -9223372036854775808]),
}
OIDS = {name: oid for name, (oid, _, _) in INTEGERS.items()}
OIDS |= {"numeric": 1700, "float8": 701, "float4": 700, "bool": 16, "text": 25, "varchar": 1043, "date": 1082}
OIDS |= {"timestamp": 1114, "timestamptz": 1184, "uuid": 2950, "bytea": 17}
TEXTS = ["", "a", "A", "b", "ab", "abc", "ä", "Zürich", "it's", "%", "a_c", " x", "0", "12", "-7", "hello world", "NULL"]
DATES = ["2024-02-29", "2024-01-01", "2023-12-31", "1970-01-01", "1969-12-31", "0100-06-15", "9999-12-30", "2000-03-01"]
TIMES = ["00:00:00", "12:34:56", "23:59:59.999999", "01:02:03.5"]
UUIDS = [f"00000000-0000-0000-0000-0000000000{n:02x}" for n in (0, 1, 10, 255)] + ["ffffffff-ffff-ffff-ffff-ffffffffffff"]
BYTES = ["\\x", "\\x00", "\\x00ff", "\\x61", "\\xdeadbeef"]
FLOATS = ["0", "1", "-1", "0.5", "1.5", "2.5", "-2.25", "0.1", "100", "1000000", "123456.789"]
FLOAT_EDGES = ["NaN", "Infinity", "-Infinity", "1e+15", "1e-05"]


@dataclass
class Column:
    name: str
    kind: str
    type: str
    not_null: bool = False
    scale: int = 0
    default: str = ""


@dataclass
class Table:
    name: str
    columns: list
    key: list
    indexes: list = field(default_factory=list)
    checks: list = field(default_factory=list)

    def statements(self):
        parts = []
        for column in self.columns:
            part = f"{column.name} {column.type}"
            if column.not_null:
                part += " NOT NULL"
            if column.default:
                part += f" DEFAULT {column.default}"
            parts.append(part)
        parts += [f"CHECK ({check})" for check in self.checks]
        if self.key:
            parts.append(f"PRIMARY KEY ({', '.join(self.key)})")
        create = [f"CREATE TABLE {self.name} ({', '.join(parts)})"]
        for number, (columns, is_unique) in enumerate(self.indexes):
            unique = "UNIQUE " if is_unique else ""
            create.append(f"CREATE {unique}INDEX {self.name}_i{number} ON {self.name} ({', '.join(columns)})")
        return create


@dataclass
class Statement:
    text: str
    # Type names and texts of $1, $2, …
    parameters: list = field(default_factory=list)
    is_ordered: bool = False
    # The rows may come in another order, and not all of them are returned.
    changes: str = ""
    is_in_block: bool = False


class Maker:
    """Makes statements over tables."""

    def __init__(self, random):
        self.random = random
        self.tables = []
        self.parameters = None

    # Tables.

    def make_tables(self, number):
        self.tables = [self.make_table(f"t{number}_{at}") for at in range(3)]
        return self.tables

    def make_table(self, name):
        r = self.random
        columns = [Column("id", "int4", "int", not_null=True)]
        kinds = ["int2", "int4", "int8", "numeric", "float8", "float4", "bool", "text", "varchar", "date", "timestamp"]
        kinds += ["timestamptz", "uuid", "bytea", "int4", "text", "numeric"]
        for at in range(r.randint(3, 7)):
            kind = r.choice(kinds)
            column = Column(f"c{at}", kind, kind)
            if kind == "numeric":
                column.scale = r.choice([0, 2, 2, 4])
                column.type = f"numeric({r.choice([8, 10, 12])},{column.scale})"
            if kind == "varchar":
                column.type = f"varchar({r.choice([12, 20])})"
            if r.random() < 0.1:
                column.not_null = True
            if r.random() < 0.15 and kind in ("int4", "int8", "text"):
                column.default = self.literal_text(kind, edges=False)
            columns.append(column)
        table = Table(name, columns, ["id"])
        others = [column.name for column in columns[1:]]
        shape = r.random()
        if shape < 0.15:
            table.key = []
        elif shape < 0.35:
            second = r.choice(columns[1:])
            second.not_null = True
            table.key = r.choice([["id", second.name], [second.name, "id"]])
        for _ in range(r.randint(0, 2)):
            chosen = r.sample(others, r.randint(1, min(2, len(others))))
            table.indexes.append((chosen, False))
        if r.random() < 0.15:
            table.indexes.append(([r.choice(others), "id"], True))
        if r.random() < 0.2:
            column = r.choice([column for column in columns[1:]])
            if column.kind in INTEGERS:
                table.checks.append(f"{column.name} > -100000")
        return table

    # Literals.

    def value(self, kind, edges=True):
        """The text of a value, without quotes. None for NULL."""
        r = self.random
        if r.random() < 0.08:
            return None
        if kind in INTEGERS:
            _, ordinary, extreme = INTEGERS[kind]
            return str(r.choice(extreme) if edges and r.random() < 0.06 else r.choice(ordinary))
        if kind == "numeric":
            return r.choice(["0", "1", "-1", "0.5", "1.5", "2.25", "-2.25", "10.10", "99.99", "1234.56", "-0.01", "3"])
        if kind in ("float8", "float4"):
            return r.choice(FLOAT_EDGES) if edges and r.random() < 0.1 else r.choice(FLOATS)
        if kind == "bool":
            return r.choice(["true", "false"])
        if kind in ("text", "varchar"):
            return r.choice(TEXTS)
        if kind == "date":
            return r.choice(DATES)
        if kind == "timestamp":
            return r.choice(DATES) + " " + r.choice(TIMES)
        if kind == "timestamptz":
            return r.choice(DATES) + " " + r.choice(TIMES) + r.choice(["+00", "+00", "+02", "-03:30"])
        if kind == "uuid":
            return r.choice(UUIDS)
        return r.choice(BYTES)

    def written(self, kind, value):
        """A value as a literal of SQL."""
        if value is None:
            return "NULL"
        if kind in INTEGERS or kind == "numeric" or kind == "bool":
            return f"({value})" if value.startswith("-") else value
        if kind in ("float8", "float4") and value in FLOATS and self.random.random() < 0.5:
            return f"({value})" if value.startswith("-") else value
        quoted = value.replace("'", "''")
        return f"'{quoted}'"

    def literal_text(self, kind, edges=True):
        return self.written(kind, self.value(kind, edges))

    def literal(self, kind, edges=True):
        """A literal in an expression, or a parameter, with its type where that would be unknown."""
        value = self.value(kind, edges)
        if self.parameters is not None and self.random.random() < 0.8:
            self.parameters.append((kind, value))
            return f"${len(self.parameters)}"
        if value is None:
            return f"NULL::{kind}"
        text = self.written(kind, value)
        if kind == "numeric" and "." not in text:
            return f"{text}::numeric(12,2)"
        if kind in ("int4", "numeric", "bool"):
            return text
        return f"{text}::{kind}" if self.random.random() < 0.7 or kind not in ("text", "varchar") else text

    # Expressions. `scope` is a list of (written name, kind).

    def expression(self, kind, scope, depth):
        r = self.random
        columns = [name for name, of in scope if of == kind]
        if depth <= 0 or r.random() < 0.25:
            if columns and r.random() < 0.75:
                return r.choice(columns)
            return self.literal(kind)
        sub = lambda of, less=1: self.expression(of, scope, depth - less)
        general = ["case", "coalesce", "nullif", "greatest"]
        if kind == "bool":
            return self.condition(scope, depth)
        if kind in INTEGERS:
            choice = r.choice(["arithmetic"] * 4 + ["abs", "cast", "length", "minus"] + general)
            if choice == "arithmetic":
                return f"({sub(kind)} {r.choice('+-*/%+-')} {sub(kind)})"
            if choice == "abs":
                return f"abs({sub(kind)})"
            if choice == "minus":
                return self.opposite(sub(kind))
            if choice == "length" and kind == "int4":
                return f"length({sub('text')})"
            if choice == "cast":
                other = r.choice([of for of in ("int2", "int4", "int8", "numeric", "float8", "text") if of != kind])
                return f"({sub(other)})::{kind}"
        elif kind == "numeric":
            choice = r.choice(["arithmetic"] * 3 + ["abs", "cast", "round", "minus"] + general)
            if choice == "arithmetic":
                return f"({sub(kind)} {r.choice('++--*/')} {sub(kind)})"
            if choice == "abs":
                return f"abs({sub(kind)})"
            if choice == "minus":
                return self.opposite(sub(kind))
            if choice == "round":
                return f"round({sub(kind)}, {r.choice([0, 1, 2])})"
            if choice == "cast":
                return f"({sub(r.choice(['int4', 'int8', 'int2', 'float8']))})::numeric(12,{r.choice([0, 2, 3])})"
        elif kind in ("float8", "float4"):
            choice = r.choice(["arithmetic"] * 3 + ["abs", "cast", "floor", "minus"] + general)
            if choice == "arithmetic":
                return f"({sub(kind)} {r.choice('+-*/')} {sub(kind)})"
            if choice == "abs":
                return f"abs({sub(kind)})"
            if choice == "minus":
                return self.opposite(sub(kind))
            if choice == "floor" and kind == "float8":
                return f"{r.choice(['floor', 'ceil', 'trunc', 'round'])}({sub(kind)})"
            if choice == "cast":
                return f"({sub(r.choice(['int4', 'int8', 'numeric']))})::{kind}"
        elif kind in ("text", "varchar"):
            choice = r.choice(["concatenate", "case_of_letters", "substr", "cast", "trim", "replace"] + general)
            if kind == "varchar":
                choice = r.choice(general)
            if choice == "concatenate":
                return f"({sub('text')} || {sub('text')})"
            if choice == "case_of_letters":
                return f"{r.choice(['upper', 'lower'])}({sub('text')})"
            if choice == "substr":
                return f"substr({sub('text')}, {r.randint(1, 4)}, {r.randint(0, 4)})"
            if choice == "trim":
                return f"trim({sub('text')})"
            if choice == "replace":
                return f"replace({sub('text')}, 'a', 'xy')"
            if choice == "cast":
                other = r.choice(["int2", "int4", "int8", "bool", "date", "timestamp", "numeric", "uuid", "varchar", "float8"])
                return f"({sub(other)})::text"
        elif kind == "date":
            choice = r.choice(["days", "cast"] + general)
            if choice == "days":
                return f"({sub(kind)} {r.choice('+-')} {r.randint(0, 40)})"
            if choice == "cast":
                return f"({sub('timestamp')})::date"
        elif kind == "timestamp":
            choice = r.choice(["cast"] + general)
            if choice == "cast":
                return f"({sub('date')})::timestamp"
        else:
            choice = r.choice(general)
        if choice == "case":
            return f"CASE WHEN {sub('bool')} THEN {sub(kind)} ELSE {sub(kind)} END"
        if choice == "nullif":
            return f"nullif({sub(kind)}, {sub(kind)})"
        if choice == "greatest" and kind not in ("bytea", "uuid"):
            return f"{r.choice(['greatest', 'least'])}({sub(kind)}, {sub(kind)})"
        return f"coalesce({sub(kind)}, {sub(kind)})"

    def opposite(self, operand):
        """PostgreSQL reads `- (-2147483648)` as one number, of another type."""
        return operand if operand.startswith("(-") else f"(- {operand})"

    def condition(self, scope, depth):
        r = self.random
        kinds = [of for _, of in scope]
        choice = r.choice(["compare"] * 5 + ["and", "or", "not", "null", "in", "between", "like", "distinct", "is"])
        if depth <= 0:
            choice = "compare"
        kind = r.choice(kinds + ["int4"])
        sub = lambda of, less=1: self.expression(of, scope, min(depth - less, 1))
        if choice == "and":
            return f"({self.condition(scope, depth - 1)} AND {self.condition(scope, depth - 1)})"
        if choice == "or":
            return f"({self.condition(scope, depth - 1)} OR {self.condition(scope, depth - 1)})"
        if choice == "not":
            return f"(NOT {self.condition(scope, depth - 1)})"
        if choice == "null":
            return f"({sub(kind)} IS {r.choice(['', 'NOT '])}NULL)"
        if choice == "in":
            items = ", ".join(self.literal(kind) for _ in range(r.randint(1, 4)))
            return f"({sub(kind)} {r.choice(['', 'NOT '])}IN ({items}))"
        if choice == "between" and kind not in ("bool",):
            return f"({sub(kind)} {r.choice(['', 'NOT '])}BETWEEN {self.literal(kind)} AND {self.literal(kind)})"
        if choice == "like":
            pattern = r.choice(["a%", "%a", "%b%", "_", "a_c", "", "%", "Z%", "%\\%%"])
            return f"({sub('text')} {r.choice(['', 'NOT '])}LIKE '{pattern}')"
        if choice == "distinct":
            return f"({sub(kind)} IS {r.choice(['', 'NOT '])}DISTINCT FROM {sub(kind)})"
        if choice == "is":
            return f"({self.condition(scope, 0)} IS {r.choice(['', 'NOT '])}{r.choice(['TRUE', 'FALSE', 'NULL'])})"
        operator = r.choice(["=", "=", "<>", "<", "<=", ">", ">="])
        if kind in INTEGERS and r.random() < 0.15:
            other = r.choice(["int2", "int4", "int8", "numeric", "float8"])
            return f"({sub(kind)} {operator} {sub(other)})"
        return f"({sub(kind)} {operator} {sub(kind)})"

    def filter(self, table, prefix=""):
        """A condition on a table: often by its key or an index."""
        r = self.random
        scope = [(prefix + column.name, column.kind) for column in table.columns]
        kinds = {column.name: column.kind for column in table.columns}
        shape = r.random()
        names = table.key if shape < 0.35 else r.choice(table.indexes)[0] if table.indexes and shape < 0.65 else []
        parts = []
        for at, name in enumerate(names):
            if at and r.random() < 0.4:
                break
            kind = kinds[name]
            literal = str(r.randint(0, 30)) if name == "id" else self.literal(kind)
            operator = "=" if r.random() < 0.75 else r.choice(["<", ">=", "<>", ">"])
            parts.append(f"{prefix}{name} {operator} {literal}")
        if not parts or r.random() < 0.25:
            parts.append(self.condition(scope, r.choice([0, 1, 2])))
        return " AND ".join(parts)

    # Statements.

    def insert(self, table):
        r = self.random
        columns = table.columns
        if r.random() < 0.2:
            columns = [column for column in columns if column.name in table.key or column.not_null or r.random() < 0.6]
        rows = []
        for _ in range(r.choice([1, 1, 2, 5])):
            values = []
            for column in columns:
                if column.name == "id":
                    values.append(str(r.randint(0, 30)))
                    continue
                values.append(self.literal_text(column.kind) if r.random() < 0.8 else self.literal(column.kind))
            rows.append(f"({', '.join(values)})")
        text = f"INSERT INTO {table.name} ({', '.join(column.name for column in columns)}) VALUES {', '.join(rows)}"
        others = [column for column in table.columns if column.name not in table.key]
        if table.key and r.random() < 0.5:
            target = f" ({', '.join(table.key)})"
            if r.random() < 0.4 or not others:
                text += f" ON CONFLICT{r.choice(['', target])} DO NOTHING"
            else:
                column = r.choice(others)
                scope = [(f"{table.name}.{it.name}", it.kind) for it in table.columns]
                scope += [(f"excluded.{it.name}", it.kind) for it in table.columns]
                text += f" ON CONFLICT{target} DO UPDATE SET {column.name} = {self.assigned(column, scope)}"
        return text + self.returning(table)

    def assigned(self, column, scope):
        kind = column.kind
        return self.expression(kind, scope, self.random.choice([0, 1, 2]))

    def returning(self, table):
        r = self.random
        if r.random() < 0.6:
            return ""
        if r.random() < 0.3:
            return " RETURNING *"
        scope = [(column.name, column.kind) for column in table.columns]
        kinds = [self.random.choice(scope)[1] for _ in range(2)]
        return " RETURNING id, " + ", ".join(self.expression(kind, scope, 1) for kind in kinds)

    def update(self, table):
        r = self.random
        scope = [(column.name, column.kind) for column in table.columns]
        chosen = r.sample(table.columns[1:], r.choice([1, 1, 2]))
        if r.random() < 0.05:
            sets = ["id = id + 1000"]
        else:
            sets = [f"{column.name} = {self.assigned(column, scope)}" for column in chosen]
        return f"UPDATE {table.name} SET {', '.join(sets)} WHERE {self.filter(table)}{self.returning(table)}"

    def delete(self, table):
        return f"DELETE FROM {table.name} WHERE {self.filter(table)}{self.returning(table)}"

    def select(self, table):
        """From one table. Returns the text, and whether its rows have an order."""
        r = self.random
        scope = [(column.name, column.kind) for column in table.columns]
        items = "*"
        if r.random() < 0.75:
            items = ", ".join(
                self.expression(r.choice(scope)[1], scope, r.choice([0, 1, 1, 2])) for _ in range(r.randint(1, 3))
            )
            if r.random() < 0.3:
                items = ", ".join(name for name, _ in r.sample(scope, 2))
        text = f"SELECT {items} FROM {table.name}"
        if r.random() < 0.85:
            text += f" WHERE {self.filter(table)}"
        is_ordered = False
        if table.key and r.random() < 0.4:
            # With the table's name, it is no column of the answer: `CASE … ELSE a END` is called a.
            first = r.choice(scope)[0] + r.choice(["", " DESC", " NULLS FIRST", " DESC NULLS LAST"])
            key = ", ".join(f"{table.name}.{name}" for name in table.key)
            text += f" ORDER BY {table.name}.{first}, {key}"
            is_ordered = True
            if r.random() < 0.5:
                text += f" LIMIT {r.randint(0, 8)}" + r.choice(["", f" OFFSET {r.randint(0, 4)}"])
        return text, is_ordered

    def aggregate(self, table):
        r = self.random
        scope = [(column.name, column.kind) for column in table.columns]
        items = []
        for _ in range(r.randint(1, 3)):
            name, kind = r.choice(scope)
            argument = name if r.random() < 0.7 else self.expression(kind, scope, 1)
            functions = ["count"]
            if kind not in ("bool", "uuid", "bytea"):
                functions += ["min", "max"]
            if kind in ("int2", "int4", "numeric", "int8"):
                functions += ["sum", "sum", "avg"]
            function = r.choice(functions)
            distinct = "DISTINCT " if r.random() < 0.15 else ""
            items.append(f"{function}({distinct}{argument})")
        items.append("count(*)")
        text = f"SELECT {', '.join(items)} FROM {table.name}"
        if r.random() < 0.6:
            text += f" WHERE {self.filter(table)}"
        if r.random() < 0.6:
            group = r.choice(scope)[0]
            text = text.replace("SELECT ", f"SELECT {group}, ", 1) + f" GROUP BY {group}"
            if r.random() < 0.3:
                text += f" HAVING count(*) > {r.randint(0, 2)}"
        return text, False

    def join(self):
        r = self.random
        left, right = r.choice(self.tables), r.choice(self.tables)
        pairs = [(a.name, b.name) for a in left.columns for b in right.columns if a.kind == b.kind and a.kind not in ("float4", "float8")]
        a, b = r.choice(pairs)
        kind = r.choice(["JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"])
        on = f"x.{a} = y.{b}"
        scope = [(f"x.{column.name}", column.kind) for column in left.columns]
        scope += [(f"y.{column.name}", column.kind) for column in right.columns]
        if r.random() < 0.3 and kind != "FULL JOIN":
            on += f" AND {self.condition(scope, 1)}"
        items = [f"x.{left.columns[0].name}", f"y.{right.columns[0].name}"]
        items += [self.expression(r.choice(scope)[1], scope, 1) for _ in range(r.randint(0, 2))]
        text = f"SELECT {', '.join(items)} FROM {left.name} x {kind} {right.name} y ON {on}"
        if r.random() < 0.5:
            text += f" WHERE {self.filter(left, 'x.')}"
        if r.random() < 0.2:
            name = r.choice(scope)[0]
            text = f"SELECT {name}, count(*) FROM {left.name} x {kind} {right.name} y ON {on} GROUP BY {name}"
        return text, False

    def nested(self):
        r = self.random
        outer, inner = r.choice(self.tables), r.choice(self.tables)
        pairs = [(a.name, b.name) for a in outer.columns for b in inner.columns if a.kind == b.kind and a.kind not in ("float4", "float8")]
        a, b = r.choice(pairs)
        negated = r.choice(["", "NOT "])
        shape = r.randint(0, 5)
        if shape == 0:
            return f"SELECT * FROM {outer.name} WHERE {a} {negated}IN (SELECT {b} FROM {inner.name} WHERE {self.filter(inner)})", False
        if shape == 1:
            return f"SELECT x.* FROM {outer.name} x WHERE {negated}EXISTS (SELECT 1 FROM {inner.name} y WHERE y.{b} = x.{a})", False
        if shape == 2:
            return f"SELECT id, (SELECT count(*) FROM {inner.name} y WHERE y.{b} = x.{a}) FROM {outer.name} x", False
        if shape == 3:
            return f"SELECT id FROM {outer.name} WHERE id > (SELECT min(id) FROM {inner.name} WHERE {self.filter(inner)})", False
        operator = r.choice(["UNION", "UNION ALL", "INTERSECT", "EXCEPT"])
        left = f"SELECT {a} FROM {outer.name} WHERE {self.filter(outer)}"
        right = f"SELECT {b} FROM {inner.name} WHERE {self.filter(inner)}"
        if shape == 4:
            return f"{left} {operator} {right}", False
        return f"WITH q AS ({left}) SELECT count(*) FROM q", False

    def window(self, table):
        r = self.random
        if not table.key:
            return self.select(table)
        name = r.choice(table.columns).name
        order = f"ORDER BY {name}, {', '.join(table.key)}"
        partition = r.choice(["", f"PARTITION BY {r.choice(table.columns).name} "])
        function = r.choice(["row_number()", "rank()", "count(*)", f"lag({name})", f"first_value({name})", "sum(id)"])
        return f"SELECT {', '.join(table.key)}, {function} OVER ({partition}{order}) FROM {table.name}", False

    def statement(self):
        r = self.random
        table = r.choice(self.tables)
        self.parameters = [] if r.random() < 0.4 else None
        shape, is_ordered, changes = r.random(), False, ""
        if shape < 0.16:
            text, changes = self.insert(table), table.name
        elif shape < 0.27:
            text, changes = self.update(table), table.name
        elif shape < 0.31:
            text, changes = self.delete(table), table.name
        elif shape < 0.66:
            text, is_ordered = self.select(table)
        elif shape < 0.77:
            text, is_ordered = self.aggregate(table)
        elif shape < 0.88:
            text, is_ordered = self.join()
        elif shape < 0.96:
            text, is_ordered = self.nested()
        else:
            text, is_ordered = self.window(table)
        parameters, self.parameters = self.parameters or [], None
        return Statement(text, parameters, is_ordered, changes)
