//! A shopping cart, kept as an object in S3 or in what speaks its protocol: each item is put into it once, however often the
//! message about it comes, and nothing is remembered of a message that is over.
//!
//! ```text
//! nats-server -js & moto_server -p 5000 &      # or services of your own, by the variables below
//! nats stream add carts --subjects 'carts.>' --defaults
//! export AWS_ACCESS_KEY_ID=test AWS_SECRET_ACCESS_KEY=test
//! aws --endpoint-url http://127.0.0.1:5000 s3 mb s3://carts
//! cargo run -p receiving --bin cart -- serve &
//! postrider migrate --store sqlite:cart-outbox.db
//! postrider relay --store sqlite:cart-outbox.db --broker nats://127.0.0.1:4222 &
//! cargo run -p receiving --bin cart -- add ann book
//! cargo run -p receiving --bin cart -- show ann
//! ```
//!
//! Without the [nats command](https://github.com/nats-io/natscli), `python3 examples/from-python/jetstream.py
//! nats://127.0.0.1:4222 create carts 'carts.>'` makes a stream.
//!
//! `add` makes a token, which is the right to handle one message once, and writes the message that carries it into its outbox;
//! `serve` handles the messages, and deletes the token of each that is over. `outstanding` counts the tokens of messages that
//! are on their way.
//!
//! | variable | default | |
//! |---|---|---|
//! | `DOCUMENTS_URL` | `s3://carts?region=us-east-1&endpoint=http://127.0.0.1:5000` | or any other store of documents that is built in |
//! | `DATABASE_URL` | `sqlite:cart-outbox.db` | the outbox of `add` |
//! | `BROKER_URL` | `nats://127.0.0.1:4222` | with a stream that covers `carts.>` |

use std::env;
use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use postrider::brokers::{self, BrokerConfig, SubscriptionConfig};
use postrider::consume::Consumer;
use postrider::documents;
use postrider::{
    CancellationToken, Delivery, EntityKey, Handler, Invalid, Message, Outbox, Outputs, Processor, TOKEN_HEADER, Tokens,
};
use serde::{Deserialize, Serialize};
use sqlx::SqlitePool;
use sqlx::sqlite::SqliteConnectOptions;

type Failure = Box<dyn Error + Send + Sync>;

const USAGE: &str = "expected one of: serve, add CART ITEM, show CART, outstanding";

/// How often what no delivery comes back for is finished.
const KEEPS_UP: Duration = Duration::from_secs(10);

/// A cart: its items in the order in which they came.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Cart {
    items: Vec<String>,
}

struct Carts;

impl Handler for Carts {
    type State = Cart;
    type Error = Invalid;

    fn entity(&self, delivery: &Delivery) -> EntityKey {
        EntityKey::new(delivery.message.key.as_ref().map_or("", |key| key.as_str()))
    }

    // It sends nothing: of what it sends each message would have a token, which its receiver deletes.
    async fn handle(&self, cart: &mut Cart, delivery: &Delivery, _: &mut Outputs) -> Result<(), Invalid> {
        cart.items.push(String::from_utf8_lossy(&delivery.message.payload).into_owned());
        Ok(())
    }
}

/// The carts, and the tokens of the messages that are on their way to them, in one store.
struct Shop {
    tokens: Tokens,
    carts: Processor<Carts>,
}

impl Shop {
    async fn open() -> Result<Self, Failure> {
        let store =
            documents::open(&variable("DOCUMENTS_URL", "s3://carts?region=us-east-1&endpoint=http://127.0.0.1:5000"))
                .await?;
        store.prepare().await?;
        let tokens = Tokens::new(Arc::clone(&store))?;
        let carts = Processor::builder("carts", store, Carts).collection("carts").tokens(tokens.clone()).build()?;
        Ok(Self { tokens, carts })
    }

    /// Tells the carts that an item was put into one of them.
    async fn add(&self, cart: &str, item: &str) -> Result<(), Failure> {
        let options: SqliteConnectOptions = variable("DATABASE_URL", "sqlite:cart-outbox.db").parse()?;
        let pool = SqlitePool::connect_with(options.create_if_missing(true)).await?;
        postrider::migrate(&pool).await?;
        // Before the transaction: one that is rolled back leaves a token without a message, which is deleted.
        let token = self.tokens.issue().await?;
        let message = Message::new("carts.add", item.to_owned()).key(cart).header(TOKEN_HEADER, token.to_string());
        let mut tx = pool.begin_with("begin immediate").await?;
        if let Err(refused) = Outbox::new().enqueue(&mut tx, message).await {
            self.tokens.revoke(token).await?;
            return Err(refused.into());
        }
        Ok(tx.commit().await?)
    }

    async fn serve(self) -> Result<(), Failure> {
        let broker = BrokerConfig::new(variable("BROKER_URL", "nats://127.0.0.1:4222"));
        let items = brokers::subscribe(&SubscriptionConfig::new(broker, "carts", "carts.add"))?;
        let carts = Arc::new(self.carts);
        let consumer = Consumer::builder(items, Arc::clone(&carts)).build()?;
        let stop = CancellationToken::new();
        let stopping = stop.clone();
        tokio::spawn(async move {
            let _ = tokio::signal::ctrl_c().await;
            stopping.cancel();
        });
        println!("reading carts.add");
        tokio::select! {
            ended = consumer.run(stop) => ended.map(|_| ()).map_err(Into::into),
            failed = keep_up(&carts) => failed,
        }
    }
}

/// What one round could not do the next one does.
async fn keep_up(carts: &Processor<Carts>) -> Result<(), Failure> {
    loop {
        tokio::time::sleep(KEEPS_UP).await;
        if let Err(error) = carts.keep_up().await {
            eprintln!("{error}");
        }
    }
}

fn variable(name: &str, default: &str) -> String {
    env::var(name).unwrap_or_else(|_| default.to_owned())
}

async fn run(words: &[String]) -> Result<(), Failure> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["serve"] => Shop::open().await?.serve().await,
        ["add", cart, item] => Shop::open().await?.add(cart, item).await,
        ["show", cart] => {
            let cart = Shop::open().await?.carts.state(&EntityKey::new(cart)).await?.unwrap_or_default();
            println!("{}", cart.items.join(", "));
            Ok(())
        }
        ["outstanding"] => {
            println!("{}", Shop::open().await?.tokens.outstanding(None, usize::MAX).await?.len());
            Ok(())
        }
        _ => Err(USAGE.into()),
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    match run(&words).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::FAILURE
        }
    }
}
