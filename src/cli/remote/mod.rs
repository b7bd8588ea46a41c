//! The commands that talk to a running service, here or elsewhere, through [`storymem_client`].

pub mod cancel;
pub mod fetch;
pub mod status;
pub mod submit;
pub mod watch;

use std::future::Future;

use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};
use storymem_client::{Client, Job, Status};
use uuid::Uuid;

/// Which service, and who we are to it.
#[derive(Clone, Debug, clap::Args)]
pub struct ServerArgs {
    /// The service's address
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8080")]
    server: String,
    /// The key of a service that asks for one; better set by its variable than by the flag, which others can see
    #[arg(long, value_name = "KEY", hide_env_values = true)]
    api_key: Option<String>,
}

impl ServerArgs {
    fn client(&self) -> anyhow::Result<Client> {
        Ok(Client::new(&self.server, self.api_key.clone())?)
    }
}

/// Runs what talks over the network, to its end.
fn block_on<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("can't set up the network")?;
    runtime.block_on(work)
}

/// Follows a job to its end, showing how far it is.
///
/// # Errors
/// When it ends without a video.
async fn follow(client: &Client, id: Uuid) -> anyhow::Result<Job> {
    let style = ProgressStyle::with_template("{elapsed_precise} {bar:30} {pos:>3} % {msg}")
        .expect("the template is a constant that has been tried");
    let bar = ProgressBar::new(100).with_style(style);
    let job = client
        .watch(id, |job| {
            bar.set_position(job.progress.percent as u64);
            bar.set_message(line(job));
        })
        .await?;
    bar.finish_and_clear();
    ended_well(&job)?;
    Ok(job)
}

fn ended_well(job: &Job) -> anyhow::Result<()> {
    match (job.status, &job.error) {
        (Status::Failed, Some(error)) => {
            anyhow::bail!("the job {} failed: {} (`{}`)", job.id, error.detail, error.code)
        }
        (Status::Failed, None) => anyhow::bail!("the job {} failed", job.id),
        (Status::Cancelled, _) => anyhow::bail!("the job {} was cancelled", job.id),
        _ => Ok(()),
    }
}

/// How a job stands, in a few words.
fn line(job: &Job) -> String {
    let progress = &job.progress;
    match job.status {
        Status::Queued => match job.queue_position {
            Some(position) => format!("queued, number {position}"),
            None => "queued".to_owned(),
        },
        Status::Running | Status::Cancelling => {
            let left =
                progress.eta_seconds.map(|seconds| format!(", {seconds:.0} s left")).unwrap_or_default();
            let doing = if job.status == Status::Cancelling { "cancelling, " } else { "" };
            format!("{doing}{} {}/{}{left}", progress.stage, progress.step, progress.steps)
        }
        Status::Succeeded => match &job.result {
            Some(made) => {
                format!(
                    "succeeded, {}x{}, {} frames, {:.2} s",
                    made.width, made.height, made.frames, made.seconds
                )
            }
            None => "succeeded".to_owned(),
        },
        Status::Failed => match &job.error {
            Some(error) => format!("failed: {} (`{}`)", error.detail, error.code),
            None => "failed".to_owned(),
        },
        Status::Cancelled => "cancelled".to_owned(),
    }
}
