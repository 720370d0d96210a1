//! What attempts left beside the document that did not commit.

use super::document::{Document, Kinds, Leftover};
use super::processing::Lapse;

/// A look at one leftover.
///
/// An attempt that loaded the document before may still be on its way to commit, and then needs what is looked at. So the
/// document is written once more, as it is: whoever loaded it before meets a newer version, and makes new ones at the next
/// delivery. Without that fence a sweep loses messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sweep;

/// What the driver of a sweep is to do next.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum SweepEffect<K: Kinds> {
    /// Read the document of the owner.
    Look(Looking<K>),
    /// Write it as it is, at the loaded version, as a new one.
    Fence(Fencing<K>),
    /// Delete the leftover; a token only while it is not valid.
    Delete(Deleting<K>),
    /// Nothing: the look is over.
    End(Swept),
}

/// What became of a leftover.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Swept {
    /// It is gone.
    Deleted,
    /// Its message is not finished and needs it.
    Needed,
    /// Look again later.
    Retry(Lapse),
}

impl Sweep {
    /// Begins with something that an attempt may have left, old enough not to be in use. Age decides when it is worth a look
    /// and nothing else: looking too early costs one delivery a second try.
    pub const fn begin<K: Kinds>(leftover: Leftover<K>) -> SweepEffect<K> {
        SweepEffect::Look(Looking(leftover))
    }
}

/// Read the document of the entity whose message made the leftover.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Looking<K: Kinds>(Leftover<K>);

impl<K: Kinds> Looking<K> {
    /// There is a document, at this version.
    pub fn found(self, document: Document<K>, version: K::Version) -> SweepEffect<K> {
        if document.names(&self.0) {
            return SweepEffect::End(Swept::Needed);
        }
        SweepEffect::Fence(Fencing { leftover: self.0, document, version: Some(version) })
    }

    /// There is none. It is made, empty: whoever found none before cannot make it any more.
    pub fn absent(self) -> SweepEffect<K> {
        SweepEffect::Fence(Fencing { leftover: self.0, document: Document::new(), version: None })
    }

    /// It could not be read.
    pub fn lapsed(self, lapse: Lapse) -> SweepEffect<K> {
        SweepEffect::End(Swept::Retry(lapse))
    }
}

/// Write the document as it is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Fencing<K: Kinds> {
    leftover: Leftover<K>,
    document: Document<K>,
    version: Option<K::Version>,
}

impl<K: Kinds> Fencing<K> {
    /// What to write.
    pub const fn document(&self) -> &Document<K> {
        &self.document
    }

    /// The version that must be there; none when there must be no document.
    pub const fn over(&self) -> Option<&K::Version> {
        self.version.as_ref()
    }

    /// It is written.
    pub fn written(self) -> SweepEffect<K> {
        SweepEffect::Delete(Deleting(self.leftover))
    }

    /// It is not, or it is not known.
    pub fn lapsed(self, lapse: Lapse) -> SweepEffect<K> {
        SweepEffect::End(Swept::Retry(lapse))
    }
}

/// Delete the leftover; a token only while it is not valid.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Deleting<K: Kinds>(Leftover<K>);

impl<K: Kinds> Deleting<K> {
    /// What to delete.
    pub const fn leftover(&self) -> &Leftover<K> {
        &self.0
    }

    /// It is gone.
    pub fn done(self) -> SweepEffect<K> {
        SweepEffect::End(Swept::Deleted)
    }

    /// It is not, or it is not known.
    pub fn lapsed(self, lapse: Lapse) -> SweepEffect<K> {
        SweepEffect::End(Swept::Retry(lapse))
    }
}
