-- Postrider's outbox for SQLite. Moments are microseconds since 1970-01-01 UTC; headers, attributes, retry,
-- waiting_for, progress and errors are JSON text.
--
-- The payload is the last column so that everything else is read without following its overflow pages.
create table "{p}outbox" (
  id integer primary key autoincrement,
  message_id text not null default (lower(printf('%08x-%04x-7%s-%s%s-%s',
    cast(round((julianday('now') - 2440587.5) * 86400000) as integer) >> 16,
    cast(round((julianday('now') - 2440587.5) * 86400000) as integer) & 65535,
    substr(hex(randomblob(2)), 2), substr('89ab', 1 + (abs(random() / 2) % 4), 1), substr(hex(randomblob(2)), 2),
    hex(randomblob(6))))),
  topic text not null,
  key text,
  content_type text,
  headers text,
  attributes text,
  created_at integer not null default (cast(round((julianday('now') - 2440587.5) * 86400000) as integer) * 1000),
  deliver_at integer,
  expires_at integer,
  retry text,
  -- Written by the relay, only for messages that did not go through at once.
  state integer not null default 0, -- 0 pending, 1 dead, 2 set aside, 3 dead and holding its key
  attempts integer not null default 0,
  last_attempt_at integer,
  next_attempt_at integer,
  waiting_for text,
  progress text,
  errors text,
  suspicion integer not null default 0,
  dead_at integer,
  dead_reason integer, -- 1 attempts, 2 malformed, 3 expired, 4 relay died, 5 operator
  payload blob not null
);

-- Exceptions only: these four are empty in normal running, and an insert touches none of them.
create index "{p}outbox_exceptional" on "{p}outbox" (key, id, state, next_attempt_at)
  where state in (2, 3) or next_attempt_at is not null;
create index "{p}outbox_due" on "{p}outbox" (coalesce(next_attempt_at, deliver_at), id, next_attempt_at)
  where state = 0 and (next_attempt_at is not null or deliver_at is not null);
create index "{p}outbox_dead" on "{p}outbox" (id, state) where state in (1, 3);
create index "{p}outbox_dead_at" on "{p}outbox" (dead_at) where state in (1, 3);

-- What was delivered, where history is asked for.
create table "{p}delivered" (
  id integer primary key,
  message_id text not null,
  topic text not null,
  key text,
  content_type text,
  headers text,
  attributes text,
  created_at integer not null,
  attempts integer not null,
  settled_at integer not null,
  payload blob not null
);
create index "{p}delivered_settled_at" on "{p}delivered" (settled_at);

-- Members; the expiry of a lease lives here only.
create table "{p}relay" (id text primary key, name text not null, expires_at integer not null) without rowid;

create table "{p}lane" (
  lane integer primary key,
  owner text,
  term integer not null default 0,
  clean integer not null default 1,
  careful integer not null default 0
);

create table "{p}inbox" (
  consumer text not null,
  message_id text not null,
  seen_at integer not null default (cast(round((julianday('now') - 2440587.5) * 86400000) as integer) * 1000),
  primary key (consumer, message_id)
) without rowid;
