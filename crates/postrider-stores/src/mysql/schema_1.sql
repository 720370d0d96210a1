create table if not exists {meta} (
  one             tinyint not null default 1 primary key,
  version         integer not null,
  lanes           integer not null,
  compatible_from integer,
  migrated_at     bigint not null default (timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)))
) engine = InnoDB default character set utf8mb4 collate utf8mb4_bin
;
-- Texts are wider than what a message may have, so that a session which is not strict cannot cut one down to something
-- that is valid. Moments are microseconds since 1970 UTC: no session's time zone means anything to them.
--
-- crc32 of the bytes of the key. The two columns behind the relay's own stand for the indexes of exceptions, which no
-- index of this database can leave the ordinary rows out of: `waits` is null for these, and so is `due_at`. The key is
-- compared by its bytes there: as text, trailing spaces would not count.
create table if not exists {outbox} (
  id              bigint not null auto_increment primary key,
  message_id      varchar(64) not null default (lower(concat(
                    insert(lpad(hex(timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)) div 1000), 12, '0'), 9, 0, '-'),
                    '-7', substr(sha2(uuid(), 224), 1, 3), '-', substr('89ab', 1 + floor(rand() * 4), 1),
                    substr(sha2(uuid(), 224), 4, 3), '-', substr(sha2(uuid(), 224), 10, 12)))),
  lane            smallint unsigned as (crc32(coalesce(`key`, message_id)) mod <lanes>) stored,
  topic           text not null,
  `key`           text,
  payload         longblob not null,
  content_type    text,
  headers         longtext,
  attributes      longtext,
  created_at      bigint not null default (timestampdiff(microsecond, '1970-01-01', utc_timestamp(6))),
  deliver_at      bigint,
  expires_at      bigint,
  retry           longtext,
  state           smallint not null default 0,
  attempts        integer not null default 0,
  last_attempt_at bigint,
  next_attempt_at bigint,
  waiting_for     longtext,
  progress        longtext,
  errors          longtext,
  suspicion       smallint not null default 0,
  dead_at         bigint,
  dead_reason     smallint,
  weight          bigint as (octet_length(payload) + octet_length(topic) + coalesce(octet_length(`key`), 0)
                    + coalesce(octet_length(headers), 0) + coalesce(octet_length(attributes), 0)
                    + coalesce(octet_length(content_type), 0) + coalesce(octet_length(retry), 0)) stored,
  waits           varbinary(600) as (case when state in (2, 3) or state = 0 and next_attempt_at is not null
                    then coalesce(substr(cast(`key` as binary), 1, 600), '') end) stored,
  due_at          bigint as (case when state = 0 then coalesce(next_attempt_at, deliver_at) end) stored,
  key waiting (lane, waits, id),
  key due (state, due_at, id)
) engine = InnoDB row_format = dynamic default character set utf8mb4 collate utf8mb4_bin
;
create table if not exists {relay} (
  id         char(36) character set ascii collate ascii_bin not null primary key,
  name       text not null,
  expires_at bigint not null
) engine = InnoDB default character set utf8mb4 collate utf8mb4_bin
;
create table if not exists {lane} (
  lane    smallint unsigned not null primary key,
  owner   char(36) character set ascii collate ascii_bin,
  term    bigint not null default 0,
  clean   tinyint not null default 1,
  careful tinyint not null default 0
) engine = InnoDB default character set utf8mb4 collate utf8mb4_bin
;
insert ignore into {lane} (lane) values <every_lane>
;
create table if not exists {delivered} (
  id           bigint not null primary key,
  message_id   varchar(64) not null,
  lane         smallint unsigned not null,
  topic        text not null,
  `key`        text,
  payload      longblob not null,
  content_type text,
  headers      longtext,
  attributes   longtext,
  created_at   bigint not null,
  attempts     integer not null,
  settled_at   bigint not null default (timestampdiff(microsecond, '1970-01-01', utc_timestamp(6))),
  key settled (settled_at)
) engine = InnoDB row_format = dynamic default character set utf8mb4 collate utf8mb4_bin
;
create table if not exists {inbox} (
  consumer   varchar(255) not null,
  message_id varchar(64) not null,
  seen_at    bigint not null default (timestampdiff(microsecond, '1970-01-01', utc_timestamp(6))),
  primary key (consumer, message_id)
) engine = InnoDB default character set utf8mb4 collate utf8mb4_bin
