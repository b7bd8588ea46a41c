//! `storymem watch`: follows a job.

use uuid::Uuid;

use super::{ServerArgs, block_on, follow, line};

/// Follows a job to its end; ends with 1 if the job ends without a video.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    server: ServerArgs,
    /// The job
    id: Uuid,
}

/// Follows the job.
///
/// # Errors
/// When the service can't be reached, has no such job, or the job ends without a video.
pub fn run(args: Args) -> anyhow::Result<()> {
    let client = args.server.client()?;
    block_on(async {
        let job = follow(&client, args.id).await?;
        println!("{}  {}", job.id, line(&job));
        Ok(())
    })
}
