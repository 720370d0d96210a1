create table torture_counter (`key` varchar(32) not null primary key, n integer not null) engine = InnoDB
;
create table torture_ledger (message_id char(36) not null primary key, `key` varchar(32) not null, n integer not null) engine = InnoDB
;
create table torture_scratch (id bigint not null auto_increment primary key, note text) engine = InnoDB
;
create table torture_member (id char(36) not null primary key, name text not null) engine = InnoDB
;
-- Without a number: drawing one would keep other settles waiting until the end of the statement.
create table torture_gone (
  message_id varchar(64), state smallint, lane smallint unsigned, term bigint, by_owner boolean, by_whom text, at bigint
) engine = InnoDB
;
create trigger torture_joined after insert on postrider_relay for each row
  insert ignore into torture_member values (new.id, new.name)
;
-- The fence's lock on the lane still stands when the trigger runs: what it sees of the lane is what the settle saw. Every
-- relay has its label as its user.
create trigger torture_gone after delete on postrider_outbox for each row
  insert into torture_gone values (
    old.message_id, old.state, old.lane,
    (select term from postrider_lane where lane = old.lane),
    coalesce((select m.name from postrider_lane l join torture_member m on m.id = l.owner where l.lane = old.lane), '')
      = substring_index(user(), '@', 1),
    substring_index(user(), '@', 1),
    timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)))
;
-- Whoever comes as nobody in particular is a relay or an operator, with rights on the tables and no others.
create user ''@'127.0.0.1' identified by 'relay'
;
grant select, update, delete on postrider_outbox to ''@'127.0.0.1'
;
grant select, update on postrider_lane to ''@'127.0.0.1'
;
grant select, insert, update, delete on postrider_relay to ''@'127.0.0.1'
;
grant select, insert, update, delete on postrider_delivered to ''@'127.0.0.1'
;
grant select on postrider_meta to ''@'127.0.0.1'
;
create user application@'127.0.0.1' identified by 'application'
;
grant insert on postrider_outbox to application@'127.0.0.1'
;
grant execute on procedure postrider_enqueue to application@'127.0.0.1'
;
grant select, update on torture_counter to application@'127.0.0.1'
;
grant insert on torture_ledger to application@'127.0.0.1'
;
grant insert on torture_scratch to application@'127.0.0.1'
