//! Checking what an export is given, before anything is written.

use std::path::Path;

use serde_json::Value;

use super::describe::{adapter_warnings, file_name, licences, name, warnings};
use super::experts::Experts;
use super::sources::Source;
use super::{AdapterFile, ExportError, ExportOptions};
use crate::bundle::{BundleVariant, LoraFacts, Manifest, Nets, SamplingDefaults, StoredTensor};
use crate::graph::WeightSpec;
use crate::models::Net;
use crate::standalone::Profile;
use crate::weights::checkpoint::Checkpoint;
use crate::weights::config::{self, Fields};
use crate::weights::lora::Adapter;
use crate::weights::matching::{KeyReport, assign};
use crate::weights::names::{NameTable, Naming};

/// StoryMem's adapters, the one for high noise first.
const STORY_FILES: [&str; 2] = ["backbone_high_noise.safetensors", "backbone_low_noise.safetensors"];

/// An export of which everything is known but the values.
#[derive(Debug)]
pub struct Plan {
    /// The manifest, but for what is known only once files are read and written: their digests.
    pub(super) manifest: Manifest,
    pub(super) nets: Vec<NetPlan>,
    pub(super) tokenizer: Vec<u8>,
    pub(super) sources: Vec<Source>,
    /// The profile of the whole-model files, if there shall be some.
    pub(super) standalone: Option<Profile>,
    warnings: Vec<String>,
}

/// What becomes of one net.
#[derive(Debug)]
pub struct NetPlan {
    pub(super) checkpoint: Checkpoint,
    /// For each stored tensor, the checkpoint's key that holds it.
    pub(super) keys: Vec<String>,
    pub(super) stored: Vec<StoredTensor>,
    pub(super) adapters: Vec<Adapter>,
    report: KeyReport,
}

impl Plan {
    /// Reads every config and header, and checks that all of it fits together.
    ///
    /// # Errors
    /// When a file is missing or damaged, a net is of another architecture, a key is missing, unexpected, mis-shaped
    /// or unused, or the parts do not fit each other.
    pub fn check(options: &ExportOptions) -> Result<Self, ExportError> {
        let ExportOptions { components, variant, dtype, .. } = options;
        if let (BundleVariant::T2v, Some(lora)) = (variant, &options.lora) {
            return Err(ExportError::LoraOnT2v(lora.clone()));
        }
        check_components(components)?;
        options.lora.as_deref().map_or(Ok(()), check_story)?;
        let experts = Experts::open(&options.transformer, components)?;
        let clip_config = options.clip.as_ref().map(|folder| folder.join("config.json"));
        let text_folder = components.join("text_encoder");
        let vae_folder = components.join("vae");
        let [text_config, vae_config] = [&text_folder, &vae_folder].map(|folder| folder.join("config.json"));
        let nets = Nets {
            text_encoder: config::umt5(&Fields::read(&text_config)?)?,
            transformer: experts.config,
            vae: config::vae(&Fields::read(&vae_config)?)?,
            clip: clip_config.as_deref().map(|file| config::clip(&Fields::read(file)?)).transpose()?,
        };
        check_fit(&nets, *variant)?;

        let tokenizer_path = components.join("tokenizer").join("tokenizer.json");
        let tokenizer = read_tokenizer(&tokenizer_path, nets.text_encoder.vocab_size)?;
        let model_index = components.join("model_index.json");
        let mut sampling = SamplingDefaults::for_variant(*variant);
        if let Some(boundary) = boundary(&model_index, *variant)? {
            sampling.boundary = boundary;
        }

        let mut sources = vec![text_config, vae_config, tokenizer_path];
        sources.extend(clip_config);
        sources.extend(experts.config_files);
        sources.extend(Some(model_index).filter(|path| path.exists()));
        let mut manifest = Manifest {
            format: Manifest::FORMAT,
            name: name(options),
            variant: *variant,
            random_weights: false,
            dtype: *dtype,
            nets,
            sampling,
            lora: Vec::new(),
            sources: Vec::new(),
            files: Vec::new(),
            licences: licences(options),
        };

        let [high, low] = experts.checkpoints;
        let mut checkpoints =
            vec![Checkpoint::open(&text_folder)?, high, low, Checkpoint::open(&vae_folder)?];
        checkpoints.extend(options.clip.as_deref().map(Checkpoint::open).transpose()?);
        let mut plans = Vec::new();
        for (net, checkpoint) in manifest.nets.present().zip(checkpoints) {
            plans.push(NetPlan::check(net, &manifest, checkpoint));
        }
        let unclean: Vec<KeyReport> =
            plans.iter().map(|plan| &plan.report).filter(|report| !report.is_clean()).cloned().collect();
        if !unclean.is_empty() {
            return Err(ExportError::Keys(unclean));
        }
        for plan in &mut plans {
            manifest.lora.extend(plan.add_adapters(options, &manifest.nets)?);
            sources.extend(plan.checkpoint.sources().map(Path::to_owned));
            sources.extend(plan.adapters.iter().flat_map(Adapter::sources).map(Path::to_owned));
        }
        let sources = sources.iter().map(|path| Source::look(path)).collect::<Result<_, _>>()?;
        let mut warnings = warnings(options, &manifest);
        warnings.extend(plans.iter().flat_map(|plan| adapter_warnings(options, plan)));
        let standalone = options.standalone.map(|at| at.unwrap_or_else(|| Profile::of(&manifest)));
        Ok(Self { manifest, nets: plans, tokenizer, sources, standalone, warnings })
    }

    /// What became of the keys of each net, in the order of [`Nets::present`].
    pub fn reports(&self) -> impl Iterator<Item = &KeyReport> {
        self.nets.iter().map(|net| &net.report)
    }

    /// The plan of each net, in the order of [`Nets::present`].
    pub fn nets(&self) -> &[NetPlan] {
        &self.nets
    }

    /// What the user should know though it is no mistake, in words.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Bytes that will be read.
    pub fn source_bytes(&self) -> u64 {
        self.sources.iter().map(|source| source.bytes).sum()
    }

    /// The profile of the whole-model files, if they were asked for.
    pub fn standalone(&self) -> Option<Profile> {
        self.standalone
    }

    /// What the manifest will say of the adapters.
    pub fn adapters(&self) -> &[LoraFacts] {
        &self.manifest.lora
    }

    /// Bytes that will be written, apart from headers, tokenizer and manifest.
    pub fn bytes(&self) -> u64 {
        self.nets.iter().map(NetPlan::bytes).sum()
    }
}

impl NetPlan {
    /// What became of the net's keys.
    pub fn report(&self) -> &KeyReport {
        &self.report
    }

    /// Canonical names of its tensors, in the order of use.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.stored.iter().map(|tensor| tensor.name.as_str())
    }

    /// Bytes of its tensors as they are stored.
    pub fn bytes(&self) -> u64 {
        self.stored.iter().map(|tensor| tensor.bytes() as u64).sum()
    }

    /// Element types of its tensors as they are stored, and how many tensors have them.
    pub fn dtypes(&self) -> Vec<(&'static str, usize)> {
        let mut counts = std::collections::BTreeMap::new();
        for tensor in &self.stored {
            *counts.entry(tensor.dtype.name()).or_insert(0) += 1;
        }
        counts.into_iter().collect()
    }

    fn check(net: Net, manifest: &Manifest, checkpoint: Checkpoint) -> Self {
        let specs = manifest.nets.weights(net);
        let (keys, report) = assign(net, &specs, &table(net, &manifest.nets, &specs), &checkpoint);
        Self { checkpoint, keys, stored: manifest.tensors(net), adapters: Vec::new(), report }
    }

    /// Opens the adapters that are for this net.
    fn add_adapters(&mut self, options: &ExportOptions, nets: &Nets) -> Result<Vec<LoraFacts>, ExportError> {
        let net = self.report.net;
        let [high, low] = STORY_FILES;
        let story_file = match net {
            Net::TransformerHigh => high,
            Net::TransformerLow => low,
            Net::TextEncoder | Net::Vae | Net::Clip => return Ok(Vec::new()),
        };
        let specs = nets.weights(net);
        let names = table(net, nets, &specs);
        let story = options.lora.iter().map(|folder| AdapterFile {
            path: folder.join(story_file),
            net,
            rule: Some(options.lora_scale),
            strength: 1.0,
        });
        let further = options.adapters.iter().filter(|adapter| adapter.net == net).cloned();
        for request in story.chain(further) {
            self.adapters.push(Adapter::open(&request, &names, &specs)?);
        }
        let merged: std::collections::BTreeSet<usize> =
            self.adapters.iter().flat_map(Adapter::weights).collect();
        self.report.merged = merged.len();
        Ok(self.adapters.iter().map(|adapter| facts(net, adapter)).collect())
    }
}

fn table(net: Net, nets: &Nets, specs: &[WeightSpec]) -> NameTable {
    let naming = match net {
        Net::TextEncoder => Naming::TextEncoder,
        Net::TransformerHigh | Net::TransformerLow => Naming::Transformer,
        Net::Vae => Naming::Vae { res_blocks: nets.vae.num_res_blocks },
        Net::Clip => Naming::Clip,
    };
    NameTable::new(naming, specs)
}

fn facts(net: Net, adapter: &Adapter) -> LoraFacts {
    let groups = adapter.groups();
    LoraFacts {
        file: file_name(adapter.path()),
        net,
        rule: adapter.rule(),
        strength: adapter.strength(),
        ranks: groups.iter().map(|group| group.rank).collect(),
        alphas: groups.iter().map(|group| group.alpha).collect(),
        scales: groups.iter().map(|group| group.scale).collect(),
        merged: adapter.weights().len(),
        unused: adapter.image_branch_keys(),
    }
}

/// Refuses Wan's own release, whose text encoder and autoencoder are pickles, with what to use instead.
fn check_components(components: &Path) -> Result<(), ExportError> {
    if components.join("text_encoder").is_dir() {
        return Ok(());
    }
    let is_original = ["models_t5_umt5-xxl-enc-bf16.pth", "Wan2.1_VAE.pth", "high_noise_model"];
    let problem = if is_original.iter().any(|name| components.join(name).exists()) {
        "is Wan's own release, whose text encoder and autoencoder are PyTorch pickles; give `--components` the release in \
         diffusers' format (Wan2.2-I2V-A14B-Diffusers)"
    } else {
        "holds no `text_encoder`; give `--components` the folder of a release in diffusers' format"
    };
    Err(ExportError::Layout { folder: components.into(), problem: problem.into() })
}

/// Refuses a folder that holds neither of StoryMem's adapters, converted or not.
fn check_story(folder: &Path) -> Result<(), ExportError> {
    let is_there =
        |name: &&str| [folder.join(name), folder.join(name).with_extension("pth")].iter().any(|p| p.exists());
    if STORY_FILES.iter().any(is_there) {
        return Ok(());
    }
    let problem = format!(
        "holds neither `{}` nor `{}`; give `--lora` the folder of one variant, such as `Wan2.2-MI2V-A14B`, or an adapter \
         as `FILE@high=STRENGTH`",
        STORY_FILES[0], STORY_FILES[1]
    );
    Err(ExportError::Layout { folder: folder.into(), problem })
}

fn check_fit(nets: &Nets, variant: BundleVariant) -> Result<(), ExportError> {
    let (text, transformer, vae) = (&nets.text_encoder, &nets.transformer, &nets.vae);
    if text.d_model != transformer.text_dim {
        let (has, takes) = (text.d_model, transformer.text_dim);
        return Err(ExportError::Nets(format!(
            "the text encoder is {has} wide, the transformers take text {takes} wide"
        )));
    }
    if vae.z_dim != transformer.out_dim {
        let (has, takes) = (vae.z_dim, transformer.out_dim);
        return Err(ExportError::Nets(format!(
            "the autoencoder has {has} latent channels, the transformers {takes}"
        )));
    }
    let (needed, found) = (variant.in_dim(), transformer.in_dim);
    if needed == found {
        return Ok(());
    }
    let instead = match variant {
        BundleVariant::T2v => "Wan2.2-T2V-A14B, or another variant",
        BundleVariant::M2v | BundleVariant::Mi2v | BundleVariant::Mm2v => {
            "Wan2.2-I2V-A14B, or `--variant t2v`"
        }
    };
    Err(ExportError::Variant { variant: variant.name(), needed, found, instead })
}

/// Reads the tokenizer, and checks that each of its ids has a row in the token embedding.
fn read_tokenizer(path: &Path, rows: usize) -> Result<Vec<u8>, ExportError> {
    let text = std::fs::read(path).map_err(|reason| ExportError::Read { path: path.into(), reason })?;
    let invalid = |problem: String| ExportError::Tokenizer { path: path.into(), problem };
    let json: Value = serde_json::from_slice(&text).map_err(|e| invalid(format!("is damaged ({e})")))?;
    let vocab = &json["model"]["vocab"];
    let ids = match vocab {
        Value::Array(pieces) => pieces.len() as u64,
        Value::Object(pieces) => pieces.values().filter_map(Value::as_u64).max().map_or(0, |id| id + 1),
        _ => 0,
    };
    let added = json["added_tokens"].as_array().into_iter().flatten();
    let ids = added.filter_map(|token| token["id"].as_u64()).map(|id| id + 1).fold(ids, u64::max);
    match ids {
        0 => Err(invalid("holds no vocabulary".into())),
        ids if ids > rows as u64 => {
            Err(invalid(format!("has {ids} tokens, the text encoder's embedding only {rows}")))
        }
        _ => Ok(text),
    }
}

/// The boundary between the experts, if `model_index.json` is there and about the same task.
fn boundary(model_index: &Path, variant: BundleVariant) -> Result<Option<f64>, ExportError> {
    if !model_index.exists() {
        return Ok(None);
    }
    let fields = Fields::read(model_index)?;
    let pipeline = match variant {
        BundleVariant::T2v => "WanPipeline",
        BundleVariant::M2v | BundleVariant::Mi2v | BundleVariant::Mm2v => "WanImageToVideoPipeline",
    };
    if fields.optional::<String>("_class_name")?.is_none_or(|class| class != pipeline) {
        return Ok(None);
    }
    match fields.optional("boundary_ratio")? {
        Some(boundary) if !(0.0..=1.0).contains(&boundary) => {
            let problem = format!("holds the boundary {boundary}, which is not between 0 and 1");
            Err(ExportError::Layout { folder: model_index.into(), problem })
        }
        boundary => Ok(boundary),
    }
}
