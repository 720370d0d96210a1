-- An order and the message about it, in one transaction, from psql:
--
--   psql "$DATABASE_URL" -f examples/from-sql/postgres.sql
--
-- `postrider migrate --store "$DATABASE_URL"` made the tables. The role needs what the writer role has.

create table if not exists orders (id bigint primary key, customer text not null, item text not null);

begin;

insert into orders (id, customer, item) values (7, 'ann', 'book');

-- In a statement of its own, after the statement that locked the row: inside one that waits for a lock, PostgreSQL may
-- run it twice. The headers and what follows may be left out; the message's id is returned.
select postrider_enqueue(
  'orders.placed',                                             -- topic
  'ann',                                                       -- key: the messages of ann keep their order
  convert_to('{"id": 7, "customer": "ann", "item": "book"}', 'UTF8'),
  headers => '{"correlation-id": "7"}',
  content_type => 'application/json');

commit;
