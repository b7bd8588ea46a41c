//! `storymem status`: how jobs stand.

use storymem_client::Job;
use uuid::Uuid;

use super::{ServerArgs, block_on, line};

/// Tells how a job stands, or the newest ones.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    server: ServerArgs,
    /// The job [default: the newest ones]
    id: Option<Uuid>,
    /// How many of the newest
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=200))]
    limit: u32,
}

/// Tells how they stand.
///
/// # Errors
/// When the service can't be reached or has no such job.
pub fn run(args: Args) -> anyhow::Result<()> {
    let client = args.server.client()?;
    block_on(async {
        let jobs = match args.id {
            Some(id) => vec![client.job(id).await?],
            None => client.jobs(args.limit).await?.items,
        };
        jobs.iter().for_each(show);
        Ok(())
    })
}

fn show(job: &Job) {
    println!("{}  {}  {}", job.id, job.created_at.format("%Y-%m-%d %H:%M:%SZ"), line(job));
    for warning in &job.warnings {
        println!("  warning: {warning}");
    }
}
