-- The first id of a moment, whichever are the last bits of those that were made in it.
--
-- Stable, as the `extract` in it: declared immutable it would not be inlined, and, up to PostgreSQL 17, be planned anew in each
-- transaction, which was half of what a claim took.
create or replace function {inbox_bound}(moment timestamptz) returns uuid language sql stable as $inbox_bound$
  select (lpad(to_hex((extract(epoch from moment) * 1000)::bigint), 12, '0') || '00000000000000000000')::uuid
$inbox_bound$;

-- The beginning of the oldest period of which something is kept.
create or replace function {inbox_floor}(keep interval, period interval) returns timestamptz language sql volatile as $inbox_floor$
  select to_timestamp(floor(extract(epoch from clock_timestamp() - keep) / extract(epoch from period)) * extract(epoch from period))
$inbox_floor$;

-- The partitions of the inbox, with the time that is in their names.
create or replace function {inbox_partitions}(out part text, out begins timestamptz, out ends timestamptz)
returns setof record language sql stable as $inbox_partitions$
  -- Materialized: a condition on a time is not to be looked at for the name of any other table.
  with own (part) as materialized (
    select c.relname::text from pg_inherits i join pg_class c on c.oid = i.inhrelid where i.inhparent = '{inbox}'::regclass
  )
  select o.part, to_timestamp(split_part(t.times, '_', 1)::bigint), to_timestamp(split_part(t.times, '_', 2)::bigint)
    from own o cross join lateral (select substr(o.part, length('<prefix>inbox_p') + 1)) t (times)
$inbox_partitions$;

-- Makes the partitions of the time to come, as far ahead as `keep`. Attaching one stops nobody.
--
-- It waits for another one that is at it only where the present itself has no partition yet: that one's are seen when its
-- transaction has ended.
create or replace function {inbox_ahead}() returns void language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp set client_min_messages = warning as $inbox_ahead$
declare
  span  {inbox_span};
  name  text;
  floor timestamptz;
  until timestamptz;
begin
  select * into span from {inbox_span} where one and newest <= clock_timestamp() for update;
  if not found then
    select * into span from {inbox_span} where one for update skip locked;
  end if;
  if not found then
    return; -- somebody else is at it
  end if;
  floor := {inbox_floor}(span.keep, span.period);
  while span.newest < clock_timestamp() + span.keep loop
    -- What lies further back than what is kept shares one: the time before the first one, and that of a long rest.
    until := case when span.newest < floor then floor else span.newest + span.period end;
    name := '<prefix>inbox_p' || extract(epoch from span.newest)::bigint || '_' || extract(epoch from until)::bigint;
    execute format('create table {schema}.%I (like {inbox} including all)', name);
    execute format('alter table {inbox} attach partition {schema}.%I for values from (%L) to (%L)', name,
                   {inbox_bound}(span.newest), {inbox_bound}(until));
    span.newest := until;
  end loop;
  update {inbox_span} set newest = span.newest where one and newest <> span.newest;
end $inbox_ahead$;

-- Drops the partitions whose time is over, and makes those of the time to come. Answers how many were dropped, or -1 where none
-- was because claims that are open are in the way. What is not given stays as it was.
--
-- Dropping a partition needs the whole inbox for a moment. New claims queue behind it, and it waits for those that are open: one
-- second at most, in which those of handlers that are quicker than that have ended, however many there are.
create or replace function {inbox_keep}(new_keep interval default null, new_period interval default null)
returns bigint language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp set lock_timeout = '1s' set client_min_messages = warning as $inbox_keep$
<<round>>
declare
  span    {inbox_span};
  keep    interval;
  period  interval;
  part    record;
  is_used boolean;
  dropped bigint := 0;
  is_held boolean := false;
begin
  select * into span from {inbox_span} where one for update skip locked;
  if not found then
    return 0; -- somebody else is at it
  end if;
  keep := coalesce(new_keep, span.keep);
  -- Seven of them, where nothing else is asked for; the names of partitions have whole seconds.
  period := case when new_period is null and keep = span.keep then span.period
                 else make_interval(secs => floor(extract(epoch from coalesce(new_period, greatest(keep / 7, interval '1 second'))))) end;
  if period < interval '1 second' or keep < period or keep > 500 * period then
    raise invalid_parameter_value using message = format('an inbox cannot keep %s in periods of %s', keep, period),
      hint = 'Expected periods of a second or more, and 1 to 500 of them to keep.';
  end if;
  -- What is not used yet is made anew; what is used is not divided. A snapshot that is older than the lock on a partition
  -- would not see what was recorded in it meanwhile.
  if (keep, period) <> (span.keep, span.period) and current_setting('transaction_isolation') = 'read committed' then
    for part in select * from {inbox_partitions}() order by begins desc loop
      begin
        execute format('lock table {schema}.%I in access exclusive mode', part.part);
        execute format('select exists (select from {schema}.%I)', part.part) into is_used;
        exit when is_used;
        execute format('drop table {schema}.%I', part.part);
        span.newest := part.begins;
      exception when lock_not_available then
        exit;
      end;
    end loop;
  end if;
  update {inbox_span} s
     set newest = span.newest, keep = round.keep, period = round.period
   where one and (s.newest, s.keep, s.period) <> (span.newest, round.keep, round.period);
  perform {inbox_ahead}();
  for part in select * from {inbox_partitions}() where ends <= clock_timestamp() - keep order by begins loop
    begin
      execute format('drop table {schema}.%I', part.part);
      update {inbox_span} set oldest = greatest(oldest, part.ends) where one;
      dropped := dropped + 1;
    exception when lock_not_available then
      is_held := true;
      exit;
    end;
  end loop;
  return case when is_held and dropped = 0 then -1 else dropped end;
end $inbox_keep$;

-- Forgets ids without a time that were seen too long ago, at most so many, and answers how many.
create or replace function {inbox_forget}(at_most integer default 5000)
returns bigint language sql volatile security definer set search_path = pg_catalog, pg_temp as $inbox_forget$
  with old as (
    select f.message_id, f.consumer from {inbox_foreign} f
     where f.seen_at < clock_timestamp() - (select keep from {inbox_span} where one)
     order by f.seen_at limit at_most
  ), gone as (
    delete from {inbox_foreign} f using old
     where f.message_id = old.message_id and f.consumer = old.consumer
    returning 1
  )
  select count(*) from gone
$inbox_forget$;

-- Records that a consumer handles a message, in the caller's transaction; false when it is recorded already.
--
-- A claim waits for another one of the same message that is not committed yet, 5 s at most (55P03). Where the snapshot of the
-- transaction is older than the other claim's commit, that is a serialization failure (40001): run the transaction again.
--
-- It is called by a statement of its own: one that locks rows may evaluate its conditions anew behind another transaction, and
-- the second evaluation of a claim is a repeat.
create or replace function {first_seen}(consumer text, message_id uuid) returns boolean
language plpgsql volatile set lock_timeout = '5s' as $first_seen$
declare
  span {inbox_span};
begin
  if consumer is null or octet_length(consumer) not between 1 and 255 or consumer <> btrim(consumer) then
    raise invalid_parameter_value using message = format('consumer %L is not valid', left(consumer, 60)),
      hint = 'Expected 1 to 255 bytes that neither begin nor end with a space.';
  end if;
  if message_id is null then
    raise invalid_parameter_value using message = 'the message id is null',
      hint = 'Expected the id that the message came with, in its header postrider-id.';
  end if;
  if substr(message_id::text, 15, 1) <> '7' then
    insert into {inbox_foreign} (message_id, consumer) values (message_id, consumer) on conflict do nothing;
    return found;
  end if;
  select * into strict span from {inbox_span} where one;
  if message_id < {inbox_bound}(span.oldest) then
    raise exception using errcode = 'PR010', message = format('message %s is too old', message_id),
      detail = format('What was handled before %s is forgotten: it may be a repeat.', span.oldest),
      hint = 'Roll back, keep the message for a person, and acknowledge it.';
  end if;
  if message_id >= {inbox_bound}(span.newest - span.keep / 2) then
    -- Nobody has kept the inbox for long: made before they are needed, partitions keep no claim waiting.
    perform {inbox_ahead}();
    select * into strict span from {inbox_span} where one;
    if message_id >= {inbox_bound}(span.newest) then
      raise exception using errcode = 'PR011', message = format('message %s comes from the future', message_id),
        detail = format('The inbox has partitions until %s.', span.newest),
        hint = 'Check the clock of its sender; roll back, and let it come again.';
    end if;
  end if;
  insert into {inbox} (message_id, consumer) values (message_id, consumer) on conflict do nothing;
  return found;
end $first_seen$;

-- Takes the token of a message in the caller's transaction; false when there is none: the message was handled before.
--
-- It waits for another one that is about to take it, 5 s at most (55P03). A token that is younger than the snapshot of the
-- transaction, or was taken since, is a serialization failure (40001): run the transaction again. A delete does not meet the
-- first of these two, and an insert does.
create or replace function {take_token}(consumer text, message_id uuid) returns boolean
language plpgsql volatile set lock_timeout = '5s' as $take_token$
begin
  delete from {inbox_token} t where t.message_id = $2 and t.consumer = $1;
  if found then
    return true;
  end if;
  if current_setting('transaction_isolation') in ('repeatable read', 'serializable') then
    insert into {inbox_token} (message_id, consumer) values ($2, $1) on conflict do nothing;
    delete from {inbox_token} t where t.message_id = $2 and t.consumer = $1;
  end if;
  return false;
end $take_token$;

-- Lets a consumer handle a message once, in the caller's transaction; false when that was so already. It waits for another one
-- that issues the same token, 5 s at most (55P03).
create or replace function {issue_token}(consumer text, message_id uuid) returns boolean
language plpgsql volatile set lock_timeout = '5s' as $issue_token$
begin
  insert into {inbox_token} (message_id, consumer) values ($2, $1) on conflict do nothing;
  return found;
end $issue_token$;

-- Records how far a consumer came in a source that delivers in order, in the caller's transaction: null where the message is
-- the next one, or else the last one that was handled, with which nothing is changed. It waits for another one that is about
-- to advance, 5 s at most (55P03).
create or replace function {inbox_advance}(consumer text, source text, part bigint, sequence bigint, is_gapless boolean)
returns bigint language plpgsql volatile set lock_timeout = '5s' as $inbox_advance$
declare
  last bigint;
begin
  loop
    update {inbox_cursor} c set sequence = $4
     where c.consumer = $1 and c.source = $2 and c.part = $3
       and case when $5 then c.sequence = $4 - 1 else c.sequence < $4 end;
    if found then
      return null;
    end if;
    select c.sequence into last from {inbox_cursor} c
     where c.consumer = $1 and c.source = $2 and c.part = $3 for no key update;
    if found then
      return last;
    end if;
    insert into {inbox_cursor} (consumer, source, part, sequence) values ($1, $2, $3, $4) on conflict do nothing;
    if found then
      return null;
    end if;
  end loop;
end $inbox_advance$;

-- Begins with the key of a request of which nothing is known; false where somebody else did. It waits for that one's
-- transaction, 5 s at most (55P03).
create or replace function {begin_key}(caller text, operation text, key text, fingerprint bytea, epoch bigint, lease interval)
returns boolean language plpgsql volatile set lock_timeout = '5s' as $begin_key$
begin
  insert into {idempotency} (caller, operation, key, fingerprint, epoch, leased_until)
  values ($1, $2, $3, $4, $5, clock_timestamp() + $6) on conflict do nothing;
  return found;
end $begin_key$;

-- Lets the next request begin with a key at once; false where it is not the caller's any more, or was answered. Whoever works on
-- it now is not waited for, but the end of the caller's own transaction, whose rollback a driver may send late: 5 s at most (55P03).
create or replace function {release_key}(caller text, operation text, key text, epoch bigint) returns boolean
language plpgsql volatile set lock_timeout = '5s' as $release_key$
begin
  perform from {idempotency} k
    where k.caller = $1 and k.operation = $2 and k.key = $3 and k.epoch = $4 and k.status is null;
  if not found then
    return false;
  end if;
  update {idempotency} k set leased_until = clock_timestamp()
   where k.caller = $1 and k.operation = $2 and k.key = $3 and k.epoch = $4 and k.status is null;
  return found;
end $release_key$;

-- These run as the owner of the tables.
revoke all on function {inbox_ahead}(), {inbox_keep}(interval, interval), {inbox_forget}(integer) from public;

-- What was handled before there were partitions has one, as everything else: nothing is refused that nobody forgot.
insert into {inbox_span} (oldest, newest) values (to_timestamp(0), to_timestamp(0)) on conflict do nothing;
do $begin$
begin
  perform {inbox_ahead}();
end $begin$;

do $before$
begin
  if to_regclass('{inbox_before}') is not null then
    insert into {inbox} (message_id, consumer, seen_at)
      select b.message_id, b.consumer, b.seen_at from {inbox_before} b, {inbox_span} s
       where substr(b.message_id::text, 15, 1) = '7'
         and b.message_id >= {inbox_bound}(s.oldest) and b.message_id < {inbox_bound}(s.newest)
      on conflict do nothing;
    insert into {inbox_foreign} (message_id, consumer, seen_at)
      select b.message_id, b.consumer, b.seen_at from {inbox_before} b where substr(b.message_id::text, 15, 1) <> '7'
      on conflict do nothing;
    drop table {inbox_before};
  end if;
end $before$;
