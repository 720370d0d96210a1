create or replace function {enqueue}(
  topic text, key text, payload bytea, headers json default null, content_type text default null,
  attributes json default null, deliver_at timestamptz default null, expires_at timestamptz default null,
  message_id uuid default null
) returns uuid language plpgsql volatile as $enqueue$
declare
  new_id  uuid := coalesce(message_id, {uuid7}());
  -- control characters but the tab
  control constant text := '[\u0001-\u0008\u000a-\u001f\u007f-\u009f]';
begin
  if topic is null or octet_length(topic) > 255 or topic !~ '^[A-Za-z0-9_:/-]+(\.[A-Za-z0-9_:/-]+)*$' then
    raise invalid_parameter_value using message = format('topic %L is not valid', left(topic, 60)),
      hint = 'Expected words of letters, digits, _, -, : or / joined by single dots, at most 255 bytes.';
  end if;
  if key = '' or octet_length(key) > 512 or key ~ control then
    raise invalid_parameter_value using message = format('key %L is not valid', left(key, 60)),
      hint = 'Expected 1 to 512 bytes without control characters, or null.';
  end if;
  if payload is null or octet_length(payload) > 67108864 then
    raise invalid_parameter_value using message = 'payload is null or longer than 64 MiB',
      hint = 'Store large bodies elsewhere and send a reference.';
  end if;
  if octet_length(content_type) > 255 or content_type !~ '^[\u0020-\u007e]*/[\u0020-\u007e]*$' then
    raise invalid_parameter_value using message = format('content type %L is not valid', left(content_type, 60)),
      hint = 'Expected a media type such as application/json, at most 255 bytes.';
  end if;
  if json_typeof(headers) not in ('object', 'null') or json_typeof(attributes) not in ('object', 'null') then
    raise invalid_parameter_value using message = 'headers and attributes are not JSON objects',
      hint = 'Expected an object of strings, or null.';
  end if;
  if json_typeof(headers) = 'object' and (
    (select count(*) > 64 or count(*) <> count(distinct name) from json_object_keys(headers) name) or exists (
      select from json_each_text(headers) h
       where h.key !~ '^[A-Za-z0-9!#$%&''*+.^_`|~-]+$' or octet_length(h.key) > 128 or lower(h.key) like 'postrider-%'
          or h.value is null or octet_length(h.value) > 8192 or h.value ~ control))
  then
    raise invalid_parameter_value using message = 'headers are not valid',
      hint = 'Expected at most 64 different names (HTTP tokens, not postrider-...) with text of at most 8 KiB without control characters.';
  end if;
  if json_typeof(attributes) = 'object' and (
    (select count(*) > 32 or count(*) <> count(distinct name) from json_object_keys(attributes) name) or exists (
      select from json_each_text(attributes) a
       where a.key !~ '^[a-z0-9_-]+(\.[a-z0-9_-]+)+$' or a.value is null or a.value ~ control))
  then
    raise invalid_parameter_value using message = 'attributes are not valid',
      hint = 'Expected at most 32 different names such as kafka.partition with text.';
  end if;
  if exists (select from json_each(case json_typeof(headers) when 'object' then headers end) h where json_typeof(h.value) <> 'string')
    or exists (select from json_each(case json_typeof(attributes) when 'object' then attributes end) a
                where json_typeof(a.value) <> 'string')
  then
    raise invalid_parameter_value using message = 'headers or attributes have a value that is not text',
      hint = 'Expected an object of strings: write numbers and flags in quotes.';
  end if;
  insert into {outbox} (message_id, topic, key, payload, content_type, headers, attributes, deliver_at, expires_at)
    values (new_id, topic, key, payload, content_type, headers, attributes, deliver_at, expires_at);
  return new_id;
end $enqueue$;
