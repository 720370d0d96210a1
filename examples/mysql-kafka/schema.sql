create table if not exists orders (
  id       bigint not null primary key,
  customer varchar(100) not null,
  item     varchar(200) not null
) engine = InnoDB default character set utf8mb4
