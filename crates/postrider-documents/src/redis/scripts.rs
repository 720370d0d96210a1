//! The scripts that write, each in one step of the server.
//!
//! KEYS: what `prepare` makes, the document, its collection's index by moment, and that by name. ARGV: the revision that was
//! read, the new one, the name, the digits of the moment, the JSON. None compares two strings by `<`, which is by the
//! server's locale.
//!
//! The document itself changes in one command, so that a server which refuses any of them (out of memory, a right that is
//! missing, a key that is something else) leaves it as it was or as it is to be, with the answer that fits. Entries of the
//! indexes are made before it and taken away after it: what a refusal leaves behind names a document that is not due, and
//! whoever asks what is due loads each.

use redis::Script;

const CREATE: &str = r"
if redis.call('EXISTS', KEYS[1]) == 0 then return -1 end
if redis.call('HLEN', KEYS[2]) ~= 0 then return 0 end
if ARGV[4] ~= '' then
  redis.call('ZADD', KEYS[3], 0, ARGV[4] .. ARGV[3])
  redis.call('ZADD', KEYS[4], 0, ARGV[3] .. '\0' .. ARGV[4])
end
redis.call('HSET', KEYS[2], 'revision', ARGV[2], 'due', ARGV[4], 'json', ARGV[5])
return 1
";

const REPLACE: &str = r"
if redis.call('EXISTS', KEYS[1]) == 0 then return -1 end
local old = redis.call('HMGET', KEYS[2], 'revision', 'due')
if old[1] ~= ARGV[1] then return 0 end
if ARGV[4] ~= '' then
  redis.call('ZADD', KEYS[3], 0, ARGV[4] .. ARGV[3])
  redis.call('ZADD', KEYS[4], 0, ARGV[3] .. '\0' .. ARGV[4])
end
redis.call('HSET', KEYS[2], 'revision', ARGV[2], 'due', ARGV[4], 'json', ARGV[5])
if old[2] and old[2] ~= '' and old[2] ~= ARGV[4] then
  redis.pcall('ZREM', KEYS[3], old[2] .. ARGV[3])
  redis.pcall('ZREM', KEYS[4], ARGV[3] .. '\0' .. old[2])
end
return 1
";

const DELETE: &str = r"
if redis.call('EXISTS', KEYS[1]) == 0 then return -1 end
local old = redis.call('HMGET', KEYS[2], 'revision', 'due')
if old[1] ~= ARGV[1] then return 0 end
redis.call('DEL', KEYS[2])
if old[2] and old[2] ~= '' then
  redis.pcall('ZREM', KEYS[3], old[2] .. ARGV[3])
  redis.pcall('ZREM', KEYS[4], ARGV[3] .. '\0' .. old[2])
end
return 1
";

/// What a script answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Written {
    /// It is written.
    Yes,
    /// The document is not as its writer thought.
    Conflict,
    /// Nothing is prepared.
    Unprepared,
}

impl Written {
    /// What a script means by a number; none where it is no number of theirs.
    pub(super) const fn meant(number: i64) -> Option<Self> {
        match number {
            1 => Some(Self::Yes),
            0 => Some(Self::Conflict),
            -1 => Some(Self::Unprepared),
            _ => None,
        }
    }
}

/// A script and the name by which the server remembers it.
#[derive(Debug)]
pub(super) struct Named {
    pub(super) text: &'static str,
    pub(super) hash: String,
}

impl Named {
    fn new(text: &'static str) -> Self {
        Self { text, hash: Script::new(text).get_hash().to_owned() }
    }
}

/// All of them.
#[derive(Debug)]
pub(super) struct Scripts {
    pub(super) create: Named,
    pub(super) replace: Named,
    pub(super) delete: Named,
}

impl Scripts {
    pub(super) fn new() -> Self {
        Self { create: Named::new(CREATE), replace: Named::new(REPLACE), delete: Named::new(DELETE) }
    }
}
