//! A flag wins over its environment variable, that over the file, that over the default.

#![allow(clippy::unwrap_used, reason = "a test that fails here says where")]

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use clap::{Parser, ValueEnum};
use storymem::config::{
    self, BundleConfig, DataConfig, HttpConfig, LogConfig, LogFormat, OneDevice, QueueConfig, ServedDevices,
};
use storymem::engine::Device;
use tempfile::TempDir;

/// Commands such as the program has.
#[derive(Debug, Parser)]
enum Probe {
    /// Serves.
    Serve(Serve),
    /// Says something.
    Say {
        /// What.
        #[arg(long)]
        text: String,
        /// Loudly.
        #[arg(long)]
        loud: bool,
        #[command(flatten)]
        on: OneDevice,
    },
}

#[derive(Debug, clap::Args)]
struct Serve {
    #[command(flatten)]
    bundle: BundleConfig,
    #[command(flatten)]
    data: DataConfig,
    #[command(flatten)]
    on: ServedDevices,
    #[command(flatten)]
    http: HttpConfig,
    #[command(flatten)]
    queue: QueueConfig,
    #[command(flatten)]
    log: LogConfig,
    #[arg(long, hide = true)]
    secret: Option<String>,
}

/// Parses with a configuration file of that content.
fn parse(file: &str, args: &[&str]) -> Result<Probe, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = write(&folder, file);
    let args = ["storymem"].iter().chain(args).map(OsString::from);
    let config = [OsString::from("--config"), path.into()];
    config::try_parse_from(args.chain(config)).map_err(|e| e.to_string())
}

fn write(folder: &TempDir, text: &str) -> PathBuf {
    let path = folder.path().join("storymem.toml");
    fs::write(&path, text).unwrap();
    path
}

fn serve(file: &str, args: &[&str]) -> Serve {
    match parse(file, &[&["serve"], args].concat()).unwrap() {
        Probe::Serve(serve) => serve,
        other => panic!("{other:?}"),
    }
}

/// A path relative to where the process was started: it may go elsewhere.
fn here(path: &str) -> PathBuf {
    std::path::absolute(path).unwrap()
}

#[test]
fn defaults_hold_where_nothing_else_is_said() {
    let serve = serve("", &["--bundle", "a"]);
    assert_eq!(serve.http.listen.to_string(), "127.0.0.1:8080");
    assert_eq!(serve.data.data_dir, here("data"));
    assert_eq!(serve.queue.policy(), storymem::queue::Policy::default());
    assert_eq!(serve.log.log_format, LogFormat::Text);
}

#[test]
fn the_file_takes_the_place_of_defaults_and_flags_that_of_the_file() {
    let file = r#"
        bundle = ["a", "b"]
        listen = "0.0.0.0:80"
        data_dir = "/srv/data"
        lease-seconds = 30
        log-format = "json"
    "#;
    let read = serve(file, &[]);
    assert_eq!(read.bundle.bundles, [here("a"), here("b")]);
    assert_eq!(read.http.listen.to_string(), "0.0.0.0:80");
    assert_eq!(read.data.data_dir, PathBuf::from("/srv/data"));
    assert_eq!(read.queue.lease_seconds, 30);
    assert_eq!(read.log.log_format.to_possible_value().unwrap().get_name(), "json");
    let flags = ["--bundle", "c", "--listen", "[::1]:81", "--lease-seconds", "5"];
    let flagged = serve(file, &flags);
    assert_eq!(flagged.bundle.bundles, [here("c")], "a flag takes the place of the whole list");
    assert_eq!(flagged.http.listen.to_string(), "[::1]:81");
    assert_eq!(flagged.queue.lease_seconds, 5);
    assert_eq!(flagged.data.data_dir, PathBuf::from("/srv/data"));
}

#[test]
fn one_file_serves_all_commands() {
    let file = "bundle = \"a\"\ntext = \"hello\"\nloud = true\n";
    assert_eq!(serve(file, &[]).bundle.bundles, [here("a")]);
    match parse(file, &["say"]).unwrap() {
        Probe::Say { text, loud, .. } => assert_eq!((text.as_str(), loud), ("hello", true)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_list_of_devices_serves_commands_that_take_several_and_those_that_take_one() {
    let both = [Device::Cpu, Device::Cann(3)];
    for (file, flags, several, one) in [
        ("", &[] as &[&str], &both[..1], Device::Cpu),
        ("device = \"cann:3\"", &[], &both[1..], Device::Cann(3)),
        ("device = [\"cann:3\"]", &[], &both[1..], Device::Cann(3)),
        ("device = [\"cpu\", \"cann:3\"]", &[], &both, Device::Cpu),
        ("device = \"cpu,cann:3\"", &[], &both, Device::Cpu),
        ("device = [\"cpu\", \"cpu\"]", &["--device", "cann:3"], &both[1..], Device::Cann(3)),
        ("", &["--device", "cpu,cann:3"], &both, Device::Cpu),
        ("", &["--device", "cpu", "--device", "cann:3"], &both, Device::Cpu),
    ] {
        let served = serve(file, &[&["--bundle", "a"], flags].concat());
        assert_eq!(served.on.devices().collect::<Vec<_>>(), several, "`{file}` {flags:?}");
        match parse(file, &[&["say", "--text", "x"], flags].concat()).unwrap() {
            Probe::Say { on, .. } => assert_eq!(on.device(), one, "`{file}` {flags:?}"),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(serve("device = \"none\"", &["--bundle", "a"]).on.devices().count(), 0);
    let refused = parse("device = \"none\"", &["say", "--text", "x"]).unwrap_err();
    assert!(refused.contains("`none` is not a device"), "{refused}");
}

/// Each gets past its devices, and stops at a bundle that is not there.
#[test]
fn every_command_takes_the_devices_of_a_service_from_the_environment() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().to_str().unwrap();
    let out = folder.path().join("shot.mp4");
    let file = write(&folder, "device = [\"cpu\", \"cann:0\"]\n");
    let [file, out] = [&file, &out].map(|path| path.to_str().unwrap());
    for variable in [("STORYMEM_DEVICE", "cpu,cann:0"), ("STORYMEM_CONFIG", file)] {
        for args in [
            &["worker", "--data-dir", data] as &[&str],
            &["generate", "--prompt", "a fox", "--memory", "face.png", "--out", out],
            &["doctor", "--data-dir", data],
            &["compare"],
        ] {
            let said = program(&[variable], &[args, &["--bundle", "/no/bundle"]].concat());
            assert!(
                said.contains("/no/bundle") || said.contains("not ready"),
                "{args:?} {variable:?}: {said}"
            );
            assert!(!said.contains("--device"), "{args:?} {variable:?}: {said}");
        }
        let said = program(&[variable, ("STORYMEM_DEVICE", "cpu,gpu")], &["serve", "--bundle", "/no/bundle"]);
        assert!(said.contains("`gpu` is not a device"), "{said}");
    }
}

#[test]
fn what_is_wrong_in_a_file_is_named() {
    for (file, expected) in [
        ("listne = \"x\"", "listne"),
        ("secret = \"x\"", "secret"),
        ("config = \"x\"", "config"),
        ("[serve]\nlisten = \"x\"", "serve"),
        ("listen = 1979-05-27", "listen"),
        ("listen = { port = 1 }", "listen"),
        ("bundle = [[\"a\"]]", "bundle"),
        ("listen = [\"127.0.0.1:1\", \"127.0.0.1:2\"]", "one value"),
        ("device = [\"cpu\", \"gpu\"]", "gpu"),
        ("listen = \"nowhere\"", "--listen"),
        ("lease-seconds = 1", "--lease-seconds"),
        ("lease-seconds = \"long\"", "--lease-seconds"),
        ("log = \"storymem=shout\"", "--log"),
        ("listen = ", "TOML"),
    ] {
        let error = parse(file, &["serve", "--bundle", "a"]).unwrap_err();
        assert!(error.contains(expected), "`{file}`: {error}");
    }
    let missing = ["storymem", "--config", "/not/there.toml", "serve"].map(OsString::from);
    let error = config::try_parse_from::<Probe>(missing).unwrap_err().to_string();
    assert!(error.contains("/not/there.toml"), "{error}");
    let required = parse("listen = \"127.0.0.1:1\"", &["serve"]).unwrap_err();
    assert!(required.contains("--bundle"), "{required}");
}

/// Runs the program itself, since the environment belongs to a whole process. It stops at the first thing wrong,
/// which tells where a setting came from.
fn program(envs: &[(&str, &str)], args: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_storymem"));
    command.env_clear().envs(envs.iter().copied()).args(args);
    let output = command.output().unwrap();
    assert!(!output.status.success());
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn the_environment_stands_between_the_file_and_the_flags() {
    let folder = tempfile::tempdir().unwrap();
    let config = write(&folder, "listen = \"from the file\"\nbundle = \"/no/bundle/in/file\"\n");
    let config = config.to_str().unwrap();
    let by_file = program(&[], &["serve", "--config", config]);
    assert!(by_file.contains("from the file"), "{by_file}");
    let env_file = program(&[("STORYMEM_CONFIG", config)], &["serve"]);
    assert!(env_file.contains("from the file"), "{env_file}");
    let by_env = program(&[("STORYMEM_CONFIG", config), ("STORYMEM_LISTEN", "from the env")], &["serve"]);
    assert!(by_env.contains("from the env"), "{by_env}");
    let envs = [("STORYMEM_CONFIG", config), ("STORYMEM_LISTEN", "from the env")];
    let by_flag = program(&envs, &["serve", "--listen", "from the flag"]);
    assert!(by_flag.contains("from the flag"), "{by_flag}");
    let bundle = program(&envs, &["serve", "--listen", "127.0.0.1:0"]);
    assert!(bundle.contains("/no/bundle/in/file"), "{bundle}");
    let envs = [("STORYMEM_CONFIG", config), ("STORYMEM_BUNDLE", "/no/bundle/in/env")];
    let bundle = program(&envs, &["serve", "--listen", "127.0.0.1:0"]);
    assert!(bundle.contains("/no/bundle/in/env"), "{bundle}");
}

#[test]
fn every_flag_names_its_variable_in_the_help() {
    for command in ["serve", "worker"] {
        let output = Command::new(env!("CARGO_BIN_EXE_storymem")).args([command, "--help"]).output().unwrap();
        let help = String::from_utf8(output.stdout).unwrap();
        let flags = help.lines().filter_map(|line| line.trim().split_once("--")?.1.split([' ', '\n']).next());
        let mut seen = 0;
        for flag in flags.filter(|flag| *flag != "help" && !flag.is_empty()) {
            let variable = format!("STORYMEM_{}", flag.to_uppercase().replace('-', "_"));
            assert!(help.contains(&format!("[env: {variable}")), "{command} {flag}: {help}");
            seen += 1;
        }
        assert!(seen > 5, "{help}");
        assert!(!help.contains("supervised"), "what is hidden stays hidden");
    }
}

#[test]
fn the_effective_settings_say_where_they_come_from_and_are_a_file_themselves() {
    let folder = tempfile::tempdir().unwrap();
    let config = write(&folder, "bundle = [\"/b/mi2v\", \"/b/t2v\"]\nlease-seconds = 30\n");
    let config = config.to_str().unwrap();
    let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    let envs =
        [("STORYMEM_CONFIG", config), ("STORYMEM_LISTEN", "0.0.0.0:80"), ("STORYMEM_WEBHOOK_SECRET", secret)];
    let print = |envs: &[(&str, &str)], args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_storymem"));
        let output = command.env_clear().envs(envs.iter().copied()).args(args).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let printed = print(&envs, &["config"]);
    for line in [
        "bundle = [\"/b/mi2v\", \"/b/t2v\"]  # from the file",
        "lease-seconds = 30  # from the file",
        "listen = \"0.0.0.0:80\"  # from STORYMEM_LISTEN",
        "max-attempts = 3  # default",
        "# threads =   # not set",
        "# webhook-secret is set and not shown  # from STORYMEM_WEBHOOK_SECRET",
    ] {
        assert!(printed.lines().any(|l| l == line), "`{line}` is not in {printed}");
    }
    assert!(!printed.contains(secret));
    let again = write(&folder, &printed);
    let reread = print(&[("STORYMEM_CONFIG", again.to_str().unwrap())], &["config"]);
    assert!(reread.contains("listen = \"0.0.0.0:80\"  # from the file"), "{reread}");
    let bare = print(&[], &["config"]);
    assert!(bare.contains("# bundle =   # not set, and needed"), "{bare}");
    let unknown = program(&[], &["config", "sevre"]);
    assert!(unknown.contains("`sevre`"), "{unknown}");
    let wrong = program(&[("STORYMEM_LISTEN", "nowhere")], &["config"]);
    assert!(wrong.contains("nowhere"), "{wrong}");
}

#[test]
fn what_starts_the_service_names_settings_it_has() {
    let output = Command::new(env!("CARGO_BIN_EXE_storymem")).args(["serve", "--help"]).output().unwrap();
    let help = String::from_utf8(output.stdout).unwrap();
    // What only docker-compose.yml itself reads.
    let others = ["STORYMEM_BUNDLE_DIR", "STORYMEM_PORT", "STORYMEM_PUBLISH"];
    for file in ["Dockerfile", "docker-compose.yml", "deploy/storymem.service"] {
        let text = fs::read_to_string(format!("{}/{file}", env!("CARGO_MANIFEST_DIR"))).unwrap();
        let words = text.split(|c: char| !(c.is_ascii_uppercase() || c == '_'));
        let names: Vec<_> = words.filter(|w| w.starts_with("STORYMEM_") && !others.contains(w)).collect();
        assert!(names.len() >= 3, "{file}: {names:?}");
        for name in names {
            assert!(
                ['=', ']'].iter().any(|end| help.contains(&format!("[env: {name}{end}"))),
                "{file} sets `{name}`, which `serve` does not have"
            );
        }
    }
}

#[test]
fn shells_complete_commands_and_flags() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output =
            Command::new(env!("CARGO_BIN_EXE_storymem")).args(["completions", shell]).output().unwrap();
        let script = String::from_utf8(output.stdout).unwrap();
        assert!(script.contains("serve") && script.contains("data-dir"), "{shell}: {script}");
    }
}
