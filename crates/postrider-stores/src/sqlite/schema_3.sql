
-- Requests with an idempotency key: who works on one, and what it was answered.
create table "{p}idempotency" (
  caller text not null,
  operation text not null,
  key text not null,
  fingerprint blob not null,
  epoch integer not null,
  leased_until integer not null, -- of one that was answered: when that was
  status integer,
  headers text,
  body blob,
  primary key (caller, operation, key)
);
create index "{p}idempotency_leased_until" on "{p}idempotency" (leased_until);

-- Messages that a consumer is still to handle, where sender and receiver share the database.
create table "{p}inbox_token" (
  message_id text not null,
  consumer text not null,
  issued_at integer not null default (cast(round((julianday('now') - 2440587.5) * 86400000) as integer) * 1000),
  primary key (message_id, consumer)
) without rowid;
