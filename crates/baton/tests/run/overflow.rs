//! The kernel drops events when a process does not read them for too long.

use super::*;

#[test]
fn an_order_is_carried_out_even_if_the_kernel_dropped_its_event() {
    let home = home(QUIET);
    let mut run = start(&home, "a", ["Go."]);
    run.said("Hello.");
    // Without its socket the supervisor has only the files to watch.
    std::fs::remove_file(state(&home).join("run/a.sock")).unwrap();
    baton_testkit::overflow::unseen(run.child.id(), &state(&home).join("agents"), || {
        home.run("retire a").ok();
    });
    run.ends();
    assert!(run.agent()["retired"].is_string(), "{}", run.agent());
}
