//! One request, signed, and what became of it.

use std::fmt;
use std::sync::Arc;

use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Method, Uri};
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey, AwsAuthorizer, AwsCredential, AwsCredentialProvider};
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody, ReqwestConnector,
};
use object_store::{ClientOptions, RetryConfig};
use postrider_core::{Error, ErrorKind, Result};
use serde_json::Value;

use super::classify::{Failure, Refusal};
use super::options::DynamoOptions;

/// The variables by which credentials are found. Others that S3 has mean nothing here.
const CREDENTIALS: [&str; 13] = [
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_TOKEN",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_ROLE_ARN",
    "AWS_ROLE_SESSION_NAME",
    "AWS_ENDPOINT_URL_STS",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
    "AWS_METADATA_ENDPOINT",
    "AWS_IMDSV1_FALLBACK",
];

/// What the service is asked to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Action(&'static str);

pub(super) const GET: Action = Action("DynamoDB_20120810.GetItem");
pub(super) const PUT: Action = Action("DynamoDB_20120810.PutItem");
pub(super) const DELETE: Action = Action("DynamoDB_20120810.DeleteItem");
pub(super) const QUERY: Action = Action("DynamoDB_20120810.Query");
pub(super) const CREATE_TABLE: Action = Action("DynamoDB_20120810.CreateTable");
pub(super) const UPDATE_TABLE: Action = Action("DynamoDB_20120810.UpdateTable");
pub(super) const DESCRIBE_TABLE: Action = Action("DynamoDB_20120810.DescribeTable");
pub(super) const DESCRIBE_BACKUPS: Action = Action("DynamoDB_20120810.DescribeContinuousBackups");

/// The service, as one table's region has it.
pub(super) struct Service {
    uri: Uri,
    region: String,
    credentials: AwsCredentialProvider,
    client: HttpClient,
}

impl fmt::Debug for Service {
    // What finds the credentials may show them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Service").field("region", &self.region).finish_non_exhaustive()
    }
}

impl Service {
    /// Connects with the first request.
    pub(super) fn new(options: &DynamoOptions) -> Result<Self> {
        let unmade = |error: Box<dyn std::error::Error + Send + Sync>| {
            let text = format!("opening the documents in {}: the settings are incomplete or wrong", options.shown());
            Error::new(ErrorKind::Config, text)
                .because(error)
                .advise("look at the variables AWS_: they must name the credentials")
        };
        let http = ClientOptions::new()
            .with_timeout(options.timeout)
            .with_connect_timeout(options.timeout / 2)
            .with_allow_http(options.endpoint.starts_with("http:"));
        let client = ReqwestConnector::default().connect(&http).map_err(|error| unmade(error.into()))?;
        let uri = format!("{}/", options.endpoint).parse::<Uri>().map_err(|error| unmade(error.into()))?;
        let credentials = credentials(options, http).map_err(|error| unmade(error.into()))?;
        Ok(Self { uri, region: options.region.clone(), credentials, client })
    }

    /// Sends one request, once, and gives its answer.
    pub(super) async fn ask(&self, action: Action, body: &Value) -> std::result::Result<Value, Failure> {
        let credential = self.credentials.get_credential().await.map_err(Failure::unsent)?;
        let mut request = HttpRequest::new(HttpRequestBody::from(body.to_string()));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.uri.clone();
        request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/x-amz-json-1.0"));
        request.headers_mut().insert("x-amz-target", HeaderValue::from_static(action.0));
        if !stands_in_a_header(&credential) {
            return Err(Failure::unsent("a key or token has blanks, line breaks or other characters that none has"));
        }
        let signed = AwsAuthorizer::new(&credential, "dynamodb", &self.region).try_authorize(&mut request, None);
        signed.map_err(Failure::unsent)?;
        let answer = self.client.execute(request).await.map_err(unanswered)?;
        let status = answer.status().as_u16();
        let body = answer.into_body().bytes().await.map_err(|error| match error.kind() {
            HttpErrorKind::Timeout => Failure::Late(error.into()),
            _ => Failure::Lost(error.into()),
        })?;
        let body = serde_json::from_slice::<Value>(&body).ok().filter(Value::is_object);
        match (status, body) {
            (200, Some(body)) => Ok(body),
            (status, body) => Err(Failure::Refused(Refusal::new(status, body.unwrap_or_default()))),
        }
    }
}

fn unanswered(error: HttpError) -> Failure {
    match error.kind() {
        HttpErrorKind::Connect => Failure::Unsent(error.into()),
        HttpErrorKind::Timeout => Failure::Late(error.into()),
        _ => Failure::Lost(error.into()),
    }
}

/// Whether a signature can be made with it: whoever makes one expects that it can.
fn stands_in_a_header(credential: &AwsCredential) -> bool {
    let parts = [Some(&credential.key_id), credential.token.as_ref()];
    parts.into_iter().flatten().all(|part| part.bytes().all(|byte| byte.is_ascii_graphic()))
}

/// Finds credentials as documents in S3 do: by variables, a web identity, a container's or a machine's role.
fn credentials(options: &DynamoOptions, http: ClientOptions) -> object_store::Result<AwsCredentialProvider> {
    let known = options.variables.iter().filter(|(name, _)| CREDENTIALS.contains(&name.as_str()));
    let builder = known.fold(AmazonS3Builder::new(), |builder, (name, value)| {
        match name.to_ascii_lowercase().parse::<AmazonS3ConfigKey>() {
            Ok(key) => builder.with_config(key, value),
            Err(_) => builder,
        }
    });
    // No bucket is ever asked for; a client without one is not made.
    let builder = builder.with_bucket_name("none").with_region(&options.region);
    let once = RetryConfig { max_retries: 0, ..RetryConfig::default() };
    let client = builder.with_client_options(http).with_retry(once).build()?;
    Ok(Arc::clone(client.credentials()))
}
