//! SQLite against the suite of stores.

mod sqlite;

use postrider_testkit::store_suite;
use sqlite::start;

store_suite!(start);
