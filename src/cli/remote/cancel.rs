//! `storymem cancel`: gives a job up.

use uuid::Uuid;

use super::{ServerArgs, block_on, line};

/// Cancels a job; a running one ends within a denoising step.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    server: ServerArgs,
    /// The job
    id: Uuid,
}

/// Cancels the job.
///
/// # Errors
/// When the service can't be reached, or the job has ended.
pub fn run(args: Args) -> anyhow::Result<()> {
    let client = args.server.client()?;
    block_on(async {
        let job = client.cancel(args.id).await?;
        println!("{}  {}", job.id, line(&job));
        Ok(())
    })
}
