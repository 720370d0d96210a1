"""Orders and the messages about them, in one transaction each, with PyMySQL.

    pip install -r requirements.txt
    DATABASE_URL=mysql://shop:secret@127.0.0.1:3306/shop python orders.py 100

The number is the first order's. `postrider migrate --store "$DATABASE_URL"` made the outbox, and schema.sql the
table of orders.
"""

import json
import os
import sys
import uuid
from urllib.parse import unquote, urlsplit

import pymysql

ORDER = "insert into orders (id, customer, item) values (%(id)s, %(customer)s, %(item)s)"
ENQUEUE = """
insert into postrider_outbox (message_id, topic, `key`, payload, content_type, headers)
values (%s, %s, %s, %s, %s, %s)
"""


def place(connection, order):
    """Writes the order and its message: both are committed, or neither."""
    message = (
        str(uuid.uuid4()),  # any UUID, the same on every delivery; left out, the database makes one
        "orders.placed",
        order["customer"],  # the messages of a customer keep their order
        json.dumps(order).encode(),
        "application/json",
        json.dumps({"correlation-id": str(order["id"])}),
    )
    try:
        connection.begin()
        with connection.cursor() as cursor:
            cursor.execute(ORDER, order)
            cursor.execute(ENQUEUE, message)
        connection.commit()
    except BaseException:
        connection.rollback()
        raise


def connect(url):
    place = urlsplit(url)
    return pymysql.connect(
        host=place.hostname,
        port=place.port or 3306,
        user=unquote(place.username),
        password=unquote(place.password or ""),
        database=place.path.lstrip("/"),
        charset="utf8mb4",
    )


with connect(os.environ["DATABASE_URL"]) as connection:
    first = int(sys.argv[1])
    for number, customer in enumerate(["ann-py", "bob-py", "ann-py"]):
        place(connection, {"id": first + number, "customer": customer, "item": "Tür"})
