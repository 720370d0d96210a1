"""Invoices for the orders that come, one for each however often it comes, with psycopg 3.

    pip install "psycopg[binary]"
    python examples/from-python/receiving.py "$DATABASE_URL" 018f3f6e-0000-4000-8000-000000000007 7

The id is what the message has in its header `postrider-id`; the number is the order's. `postrider migrate --store
"$DATABASE_URL"` made the tables. The role needs what the receiver role has.
"""

import sys

import psycopg
from psycopg import errors

TOO_OLD = "PR010"


def handle(connection, message_id, order):
    """Writes the invoice and the record of the message: both are committed, or neither. Acknowledge it after that."""
    with connection.transaction():
        first = connection.execute("select postrider_first_seen('billing', %s)", (message_id,)).fetchone()[0]
        if first:
            connection.execute("insert into invoices (order_id) values (%s)", (order,))
    return first


with psycopg.connect(sys.argv[1], autocommit=True) as connection:
    connection.execute(
        "create table if not exists invoices (id bigint generated always as identity primary key, order_id bigint not null)"
    )
    for again in range(5):
        try:
            print("invoiced" if handle(connection, sys.argv[2], int(sys.argv[3])) else "was invoiced before")
            break
        except (errors.SerializationFailure, errors.DeadlockDetected, errors.LockNotAvailable):
            continue  # somebody else is at the same message
        except psycopg.Error as error:
            if error.sqlstate != TOO_OLD:
                raise
            sys.exit(f"kept for a person: {error.diag.message_primary}")
    else:
        sys.exit("somebody else is at it still: let it come again later")
