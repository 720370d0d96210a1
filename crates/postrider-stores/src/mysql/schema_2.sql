-- The id comes first, so that a claim touches the newest pages only and what is forgotten is removed from the other end.
alter table {inbox}
  modify message_id char(36) character set ascii collate ascii_bin not null,
  modify consumer varchar(255) character set utf8mb4 collate utf8mb4_bin not null,
  drop primary key, add primary key (message_id, consumer)
;
-- Ids without a time: removed by when they were seen.
create table if not exists {inbox_foreign} (
  message_id char(36) character set ascii collate ascii_bin not null,
  consumer   varchar(255) not null,
  seen_at    bigint not null default (timestampdiff(microsecond, '1970-01-01', utc_timestamp(6))),
  primary key (message_id, consumer),
  key seen (seen_at)
) engine = InnoDB default character set utf8mb4 collate utf8mb4_bin
;
insert ignore into {inbox_foreign} (message_id, consumer, seen_at)
select message_id, consumer, seen_at from {inbox} where substr(message_id, 15, 1) <> '7'
;
delete from {inbox} where substr(message_id, 15, 1) <> '7'
;
-- What has a lower id is forgotten, but for what was handled late.
create table if not exists {inbox_span} (
  one    tinyint not null default 1 primary key,
  oldest char(36) character set ascii collate ascii_bin not null default '00000000-0000-0000-0000-000000000000'
) engine = InnoDB default character set utf8mb4 collate utf8mb4_bin
;
insert ignore into {inbox_span} (one) values (1)
;
-- How far a consumer came in a source that delivers in order. The two texts are as long as an index takes.
create table if not exists {inbox_cursor} (
  consumer varchar(255) not null,
  source   varchar(255) not null,
  part     bigint not null,
  sequence bigint not null,
  primary key (consumer, source, part)
) engine = InnoDB default character set utf8mb4 collate utf8mb4_bin
;
-- Messages of which nobody can tell whether they were handled, kept for a person.
create table if not exists {inbox_refused} (
  message_id   char(36) character set ascii collate ascii_bin not null,
  consumer     varchar(255) not null,
  reason       text not null,
  topic        text not null,
  `key`        text,
  content_type text,
  headers      longtext,
  payload      longblob not null,
  refused_at   bigint not null default (timestampdiff(microsecond, '1970-01-01', utc_timestamp(6))),
  times        integer not null default 1,
  primary key (message_id, consumer)
) engine = InnoDB row_format = dynamic default character set utf8mb4 collate utf8mb4_bin
