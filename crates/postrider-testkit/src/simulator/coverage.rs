//! What happened in a world that is worth happening: a world in which nothing goes wrong proves nothing.

macro_rules! sights {
    ($($sight:ident $words:literal,)*) => {
        /// Something interesting that happened in a simulated world.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Sight {
            $(#[doc = concat!("In words: ", $words, ".")] $sight,)*
        }

        impl Sight {
            /// Every one.
            pub const ALL: &'static [Self] = &[$(Self::$sight,)*];

            /// In words, for tables.
            pub const fn words(self) -> &'static str {
                match self {
                    $(Self::$sight => $words,)*
                }
            }
        }
    };
}

sights! {
    RolledBack "a transaction rolled back",
    CommittedOutOfOrder "a transaction committed after one that had begun later",
    Bulk "a bulk transaction",
    Delayed "a message with a time of its own was due",
    Malformed "a row that is no message was buried",
    Heavy "a row heavier than the window",
    WindowFull "the window was full",
    SeveralRelays "several relays held lanes at once",
    HandedBack "a surplus lane was handed back, and all of it was recorded",
    HandedBackCarefully "a lane was handed back before its careful start was over",
    WantedInFlight "lanes were wanted back while something of them was on its way",
    Compared "a relay learned by comparing what it did not know about its lanes",
    OnlyStandby "a relay stood by without a lane",
    CleanTakeOver "a lane changed hands after a clean release",
    CarefulTakeOver "a lane changed hands after a death",
    Beheaded "a lane was read carefully after a death",
    Suspected "a suspicion was recorded before a payload was fetched",
    Evicted "a relay learned that it had been evicted",
    TrustRanOut "trust ran out with rows in the window",
    Fenced "a settle was fenced",
    Zombie "a relay published under a term that was over",
    LostInFlight "a lane was lost with a call under way",
    Crashed "a relay crashed with a call under way",
    CrashedUnsettled "a relay crashed between an acceptance and its settle",
    Paused "a relay was paused for longer than its lease",
    PausedInCall "a relay was paused with a call not yet sent",
    Stopped "a relay stopped gracefully with work under way",
    StopAtDeadline "a stop reached its deadline",
    Joined "a relay joined while others ran",
    StoreAway "the store was away",
    StoreAwayUnsettled "an outcome could not be recorded at once",
    StoreRestarted "the database restarted",
    Discontinued "a relay learned that the database is not the one it was",
    ClockStepped "the database's clock was set",
    ReplyLost "a settle took effect and its answer was lost",
    ReplyLate "an answer came after the relay had given it up",
    EffectLate "a settle took effect after the relay had given it up",
    AcquireUnanswered "an acquisition was not answered",
    ReleaseUnanswered "a release was not answered",
    Killed "a message killed its relay",
    KillerBuried "a message that kills relays was found and given up",
    Expired "a message became a dead letter because its time had passed",
    Dropped "a message was dropped because its time had passed",
    EndedByItself "a message ended by an expires_at of its own",
    EndedByAge "a message ended by a max_age, its own or its topic's",
    ReadBeforeDue "a read brought a message whose deliver_at lay ahead",
    ReadAhead "a page was read that had been asked for ahead of the answer to the one before",
    NotReadAhead "a read asked for ahead was not made, because the one before it did not go on",
    SettledAhead "a settle was made that had been asked for ahead of the answer to the one before",
    NotSettledAhead "a settle asked for ahead was not made, because the one before it failed",
    Stale "a read brought a row that had changed meanwhile",
    Closed "a read brought a row behind its key's head",
    SetAside "a row was set aside",
    Looked "a key's exceptional rows were looked at",
    Walked "a lane's exceptional keys were walked",
    Swept "a lane was swept",
    Retried "a row was scheduled for another attempt",
    Charged "an attempt was charged",
    Buried "a message was given up",
    Held "a message that was given up held its key",
    WaitedBehindHeld "a message was set aside behind one that holds its key",
    HeldTakeOver "a lane with a key that is held came to another relay",
    HeldReplayed "an operator replayed what held its key",
    HeldDiscarded "an operator discarded what held its key",
    Forwarded "a dead letter was delivered where they are forwarded",
    ForwardedAgain "a dead letter was scheduled for another attempt where they are forwarded",
    ForwardRefused "a dead letter was refused where they are forwarded, and kept",
    Partial "a batch was accepted in part",
    Untold "a message was accepted without the relay being told",
    Short "a broker's answer was short",
    Broke "a connection broke in the middle of a batch",
    DestinationPaused "a destination paused",
    WentOn "a message went past what waited for a destination that was away for long",
    Probed "a paused destination was probed by a message",
    Checked "a paused destination was looked at without a message",
    Alone "a suspect travelled alone",
    Repeated "a message was delivered again",
    PartlyOwed "a row waited for some of its destinations only",
    Replayed "an operator replayed a dead letter",
    Discarded "an operator discarded a dead letter",
    Pruned "retention removed a dead letter",
    Deleted "a foreign hand deleted a pending row",
    Hinted "a relay was told to look now",
}

/// A set of sights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sights(u128);

impl Sights {
    pub(super) fn see(&mut self, sight: Sight) {
        self.0 |= 1 << (sight as u32);
    }

    /// Whether it happened.
    pub const fn has(self, sight: Sight) -> bool {
        self.0 & (1 << (sight as u32)) != 0
    }
}
