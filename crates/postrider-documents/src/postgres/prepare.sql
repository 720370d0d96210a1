select pg_advisory_xact_lock(7308604892218419301);
create table if not exists {table} (
  collection text collate "C" not null,
  name       text collate "C" not null,
  json       jsonb            not null,
  due        bigint,
  revision   uuid             not null,
  primary key (collection, name)
);
create index if not exists postrider_document_due on {table} (collection, due) where due is not null;
