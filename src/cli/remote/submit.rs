//! `storymem submit`: a job for a running service.

use std::fs;
use std::path::PathBuf;

use anyhow::Context;
use storymem_client::{Client, ImageRef, JobRequest};

use super::{ServerArgs, block_on, fetch, follow};
use crate::config::absolute_path;

/// Posts a job to a running service and prints its id.
///
/// Settings that are not given are the service's own. With `--out` it waits for the video and keeps it.
#[derive(Clone, Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    server: ServerArgs,
    /// What happens in the shot
    #[arg(long, value_name = "TEXT")]
    prompt: String,
    /// What to steer away from
    #[arg(long, value_name = "TEXT")]
    negative_prompt: Option<String>,
    /// Frames to remember, in story order: files, or URLs where the service takes them
    #[arg(long, value_name = "IMAGE", num_args = 1..)]
    memory: Vec<String>,
    /// Begin with this frame
    #[arg(long, value_name = "IMAGE", conflicts_with = "motion")]
    first_frame: Option<String>,
    /// Continue the motion of these five frames
    #[arg(long, value_name = "IMAGE", num_args = 5)]
    motion: Vec<String>,
    /// Width and height in pixels, multiples of 16
    #[arg(long, value_name = "WxH")]
    size: Option<String>,
    /// `size`, or `reference`: its area in the shape of the first image
    #[arg(long, value_name = "HOW")]
    fit: Option<String>,
    /// Frames to generate, 4n+1
    #[arg(long, value_name = "N")]
    frames: Option<u32>,
    /// Denoising steps
    #[arg(long, value_name = "N")]
    steps: Option<u32>,
    /// Shift of the noise schedule
    #[arg(long, value_name = "X")]
    shift: Option<f64>,
    /// Guidance scale
    #[arg(long, value_name = "X")]
    guidance: Option<f64>,
    /// The sampler: `unipc` or `dpm++`
    #[arg(long, value_name = "NAME")]
    solver: Option<String>,
    /// Seed of the noise; drawn if not given
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// From -10 to 10; higher comes first
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    priority: Option<i32>,
    /// Wait for the end
    #[arg(long)]
    wait: bool,
    /// Wait for the end, and keep the video here
    #[arg(long, value_name = "FILE", value_parser = absolute_path())]
    out: Option<PathBuf>,
}

/// Posts the job.
///
/// # Errors
/// When an image can't be read, the service can't be reached or says no, or the job awaited ends without a video.
pub fn run(args: Args) -> anyhow::Result<()> {
    let client = args.server.client()?;
    block_on(async {
        let job = client.create(&request(&client, &args).await?).await?;
        println!("{}", job.id);
        if args.wait || args.out.is_some() {
            follow(&client, job.id).await?;
        }
        match &args.out {
            Some(out) => fetch::save(&client, job.id, out).await,
            None => Ok(()),
        }
    })
}

async fn request(client: &Client, args: &Args) -> anyhow::Result<JobRequest> {
    let first_frame = match &args.first_frame {
        Some(image) => Some(sent(client, image).await?),
        None => None,
    };
    Ok(JobRequest {
        prompt: args.prompt.clone(),
        negative_prompt: args.negative_prompt.clone(),
        memory: all_sent(client, &args.memory).await?,
        first_frame,
        motion_frames: all_sent(client, &args.motion).await?,
        size: args.size.clone(),
        fit: args.fit.clone(),
        frames: args.frames,
        steps: args.steps,
        shift: args.shift,
        guidance_scale: args.guidance,
        solver: args.solver.clone(),
        seed: args.seed,
        priority: args.priority,
        ..JobRequest::default()
    })
}

async fn all_sent(client: &Client, images: &[String]) -> anyhow::Result<Vec<ImageRef>> {
    let mut sent_images = Vec::with_capacity(images.len());
    for image in images {
        sent_images.push(sent(client, image).await?);
    }
    Ok(sent_images)
}

/// Uploads a file, so that the request stays small and an image that is used again is sent once. A URL is for the
/// service to fetch.
async fn sent(client: &Client, image: &str) -> anyhow::Result<ImageRef> {
    if image.starts_with("https://") || image.starts_with("http://") {
        return Ok(ImageRef::Url { url: image.to_owned() });
    }
    let content = fs::read(image).with_context(|| format!("can't read the image `{image}`"))?;
    let upload = client.upload(content).await.with_context(|| format!("the image `{image}` is not taken"))?;
    Ok(ImageRef::Upload { upload: upload.id })
}
