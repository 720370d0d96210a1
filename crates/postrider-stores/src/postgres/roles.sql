-- Four roles without login: grant them to the roles that log in.
do $roles$
declare wanted text;
begin
  foreach wanted in array array['postrider_writer', 'postrider_receiver', 'postrider_relay', 'postrider_admin'] loop
    if not exists (select from pg_roles where rolname = wanted) then
      begin
        execute format('create role %I nologin', wanted);
      exception when duplicate_object or unique_violation then
        null; -- Roles are the cluster's: somebody made it in this moment, from another database.
      end;
    end if;
  end loop;
end $roles$;

grant usage on schema {schema} to postrider_writer, postrider_relay, postrider_admin;

-- The writer enqueues, and neither reads nor changes anything. Only these columns: xid, state and the others are the
-- relay's, and a wrong value in them delays or hides a message.
grant insert (message_id, topic, key, payload, content_type, headers, attributes, deliver_at, expires_at, retry)
   on {outbox} to postrider_writer;
grant insert (message_id, consumer) on {inbox_token} to postrider_writer;

-- The relay reads, settles and keeps house; it never enqueues.
grant select, update, delete on {outbox} to postrider_relay;
grant select, insert, update, delete on {relay} to postrider_relay;
grant select, update on {lane} to postrider_relay;
grant select, insert on {boot} to postrider_relay;
grant select, insert, delete on {delivered} to postrider_relay;
grant select on {meta} to postrider_relay;

-- Of the inbox it forgets what was handled long ago, where it is told to, by the two functions below; its verbs show what was
-- handled and refused, and discard what was refused.
grant select on {inbox}, {inbox_foreign}, {inbox_span} to postrider_relay;
grant select, delete on {inbox_refused} to postrider_relay;

-- The receiver records what it has handled, and keeps what it refused; it reads nothing of the outbox.
grant usage on schema {schema} to postrider_receiver;
grant insert on {inbox}, {inbox_foreign} to postrider_receiver;
grant select on {inbox_span} to postrider_receiver;
grant select, insert, update on {inbox_cursor}, {inbox_refused} to postrider_receiver;
-- A token that is younger than a snapshot is met by an insert alone.
grant select, insert, delete on {inbox_token} to postrider_receiver;
-- Requests with an idempotency key are begun, answered and forgotten by it alone.
grant select, insert, update, delete on {idempotency} to postrider_receiver;
grant execute on function {inbox_ahead}(), {inbox_keep}(interval, interval), {inbox_forget}(integer)
   to postrider_receiver, postrider_relay;

-- What everybody may do unless functions are kept from the public by default.
grant execute on function {uuid7}(), {issue_token}(text, uuid),
                          {enqueue}(text, text, bytea, json, text, json, timestamptz, timestamptz, uuid) to postrider_writer;
grant execute on function {first_seen}(text, uuid), {inbox_bound}(timestamptz), {take_token}(text, uuid),
                          {inbox_advance}(text, text, bigint, bigint, boolean),
                          {begin_key}(text, text, text, bytea, bigint, interval),
                          {release_key}(text, text, text, bigint) to postrider_receiver;

-- The administrator is an operator with the relay's rights who may also enqueue from the shell. Migrations are run by
-- the owner of the tables.
grant postrider_relay, postrider_writer, postrider_receiver to postrider_admin;

-- Behind a pooler in transaction mode the relay cannot send settings; its login role carries them. The limit ends what a
-- relay that gave up has left running there, which would keep its locks:
--   alter role my_relay set statement_timeout = '30s';
--   alter role my_relay set max_parallel_workers_per_gather = 0;
--   alter role my_relay set jit = off;
--   alter role my_relay set enable_seqscan = off;
--   alter role my_relay set enable_bitmapscan = off;
--   alter role my_relay set enable_sort = off;
