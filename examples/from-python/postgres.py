"""Orders and the messages about them, in one transaction each, with psycopg 3.

    pip install "psycopg[binary]"
    python examples/from-python/postgres.py "$DATABASE_URL"

`postrider migrate --store "$DATABASE_URL"` made the tables. The role needs what the writer role has.
"""

import json
import sys
import uuid

import psycopg

ENQUEUE = """
insert into postrider_outbox (message_id, topic, key, payload, content_type, headers)
values (%s, %s, %s, %s, %s, %s)
"""


def place(connection, order):
    """Writes the order and its message: both are committed, or neither."""
    with connection.transaction():
        connection.execute(
            "insert into orders (id, customer, item) values (%(id)s, %(customer)s, %(item)s)", order
        )
        connection.execute(
            ENQUEUE,
            (
                uuid.uuid4(),  # any UUID, the same on every delivery; left out, the database makes one
                "orders.placed",
                order["customer"],  # the messages of a customer keep their order
                json.dumps(order).encode(),
                "application/json",
                json.dumps({"correlation-id": str(order["id"])}),
            ),
        )


with psycopg.connect(sys.argv[1], autocommit=True) as connection:
    connection.execute(
        "create table if not exists orders (id bigint primary key, customer text not null, item text not null)"
    )
    for number, customer in enumerate(["ann", "bob", "ann"], start=1):
        place(connection, {"id": number, "customer": customer, "item": "book"})
