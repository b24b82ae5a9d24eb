//! baton with the real clients on a scripted model. Each test asserts on what the model was sent and on the files left
//! behind. `scripts/test-clients` installs the clients and runs these tests; a test whose client is missing says so.

mod across;
mod approvals;
mod claude;
mod claude_chain;
mod claude_files;
mod claude_payloads;
mod claude_soak;
mod codex;
mod codex_approvals;
mod codex_daemon;
mod codex_payloads;
mod codex_tmux;
mod codex_window;
mod companion_compaction;
mod companion_lives;
mod companion_mail;
mod companion_rotation;
mod fleet;
mod memory;
mod payloads;
mod permissions;
mod scene;
mod sessions;
mod tmux;
