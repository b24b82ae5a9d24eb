//! Drives baton in tests.
