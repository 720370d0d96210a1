-- An order and the message about it, in one transaction, from the shell of SQLite:
--
--   sqlite3 shop.db < examples/from-sql/sqlite.sql
--
-- `postrider migrate --store sqlite:shop.db` made the tables. Everything but topic and payload may be left out: the
-- message gets its id from the table.

create table if not exists orders (id integer primary key, customer text not null, item text not null);

-- Immediate: SQLite has one writer, and a transaction that becomes one later may be refused.
begin immediate;

insert into orders (id, customer, item) values (7, 'ann', 'book');

insert into postrider_outbox (topic, key, payload, content_type, headers)
values ('orders.placed', 'ann', cast('{"id": 7, "customer": "ann", "item": "book"}' as blob), 'application/json',
        '{"correlation-id": "7"}');

commit;
