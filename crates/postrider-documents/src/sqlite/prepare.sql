create table if not exists postrider_document (
  collection text    not null,
  name       text    not null,
  json       text    not null,
  due        integer,
  revision   text    not null,
  primary key (collection, name)
) without rowid, strict;
create index if not exists postrider_document_due on postrider_document (collection, due) where due is not null;
