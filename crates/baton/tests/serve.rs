//! `baton serve`: started, stopped, killed, found.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

use baton_testkit::Home;
use baton_testkit::daemon::Served;

use crate::BATON;

/// A process that nobody has buried yet is not alive.
fn alive(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

#[track_caller]
pub fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(30);
    while !done() {
        assert!(Instant::now() < until, "{what} did not happen");
        std::thread::yield_now();
    }
}

#[test]
fn it_goes_to_the_background_is_found_and_stops_without_a_trace() {
    let home = Home::new(BATON);
    home.run("serve --status").fails(3);
    let said = home.run("serve --detach").ok();
    assert!(said.contains("Running"), "{said}");
    let status = home.run("serve --status --json").json();
    assert_eq!(status["running"], true);
    let pid = u32::try_from(status["pid"].as_u64().unwrap()).unwrap();
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let session: u32 = stat.rsplit_once(')').unwrap().1.split_whitespace().nth(3).unwrap().parse().unwrap();
    assert_eq!(session, pid, "a session of its own: the terminal may close");
    for fd in 0..3 {
        let leads = std::fs::read_link(format!("/proc/{pid}/fd/{fd}")).unwrap();
        assert_eq!(leads.to_str(), Some("/dev/null"), "descriptor {fd}");
    }
    let again = home.run("serve --detach").ok();
    assert!(again.contains("already"), "{again}");
    assert_eq!(home.run("serve --status --json").json()["pid"], pid);
    home.run("serve --stop").ok();
    assert!(!alive(pid), "--stop returns when it has ended");
    assert!(!home.state().join("run/daemon.sock").exists());
    home.run("serve --stop").fails(3);
}

#[test]
fn there_is_one_per_user_and_the_second_says_who_runs() {
    let home = Home::new(BATON);
    let first = Served::new(&home);
    let said = home.run("serve").fails(1);
    assert!(said.contains(&format!("as process {}", first.pid())), "{said}");
    assert_eq!(first.get("/health")["pid"], first.pid());
}

/// Ten commands need a daemon at the same instant.
#[test]
fn many_that_need_one_at_once_start_one() {
    let home = Home::new(BATON);
    let commands = (0..10).map(|_| home.baton(["serve", "--detach"])).collect();
    let ran = baton_testkit::race::all_at_once(commands, || {});
    let pids: Vec<String> = ran
        .into_iter()
        .map(|ran| {
            let said = ran.ok();
            let (_, rest) = said.split_once("as process ").unwrap_or_else(|| panic!("{said}"));
            rest.split('.').next().unwrap().to_owned()
        })
        .collect();
    assert!(pids.iter().all(|pid| pid == &pids[0]), "{pids:?}");
    home.run("serve --stop").ok();
}

#[test]
fn after_a_kill_the_next_one_takes_the_place_at_once() {
    let home = Home::new(BATON);
    let first = Served::on_http(&home);
    let token = first.token();
    first.kill();
    assert!(home.state().join("run/daemon.sock").exists(), "what a killed one leaves");
    home.run("serve --status").fails(3);
    let second = Served::on_http(&home);
    assert_eq!(second.token(), token, "scripts keep the token they have");
    assert_eq!(second.get("/health")["status"], "ok");
}

#[test]
fn a_signal_ends_it_cleanly_and_open_connections_with_it() {
    for signal in ["TERM", "INT"] {
        let home = Home::new(BATON);
        let mut served = Served::new(&home);
        let mut idle = served.unix();
        assert_eq!(idle.ask("GET", "/health", &[], None).unwrap().status, 200);
        let pid = served.pid().to_string();
        std::process::Command::new("kill").args([&format!("-{signal}"), &pid]).status().unwrap();
        let began = Instant::now();
        assert_eq!(served.child.wait().unwrap().code(), Some(0), "{signal}");
        assert!(began.elapsed() < Duration::from_secs(10), "an idle connection held it up");
        assert!(idle.hear().is_err());
        assert!(!served.socket().exists());
    }
}

#[test]
fn its_place_is_private_whatever_the_umask() {
    let home = Home::new(BATON);
    let mut command = home.command("sh");
    command.args(["-c", "umask 000; exec \"$0\" serve --http 0", BATON]);
    // The helper looks for `--http` among the arguments; here it is inside the script.
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let run = home.state().join("run");
    wait_until("listening", || run.join("daemon.sock").exists() && run.join("token").exists());
    let mode = |name: &str| std::fs::symlink_metadata(run.join(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(""), mode("token"), mode("daemon.lock")), (0o700, 0o600, 0o600));
    wait_until("the socket is private", || mode("daemon.sock") == 0o600);
    child.kill().unwrap();
    child.wait().unwrap();
    // A token that others could have read is not used again.
    std::fs::set_permissions(run.join("token"), std::fs::Permissions::from_mode(0o644)).unwrap();
    let said = home.run("serve").fails(1);
    assert!(said.contains("remove it"), "{said}");
}

#[test]
fn an_address_that_others_can_reach_is_refused() {
    let home = Home::new(BATON);
    for address in ["0.0.0.0:8420", "[::]:8420", "10.0.0.1:80"] {
        let said = home.run(&format!("serve --http {address}")).fails(2);
        assert!(said.starts_with("baton: "), "{said}");
        assert!(!home.state().join("run/daemon.sock").exists());
    }
}

#[test]
fn a_port_that_is_taken_is_said_by_the_one_who_waits() {
    let home = Home::new(BATON);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let said = home.run(&format!("serve --detach --http {port}")).fails(1);
    assert!(said.contains(&format!("127.0.0.1:{port}")) && said.contains("another program"), "{said}");
    home.run("serve --status").fails(3);
}

#[test]
fn units_start_this_very_program() {
    let home = Home::new(BATON);
    let systemd = home.run("serve --print-unit systemd").ok();
    assert!(systemd.contains(&format!("ExecStart=\"{BATON}\" serve\n")), "{systemd}");
    let launchd = home.run("serve --print-unit launchd").ok();
    assert!(launchd.contains(&format!("<string>{BATON}</string>\n    <string>serve</string>")), "{launchd}");
}

/// What a daemon makes when it starts is there, both attendants' as well.
fn wait_until_all_has_begun(home: &Home) {
    let made = ["run/panes.sock", "run/threads.lock", "agents", "sessions"];
    wait_until("all of it has begun", || made.iter().all(|name| home.state().join(name).exists()));
    wait_until("its word of it", || {
        let log = std::fs::read_dir(home.state().join("log")).into_iter().flatten().flatten();
        log.filter_map(|e| std::fs::read_to_string(e.path()).ok()).any(|t| t.contains("daemon-started"))
    });
}

fn signal(home: &Home, served: &Served<'_>, signal: &str) {
    assert!(home.command("kill").args([signal, &served.pid().to_string()]).status().unwrap().success());
}

/// A test that was killed, a state folder that was thrown away: nothing can reach the daemon any more.
#[test]
fn it_ends_by_itself_when_its_place_is_gone_and_makes_nothing_anew() {
    let home = Home::new(BATON);
    let mut served = Served::on_http(&home);
    let run = home.state().join("run");
    std::fs::remove_file(run.join("token")).unwrap();
    assert_eq!(served.get("/health")["status"], "ok", "what vanished was not the socket");
    std::fs::remove_file(run.join("daemon.sock")).unwrap();
    assert_eq!(served.child.wait().unwrap().code(), Some(0));

    // What the first one made would look like the second one's.
    let home = Home::new(BATON);
    let mut served = Served::new(&home);
    wait_until_all_has_begun(&home);
    // Stopped meanwhile: its last words would come between the removal of a folder's files and of the folder.
    signal(&home, &served, "-STOP");
    std::fs::remove_dir_all(home.state()).unwrap();
    signal(&home, &served, "-CONT");
    assert_eq!(served.child.wait().unwrap().code(), Some(0));
    let left = home.command("find").arg(home.state()).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&left.stdout), "", "it has made anew what was removed");
}

#[test]
fn a_daemon_whose_folder_was_made_again_leaves_its_successor_alone() {
    let home = Home::new(BATON);
    let mut first = Served::new(&home);
    wait_until_all_has_begun(&home);
    // Stopped, so that it sees what happened only when its successor is there.
    signal(&home, &first, "-STOP");
    std::fs::remove_dir_all(home.state()).unwrap();
    let second = Served::new(&home);
    signal(&home, &first, "-CONT");
    assert_eq!(first.child.wait().unwrap().code(), Some(0));
    assert_eq!(second.get("/health")["pid"], second.pid());
}

#[test]
fn a_port_can_be_a_setting_of_the_user_and_never_of_a_project() {
    let home = Home::new(BATON);
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    home.write(".config/baton/config.toml", format!("[serve]\nhttp = {free}\n"));
    home.run("serve --detach").ok();
    let status = home.run("serve --status --json").json();
    assert_eq!(status["http"], format!("127.0.0.1:{free}"));
    home.run("serve --stop").ok();
    let shown = home.run("config").ok();
    assert!(shown.lines().any(|l| l.contains("serve.http") && l.contains(&free.to_string())), "{shown}");
    home.write(".config/baton/config.toml", "[serve]\nhttp = \"0.0.0.0:8420\"\n");
    let said = home.run("serve").fails(1);
    assert!(said.contains("only this machine can reach"), "{said}");
    home.write(".config/baton/config.toml", "");
    home.write("work/app/.baton.toml", "[serve]\nhttp = 8420\n");
    let said = home.run("serve").fails(1);
    assert!(said.contains("not by a project"), "{said}");
}
