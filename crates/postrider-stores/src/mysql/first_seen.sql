create procedure {first_seen}(
  in in_consumer longtext character set utf8mb4 collate utf8mb4_bin,
  in in_message_id longtext character set utf8mb4 collate utf8mb4_bin,
  out out_first tinyint
) modifies sql data sql security invoker
begin
  if in_consumer is null or octet_length(in_consumer) not between 1 and 255 or octet_length(in_consumer) <> octet_length(trim(in_consumer)) then
    signal sqlstate '45000' set message_text = 'postrider: the consumer is not valid: 1 to 255 bytes that neither begin nor end with a space';
  end if;
  if in_message_id is null or
     in_message_id not regexp '^[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}$' then
    signal sqlstate '45000' set message_text = 'postrider: the message id is no UUID: give what the message has in its header postrider-id';
  end if;
  set in_message_id = lower(in_message_id);
  if substr(in_message_id, 15, 1) = '7' then
    -- The lock sees the last commit in every isolation, and lets nothing be forgotten until this transaction has ended.
    insert ignore into {inbox} (message_id, consumer)
      select in_message_id, in_consumer from {inbox_span} where one = 1 and oldest <= in_message_id lock in share mode;
    set out_first = row_count() > 0;
    if not out_first and (select oldest from {inbox_span} where one = 1 lock in share mode) > in_message_id then
      -- A statement of its own, so that only here somebody needs the right to it: what was handled late is recorded still.
      if not exists (select 1 from {inbox} where message_id = in_message_id and consumer = in_consumer lock in share mode) then
        signal sqlstate '45000' set message_text = 'postrider: the message is too old: what was handled in its time is forgotten, it may be a repeat; keep it for a person';
      end if;
    end if;
  else
    insert ignore into {inbox_foreign} (message_id, consumer) values (in_message_id, in_consumer);
    set out_first = row_count() > 0;
  end if;
end
