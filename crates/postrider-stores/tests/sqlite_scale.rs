//! What costs nothing however much there is.
