//! The page at `/` and Swagger UI. How they behave in a browser is tested in `tests/web`.

use std::collections::BTreeSet;
use std::path::Path;

use regex::Regex;

use crate::Service;

/// Every address of the service itself that a file names: in attributes and imports.
fn named(text: &str) -> BTreeSet<String> {
    let names = Regex::new(r##"(?:href|src)="(/[^"#]*)"|from "\./([^"]+)""##).unwrap();
    let found = names.captures_iter(text).filter_map(|found| {
        let file = || found.get(2).map(|name| format!("/page/{}", name.as_str()));
        found.get(1).map(|path| path.as_str().to_owned()).or_else(file)
    });
    found.collect()
}

#[tokio::test]
async fn every_file_the_page_names_is_served_and_every_file_there_is_is_named() {
    let service = Service::new().await;
    let mut served = BTreeSet::new();
    let mut left = BTreeSet::from(["/".to_owned()]);
    while let Some(path) = left.pop_first() {
        let answer = service.get(&path).await;
        assert_eq!(answer.status, 200, "{path}");
        if path.starts_with("/docs") {
            continue;
        }
        assert!(answer.header("content-security-policy").contains("default-src 'none'"), "{path}");
        left.extend(
            named(&String::from_utf8_lossy(&answer.body)).into_iter().filter(|name| !served.contains(name)),
        );
        served.insert(path);
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/api/page/assets");
    let names = folder.read_dir().unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let there: BTreeSet<_> = names
        .map(|name| if name == "index.html" { "/".to_owned() } else { format!("/page/{name}") })
        .collect();
    assert_eq!(served, there);
}

#[tokio::test]
async fn nothing_of_it_names_another_host() {
    let service = Service::new().await;
    let foreign = Regex::new(r"https?://[^\s'\x22<>]+").unwrap();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/api/page/assets");
    for entry in folder.read_dir().unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        let found: Vec<_> = foreign.find_iter(&text).map(|found| found.as_str()).collect();
        assert!(found.iter().all(|&address| address == "http://www.w3.org/2000/svg"), "{found:?}");
    }
    let settings = service.get("/docs/swagger-initializer.js").await;
    let settings = String::from_utf8(settings.body).unwrap();
    assert_eq!(foreign.find(&settings), None, "{settings}");
    assert!(settings.contains(r#""validatorUrl": "none""#), "{settings}");
}
