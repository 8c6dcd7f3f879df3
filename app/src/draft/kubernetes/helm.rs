//! A Helm chart: `helm template` renders it. Its templates are a language of their own, which is not read here.

use super::documents::{Document, documents};
use super::renderer;
use model::Failure;
use std::path::Path;

pub const CHART: &str = "Chart.yaml";

pub fn render(folder: &Path, shown: &str) -> Result<Vec<Document>, Failure> {
    let elsewhere = format!(
        "or render it where helm is installed and read the result: helm template {} > rendered.yaml && faultloom init \
         rendered.yaml",
        folder.display()
    );
    let Some(helm) = renderer::program("helm") else {
        return Err(Failure::environment(format!("{shown} is a Helm chart, and helm is not installed"))
            .why("its templates become manifests only by `helm template`")
            .next(format!("install helm, {elsewhere}")));
    };
    let name = folder.canonicalize().ok().and_then(|folder| Some(folder.file_name()?.to_string_lossy().into_owned()));
    let name = name.map(|name| name.to_ascii_lowercase().replace(['_', '.'], "-")).unwrap_or_else(|| "app".to_owned());
    let text = renderer::run(&helm, &["template", &name, &folder.to_string_lossy()]).map_err(|why| {
        Failure::request(format!("helm cannot render {shown}"))
            .why(why)
            .next(format!("correct the chart (helm dependency build loads its dependencies), {elsewhere}"))
    })?;
    documents(&text, &format!("{shown} as helm renders it"), &mut Vec::new())
}
