//! The page without a browser: its files, its port, and the names it answers to.

use baton_testkit::Home;
use baton_testkit::daemon::{Answered, Served};
use serde_json::{Value, json};

use crate::BATON;

fn get(served: &Served<'_>, path: &str, more: &[(&str, &str)]) -> Answered {
    let at = served.http.clone().unwrap();
    let headers: Vec<(&str, &str)> =
        [("Host", at.as_str())].into_iter().chain(more.iter().copied()).collect();
    served.tcp().ask("GET", path, &headers, None).unwrap()
}

#[test]
fn its_files_are_small_compressed_kept_by_the_browser_and_may_do_little() {
    let home = Home::new(BATON);
    let served = Served::on_http(&home);
    let page = get(&served, "/", &[]);
    assert_eq!(page.status, 200);
    let html = String::from_utf8(page.body.clone()).unwrap();
    let mut paths: Vec<String> =
        html.split('"').filter(|part| part.starts_with("/assets/")).map(str::to_owned).collect();
    paths.push("/".to_owned());
    let (mut plain, mut packed) = (0, 0);
    for path in &paths {
        let answered = get(&served, path, &[]);
        let policy = answered.header("content-security-policy").unwrap();
        for part in
            ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "trusted-types 'none'"]
        {
            assert!(policy.contains(part), "{path}: {policy}");
        }
        assert!(!policy.contains("unsafe") && !policy.contains("http"), "{policy}");
        assert_eq!(answered.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(answered.header("cache-control"), Some("no-cache"));
        assert!(!answered.head.contains("access-control-") && !answered.head.contains("set-cookie"));
        let compressed = get(&served, path, &[("Accept-Encoding", "br, gzip;q=0.9")]);
        assert_eq!(compressed.header("content-encoding"), Some("gzip"));
        let tag = answered.header("etag").unwrap().to_owned();
        let again = get(&served, path, &[("If-None-Match", &tag)]);
        assert_eq!((again.status, again.body.len()), (304, 0));
        plain += answered.body.len();
        packed += compressed.body.len();
    }
    assert!(plain <= 250 << 10 && packed < plain / 2, "{plain} bytes, {packed} compressed");
    assert!(!html.contains("<script>") && !html.contains("style="), "nothing in line");
    // Its files are for its own page: another site cannot even see that we are here.
    for site in ["cross-site", "same-site"] {
        assert_eq!(get(&served, "/", &[("Sec-Fetch-Site", site)]).status, 403);
    }
    assert_eq!(get(&served, "/", &[("Origin", "http://evil.example")]).status, 403);
    for path in ["/assets/", "/assets/../x", "/assets/app.js/", "/index.html", "//", "/assets/nothing.js"] {
        assert_eq!(get(&served, path, &[]).status, 401, "{path}");
    }
}

#[test]
fn a_port_that_somebody_else_has_is_named_and_the_next_one_taken() {
    let home = Home::new(BATON);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    // Without a port so far: the daemon opens one when the page is wanted.
    home.run("serve --detach").ok();
    assert_eq!(home.run("serve --status --json").json()["http"], Value::Null);
    home.write(".config/baton/config.toml", format!("[serve]\nhttp = {port}\n"));
    // The daemon reads changed settings again after a moment.
    let told = baton_testkit::wait::wait_for("the setting counts", || {
        home.run("serve --stop").ok();
        home.write(".config/baton/config.toml", "");
        home.run("serve --detach").ok();
        home.write(".config/baton/config.toml", format!("[serve]\nhttp = {port}\n"));
        let ran = home.run("page --print");
        ran.err.contains(&format!("has port {port}, so the page is at 127.0.0.1:")).then_some(ran)
    });
    assert!(told.err.contains(&format!("(process {})", std::process::id())), "{}", told.err);
    let address = told.out.trim();
    assert!(address.starts_with("http://127.0.0.1:") && address.contains("/#code="), "{address}");
    let http = home.run("serve --status --json").json()["http"].as_str().unwrap().to_owned();
    assert!(address.starts_with(&format!("http://{http}/")), "{address} is not at {http}");
    assert!(home.state().join("run/token").exists(), "scripts may use the port, too");
    // It stays where it is.
    assert_eq!(home.run("page --json").json()["http"], http);
    home.run("serve --stop").ok();
    assert!(!home.state().join("run/token").exists());
}

#[test]
fn a_proxy_of_the_user_is_served_by_its_exact_name_with_a_secure_cookie() {
    let home = Home::new(BATON);
    home.write(".config/baton/config.toml", "[serve]\nhosts = \"desk.example.org, Desk.example.org:8443\"\n");
    let served = Served::on_http(&home);
    let login = |host: &str, origin: &str| {
        let code = served.post("/codes", &json!({}))["code"].clone();
        let headers = [("Host", host), ("Origin", origin)];
        served.tcp().ask("POST", "/login", &headers, Some(&json!({ "code": code }))).unwrap()
    };
    for host in ["desk.example.org", "desk.example.org:8443"] {
        let answered = login(host, &format!("https://{host}"));
        assert_eq!(answered.status, 200, "{answered:?}");
        assert!(answered.header("set-cookie").unwrap().ends_with("; secure"), "{answered:?}");
        assert_eq!(login(host, &format!("http://{host}")).status, 403, "a page that was not encrypted");
    }
    let at = served.http.clone().unwrap();
    let own = login(&at, &format!("http://{at}"));
    assert!(!own.header("set-cookie").unwrap().contains("secure"), "{own:?}");
    assert_eq!(login(&at, &format!("https://{at}")).status, 403);
    for host in [
        "desk.example.org:80",
        "x.desk.example.org",
        "desk.example.org.evil.example",
        "DESK.example.org",
        "example.org",
    ] {
        assert_eq!(login(host, &format!("https://{host}")).status, 421, "{host}");
    }
    assert_eq!(login("desk.example.org", "https://evil.example").status, 403);
}

#[test]
fn proxy_hosts_and_page_writes_are_settings_of_the_user_alone() {
    let home = Home::new(BATON);
    for (key, value) in [("page.write", "true"), ("serve.hosts", "\"desk.example.org\"")] {
        let (section, name) = key.split_once('.').unwrap();
        home.write("work/app/.baton.toml", format!("[{section}]\n{name} = {value}\n"));
        home.trust();
        // Neither the file of a project nor a variable, which a project may set for its agents.
        let variable = format!("BATON_{}", key.replace('.', "_").to_uppercase());
        let told = baton_testkit::home::run(home.baton(["config", "--json"]).env(&variable, value)).json();
        let setting = told["settings"].as_array().unwrap().iter().find(|s| s["key"] == key).unwrap().clone();
        assert_eq!((&setting["from"], &setting["env"]), (&json!("default"), &Value::Null), "{setting}");
        assert_eq!(told["ignored"][0]["what"], key, "{told}");
    }
    for wrong in ["\"*\"", "\"127.0.0.1\"", "8420", "\"https://desk\""] {
        home.write(".config/baton/config.toml", format!("[serve]\nhosts = {wrong}\n"));
        assert!(home.run("config").fails(1).contains("names of a TLS proxy"), "{wrong}");
    }
    home.write(".config/baton/config.toml", "[page]\nwrite = true\n");
    let served = Served::on_http(&home);
    let at = served.http.clone().unwrap();
    let code = served.post("/codes", &json!({}))["code"].clone();
    let page = served.tcp().ask("POST", "/login", &[("Host", &at)], Some(&json!({ "code": code }))).unwrap();
    let cookie = page.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
    let csrf = page.json()["csrf"].as_str().unwrap().to_owned();
    let headers = [("Host", at.as_str()), ("Cookie", &cookie), ("X-Baton-CSRF", &csrf)];
    let asked = served.tcp().ask("GET", "/page", &headers, None).unwrap().json();
    assert_eq!(asked["may_change"], true);
    let spawned =
        served.tcp().ask("POST", "/spawn", &headers, Some(&json!({ "name": "x", "cwd": "rel" }))).unwrap();
    assert_eq!(spawned.status, 422, "it is let through: {spawned:?}");
}
