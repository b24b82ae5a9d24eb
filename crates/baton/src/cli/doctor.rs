//! `baton doctor`.

use super::Outcome;
use super::args::DoctorArgs;

pub fn run(_args: &DoctorArgs) -> anyhow::Result<Outcome> {
    Ok(Outcome::Done)
}
