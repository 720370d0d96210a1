"""Writes messages as a Python service does: one INSERT into the outbox, in the service's own transaction.

Prints one line of JSON per message: what was written, and whether its transaction was committed.
"""

import json
import sys

import psycopg

INSERT = """
    insert into postrider_outbox (topic, key, payload, content_type, headers)
    values (%s, %s, %s, %s, %s) returning message_id::text
"""


def main(url, keys, per_key):
    with psycopg.connect(url) as connection:
        connection.execute("create table orders (id bigint generated always as identity, customer text not null)")
        connection.commit()
        for n in range(keys * per_key):
            key = f"python-{n % keys}"
            payload = bytes([0, 255, 10, 13]) + f"Bestellung Nr. {n} für {key} 🚲".encode()
            headers = {"tenant": "grün", "nth": str(n), "Traceparent": f"00-{n:032x}-{n:016x}-01"}
            kept = n % 10 != 7
            connection.execute("insert into orders (customer) values (%s)", (key,))
            row = (f"orders.placed.{n % 3}", key, payload, "application/x-order; v=1", json.dumps(headers))
            (id,) = connection.execute(INSERT, row).fetchone()
            if kept:
                connection.commit()
            else:
                connection.rollback()
            print(json.dumps({
                "id": id, "topic": row[0], "key": key, "payload": payload.hex(), "content_type": row[3],
                "headers": headers, "committed": kept,
            }))


main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
