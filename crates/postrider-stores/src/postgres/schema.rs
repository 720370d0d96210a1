//! The tables, and the script that creates or upgrades them.
//!
//! A version is one idempotent step. The script takes a lock of its own, so that several starters take turns, waits
//! at most two seconds for any table, so that it never queues in front of the application, and does nothing to a
//! schema that is newer than it knows.

use postrider_core::LaneCount;

use super::Names;

/// The version of the tables that this library writes and understands.
pub const VERSION: i32 = 2;

/// One step per version.
const STEPS: [&str; 2] = [include_str!("schema_1.sql"), include_str!("schema_2.sql")];

/// Takes turns with other starters; refuses a newer schema and another number of lanes.
const BEGIN: &str = "\
begin;
set local lock_timeout = '2s';
set local client_min_messages = warning;
-- several starters take turns; the number is the hash of the name of what is being made
select pg_advisory_xact_lock(hashtextextended('{meta}', 0));
do $check$
declare found_version integer; found_lanes integer;
begin
  if to_regclass('{meta}') is not null then
    execute 'select version, lanes from {meta}' into found_version, found_lanes;
    if found_version > <version> then
      raise exception 'the tables have version %, newer than <version>, the newest that this postrider knows', found_version
        using errcode = 'PR001';
    end if;
    if found_lanes <> <lanes> then
      raise exception 'the outbox has % lanes and <lanes> were asked for; the number is fixed when the outbox is created', found_lanes
        using errcode = 'PR002';
    end if;
  end if;
end $check$;
";

const END: &str = "\
insert into {meta} (version, lanes) values (<version>, <lanes>)
    on conflict (one) do update set version = excluded.version, migrated_at = clock_timestamp();
commit;
";

/// The whole script, `begin` to `commit`: it creates the tables or brings them up to date, and may be run again.
///
/// It fails with SQLSTATE `PR001` when the tables are newer, `PR002` when they have another number of lanes, and
/// `55P03` when the application held a table for more than two seconds: then it is run again.
pub fn ddl(names: &Names, lanes: LaneCount) -> String {
    let fill = |text: &str| {
        names.fill(text).replace("<version>", &VERSION.to_string()).replace("<lanes>", &lanes.get().to_string())
    };
    [BEGIN, &STEPS.join("\n"), END].map(fill).concat()
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
        for leftover in ["{", "}", "<version>", "<lanes>"] {
            let at = script.find(leftover).map(|at| script[at..].chars().take(60).collect::<String>());
            assert_eq!(at, None);
        }
    }
}
