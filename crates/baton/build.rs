//! Links the program at a fixed address, as the shipped one is: the loader relocates 700 KB of a position-independent
//! baton at each start, and a hook is a start at every tool call. `BATON_PIE=1` keeps it position-independent, for
//! distributions that ask for that.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=BATON_PIE");
    let target = |part: &str| std::env::var(format!("CARGO_CFG_TARGET_{part}")).unwrap_or_default();
    let is_static = target("FEATURE").split(',').any(|feature| feature == "crt-static");
    let is_known = target("OS") == "linux" && target("ENV") == "gnu" && !is_static;
    if is_known && std::env::var_os("BATON_PIE").is_none() {
        println!("cargo::rustc-link-arg-bins=-no-pie");
    }
}
