//! A server process of our own: free port, data folder, unprivileged user, ended by id.
