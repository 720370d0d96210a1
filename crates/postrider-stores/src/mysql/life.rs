//! Which server it is, since when it runs, and which number it draws next: what is remembered of the rows of one life
//! means nothing in another.

use std::time::Duration;

use mysql_async::Row;
use postrider_core::{Error, ErrorKind, Result};

use super::columns::Columns;
use super::link::Link;

/// Two looks at the same life may disagree by so many seconds about its beginning: uptime is counted in seconds.
const BLUR: i64 = 3;
/// What an insert may take behind its wait for a lock.
const BEYOND: Duration = Duration::from_secs(10);

/// The next number is what a table that was emptied, restored or lost its last numbers in a crash draws again. Of one that
/// has drawn none MySQL says null.
const LOOK: &str = "\
select @@server_id, @@hostname, @@port, unix_timestamp(), @@global.innodb_lock_wait_timeout,
       (select coalesce(auto_increment, 1) from information_schema.tables where table_schema = database() and table_name = ?)";

/// Everybody may ask so, on both servers.
const UPTIME: &str = "show global status like 'Uptime'";

/// The life of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Life {
    server: String,
    began: i64,
}

/// What was seen of the server.
#[derive(Debug, Clone)]
pub(super) struct Look {
    pub(super) life: Life,
    /// The number that it draws next.
    pub(super) next: i64,
    /// How long an insert may have drawn its number before it writes its row: as long as it can wait for a lock.
    pub(super) patience: Duration,
}

impl Life {
    /// Whether it is the life of this one.
    pub(super) fn is(&self, other: &Self) -> bool {
        self.server == other.server && (self.began - other.began).abs() <= BLUR
    }
}

/// Looks at the server.
pub(super) async fn look(link: &mut Link) -> Result<Look> {
    let doing = "looking at the server";
    let table = link.options().names.bare("outbox");
    let seen = link.query_one(doing, LOOK, (table,)).await?;
    let rows: Vec<Row> = link.text(doing, UPTIME).await?;
    let uptime = rows.into_iter().next().and_then(|row| Columns::new(row).integer(1));
    let missing = || Error::new(ErrorKind::Config, format!("{doing}: the outbox is not there; run `postrider check`"));
    let (server, host) = (seen.integer(0).unwrap_or(0), seen.text(1).unwrap_or_default());
    let (port, now) = (seen.integer(2).unwrap_or(0), seen.integer(3).unwrap_or(0));
    let wait = seen.integer(4).and_then(|seconds| u64::try_from(seconds).ok()).unwrap_or(50);
    Ok(Look {
        life: Life { server: format!("{server} {host}:{port}"), began: now - uptime.ok_or_else(missing)? },
        next: seen.integer(5).ok_or_else(missing)?,
        patience: Duration::from_secs(wait.min(86_400)) + BEYOND,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_life_is_that_of_one_server_since_one_moment() {
        let life = |server: &str, began| Life { server: server.to_owned(), began };
        assert!(life("1 a:3306", 100).is(&life("1 a:3306", 102)));
        assert!(!life("1 a:3306", 100).is(&life("1 a:3306", 110)), "restarted");
        assert!(!life("1 a:3306", 100).is(&life("2 a:3306", 100)), "replaced");
    }
}
