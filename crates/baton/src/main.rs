//! baton: keeps coding agents working across the limit of their context window.

fn main() -> std::process::ExitCode {
    baton::cli::main()
}
