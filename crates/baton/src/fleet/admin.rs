//! Commands of a fleet's founder, with the role that owns the schema: create it, invite machines, revoke them, remove
//! their data. Only these commands and the daemon connect to the database.

use std::path::Path;

use anyhow::Context as _;
use baton_core::fleet::MachineName;
use baton_core::ids::ChannelName;
use jiff::{SignedDuration, Timestamp};
use tokio_postgres::Client;
use tokio_postgres::types::Type;

use crate::fleet::config::{Admin, Membership, Revoked};
use crate::fleet::database::{
    Endpoint, PATIENCE, Param, Session, batch, begin, commit, execute, query, query_one, read, within,
};
use crate::fleet::keys::{Card, DeviceKeys, Invitation, SignKey};
use crate::fleet::outbox::Outbox;
use crate::fleet::{conversations, schema};
use crate::sys::hash::hex;

/// How long an invitation may be used.
const INVITED: SignedDuration = SignedDuration::from_hours(24);

/// Runs one command's work with the database.
pub(crate) fn block_on<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("could not set up the event loop")?;
    let done = runtime.block_on(work);
    runtime.shutdown_timeout(PATIENCE);
    done
}

fn random_hex<const N: usize>() -> anyhow::Result<String> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).context("could not get random bytes")?;
    Ok(hex(&bytes))
}

async fn owner(url: &str) -> anyhow::Result<Client> {
    let (client, _) = Endpoint::new(url)?.connect().await.context("could not connect to the database")?;
    Ok(client)
}

/// The result of `init`.
pub(crate) struct Founded {
    pub fleet: String,
    /// The version of the schema before; 0 where there was none.
    pub before: i32,
    pub is_new: bool,
}

/// Makes or migrates the schema, and founds a fleet unless this machine has founded one there.
pub(crate) async fn init(state: &Path, url: &str) -> anyhow::Result<Founded> {
    let known = Admin::read(state)?;
    let mut client = owner(url).await?;
    let row = query_one(&client, "SELECT current_setting('server_version_num')::int", &[]).await?;
    let version: i32 = read(&row, 0)?;
    anyhow::ensure!(
        version >= 150_000,
        "this PostgreSQL is version {}; 15 or newer is needed",
        version / 10_000
    );
    let before = within(schema::migrate(&mut client)).await.context("could not make the schema")?;
    let (admin, is_new) = if let Some(admin) = known {
        let sql = "SELECT 1 FROM baton.fleets WHERE fleet = $1";
        let is_there = !query(&client, sql, &[(&admin.fleet, Type::TEXT)]).await?.is_empty();
        // The key comes first: an earlier attempt may have ended there.
        anyhow::ensure!(
            is_there || admin.url == url,
            "this machine has founded a fleet in another database; `baton fleet leave --dissolve` forgets it"
        );
        (Admin { url: url.to_owned(), ..admin }, !is_there)
    } else {
        let (fleet, root) = (random_hex::<8>()?, SignKey::random()?.seed());
        (Admin { fleet, url: url.to_owned(), root, revoked: Vec::new() }, true)
    };
    // The key is on disk before anything can depend on it.
    admin.write(state)?;
    let fleet = admin.fleet;
    if is_new {
        execute(&client, "INSERT INTO baton.fleets (fleet) VALUES ($1)", &[(&fleet, Type::TEXT)]).await?;
        audit(&client, &fleet, "founded", &fleet).await?;
    }
    Ok(Founded { fleet, before, is_new })
}

async fn audit(client: &Client, fleet: &str, what: &str, about: &str) -> anyhow::Result<()> {
    execute(
        client,
        "INSERT INTO baton.audit (fleet, what, about) VALUES ($1, $2, $3)",
        &[(&fleet, Type::TEXT), (&what, Type::TEXT), (&about, Type::TEXT)],
    )
    .await?;
    Ok(())
}

/// Makes a role and an invitation for a machine: the code that it joins with.
pub(crate) async fn invite(admin: &Admin, name: &MachineName) -> anyhow::Result<String> {
    let mut client = owner(&admin.url).await?;
    let fleet = &admin.fleet;
    let taken = query(
        &client,
        "SELECT joined IS NOT NULL FROM baton.devices WHERE fleet = $1 AND name = $2",
        &[(fleet, Type::TEXT), (&name.as_str(), Type::TEXT)],
    )
    .await?;
    anyhow::ensure!(
        !taken.first().map_or(Ok(false), |row| read(row, 0))?,
        "{name} is a machine of this fleet already; choose another name, or revoke and purge it first"
    );
    let expires = Timestamp::now() + INVITED;
    let invitation = Invitation::new(&SignKey::from_hex(&admin.root)?, fleet, name, expires)?;
    // Both parts are plain letters and digits, so they are safe inside a statement; the password is fresh.
    let role = format!("baton_{fleet}_{}", name.as_str().replace('-', "_"));
    let password = random_hex::<24>()?;
    let transaction = begin(&mut client).await?;
    batch(
        &transaction,
        &format!(
            "DO $$ BEGIN
               CREATE ROLE {role} LOGIN INHERIT NOCREATEDB NOCREATEROLE IN ROLE baton_device;
             EXCEPTION WHEN duplicate_object THEN NULL;
             END $$;
             ALTER ROLE {role} LOGIN PASSWORD '{password}';"
        ),
    )
    .await
    .context("could not make a role for the machine")?;
    execute(
        &transaction,
        "INSERT INTO baton.devices (fleet, name, role, invited_until)
         VALUES ($1, $2, $3, clock_timestamp() + interval '24 hours')
         ON CONFLICT (fleet, name) DO UPDATE SET invited_until = excluded.invited_until",
        &[(fleet, Type::TEXT), (&name.as_str(), Type::TEXT), (&role, Type::TEXT)],
    )
    .await?;
    commit(transaction).await?;
    audit(&client, fleet, "invited", name.as_str()).await?;
    Ok(invitation.code(&url_for(&admin.url, &role, &password)?))
}

/// Whether a name is safe inside a statement, as that of every role is that an invitation makes.
fn is_plain(role: &str) -> bool {
    !role.is_empty() && role.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
}

/// The owner's URL with another role. Its other parts stay.
fn url_for(url: &str, role: &str, password: &str) -> anyhow::Result<String> {
    let (scheme, rest) = url.split_once("://").context("the owner's URL must begin with postgres://")?;
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, tail) = rest.split_at(end);
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    // A user in the query would take precedence.
    let (path, query) = tail.split_once('?').unwrap_or((tail, ""));
    let kept: Vec<&str> = query
        .split('&')
        .filter(|p| !p.is_empty() && !p.starts_with("user=") && !p.starts_with("password="))
        .collect();
    let query = if kept.is_empty() { String::new() } else { format!("?{}", kept.join("&")) };
    Ok(format!("{scheme}://{role}:{password}@{host}{path}{query}"))
}

/// Joins with a code. The password in it is worth nothing afterwards.
pub(crate) async fn join(state: &Path, url: &str, invitation: &Invitation) -> anyhow::Result<Membership> {
    anyhow::ensure!(
        invitation.expires > Timestamp::now(),
        "this invitation was good until {}; `baton fleet invite` makes another one",
        invitation.expires
    );
    let (client, _) = Endpoint::new(url)?
        .connect()
        .await
        .context("could not connect to the database with this code; it works once and for a day")?;
    schema::check(&client).await?;
    let (keys, card) = DeviceKeys::accept(invitation)?;
    let session = Session { client, fleet: invitation.fleet.clone(), me: invitation.name.clone() };
    let password = random_hex::<24>()?;
    let role: String = read(&query_one(&session.client, "SELECT session_user::text", &[]).await?, 0)?;
    anyhow::ensure!(is_plain(&role), "the code names a role that no invitation makes");
    let card = serde_json::to_string(&card)?;
    let membership = Membership {
        fleet: invitation.fleet.clone(),
        name: invitation.name.clone(),
        url: url_for(url, &role, &password)?,
        root: invitation.root.clone(),
        sign: keys.sign.seed(),
        seal: keys.seal_hex(),
        card: card.clone(),
    };
    session.join(&card).await?;
    batch(&session.client, &format!("ALTER ROLE {role} PASSWORD '{password}'"))
        .await
        .context("could not change the password of this machine's role")?;
    membership.write(state)?;
    Ok(membership)
}

/// Tells the database that this machine leaves.
pub(crate) async fn leave(membership: &Membership) -> anyhow::Result<()> {
    let (client, _) = Endpoint::new(&membership.url)?.connect().await?;
    Session { client, fleet: membership.fleet.clone(), me: membership.name.clone() }.leave().await
}

/// Takes a machine out of the fleet. From the next statement on it reads and writes nothing.
pub(crate) async fn revoke(state: &Path, admin: &Admin, name: &MachineName) -> anyhow::Result<()> {
    let client = owner(&admin.url).await?;
    let rows = query(
        &client,
        "SELECT card FROM baton.devices WHERE fleet = $1 AND name = $2",
        &[(&admin.fleet, Type::TEXT), (&name.as_str(), Type::TEXT)],
    )
    .await?;
    let row = rows.first().with_context(|| format!("there is no machine {name} in the fleet"))?;
    let card: Option<String> = read(row, 0)?;
    let card: Option<Card> = card.and_then(|text| serde_json::from_str(&text).ok());
    let root = SignKey::from_hex(&admin.root)?;
    // Other machines remember the fleet key's word, whatever backup the database is restored from.
    let tombstone = card.map(|card| card.tombstone(&admin.fleet, &root)).unwrap_or_default();
    let mut admin = admin.clone();
    admin.revoked.retain(|revoked| revoked.name != *name);
    admin.revoked.push(Revoked { name: name.clone(), tombstone });
    admin.write(state)?;
    say_revoked(&client, &admin).await
}

/// Repeats the revocations that the database does not know.
async fn say_revoked(client: &Client, admin: &Admin) -> anyhow::Result<()> {
    for revoked in &admin.revoked {
        let rows = query(
            client,
            "UPDATE baton.devices SET revoked = coalesce(revoked, clock_timestamp()), tombstone = $3
              WHERE fleet = $1 AND name = $2 RETURNING role",
            &[
                (&admin.fleet, Type::TEXT),
                (&revoked.name.as_str(), Type::TEXT),
                (&revoked.tombstone, Type::TEXT),
            ],
        )
        .await?;
        let Some(row) = rows.first() else { continue };
        let role: String = read(row, 0)?;
        anyhow::ensure!(is_plain(&role), "the role {role:?} is none that an invitation makes");
        // The policies have shut it out already. That it cannot even log in is more, and not every owner may do it.
        let _ = batch(client, &format!("ALTER ROLE {role} NOLOGIN")).await;
        let terminate = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = $1";
        let _ = execute(client, terminate, &[(&role, Type::TEXT)]).await;
    }
    Ok(())
}

/// The remaining rows of a machine after `purge`, by table.
pub(crate) struct Purged {
    pub removed: u64,
    pub left: Vec<(&'static str, i64)>,
}

/// Removes the data of a machine that is revoked or has left: its presence, its mailbox and its unfetched mail. The
/// audit stays.
pub(crate) async fn purge(admin: &Admin, name: &MachineName) -> anyhow::Result<Purged> {
    let mut client = owner(&admin.url).await?;
    let name = name.as_str();
    let params: [Param<'_>; 2] = [(&admin.fleet, Type::TEXT), (&name, Type::TEXT)];
    let rows = query(
        &client,
        "SELECT revoked IS NOT NULL OR gone IS NOT NULL, role FROM baton.devices WHERE fleet = $1 AND name = $2",
        &params,
    )
    .await?;
    let row = rows.first().with_context(|| format!("there is no machine {name} in the fleet"))?;
    let (is_out, role): (bool, String) = (read(row, 0)?, read(row, 1)?);
    anyhow::ensure!(is_out, "{name} is still one of the fleet; revoke it, or let it leave, first");
    let transaction = begin(&mut client).await?;
    let mut removed = 0;
    for sql in [
        "DELETE FROM baton.messages WHERE fleet = $1 AND (sender = $2 OR recipient = $2)",
        "DELETE FROM baton.presence WHERE fleet = $1 AND machine = $2",
        "DELETE FROM baton.mailboxes WHERE fleet = $1 AND machine = $2",
        "DELETE FROM baton.homes WHERE fleet = $1 AND home = $2",
        "DELETE FROM baton.devices WHERE fleet = $1 AND name = $2",
    ] {
        removed += execute(&transaction, sql, &params).await?;
    }
    commit(transaction).await?;
    if is_plain(&role) {
        let _ = batch(&client, &format!("DROP ROLE IF EXISTS {role}")).await;
    }
    audit(&client, &admin.fleet, "purged", name).await?;
    // The proof: every table is counted, after the commit.
    let mut left = Vec::new();
    for (table, sql) in [
        (
            "messages",
            "SELECT count(*) FROM baton.messages WHERE fleet = $1 AND (sender = $2 OR recipient = $2)",
        ),
        ("presence", "SELECT count(*) FROM baton.presence WHERE fleet = $1 AND machine = $2"),
        ("mailboxes", "SELECT count(*) FROM baton.mailboxes WHERE fleet = $1 AND machine = $2"),
        ("homes", "SELECT count(*) FROM baton.homes WHERE fleet = $1 AND home = $2"),
        ("devices", "SELECT count(*) FROM baton.devices WHERE fleet = $1 AND name = $2"),
    ] {
        left.push((table, read(&query_one(&client, sql, &params).await?, 0)?));
    }
    Ok(Purged { removed, left })
}

/// What `purge --channel` removed here and in the database, and the rows left there.
pub(crate) struct PurgedChannel {
    /// Parcels of the channel that this machine held.
    pub parcels: usize,
    pub removed: u64,
    pub left: u64,
    /// How many machines were told to remove their copies.
    pub told: usize,
}

/// Removes what this machine sent from a channel: unfetched conversations and handoffs, and their copies in the outbox.
/// A handoff that has arrived belongs to its new home.
pub(crate) async fn purge_channel(
    state: &Path,
    membership: &Membership,
    channel: &ChannelName,
) -> anyhow::Result<PurgedChannel> {
    let outbox = Outbox::of(state);
    let (client, _) = Endpoint::new(&membership.url)?
        .connect()
        .await
        .context("could not reach the database to remove the channel's data; nothing was changed")?;
    let session = Session { client, fleet: membership.fleet.clone(), me: membership.name.clone() };
    // What waits is not sent any more. What was sent stays on record until the database has removed it, so that a second
    // try knows about it.
    let mut parcels = outbox.of_channel(&["new"], channel)?;
    outbox.remove(&parcels)?;
    parcels.extend(outbox.of_channel(&["sent", "failed"], channel)?);
    let ids: Vec<String> = parcels.iter().map(|name| format!("{}.{name}", membership.name)).collect();
    let (removed, left) = session.unsend(&ids, channel.as_str()).await?;
    outbox.remove(&parcels)?;
    let parcels = parcels.len();
    let told = conversations::ask_to_forget(state, channel)?;
    Ok(PurgedChannel { parcels, removed, left, told })
}

/// Tells a database that was restored from a backup again who is revoked. For the founder's daemon.
pub(crate) async fn say_revoked_again(admin: &Admin) -> anyhow::Result<()> {
    let client = owner(&admin.url).await?;
    say_revoked(&client, admin).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machines_url_is_the_owners_with_its_own_role() {
        for (owner, want) in [
            (
                "postgres://team:pw@db.example:5432/app?sslmode=require",
                "postgres://r:p@db.example:5432/app?sslmode=require",
            ),
            ("postgres://db.example/app", "postgres://r:p@db.example/app"),
            ("postgresql:///app?host=/run/pg&user=team&password=x", "postgresql://r:p@/app?host=/run/pg"),
        ] {
            assert_eq!(url_for(owner, "r", "p").unwrap(), want);
        }
        assert!(url_for("host=db user=team", "r", "p").is_err());
    }
}
