//! A PostgreSQL for one test: made in a temporary folder, killed and restarted as the test needs, removed with it.

use std::fmt::Write as _;
use std::io::Write as _;
use std::net::TcpListener;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

use tempfile::TempDir;

use crate::tools;
use crate::wait::wait_until;

/// The superuser, for an operator's work.
const SUPER: &str = "postgres";
/// The role that a team gives us: it owns a database, may make roles and is not a superuser.
const OWNER: &str = "team";
const PASSWORD: &str = "s3cret";

pub struct Postgres {
    dir: TempDir,
    bin: PathBuf,
    port: u16,
    server: Option<Child>,
}

impl Postgres {
    /// `None` if it is not installed; the test is then skipped.
    pub fn start() -> Option<Self> {
        Self::with(&["fsync=off", "full_page_writes=off"])
    }

    /// With these settings, as in `postgresql.conf`.
    pub fn with(settings: &[&str]) -> Option<Self> {
        let Some(bin) = programs() else {
            tools::missing("PostgreSQL not installed (scripts/test installs what the tests need)");
            return None;
        };
        let dir = TempDir::new_in("/dev/shm").or_else(|_| TempDir::new()).expect("tests need a folder");
        let port = TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a free port").port();
        let mut postgres = Self { dir, bin, port, server: None };
        let (data, secret) = (postgres.data(), postgres.dir.path().join("secret"));
        std::fs::write(&secret, PASSWORD).expect("a fresh folder takes a new file");
        if let Some((uid, gid)) = other_user() {
            for path in [postgres.dir.path(), &secret] {
                chown(path, Some(uid), Some(gid)).expect("root may give files away");
            }
        }
        let mut init = postgres.as_server("initdb");
        init.args([
            "--no-sync",
            "--auth=scram-sha-256",
            "--encoding=UTF8",
            "--locale=C",
            "-U",
            SUPER,
            "--pwfile",
        ]);
        let made = init.arg(&secret).arg("-D").arg(&data).output().expect("initdb starts");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let mut conf =
            String::from("listen_addresses = '127.0.0.1'\nmax_connections = 200\nshared_buffers = '64MB'\n");
        for setting in settings {
            let (name, value) = setting.split_once('=').expect("a setting is NAME=VALUE");
            let _ = writeln!(conf, "{name} = {value}");
        }
        let _ =
            writeln!(conf, "port = {port}\nunix_socket_directories = '{}'", postgres.dir.path().display());
        let mut file =
            std::fs::File::options().append(true).open(data.join("postgresql.conf")).expect("initdb made it");
        file.write_all(conf.as_bytes()).expect("a file takes a line");
        postgres.restart();
        postgres.psql(
            SUPER,
            "postgres",
            &format!("CREATE ROLE {OWNER} LOGIN CREATEROLE PASSWORD '{PASSWORD}'"),
        );
        postgres.psql(SUPER, "postgres", &format!("CREATE DATABASE app OWNER {OWNER}"));
        Some(postgres)
    }

    fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// A program of the server, which refuses to run as root; it ends with us.
    fn as_server(&self, program: &str) -> Command {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "QUIT"]);
        if let Some((uid, gid)) = other_user() {
            command.arg(format!("--reuid={uid}")).arg(format!("--regid={gid}")).arg("--clear-groups");
        }
        command.arg(self.bin.join(program)).current_dir(self.dir.path()).stdin(Stdio::null());
        command
    }

    /// Starts it, again if it was killed, and waits until it answers.
    pub fn restart(&mut self) {
        let log = std::fs::File::options().create(true).append(true).open(self.dir.path().join("log"));
        let log = log.expect("a fresh folder takes a new file");
        let mut command = self.as_server("postgres");
        command.arg("-D").arg(self.data()).stdout(Stdio::null()).stderr(log);
        self.server = Some(command.spawn().expect("postgres starts"));
        wait_until("PostgreSQL", || self.answers());
    }

    fn answers(&self) -> bool {
        let ready = Command::new(self.bin.join("pg_isready"))
            .args(["-q", "-h", "127.0.0.1", "-p", &self.port.to_string()])
            .status();
        ready.is_ok_and(|status| status.success())
    }

    /// Kills it, so that the next start recovers as after a crash.
    pub fn kill(&mut self) {
        let Some(mut server) = self.server.take() else { return };
        let pid = i32::try_from(server.id()).ok().and_then(rustix::process::Pid::from_raw);
        if let Some(pid) = pid {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::QUIT);
        }
        let _ = server.wait();
    }

    /// The URL of the role that a team gives.
    pub fn url(&self) -> String {
        self.url_of("app")
    }

    pub fn url_of(&self, database: &str) -> String {
        format!("postgres://{OWNER}:{PASSWORD}@127.0.0.1:{}/{database}", self.port)
    }

    /// Runs SQL as the superuser in the team's database, and returns what it prints.
    #[track_caller]
    pub fn sql(&self, sql: &str) -> String {
        self.psql(SUPER, "app", sql)
    }

    #[track_caller]
    fn psql(&self, user: &str, database: &str, sql: &str) -> String {
        let ran = self.client("psql", user, database).args(["-v", "ON_ERROR_STOP=1", "-qAtc", sql]).output();
        let ran = ran.expect("psql starts");
        assert!(ran.status.success(), "{sql}: {}", String::from_utf8_lossy(&ran.stderr));
        String::from_utf8_lossy(&ran.stdout).trim_end().to_owned()
    }

    /// Runs SQL as the user in a URL; its output, or the database's error.
    pub fn sql_as(&self, url: &str, sql: &str) -> Result<String, String> {
        let url = url.split('#').next().unwrap_or(url);
        let ran = Command::new(self.bin.join("psql"))
            .args([url, "-v", "ON_ERROR_STOP=1", "-qAtc", sql])
            .stdin(Stdio::null())
            .output()
            .expect("psql starts");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
        if ran.status.success() { Ok(text(&ran.stdout)) } else { Err(text(&ran.stderr)) }
    }

    fn client(&self, program: &str, user: &str, database: &str) -> Command {
        let mut command = Command::new(self.bin.join(program));
        command
            .args(["-h", "127.0.0.1", "-p", &self.port.to_string(), "-U", user, "-d", database])
            .env("PGPASSWORD", PASSWORD)
            .stdin(Stdio::null());
        command
    }

    /// The whole database as text, as an operator backs it up.
    pub fn dump(&self) -> String {
        let ran = self
            .client("pg_dump", SUPER, "app")
            .args(["--clean", "--if-exists"])
            .output()
            .expect("pg_dump starts");
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        String::from_utf8(ran.stdout).expect("a dump is text")
    }

    /// Replaces the database by a dump. Disconnects all clients first.
    pub fn restore(&self, dump: &str) {
        let file = self.dir.path().join("dump.sql");
        std::fs::write(&file, dump).expect("a folder takes a file");
        let others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'app'";
        self.psql(SUPER, "postgres", &format!("ALTER DATABASE app CONNECTION LIMIT 0; {others}"));
        let ran =
            self.client("psql", SUPER, "app").args(["-v", "ON_ERROR_STOP=1", "-qf"]).arg(&file).output();
        let ran = ran.expect("psql starts");
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
        self.psql(SUPER, "postgres", "ALTER DATABASE app CONNECTION LIMIT -1");
    }

    /// The same in one transaction, so that idle connections stay open.
    pub fn restore_beneath(&self, dump: &str) {
        let file = self.dir.path().join("dump.sql");
        std::fs::write(&file, dump).expect("a folder takes a file");
        let ran = self
            .client("psql", SUPER, "app")
            .args(["-1", "-v", "ON_ERROR_STOP=1", "-qf"])
            .arg(&file)
            .output();
        let ran = ran.expect("psql starts");
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    }

    /// Holds the locks that this SQL takes until the returned value is dropped.
    pub fn holds(&self, sql: &str) -> Held {
        let mut client = self.client("psql", SUPER, "app");
        client.args(["-v", "ON_ERROR_STOP=1", "-qAt"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut client = client.spawn().expect("psql starts");
        let mut stdin = client.stdin.take().expect("it is piped");
        writeln!(stdin, "BEGIN; {sql}; SELECT 'held';").expect("psql reads");
        let mut line = String::new();
        let stdout = client.stdout.as_mut().expect("it is piped");
        std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut line).expect("psql answers");
        assert_eq!(line.trim_end(), "held", "{sql}");
        Held { client, stdin: Some(stdin) }
    }
}

/// A transaction that is open.
pub struct Held {
    client: Child,
    stdin: Option<ChildStdin>,
}

impl Drop for Held {
    fn drop(&mut self) {
        // psql ends with its input and rolls its transaction back.
        self.stdin = None;
        let _ = self.client.wait();
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Where the server's programs are; distributions keep them off the PATH.
fn programs() -> Option<PathBuf> {
    let mut places: Vec<PathBuf> = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten()
        .map(|e| e.path().join("bin"))
        .collect();
    places.sort();
    let path = std::env::var_os("PATH").unwrap_or_default();
    places.extend(std::env::split_paths(&path));
    places.into_iter().rev().find(|dir| dir.join("initdb").exists() && dir.join("pg_dump").exists())
}

/// As root, runs the server as another user: the one that its package made, or nobody.
fn other_user() -> Option<(u32, u32)> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let users = std::fs::read_to_string(Path::new("/etc/passwd")).unwrap_or_default();
    let find = |name: &str| {
        let line = users.lines().find(|line| line.split(':').next() == Some(name))?;
        let mut fields = line.split(':').skip(2);
        Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
    };
    find("postgres").or_else(|| find("nobody")).or(Some((65_534, 65_534)))
}
