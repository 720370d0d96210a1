create procedure {enqueue}(
  in in_topic longtext character set utf8mb4 collate utf8mb4_bin, in in_key longtext character set utf8mb4 collate utf8mb4_bin,
  in in_payload longblob, in in_headers longtext character set utf8mb4 collate utf8mb4_bin,
  in in_content_type longtext character set utf8mb4 collate utf8mb4_bin,
  in in_attributes longtext character set utf8mb4 collate utf8mb4_bin,
  in in_deliver_at bigint, in in_expires_at bigint,
  inout inout_message_id varchar(64) character set utf8mb4 collate utf8mb4_bin
) modifies sql data sql security invoker
begin
  declare control varchar(80) character set utf8mb4 collate utf8mb4_bin default '[\\x00-\\x08\\x0a-\\x1f\\x7f-\\x9f]';
  declare place, how_many, longest integer default 0;
  declare given, bare, met, name_list, name_of, text_of longtext character set utf8mb4 collate utf8mb4_bin;
  declare grammar varchar(120) character set utf8mb4 collate utf8mb4_bin;
  declare of_attributes tinyint default 0;
  if in_topic is null or octet_length(in_topic) > 255 or in_topic regexp control
     or in_topic not regexp '^[A-Za-z0-9_:/-]+([.][A-Za-z0-9_:/-]+)*$' then
    signal sqlstate '45000' set message_text = 'postrider: the topic is not valid: words of letters, digits, _ - : / joined by single dots, at most 255 bytes';
  end if;
  if octet_length(in_key) = 0 or octet_length(in_key) > 512 or in_key regexp control then
    signal sqlstate '45000' set message_text = 'postrider: the key is not valid: 1 to 512 bytes without control characters, or null';
  end if;
  if in_payload is null or octet_length(in_payload) > 67108864 then
    signal sqlstate '45000' set message_text = 'postrider: the payload is null or longer than 64 MiB';
  end if;
  if octet_length(in_content_type) > 255 or in_content_type regexp control
     or in_content_type not regexp '^[ -~]*/[ -~]*$' then
    signal sqlstate '45000' set message_text = 'postrider: the content type is not valid: a media type, ASCII, at most 255 bytes';
  end if;
  if inout_message_id is not null and
     inout_message_id not regexp '^[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}$' then
    signal sqlstate '45000' set message_text = 'postrider: the message id is no UUID';
  end if;
  while of_attributes < 2 do
    set given = if(of_attributes, in_attributes, in_headers), place = 0, longest = if(of_attributes, 32, 64);
    set grammar = if(of_attributes, '^[a-z0-9_-]+([.][a-z0-9_-]+)+$', '^[A-Za-z0-9!#$%&''*+.^_`|~-]+$');
    if given is not null then
      if not json_valid(given) or json_type(given) <> 'OBJECT' then
        signal sqlstate '45000' set message_text = 'postrider: headers and attributes are objects of strings, as JSON, or null';
      end if;
      set name_list = json_keys(given), how_many = json_length(name_list), met = ' ';
      if how_many > longest then
        signal sqlstate '45000' set message_text = 'postrider: at most 64 headers and 32 attributes, each with a name of its own';
      end if;
      while place < how_many do
        set name_of = json_unquote(json_extract(name_list, concat('$[', place, ']')));
        if octet_length(name_of) > 128 or name_of not regexp grammar or name_of regexp control
           or (not of_attributes and lower(name_of) like 'postrider-%') then
          signal sqlstate '45000' set message_text = 'postrider: the name of a header (an HTTP token, not postrider-...) or attribute (prefix.name) is not valid';
        end if;
        -- Two ways of writing a name are two names to MariaDB.
        if locate(concat(' ', name_of, ' '), met) > 0 then
          signal sqlstate '45000' set message_text = 'postrider: at most 64 headers and 32 attributes, each with a name of its own';
        end if;
        set met = concat(met, name_of, ' ');
        set text_of = json_extract(given, concat('$."', name_of, '"'));
        if json_type(text_of) <> 'STRING' or octet_length(json_unquote(text_of)) > 8192 or json_unquote(text_of) regexp control then
          signal sqlstate '45000' set message_text = 'postrider: headers and attributes have text of at most 8 KiB without control characters';
        end if;
        set place = place + 1;
      end while;
      -- Of two members with one name MySQL keeps one. Without what is escaped, each member has four quotation marks.
      set bare = replace(replace(given, '\\\\', ''), '\\"', '');
      if length(bare) - length(replace(bare, '"', '')) <> how_many * 4 then
        signal sqlstate '45000' set message_text = 'postrider: at most 64 headers and 32 attributes, each with a name of its own';
      end if;
    end if;
    set of_attributes = of_attributes + 1;
  end while;
  if inout_message_id is null then
    set inout_message_id = lower(concat(
      insert(lpad(hex(timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)) div 1000), 12, '0'), 9, 0, '-'),
      '-7', substr(sha2(uuid(), 224), 1, 3), '-', substr('89ab', 1 + floor(rand() * 4), 1),
      substr(sha2(uuid(), 224), 4, 3), '-', substr(sha2(uuid(), 224), 10, 12)));
  end if;
  insert into {outbox} (message_id, topic, `key`, payload, content_type, headers, attributes, deliver_at, expires_at)
    values (inout_message_id, in_topic, in_key, in_payload, in_content_type, in_headers, in_attributes, in_deliver_at, in_expires_at);
end
