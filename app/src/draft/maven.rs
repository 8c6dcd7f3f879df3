//! The name of the jar that a Maven project packages, from its `pom.xml`.

/// Values of a pom that name its jar. Properties are not resolved.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Project {
    pub artifact: Option<String>,
    pub version: Option<String>,
    pub final_name: Option<String>,
}

impl Project {
    pub fn parse(text: &str) -> Project {
        let mut project = Project::default();
        let mut parent_version = None;
        for (path, value) in leaves(text) {
            let value = Some(value.to_owned()).filter(|value| !value.is_empty());
            match path.join("/").as_str() {
                "project/artifactId" => project.artifact = value,
                "project/version" => project.version = value,
                "project/parent/version" => parent_version = value,
                "project/build/finalName" => project.final_name = value,
                _ => {}
            }
        }
        project.version = project.version.or(parent_version);
        project
    }

    /// `None` if it contains a property.
    pub fn jar(&self) -> Option<String> {
        let name = match (&self.final_name, &self.artifact, &self.version) {
            (Some(name), ..) => {
                let named = self.artifact.as_deref().map(|own| name.replace("${project.artifactId}", own));
                named.unwrap_or_else(|| name.clone())
            }
            (None, Some(artifact), Some(version)) => format!("{artifact}-{version}"),
            _ => return None,
        };
        (!name.contains(['$', '/'])).then(|| format!("{name}.jar"))
    }
}

/// Texts of elements without children, each with the names of its elements from the root.
fn leaves(text: &str) -> Vec<(Vec<&str>, &str)> {
    let mut found = Vec::new();
    let mut path: Vec<&str> = Vec::new();
    let mut rest = text;
    while let Some(begin) = rest.find('<') {
        let value = rest[..begin].trim();
        rest = &rest[begin..];
        if let Some(after) = rest.strip_prefix("<!--") {
            rest = after.split_once("-->").map_or("", |(_, after)| after);
            continue;
        }
        let Some(end) = rest.find('>') else { break };
        let tag = &rest[1..end];
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            if path.last() == Some(&name.trim()) {
                found.push((path.clone(), value));
            }
            path.pop();
        } else if !tag.ends_with('/') && !tag.starts_with(['?', '!']) {
            path.push(tag.split_whitespace().next().unwrap_or_default());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_jar_is_named_by_the_project_and_not_by_its_parent_or_plugins() {
        let pom = "<?xml version=\"1.0\"?><project><parent><artifactId>p</artifactId><version>2</version></parent>\
                   <!-- <version>9</version> --><artifactId>a</artifactId><build><plugins><plugin><artifactId>x</artifactId>\
                   <version>3</version></plugin></plugins></build></project>";
        assert_eq!(Project::parse(pom).jar().as_deref(), Some("a-2.jar"));
        let named =
            "<project><artifactId>a</artifactId><version>1</version><build><finalName>b</finalName></build></project>";
        assert_eq!(Project::parse(named).jar().as_deref(), Some("b.jar"));
        assert_eq!(Project::parse("<project><artifactId>a</artifactId><version>${v}</version></project>").jar(), None);
        assert_eq!(Project::parse("<a><b").jar(), None);
    }
}
