//! The client of a service.

use std::sync::Arc;

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey, S3ConditionalPut};
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::{ClientOptions, ObjectStore, RetryConfig, UpdateVersion};
use postrider_core::{Error, ErrorKind, Result, Version};

use super::options::{ObjectOptions, Service};
use super::witness::Witnessed;

/// Makes the client. It connects with the first request.
pub(super) fn client(options: &ObjectOptions) -> Result<Arc<dyn ObjectStore>> {
    let made = match options.service {
        Service::S3 => s3(options),
        Service::Azure => azure(options),
        Service::Google => google(options),
    };
    made.map_err(|error| {
        let text = format!("opening the documents in {}: the settings are incomplete or wrong", options.shown());
        let advice = format!("look at the variables {}: they must name the credentials", options.service.variables());
        Error::new(ErrorKind::Config, text).because(error).advise(advice)
    })
}

/// The version by which a service knows an object; none where it gives none.
pub(super) fn version(service: Service, e_tag: Option<String>, generation: Option<String>) -> Option<Version> {
    match service {
        Service::S3 | Service::Azure => e_tag.map(Version),
        Service::Google => generation.map(Version),
    }
}

/// What a write over a version names.
pub(super) fn update(service: Service, over: &Version) -> UpdateVersion {
    match service {
        Service::S3 | Service::Azure => UpdateVersion { e_tag: Some(over.0.clone()), version: None },
        Service::Google => UpdateVersion { e_tag: None, version: Some(over.0.clone()) },
    }
}

/// The client itself repeats nothing: only who repeats a write knows that a conflict may be with itself.
fn once() -> RetryConfig {
    RetryConfig { max_retries: 0, ..RetryConfig::default() }
}

fn http(options: &ObjectOptions) -> ClientOptions {
    let is_plain = options.endpoint.as_ref().is_some_and(|endpoint| endpoint.starts_with("http:"));
    ClientOptions::new()
        .with_timeout(options.timeout)
        .with_connect_timeout(options.timeout / 2)
        .with_allow_http(is_plain)
}

/// A builder with what the environment says; variables that it does not know are for others.
macro_rules! from_environment {
    ($builder:expr, $options:expr) => {
        $options.variables.iter().fold($builder, |builder, (name, value)| match name.to_ascii_lowercase().parse() {
            Ok(key) => builder.with_config(key, value),
            Err(_) => builder,
        })
    };
}

fn s3(options: &ObjectOptions) -> object_store::Result<Arc<dyn ObjectStore>> {
    let mut builder = from_environment!(AmazonS3Builder::new(), options).with_bucket_name(&options.bucket);
    if let Some(region) = &options.region {
        builder = builder.with_region(region);
    }
    if let Some(endpoint) = &options.endpoint {
        // What the URL says goes before every variable for it.
        builder = builder.with_config(AmazonS3ConfigKey::S3Endpoint, endpoint);
    }
    let builder = builder.with_conditional_put(S3ConditionalPut::ETagMatch).with_client_options(http(options));
    Ok(Arc::new(builder.with_retry(once()).with_http_connector(Witnessed::default()).build()?))
}

fn azure(options: &ObjectOptions) -> object_store::Result<Arc<dyn ObjectStore>> {
    let mut builder = from_environment!(MicrosoftAzureBuilder::new(), options).with_container_name(&options.bucket);
    if let Some(account) = &options.account {
        builder = builder.with_account(account);
    }
    if let Some(endpoint) = &options.endpoint {
        builder = builder.with_endpoint(endpoint.clone());
    }
    let builder = builder.with_client_options(http(options)).with_retry(once());
    Ok(Arc::new(builder.with_http_connector(Witnessed::default()).build()?))
}

fn google(options: &ObjectOptions) -> object_store::Result<Arc<dyn ObjectStore>> {
    let mut builder = from_environment!(GoogleCloudStorageBuilder::new(), options).with_bucket_name(&options.bucket);
    if let Some(endpoint) = &options.endpoint {
        builder = builder.with_base_url(endpoint);
    }
    let builder = builder.with_client_options(http(options)).with_retry(once());
    Ok(Arc::new(builder.with_http_connector(Witnessed::default()).build()?))
}
