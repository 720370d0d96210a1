-- The inbox of earlier versions, which nothing of Postrider's wrote to; inbox.sql takes over what an application put there.
do $before$
begin
  if exists (select from pg_class where oid = to_regclass('{inbox}') and relkind = 'r') then
    alter table {inbox} rename to {.inbox_before};
  end if;
end $before$;

-- What was handled, by the time that is in a UUIDv7: a partition is dropped whole when its time is over, and what is older
-- than all of them has no place any more. The id comes first, so that a claim touches the newest pages only.
create table if not exists {inbox} (
  message_id uuid not null,
  consumer   text not null,
  seen_at    timestamptz not null default clock_timestamp(),
  primary key (message_id, consumer)
) partition by range (message_id);

-- Ids without a time: deleted in batches, by when they were seen.
create table if not exists {inbox_foreign} (
  message_id uuid not null,
  consumer   text not null,
  seen_at    timestamptz not null default clock_timestamp(),
  primary key (message_id, consumer)
) partition by hash (message_id);
do $parts$
begin
  for part in 0..7 loop
    continue when to_regclass(format('{schema}.%I', '<prefix>inbox_foreign_' || part)) is not null;
    execute format('create table {schema}.%I partition of {inbox_foreign} for values with (modulus 8, remainder %s)',
                   '<prefix>inbox_foreign_' || part, part);
    execute format('create index %I on {schema}.%I (seen_at)',
                   '<prefix>inbox_foreign_' || part || '_seen_at', '<prefix>inbox_foreign_' || part);
  end loop;
end $parts$;

-- Which time the partitions of the inbox span, and how long what was handled is remembered.
create table if not exists {inbox_span} (
  one    boolean primary key default true check (one),
  oldest timestamptz not null,
  newest timestamptz not null,
  keep   interval not null default interval '7 days',
  period interval not null default interval '1 day'
);

-- How far a consumer came in a source that delivers in order.
create table if not exists {inbox_cursor} (
  consumer text not null,
  source   text not null,
  part     bigint not null,
  sequence bigint not null,
  primary key (consumer, source, part)
);
alter table {inbox_cursor} set (fillfactor = 50);

-- Messages of which nobody can tell whether they were handled, kept for a person.
create table if not exists {inbox_refused} (
  message_id   uuid not null,
  consumer     text not null,
  reason       text not null,
  topic        text not null,
  key          text,
  content_type text,
  headers      json,
  payload      bytea not null,
  refused_at   timestamptz not null default clock_timestamp(),
  times        integer not null default 1,
  primary key (message_id, consumer)
);
