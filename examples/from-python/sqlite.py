"""Orders and the messages about them, in one transaction each, with Python's own sqlite3.

    python examples/from-python/sqlite.py shop.db

`postrider migrate --store sqlite:shop.db` made the tables.
"""

import json
import sqlite3
import sys

ENQUEUE = """
insert into postrider_outbox (topic, key, payload, content_type, headers) values (?, ?, ?, ?, ?)
"""


def place(connection, order):
    """Writes the order and its message: both are committed, or neither."""
    connection.execute("begin immediate")  # SQLite has one writer: wait for it now, not in the middle
    try:
        connection.execute("insert into orders (id, customer, item) values (:id, :customer, :item)", order)
        headers = json.dumps({"correlation-id": str(order["id"])})
        payload = json.dumps(order).encode()
        # The key is the customer: the messages of a customer keep their order.
        connection.execute(ENQUEUE, ("orders.placed", order["customer"], payload, "application/json", headers))
        connection.execute("commit")
    except BaseException:
        connection.execute("rollback")
        raise


# Without isolation_level=None the module begins transactions of its own, and not immediate ones.
connection = sqlite3.connect(sys.argv[1], timeout=5, isolation_level=None)
connection.execute(
    "create table if not exists orders (id integer primary key, customer text not null, item text not null)"
)
for number, customer in enumerate(["ann", "bob", "ann"], start=1):
    place(connection, {"id": number, "customer": customer, "item": "book"})
connection.close()
