-- Requests with an idempotency key: who works on one, and what it was answered. `leased_until` of one that was answered is
-- when that was.
create table if not exists {idempotency} (
  caller       varchar(255) not null,
  operation    varchar(255) not null,
  `key`        varchar(255) character set ascii collate ascii_bin not null,
  fingerprint  binary(32) not null,
  epoch        bigint not null,
  leased_until bigint not null,
  status       smallint,
  headers      longtext,
  body         longblob,
  primary key (caller, operation, `key`),
  key leased (leased_until)
) engine = InnoDB row_format = dynamic default character set utf8mb4 collate utf8mb4_bin
;
-- Messages that a consumer is still to handle, where sender and receiver share the database.
create table if not exists {inbox_token} (
  message_id char(36) character set ascii collate ascii_bin not null,
  consumer   varchar(255) not null,
  issued_at  bigint not null default (timestampdiff(microsecond, '1970-01-01', utc_timestamp(6))),
  primary key (message_id, consumer)
) engine = InnoDB default character set utf8mb4 collate utf8mb4_bin
