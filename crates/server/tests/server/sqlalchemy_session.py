"""SQLAlchemy 2 against a server: Core and ORM. The connection comes from the environment (PGHOST, ...)."""

import datetime
import decimal

import sqlalchemy as sa
from sqlalchemy import orm
from sqlalchemy.dialects.postgresql import insert

engine = sa.create_engine("postgresql+psycopg://")

# Core.
metadata = sa.MetaData()
account = sa.Table(
    "account",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("name", sa.String(40), nullable=False, index=True),
    sa.Column("balance", sa.Numeric(12, 2), nullable=False, server_default="0"),
    sa.Column("opened", sa.DateTime),
)
metadata.create_all(engine)
metadata.create_all(engine)  # It is there, and found.
with engine.begin() as connection:
    opened = datetime.datetime(2024, 2, 29, 12, 30)
    rows = [{"id": n, "name": f"name {n % 7}", "balance": decimal.Decimal(n), "opened": opened} for n in range(500)]
    connection.execute(sa.insert(account), rows)
    connection.execute(sa.insert(account), {"id": 1000, "name": "default"})
with engine.connect() as connection:
    total = connection.scalar(sa.select(sa.func.sum(account.c.balance)))
    assert total == decimal.Decimal(sum(range(500))), total
    statement = sa.select(account.c.name, sa.func.count()).group_by(account.c.name).order_by(account.c.name)
    groups = connection.execute(statement).all()
    assert len(groups) == 8 and groups[0] == ("default", 1), groups
    row = connection.execute(sa.select(account).where(account.c.id == 7)).one()
    assert row == (7, "name 0", decimal.Decimal("7.00"), opened), row
    limited = connection.scalars(sa.select(account.c.id).order_by(account.c.id).offset(10).limit(3)).all()
    assert limited == [10, 11, 12], limited
with engine.begin() as connection:
    upsert = insert(account).values(id=7, name="upsert", balance=1)
    upsert = upsert.on_conflict_do_update(index_elements=["id"], set_={"balance": account.c.balance + 1})
    returned = connection.execute(upsert.returning(account.c.balance)).scalar_one()
    assert returned == decimal.Decimal("8.00"), returned
    ignored = insert(account).values(id=7, name="x").on_conflict_do_nothing().returning(account.c.id)
    assert connection.execute(ignored).all() == []
    changed = connection.execute(sa.update(account).where(account.c.id < 10).values(name="changed"))
    assert changed.rowcount == 10
    removed = connection.execute(sa.delete(account).where(account.c.id >= 400))
    assert removed.rowcount == 101
try:
    with engine.begin() as connection:
        connection.execute(sa.insert(account), {"id": 2000, "name": "rolled back"})
        connection.execute(sa.insert(account), {"id": 1, "name": "twice"})
except sa.exc.IntegrityError:
    pass
else:
    raise AssertionError("a key was inserted twice")
with engine.connect() as connection:
    assert connection.scalar(sa.select(sa.func.count()).where(account.c.id == 2000)) == 0


# ORM.
class Base(orm.DeclarativeBase):
    pass


class Author(Base):
    __tablename__ = "author"
    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)  # SERIAL
    name: orm.Mapped[str] = orm.mapped_column(sa.String(60), unique=True)
    born: orm.Mapped[datetime.date | None]


class Book(Base):
    __tablename__ = "book"
    id: orm.Mapped[int] = orm.mapped_column(sa.BigInteger, sa.Identity(), primary_key=True)
    author_id: orm.Mapped[int] = orm.mapped_column(index=True)
    title: orm.Mapped[str]
    price: orm.Mapped[decimal.Decimal] = orm.mapped_column(sa.Numeric(10, 2), default=decimal.Decimal("9.99"))


Base.metadata.create_all(engine)
with orm.Session(engine) as session:
    authors = [Author(name=f"author {n}", born=datetime.date(1900 + n, 1, 1)) for n in range(20)]
    session.add_all(authors)
    session.flush()
    assert all(author.id for author in authors)
    session.add_all([Book(author_id=author.id, title=f"book {n}") for author in authors for n in range(3)])
    session.commit()
with orm.Session(engine) as session:
    author = session.scalars(sa.select(Author).where(Author.name == "author 3")).one()
    assert author.born == datetime.date(1903, 1, 1)
    author.born = None
    session.commit()
    session.refresh(author)
    assert author.born is None
    joined = sa.select(Author.name, sa.func.count(Book.id)).join(Book, Book.author_id == Author.id)
    joined = joined.group_by(Author.name).order_by(Author.name).limit(2)
    assert session.execute(joined).all() == [("author 0", 3), ("author 1", 3)]
    book = session.scalars(sa.select(Book).order_by(Book.id).limit(1)).one()
    session.delete(book)
    session.commit()
    assert session.scalar(sa.select(sa.func.count()).select_from(Book)) == 59
    session.add(Author(name="author 3"))
    try:
        session.commit()
    except sa.exc.IntegrityError:
        session.rollback()
    else:
        raise AssertionError("a unique name was given twice")
    assert session.scalar(sa.select(sa.func.count()).select_from(Author)) == 20
    session.execute(sa.text("SELECT :a + 1"), {"a": 1})
inspector = sa.inspect(engine)
assert {"account", "author", "book"} <= set(inspector.get_table_names())
Base.metadata.drop_all(engine)
metadata.drop_all(engine)
assert not set(sa.inspect(engine).get_table_names()) & {"account", "author", "book"}
print("SQLAlchemy: all as expected")
