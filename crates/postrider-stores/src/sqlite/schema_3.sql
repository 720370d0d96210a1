
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
