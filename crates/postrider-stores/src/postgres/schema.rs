//! The tables, and the script that creates or upgrades them.
//!
//! A version is one idempotent step, which makes what is not there and asks for no lock on what is: `if not exists` of an
//! index would wait for the application's transactions all the same. The script takes a lock of its own, so that several
//! starters take turns, waits at most two seconds for any table, so that it never queues in front of the application, and
//! does nothing to a schema that is newer than it knows.

use postrider_core::LaneCount;

use super::Names;

/// The version of the tables that this library writes and understands.
pub const VERSION: i32 = 8;

/// The lowest version that a build must know to work on tables of [`VERSION`], beside builds of this one. A step that
/// changes what older relays or writers rely on raises it to its own version.
pub const COMPATIBLE_FROM: i32 = 1;

/// One step per version. A step that only changes the functions of [`ENQUEUE`] or [`INBOX`] says so and has no statement.
const STEPS: [&str; 8] = [
    include_str!("schema_1.sql"),
    include_str!("schema_2.sql"),
    include_str!("schema_3.sql"),
    include_str!("schema_4.sql"),
    include_str!("schema_5.sql"),
    include_str!("schema_6.sql"),
    include_str!("schema_7.sql"),
    include_str!("schema_8.sql"),
];

/// The function as it is now, made anew behind the steps.
const ENQUEUE: &str = include_str!("enqueue.sql");

/// The functions of the inbox, and its first partitions.
const INBOX: &str = include_str!("inbox.sql");

/// Takes turns with other starters; refuses a newer schema, or leaves one alone that this version works on as it is, and
/// refuses another number of lanes.
const BEGIN: &str = "\
begin;
set local lock_timeout = '2s';
set local client_min_messages = warning;
-- several starters take turns; the number is the hash of the name of what is being made
select pg_advisory_xact_lock(hashtextextended('{meta}', 0));
do $check$
declare found_version integer; found_lanes integer; found_compatible integer;
begin
  if to_regclass('{meta}') is not null then
    execute 'select version, lanes, coalesce((to_jsonb(m) ->> ''compatible_from'')::integer, version) from {meta} m'
      into found_version, found_lanes, found_compatible;
    if found_version > <version> and least(found_compatible, found_version) > <version> then
      raise exception 'the tables have version %, newer than <version>, the newest that this postrider knows', found_version
        using errcode = 'PR001';
    end if;
    if found_lanes <> <lanes> then
      raise exception 'the outbox has % lanes and <lanes> were asked for; the number is fixed when the outbox is created', found_lanes
        using errcode = 'PR002';
    end if;
    if found_version > <version> then
      raise exception 'the tables have version %, newer than <version>, and this postrider works on them as they are: nothing is to do', found_version
        using errcode = 'PR003';
    end if;
  end if;
end $check$;
";

const END: &str = "\
alter table {meta} add column if not exists compatible_from integer;
insert into {meta} (version, lanes, compatible_from) values (<version>, <lanes>, <compatible_from>)
    on conflict (one) do update
       set version = excluded.version, compatible_from = excluded.compatible_from, migrated_at = clock_timestamp();
commit;
";

/// The whole script, `begin` to `commit`: it creates the tables or brings them up to date, and may be run again.
///
/// It fails with SQLSTATE `PR001` when the tables are newer, `PR002` when they have another number of lanes, `PR003` when
/// they are newer and this build works on them as they are, so that nothing is to do, and `55P03` when the application
/// held a table for more than two seconds: then it is run again.
pub fn ddl(names: &Names, lanes: LaneCount) -> String {
    let fill = |text: &str| {
        let numbers = [
            ("<version>", VERSION.to_string()),
            ("<compatible_from>", COMPATIBLE_FROM.to_string()),
            ("<lanes>", lanes.get().to_string()),
            ("<prefix>", names.prefix().to_owned()),
        ];
        numbers.iter().fold(names.fill(text), |text, (name, number)| text.replace(name, number))
    };
    [BEGIN, &STEPS.join("\n"), ENQUEUE, INBOX, END].map(fill).concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_version_has_its_step() {
        assert_eq!(usize::try_from(VERSION).unwrap(), STEPS.len());
    }

    #[test]
    fn nothing_is_left_to_fill_in() {
        let script = ddl(&Names::default(), LaneCount::new(8).unwrap());
        for leftover in ["{", "}", "<version>", "<compatible_from>", "<lanes>", "<prefix>"] {
            let at = script.find(leftover).map(|at| script[at..].chars().take(60).collect::<String>());
            assert_eq!(at, None);
        }
    }
}
