//! Each store of documents that can be had here, and one test of each.

use std::any::Any;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use postrider_core::DocumentStore;
use postrider_documents::memory::MemoryDocuments;

type Opening = Pin<Box<dyn Future<Output = Arc<dyn DocumentStore>> + Send>>;

/// A store that is there as long as this is.
pub struct Place {
    pub name: &'static str,
    open: Box<dyn Fn() -> Opening + Send + Sync>,
    _server: Box<dyn Any + Send + Sync>,
}

impl Place {
    fn new<F>(name: &'static str, server: impl Any + Send + Sync, open: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Arc<dyn DocumentStore>> + Send + 'static,
    {
        Self { name, open: Box::new(move || Box::pin(open())), _server: Box::new(server) }
    }

    /// A store that is open already: its clients are one and the same.
    pub fn of(name: &'static str, store: Arc<dyn DocumentStore>) -> Self {
        Self::new(name, (), move || std::future::ready(Arc::clone(&store)))
    }

    #[cfg(any(feature = "documents-sqlite", feature = "documents-postgres", feature = "documents-redis"))]
    fn at(name: &'static str, server: impl Any + Send + Sync, url: String) -> Self {
        Self::new(name, server, move || {
            let url = url.clone();
            async move { postrider_documents::open(&url).await.unwrap() }
        })
    }

    /// A client of the place, as another process would have it.
    pub async fn client(&self) -> Arc<dyn DocumentStore> {
        (self.open)().await
    }

    pub async fn memory() -> Option<Self> {
        Some(Self::of("memory", Arc::new(MemoryDocuments::new())))
    }

    #[cfg(feature = "documents-sqlite")]
    pub async fn sqlite() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite://{}/documents.db", folder.path().display());
        Some(Self::at("SQLite", folder, url))
    }

    #[cfg(feature = "documents-postgres")]
    pub async fn postgresql() -> Option<Self> {
        use postrider_testkit::servers::{installed, postgres::Postgres};
        let server = installed("documents over PostgreSQL", Postgres::start().await)?;
        let url = server.url_for(&server.create_database().await.unwrap());
        Some(Self::at("PostgreSQL", server, url))
    }

    #[cfg(feature = "documents-redis")]
    pub async fn redis() -> Option<Self> {
        use postrider_testkit::servers::{installed, redis::Redis};
        let server = installed("documents over Redis", Redis::start().await)?;
        let url = server.url();
        Some(Self::at("Redis", server, url))
    }

    /// An object store, with these variables instead of the environment's.
    #[cfg(feature = "documents-objects")]
    fn objects(
        name: &'static str,
        server: impl Any + Send + Sync,
        url: String,
        variables: &'static [(&'static str, &'static str)],
    ) -> Self {
        use postrider_documents::objects::{ObjectDocuments, ObjectOptions};
        Self::new(name, server, move || {
            let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            let store = ObjectDocuments::new(ObjectOptions::new(&url, variables).unwrap()).unwrap();
            std::future::ready(Arc::new(store) as Arc<dyn DocumentStore>)
        })
    }

    #[cfg(feature = "documents-objects")]
    pub async fn s3() -> Option<Self> {
        use postrider_testkit::servers::{installed, moto::Moto};
        let moto = installed("documents over S3", Moto::start().await)?;
        moto.make_bucket("documents").await.unwrap();
        let url = format!("s3://documents/processors?region=us-east-1&endpoint={}", moto.endpoint());
        Some(Self::objects("S3 (moto)", moto, url, &AWS))
    }

    #[cfg(feature = "documents-objects")]
    pub async fn azure() -> Option<Self> {
        use postrider_testkit::servers::azurite::{ACCOUNT, Azurite, KEY};
        use postrider_testkit::servers::installed;
        let azurite = installed("documents over Azure", Azurite::start().await)?;
        azurite.make_container("documents").unwrap();
        let url = format!("az://documents/processors?account={ACCOUNT}&endpoint={}", azurite.endpoint());
        Some(Self::objects("Azure (azurite)", azurite, url, &[("AZURE_STORAGE_ACCOUNT_KEY", KEY)]))
    }

    #[cfg(feature = "documents-dynamodb")]
    pub async fn dynamodb() -> Option<Self> {
        use postrider_documents::dynamodb::{DynamoDocuments, DynamoOptions};
        use postrider_testkit::servers::{installed, moto::Moto};
        let moto = installed("documents over DynamoDB", Moto::start().await)?;
        let url = format!("dynamodb://processors?region=us-east-1&endpoint={}", moto.endpoint());
        Some(Self::new("DynamoDB (moto)", moto, move || {
            let variables = AWS.map(|(name, value)| (name.to_owned(), value.to_owned()));
            let store = DynamoDocuments::new(DynamoOptions::new(&url, variables).unwrap()).unwrap();
            std::future::ready(Arc::new(store) as Arc<dyn DocumentStore>)
        }))
    }
}

#[cfg(any(feature = "documents-objects", feature = "documents-dynamodb"))]
const AWS: [(&str, &str); 2] = [("AWS_ACCESS_KEY_ID", "test"), ("AWS_SECRET_ACCESS_KEY", "test")];

/// A test over each store that can be had here, of what is given a place.
macro_rules! over_each_store {
    ($passes:path) => {
        over_each_store!($passes; over_memory of memory);
        #[cfg(feature = "documents-sqlite")]
        over_each_store!($passes; over_sqlite of sqlite);
        #[cfg(feature = "documents-postgres")]
        over_each_store!($passes; over_postgresql of postgresql);
        #[cfg(feature = "documents-redis")]
        over_each_store!($passes; over_redis of redis);
        #[cfg(feature = "documents-objects")]
        over_each_store!($passes; over_s3 of s3);
        #[cfg(feature = "documents-objects")]
        over_each_store!($passes; over_azure of azure);
        #[cfg(feature = "documents-dynamodb")]
        over_each_store!($passes; over_dynamodb of dynamodb);
    };
    ($passes:path; $name:ident of $place:ident) => {
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $name() {
            if let Some(place) = Place::$place().await {
                $passes(&place).await;
            }
        }
    };
}
