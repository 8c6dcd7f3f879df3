//! The description of the API in OpenAPI 3.1. Its schemas are the published ones.

use serde_json::{Value, json};

/// A path below `/api/v1`, what it returns in words, and the published schema of its reply.
const GET_ROUTES: [(&str, &str, Option<&str>); 8] = [
    ("/about", "the tool's version, and whether the workbench may change something", None),
    ("/runs", "all runs, newest first", Some("run-list")),
    ("/runs/{id}/view", "the whole view of a run", Some("run-view")),
    ("/runs/{id}/cases/{space}", "all cases of a fault space of a sweep", Some("case-columns")),
    ("/runs/{id}/traces/{which}", "a request: main, request-N, bug-N or behavior-FINGERPRINT", Some("trace-view")),
    (
        "/comparison/{first}/{first_which}/{other}/{other_which}",
        "two requests, of any two runs, as one tree",
        Some("comparison-view"),
    ),
    ("/events", "changes of the store as server-sent events: runs, progress", None),
    ("/openapi", "this document", None),
];

pub fn document() -> Value {
    let mut paths = serde_json::Map::new();
    for (path, summary, schema) in GET_ROUTES {
        let content = match schema {
            Some(name) => json!({"application/json": {"schema": {"$ref": format!("#/components/schemas/{name}")}}}),
            None => json!({}),
        };
        let mut get = json!({
            "summary": summary,
            "responses": {
                "200": {"description": "done", "content": content},
                "default": {"$ref": "#/components/responses/error"},
            },
        });
        let parameters = parameters(path);
        if !parameters.is_empty() {
            get["parameters"] = parameters.into();
        }
        paths.insert(path.to_owned(), json!({"get": get}));
    }
    paths.insert(
        "/runs/{id}".to_owned(),
        json!({"delete": {
            "summary": "removes a run and its files; only if the workbench was started with --allow-run",
            "parameters": parameters("/runs/{id}"),
            "responses": {"200": {"description": "done"}, "default": {"$ref": "#/components/responses/error"}},
        }}),
    );
    paths.insert(
        "/session".to_owned(),
        json!({"post": {
            "summary": "exchanges the one-time token of the printed address for the secret of a session",
            "security": [],
            "requestBody": {"content": {"application/json": {"schema": {
                "type": "object", "required": ["token"], "properties": {"token": {"type": "string"}},
            }}}},
            "responses": {"200": {"description": "done", "content": {"application/json": {"schema": {
                "type": "object", "required": ["session"], "properties": {"session": {"type": "string"}},
            }}}}, "default": {"$ref": "#/components/responses/error"}},
        }}),
    );
    let schemas: serde_json::Map<String, Value> = GET_ROUTES
        .into_iter()
        .filter_map(|(_, _, name)| {
            let text = app::spec::schema(name?)?;
            Some((name?.to_owned(), serde_json::from_str(&text).ok()?))
        })
        .collect();
    json!({
        "openapi": "3.1.0",
        "info": {"title": "Faultloom's workbench", "version": "1"},
        "servers": [{"url": "/api/v1"}],
        "security": [{"session": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"session": {"type": "http", "scheme": "bearer"}},
            "schemas": schemas,
            "responses": {"error": {
                "description": "what failed, why, and what to do",
                "content": {"application/json": {"schema": {
                    "type": "object",
                    "required": ["error"],
                    "properties": {"error": {
                        "type": "object",
                        "required": ["what"],
                        "properties": {
                            "what": {"type": "string"},
                            "why": {"type": ["string", "null"]},
                            "next": {"type": ["string", "null"]},
                        },
                    }},
                }}},
            }},
        },
    })
}

fn parameters(path: &str) -> Vec<Value> {
    let names = path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    names.map(|name| json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}})).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reply_with_a_schema_has_it_in_the_document() {
        let document = document();
        for (path, _, name) in GET_ROUTES {
            let reply = &document["paths"][path]["get"]["responses"]["200"];
            assert_eq!(reply["description"], "done", "{path}");
            if let Some(name) = name {
                assert_eq!(document["components"]["schemas"][name]["title"], format!("faultloom {name}"));
            }
        }
    }
}
