//! The schema: numbered migrations inside the program, applied under a lock, each completely or not at all. A database
//! that a newer baton has migrated is left alone.

use anyhow::Context as _;
use tokio_postgres::Client;

use crate::fleet::database::{query_one, read};

/// Each migration once, in order. A released one is never changed.
const MIGRATIONS: [&str; VERSION as usize] =
    [include_str!("migrations/1.sql"), include_str!("migrations/2.sql")];
/// The version of the schema that this program uses.
pub(crate) const VERSION: i32 = 2;
/// One at a time, in the whole database.
const LOCK: i64 = 0x6261_746f_6e31;

const FOUND: &str = "SELECT coalesce(max(version), 0) FROM baton.meta";

/// Migrates the schema to this program's version, and returns the version that it had. Needs the role that owns it.
pub(crate) async fn migrate(client: &mut Client) -> anyhow::Result<i32> {
    let transaction = client.transaction().await?;
    transaction
        .execute_typed("SELECT pg_advisory_xact_lock($1)", &[(&LOCK, tokio_postgres::types::Type::INT8)])
        .await?;
    transaction
        .batch_execute(
            "CREATE SCHEMA IF NOT EXISTS baton;
             CREATE TABLE IF NOT EXISTS baton.meta (version integer NOT NULL, at timestamptz NOT NULL DEFAULT now());
             DO $$ BEGIN
               CREATE ROLE baton_device NOLOGIN NOINHERIT NOCREATEDB NOCREATEROLE;
             EXCEPTION WHEN duplicate_object THEN NULL;
             END $$;",
        )
        .await
        .context("the role must be allowed to make a schema and roles (CREATE on the database, CREATEROLE)")?;
    let found: i32 = read(&transaction.query_typed_one(FOUND, &[]).await?, 0)?;
    anyhow::ensure!(found <= VERSION, newer(found));
    for (migration, version) in MIGRATIONS.iter().zip(1..).skip(usize::try_from(found).unwrap_or_default()) {
        transaction.batch_execute(migration).await.with_context(|| format!("migration {version}"))?;
        transaction
            .execute_typed(
                "INSERT INTO baton.meta (version) VALUES ($1)",
                &[(&version, tokio_postgres::types::Type::INT4)],
            )
            .await?;
    }
    transaction.commit().await?;
    Ok(found)
}

/// Refuses a database that this program does not understand.
pub(crate) async fn check(client: &Client) -> anyhow::Result<()> {
    let found: i32 = read(&query_one(client, FOUND, &[]).await?, 0)?;
    anyhow::ensure!(found <= VERSION, newer(found));
    anyhow::ensure!(
        found == VERSION,
        "the database has version {found} of the schema and this baton speaks {VERSION}; run `baton fleet init` again \
         on the machine that founded the fleet"
    );
    Ok(())
}

fn newer(found: i32) -> String {
    format!(
        "a newer baton has migrated this database (version {found}, this one knows {VERSION}); it is left as it is. \
         Update baton on this machine"
    )
}
