//! `baton fleet doctor`: whether the connection to the database is secure, and whether the database does what a fleet
//! needs.

use jiff::Timestamp;

use crate::fleet::config::{Membership, shown};
use crate::fleet::database::{Endpoint, Session, query_one, read};
use crate::fleet::schema;

/// The result of one check.
pub(crate) struct Finding {
    pub is_good: bool,
    pub text: String,
}

/// Clocks that differ by more make leases and expiry times hard to read.
const SKEW_MS: i64 = 2_000;

pub(crate) async fn inspect(membership: &Membership) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Err(e) = look(membership, &mut findings).await {
        findings.push(Finding { is_good: false, text: format!("{e:#}") });
    }
    findings
}

async fn look(membership: &Membership, findings: &mut Vec<Finding>) -> anyhow::Result<()> {
    let mut add = |is_good: bool, text: String| findings.push(Finding { is_good, text });
    let endpoint = Endpoint::new(&membership.url)?;
    let way = match (endpoint.is_encrypted(), endpoint.is_local()) {
        (true, _) => "encrypted, and the certificate is checked",
        (false, true) => "not encrypted: it does not leave this machine",
        (false, false) => "not encrypted",
    };
    add(
        endpoint.is_encrypted() || endpoint.is_local(),
        format!("the way to {} is {way}", shown(&membership.url)),
    );
    let (client, mut woken) = endpoint.connect().await?;
    let row = query_one(&client, "SELECT current_setting('server_version'), clock_timestamp()", &[]).await?;
    let (version, clock): (String, Timestamp) = (read(&row, 0)?, read(&row, 1)?);
    add(true, format!("PostgreSQL {version} answers; no extension is needed"));
    let skew = i64::try_from(Timestamp::now().duration_since(clock).as_millis()).unwrap_or(i64::MAX);
    add(
        skew.abs() <= SKEW_MS,
        format!("this machine's clock differs from the database's by {skew} ms; leases go by the database's"),
    );
    schema::check(&client).await?;
    add(true, format!("the schema has version {}", schema::VERSION));
    let row = query_one(
        &client,
        "SELECT r.rolsuper OR r.rolbypassrls OR r.rolcreaterole,
                EXISTS (SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                         WHERE n.nspname = 'baton' AND c.relowner = r.oid)
           FROM pg_roles r WHERE r.rolname = session_user",
        &[],
    )
    .await?;
    let (is_mighty, is_owner): (bool, bool) = (read(&row, 0)?, read(&row, 1)?);
    add(
        !is_mighty && !is_owner,
        if is_mighty || is_owner {
            "this machine's role owns the schema or bypasses its policies; join again with a code".to_owned()
        } else {
            "this machine's role owns nothing and bypasses nothing".to_owned()
        },
    );
    let session = Session { client, fleet: membership.fleet.clone(), me: membership.name.clone() };
    session.found().await?;
    add(true, format!("the database knows this machine as {}", membership.name));
    // Asked twice: a pooler that shares sessions may answer from two.
    let mut pids = Vec::new();
    for _ in 0..2 {
        let row = query_one(&session.client, "SELECT pg_backend_pid()", &[]).await?;
        pids.push(read::<i32>(&row, 0)?);
    }
    let wakes = session.listen(&mut woken).await?;
    add(
        true,
        if wakes && pids[0] == pids[1] {
            "the database wakes this machine when something comes".to_owned()
        } else {
            "a pooler shares sessions (transaction mode): mail is looked for every 2 s; a direct connection is faster"
                .to_owned()
        },
    );
    Ok(())
}
