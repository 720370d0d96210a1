-- Requests with an idempotency key: who works on one, and what it was answered.
do $idempotency$
begin
  if to_regclass('{idempotency}') is null then
    create table {idempotency} (
      caller       text not null,
      operation    text not null,
      key          text not null,
      fingerprint  bytea not null,
      epoch        bigint not null,
      leased_until timestamptz not null, -- of one that was answered: when that was
      status       smallint,
      headers      text,
      body         bytea,
      primary key (caller, operation, key)
    );
    create index {.idempotency_leased_until} on {idempotency} (leased_until);
  end if;
end $idempotency$;

-- Messages that a consumer is still to handle, where sender and receiver share the database.
create table if not exists {inbox_token} (
  message_id uuid not null,
  consumer   text not null,
  issued_at  timestamptz not null default clock_timestamp(),
  primary key (message_id, consumer)
);
