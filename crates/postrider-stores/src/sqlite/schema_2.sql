
-- The id comes first, so that a claim touches the newest pages only and what is forgotten is removed from the other end.
alter table "{p}inbox" rename to "{p}inbox_before";
create table "{p}inbox" (
  message_id text not null,
  consumer text not null,
  seen_at integer not null default (cast(round((julianday('now') - 2440587.5) * 86400000) as integer) * 1000),
  primary key (message_id, consumer)
) without rowid;

-- Ids without a time: removed by when they were seen.
create table "{p}inbox_foreign" (
  message_id text not null,
  consumer text not null,
  seen_at integer not null default (cast(round((julianday('now') - 2440587.5) * 86400000) as integer) * 1000),
  primary key (message_id, consumer)
) without rowid;
create index "{p}inbox_foreign_seen_at" on "{p}inbox_foreign" (seen_at);

insert into "{p}inbox" (message_id, consumer, seen_at)
select lower(message_id), consumer, seen_at from "{p}inbox_before" where substr(message_id, 15, 1) = '7';
insert into "{p}inbox_foreign" (message_id, consumer, seen_at)
select lower(message_id), consumer, seen_at from "{p}inbox_before" where substr(message_id, 15, 1) <> '7';
drop table "{p}inbox_before";

-- What has a lower id is forgotten, but for what was handled late.
create table "{p}inbox_span" (
  one integer primary key check (one = 1),
  oldest text not null
);
insert into "{p}inbox_span" (one, oldest) values (1, '00000000-0000-0000-0000-000000000000');

-- How far a consumer came in a source that delivers in order.
create table "{p}inbox_cursor" (
  consumer text not null,
  source text not null,
  part integer not null,
  sequence integer not null,
  primary key (consumer, source, part)
) without rowid;

-- Messages of which nobody can tell whether they were handled, kept for a person.
create table "{p}inbox_refused" (
  message_id text not null,
  consumer text not null,
  reason text not null,
  topic text not null,
  key text,
  content_type text,
  headers text,
  refused_at integer not null default (cast(round((julianday('now') - 2440587.5) * 86400000) as integer) * 1000),
  times integer not null default 1,
  payload blob not null,
  primary key (message_id, consumer)
);
