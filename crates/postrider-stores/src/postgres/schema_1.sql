do $schema$
begin
  -- "create schema if not exists" asks for the right to create one even where it exists
  if to_regnamespace('{schema}') is null then
    create schema {schema};
  end if;
end $schema$;

create or replace function {uuid7}() returns uuid language sql volatile parallel safe as $uuid7$
  -- 48 bits of milliseconds over a random uuid, whose version 4 becomes 7 by setting two bits
  select pg_catalog.encode(
    pg_catalog.set_bit(pg_catalog.set_bit(pg_catalog.overlay(
      pg_catalog.uuid_send(pg_catalog.gen_random_uuid()),
      pg_catalog.substring(pg_catalog.int8send((extract(epoch from pg_catalog.clock_timestamp()) * 1000)::bigint), 3),
      1, 6), 52, 1), 53, 1), 'hex')::uuid
$uuid7$;

create table if not exists {meta} (
  one         boolean primary key default true check (one),
  version     integer not null,
  lanes       integer not null,
  migrated_at timestamptz not null default clock_timestamp()
);

-- Only where it is not there: to make sure of an index or of how a column is stored waits for every transaction of the
-- application, and lets none of them go on until this one ends.
do $outbox$
begin
  if to_regclass('{outbox}') is null then
    create table {outbox} (
      id              bigint generated always as identity primary key,
      xid             xid8 not null default pg_current_xact_id(),
      message_id      uuid not null default {uuid7}(),
      lane            smallint not null generated always as
                        (((hashtextextended(coalesce(key, message_id::text) collate "C", 0) % <lanes> + <lanes>) % <lanes>)::smallint) stored,
      topic           text not null,
      key             text,
      payload         bytea not null,
      content_type    text,
      headers         json,
      attributes      json,
      created_at      timestamptz not null default clock_timestamp(),
      deliver_at      timestamptz,
      expires_at      timestamptz,
      retry           json,
      -- written by the relay, only for messages that did not go through at once
      state           smallint not null default 0,
      attempts        integer not null default 0,
      last_attempt_at timestamptz,
      next_attempt_at timestamptz,
      waiting_for     text[],
      progress        json,
      errors          json,
      suspicion       smallint not null default 0,
      dead_at         timestamptz,
      dead_reason     smallint
    );
    create index {.outbox_xid} on {outbox} (xid);
    -- the three below hold exceptions only and are empty in normal running
    create index {.outbox_exceptional} on {outbox} (lane, key, id)
      where state in (2, 3) or next_attempt_at is not null;
    create index {.outbox_due} on {outbox} ((coalesce(next_attempt_at, deliver_at)), id)
      where state = 0 and (next_attempt_at is not null or deliver_at is not null);
    create index {.outbox_dead} on {outbox} (id) where state in (1, 3);

    alter table {outbox} set (
      fillfactor = 90, vacuum_truncate = off, toast.vacuum_truncate = off,
      autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000, autovacuum_vacuum_cost_delay = 0,
      autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 100000,
      autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 50000,
      toast.autovacuum_vacuum_scale_factor = 0, toast.autovacuum_vacuum_threshold = 10000);
    alter table {outbox} alter column payload set storage external;
    analyze {outbox};
  end if;
end $outbox$;

create table if not exists {relay} (
  id         uuid primary key,
  name       text not null,
  expires_at timestamptz not null
);
alter table {relay} set (fillfactor = 50);

create table if not exists {lane} (
  lane    smallint primary key,
  owner   uuid,
  term    bigint not null default 0,
  clean   boolean not null default true,
  careful boolean not null default false
);
alter table {lane} set (fillfactor = 50);
insert into {lane} (lane) select generate_series(0, <lanes> - 1) on conflict do nothing;

-- emptied by crash recovery and by promotion: what a relay remembers of snapshots is bound to its one row
create unlogged table if not exists {boot} (
  one  boolean primary key default true check (one),
  boot uuid not null default gen_random_uuid()
);
insert into {boot} default values on conflict do nothing;

do $delivered$
begin
  if to_regclass('{delivered}') is null then
    create table {delivered} (
      id           bigint primary key,
      message_id   uuid not null,
      lane         smallint not null,
      topic        text not null,
      key          text,
      payload      bytea not null,
      content_type text,
      headers      json,
      attributes   json,
      created_at   timestamptz not null,
      attempts     integer not null,
      settled_at   timestamptz not null default clock_timestamp()
    );
    create index {.delivered_settled_at} on {delivered} (settled_at);
    alter table {delivered} alter column payload set storage external;
  end if;
end $delivered$;

create table if not exists {inbox} (
  consumer   text not null,
  message_id uuid not null,
  seen_at    timestamptz not null default clock_timestamp(),
  primary key (consumer, message_id)
);

analyze {lane};

