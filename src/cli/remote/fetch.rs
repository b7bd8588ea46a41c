//! `storymem fetch`: a job's video.

use std::path::{Path, PathBuf};

use anyhow::Context;
use storymem_client::Client;
use uuid::Uuid;

use super::{ServerArgs, block_on};
use crate::config::absolute_path;
use crate::files::Aside;

/// Keeps the video of a job that has succeeded.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    server: ServerArgs,
    /// The job
    id: Uuid,
    /// The MP4 file to write [default: ID.mp4]
    #[arg(long, value_name = "FILE", value_parser = absolute_path())]
    out: Option<PathBuf>,
}

/// Keeps the video.
///
/// # Errors
/// When the service can't be reached, the job has no video, or the file can't be written.
pub fn run(args: Args) -> anyhow::Result<()> {
    let client = args.server.client()?;
    let out = args.out.unwrap_or_else(|| PathBuf::from(format!("{}.mp4", args.id)));
    block_on(save(&client, args.id, &out))
}

/// Writes the video beside `out` and puts it there when it is whole.
pub(super) async fn save(client: &Client, id: Uuid, out: &Path) -> anyhow::Result<()> {
    let wrong = || format!("can't write `{}`", out.display());
    let mut aside = Aside::of(out).with_context(wrong)?;
    let bytes = client.video(id, aside.file()).await?;
    aside.keep().with_context(wrong)?;
    eprintln!("{}: {bytes} bytes", out.display());
    Ok(())
}
