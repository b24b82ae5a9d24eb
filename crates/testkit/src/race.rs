//! Releases several processes at one instant.

use std::process::{Child, Command, Stdio};

use crate::home::CommandOutput;

/// Starts all `commands`, calls `release`, and waits for all. `release` removes what blocks them.
pub fn all_at_once(commands: Vec<Command>, release: impl FnOnce()) -> Vec<CommandOutput> {
    let children: Vec<Child> = commands
        .into_iter()
        .map(|mut command| {
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the racer starts")
        })
        .collect();
    release();
    children
        .into_iter()
        .map(|child| CommandOutput::of(&child.wait_with_output().expect("a child can be waited for")))
        .collect()
}

/// Spreads `work` over as many threads as there are processors; each gets its own number.
pub fn on_all_processors(work: impl Fn(usize, usize) + Sync) {
    let threads = std::thread::available_parallelism().map_or(2, usize::from).clamp(2, 8);
    std::thread::scope(|scope| {
        for n in 0..threads {
            let work = &work;
            scope.spawn(move || work(n, threads));
        }
    });
}
