//! `baton serve`: started, stopped, killed, found.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;
use std::time::{Duration, Instant};

use baton_testkit::daemon::Served;
use baton_testkit::wait::wait_until;
use baton_testkit::{Home, tools};

use crate::BATON;

/// Whether a process is alive; a zombie is not.
fn alive(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
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
fn many_commands_that_need_a_daemon_at_once_start_one() {
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
fn after_a_kill_the_next_daemon_takes_over_at_once() {
    let home = Home::new(BATON);
    let first = Served::on_http(&home);
    first.kill();
    assert!(home.state().join("run/daemon.sock").exists(), "what a killed one leaves");
    home.run("serve --status").fails(3);
    let second = Served::on_http(&home);
    assert_eq!(second.get("/health")["status"], "ok");
}

#[test]
fn each_start_has_its_own_token_and_the_old_one_is_refused() {
    let home = Home::new(BATON);
    let status = |served: &Served<'_>, token: &str| {
        let headers = [("Host", served.http.as_deref().unwrap()), ("Authorization", token)];
        served.tcp().ask("GET", "/health", &headers, None).unwrap().status
    };
    let path = home.state().join("run/token");
    let mut tokens: Vec<String> = Vec::new();
    for ends in ["killed", "stopped", "stopped"] {
        let mut served = Served::on_http(&home);
        let token = format!("Bearer {}", served.token());
        assert_eq!(status(&served, &token), 200);
        for old in &tokens {
            assert_eq!(status(&served, old), 401, "after one that was {ends}");
        }
        assert!(!tokens.contains(&token));
        tokens.push(token);
        if ends == "stopped" {
            home.run("serve --stop").ok();
            served.child.wait().unwrap();
            assert!(!path.exists(), "no script should send a token to whoever takes the port next");
        }
    }
    // A killed daemon leaves its token. A daemon without a port needs none.
    Served::on_http(&home).kill();
    assert!(path.exists());
    let _unix = Served::new(&home);
    assert!(!path.exists());
    assert_eq!(home.run("serve --status --json").json()["token"], serde_json::Value::Null);
}

#[test]
fn a_token_file_that_is_a_link_is_refused_and_one_that_others_could_read_is_replaced() {
    let home = Home::new(BATON);
    let (path, target) = (home.state().join("run/token"), home.write("elsewhere", "untouched"));
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::os::unix::fs::symlink(&target, &path).unwrap();
    let said = home.run("serve --http 0").fails(1);
    assert!(said.contains("symbolic link"), "{said}");
    assert_eq!(std::fs::read_to_string(&target).unwrap(), "untouched");
    std::fs::remove_file(&path).unwrap();
    let served = Served::on_http(&home);
    let first = served.token();
    served.kill();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    let served = Served::on_http(&home);
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_ne!(served.token(), first);
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
fn its_folder_is_private_whatever_the_umask() {
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
fn a_port_that_is_taken_is_refused_with_its_holder_and_a_free_one() {
    let home = Home::new(BATON);
    // Scripts that ask for `localhost` may reach any of these.
    for address in ["127.0.0.1:0", "0.0.0.0:0", "[::1]:0", "[::]:0"] {
        let Ok(taken) = std::net::TcpListener::bind(address) else {
            tools::skip(&format!("there is no {address} here"));
            continue;
        };
        let port = taken.local_addr().unwrap().port();
        let program = std::env::current_exe().unwrap();
        let program: String = program.file_name().unwrap().to_str().unwrap().chars().take(10).collect();
        for how in ["serve", "serve --detach"] {
            let said = home.run(&format!("{how} --http {port}")).fails(1);
            assert!(said.contains(&format!("could not listen on 127.0.0.1:{port}: ")), "{said}");
            assert!(said.contains(&program), "{said}");
            assert!(said.contains(&format!("(process {}) has that port", std::process::id())), "{said}");
            let (_, free) = said.split_once("`baton serve --http ").unwrap_or_else(|| panic!("{said}"));
            let free: u16 = free.split('`').next().unwrap().parse().unwrap();
            assert!(free > port, "{said}");
            assert!(!home.state().join("run/token").exists(), "there is nothing to send to its holder");
        }
        home.run("serve --status").fails(3);
    }
}

#[test]
fn the_proposed_port_is_free() {
    let home = Home::new(BATON);
    // Another test may take the port between the proposal and the start.
    wait_until("a proposed port is had", || {
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = taken.local_addr().unwrap().port();
        let said = home.run(&format!("serve --http {port}")).fails(1);
        let Some((_, free)) = said.split_once("`baton serve --http ") else { return false };
        let free = free.split('`').next().unwrap();
        let started = home.run(&format!("serve --detach --http {free}"));
        let found = home.run("serve --status --json").json()["http"] == format!("127.0.0.1:{free}");
        if started.code == Some(0) {
            home.run("serve --stop").ok();
        }
        found
    });
}

#[test]
fn units_start_this_very_program() {
    let home = Home::new(BATON);
    let systemd = home.run("serve --print-unit systemd").ok();
    assert!(systemd.contains(&format!("ExecStart=\"{BATON}\" serve\n")), "{systemd}");
    let launchd = home.run("serve --print-unit launchd").ok();
    assert!(launchd.contains(&format!("<string>{BATON}</string>\n    <string>serve</string>")), "{launchd}");
}

/// Waits until the daemon and both its attendants have created everything that they create at their start.
pub fn wait_until_all_has_begun(home: &Home) {
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

/// A test was killed or a state folder was deleted: nothing can reach the daemon any more.
#[test]
fn it_ends_by_itself_when_its_folder_is_gone_and_creates_nothing_again() {
    let home = Home::new(BATON);
    let mut served = Served::on_http(&home);
    let run = home.state().join("run");
    std::fs::remove_file(run.join("token")).unwrap();
    assert_eq!(served.get("/health")["status"], "ok", "what vanished was not the socket");
    std::fs::remove_file(run.join("daemon.sock")).unwrap();
    assert_eq!(served.child.wait().unwrap().code(), Some(0));

    // Use a new home: what the first daemon created would look like the second one's.
    let home = Home::new(BATON);
    let mut served = Served::new(&home);
    wait_until_all_has_begun(&home);
    // Stop it meanwhile, or its last log line could come between the removal of a folder's files and of the folder.
    signal(&home, &served, "-STOP");
    std::fs::remove_dir_all(home.state()).unwrap();
    signal(&home, &served, "-CONT");
    assert_eq!(served.child.wait().unwrap().code(), Some(0));
    let left = home.command("find").arg(home.state()).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&left.stdout), "", "it has made anew what was removed");
}

#[test]
fn a_daemon_whose_folder_was_recreated_leaves_its_successor_alone() {
    let home = Home::new(BATON);
    let mut first = Served::new(&home);
    wait_until_all_has_begun(&home);
    // Stop it, so that it notices only when its successor is there.
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
    home.trust();
    let told = home.run("config --json").json();
    let setting = told["settings"].as_array().unwrap().iter().find(|s| s["key"] == "serve.http").unwrap();
    assert_eq!(setting["from"], "default", "{setting}");
    assert_eq!(told["ignored"][0]["what"], "serve.http", "{told}");
}

/// Editors and builds take this user's 128 inotify instances quickly.
#[test]
fn without_a_free_inotify_instance_it_looks_for_changes_itself() {
    if !tools::has(&["unshare"]) {
        return;
    }
    let home = Home::new(BATON);
    let starved = |args: &[&str]| {
        let mut command = home.command("unshare");
        let starve = r#"echo 0 > /proc/sys/user/max_inotify_instances && exec "$0" "$@""#;
        command.args(["--user", "--map-root-user", "sh", "-c", starve, BATON]).args(args);
        command
    };
    if !starved(&["--version"]).output().is_ok_and(|out| out.status.success()) {
        tools::skip("this system allows no user namespaces");
        return;
    }
    let client = crate::api::started(&home);
    let served = Served::start(&home, starved(&["serve"]));
    client.hook("UserPromptSubmit").ok();
    wait_until("the daemon to see the turn", || served.get("/sessions/app")["state"] == "working");

    let mut waiting = starved(&["wait", "app", "--timeout", "60s"]);
    let waiting = waiting.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    client.hook("Stop").ok();
    let out = waiting.wait_with_output().unwrap();
    assert!(out.status.success(), "{out:?}");
    let found = starved(&["doctor", "--json"]).output().unwrap();
    let found = String::from_utf8_lossy(&found.stdout);
    assert!(found.contains("No inotify instance is free"), "{found}");
}
